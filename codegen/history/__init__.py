"""What each release of Apache Kafka changed in the schemas: ``specs/history.json``.

``changes`` finds what makes one spec of a message from another, and makes it; ``states`` reads the
file, gives the specs of any release, and extends the file by new releases; ``view`` is what people
see of it. ``python -m kraftspec.codegen.history`` extends the file.
"""

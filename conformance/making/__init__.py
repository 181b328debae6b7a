"""Make vectors. The expected bytes come from Apache Kafka's own classes or nodes.

``families`` enumerates values from the plans and ``make`` has Kafka encode them; ``make_batches``
does so for record batches. ``annotate`` splits good bytes into primitives, and ``invalid*`` breaks
one of them. ``capture`` records the frames of real clients, ``exchanges`` the answers of real
controllers, ``logs`` the log directories that a real broker wrote. Our own encoder is not used.
"""

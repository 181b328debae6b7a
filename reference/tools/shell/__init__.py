"""The metadata image of a log directory or a checkpoint, as a tree to walk about in.

``load`` reads it, ``tree`` names its parts, ``text`` prints them as Apache Kafka does, ``paths``
finds them, and ``commands`` are the words of ``org.apache.kafka.shell.MetadataShell``.
"""

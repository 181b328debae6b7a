"""Frames that real clients and nodes of Apache Kafka exchange, recorded on loopback.

A proxy of ours stands before every listener of a real cluster, so that clients and nodes alike talk
through it, and workloads in three languages do ordinary work. Each frame recorded must be read and
written again to the same bytes by our codecs, and be read alike by Kafka's own classes; a set of
them without repetition is kept as vectors of the family ``captured`` (docs: captured frames).
"""

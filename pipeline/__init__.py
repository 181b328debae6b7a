"""Kafka logs as tables. To come: nothing of it is in this room yet.

It will read directories of log segments into Arrow columns typed by the plan of each message, and
spread conformance campaigns over the executors of a Spark cluster.
"""

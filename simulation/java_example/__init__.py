"""A minimised run of Kafka's nodes as one Java file that a committer can run and debug.

The file has the sequence of what reaches the nodes that matter, and behind it the stand-ins for
disk, clock and network: those of the harness, whose sources become nested classes.
"""

"""Nodes of ours in quorums of real Kafka controllers: as processes, through faults, compared.

``ours`` runs one of our nodes, ``logs`` compares what two nodes have written.
"""

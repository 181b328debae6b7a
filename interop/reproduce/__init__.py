"""Faults of Apache Kafka, brought about on real controllers step by step.

``python -m kraftspec.interop.reproduce gridlock --release 4.3.1`` prints what it does as numbered
steps. It ends with 1 where the fault is there, with 0 where it is not, and with 3 where the quorum
did something else than the sequence needs. ``--release kraftspec`` takes our own node.

A scene is a function of a `Stage`. The scripts of embargoed findings stand beside their pages
(SECURITY.md) and use the same stage.
"""

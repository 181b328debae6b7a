"""Public bugs of Apache Kafka's raft client, and whether the simulator finds them.

``bugs.toml`` says how each is looked for; ``search`` looks, and goes on where it was stopped;
``table`` writes what was found into docs/recall.md::

    python -m kraftspec.simulation.recall
    python -m kraftspec.simulation.recall KAFKA-16926
"""

"""Our nodes in quorums of real Kafka controllers: faults are injected, and the logs are compared.

``ours`` runs one of our nodes as a process, ``network`` partitions nodes, ``writer`` changes
metadata through the leader and records the acknowledged changes, ``campaign`` injects the faults,
``logs`` and ``snapshots`` compare the files of the nodes. ``make interop`` runs it; tests use the
parts. ``reproduce`` brings about what findings say of Kafka. ``wrecks`` makes quorums that have
lost their majority, and judges cures of them.

Called by ``make interop`` and by tests; it may import `conformance.cluster` and `reference`.
"""

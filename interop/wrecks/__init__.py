"""Quorums of real Kafka that have lost their majority, made to try `quorum recover` on.

``python -m kraftspec.interop.wrecks leader-kept --seeds 0..9`` builds a quorum with brokers, topics
and records, wrecks it, and keeps its directories with a manifest in the cache. What is made stays:
the same command goes on where it was stopped. ``kinds`` has the kinds of wrecks, ``manifest`` what
is kept of one, ``standing`` starts the nodes of a copy, ``judge`` says whether a cure has worked.

Called by tests and campaigns; it may import what `interop` may.
"""

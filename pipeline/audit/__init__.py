"""Is a log what Kafka would have written? Counts, a round trip of every batch, and continuity.

``audit`` walks segments, partitions, log directories and snapshots of the metadata log, here or on
Spark, and gives a ``Report``; ``page`` makes one HTML page of it. The kinds of findings stand in
``rules``.
"""

from __future__ import annotations

from kraftspec.extras import extras_named

with extras_named():
    from kraftspec.pipeline.audit.model import Finding, Report
    from kraftspec.pipeline.audit.run import audit

__all__ = ["Finding", "Report", "audit"]

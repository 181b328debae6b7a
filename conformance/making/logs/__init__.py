"""Log directories as a real Apache Kafka broker and real producers leave them, and what was sent.

``kafka_logs()`` returns a directory that holds, made once and kept in the cache (a minute):

* ``clean/``: the broker's log directory after a clean stop. Topics of plain, idempotent and
  transactional producers (committed, aborted, fenced, one open at the end), every compression,
  headers, nulls, large records, LogAppendTime, many segments, trimmed and compacted ones, and
  the broker's own topics.
* ``killed/``: the same a little later, after SIGKILL; ``torn/``: that one with the last batch of
  some logs cut in the middle, as a machine leaves it that loses power.
* ``controller/``: the controller's log directory: the metadata log with its snapshots.
* ``sent.jsonl`` (and ``sent_more.jsonl``, what came between ``clean`` and ``killed``): every record
  as its producer program wrote it down when the broker acknowledged it.
* ``clean_read/`` and ``torn_read/``: what Apache Kafka's own consumer read from a broker over the
  directory of that name, at both isolation levels, and what that broker said of each partition.
  ``torn_read`` is of the broker that had recovered ``torn``.
* ``torn.jsonl``: which files were cut, and where.

The formats of these files stand in the docstring of ``truth``.
"""

from kraftspec.conformance.making.logs.make import kafka_logs
from kraftspec.conformance.making.logs.truth import Partition, Record, partitions, records

__all__ = ["Partition", "Record", "kafka_logs", "partitions", "records"]

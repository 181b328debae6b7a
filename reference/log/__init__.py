"""The log of a node on its disk, laid out as Apache Kafka lays out its own.

``LogDirectory`` is what a node formats and opens: its lock, ``meta.properties``, the stored vote,
and in ``__cluster_metadata-0`` the ``MetadataLog``: segments, checkpoints, leader epochs. A
directory written here is read by Kafka, and the other way about. All of it stands on ``Files``, so
that the same code runs on a real disk and on a simulated one that loses what was not synced.

Called by `reference.storage`, by the tools and by the simulator; it may import `raft` and what is
below `reference`.
"""

from kraftspec.reference.log.directory import LogDirectory, MetaProperties, NotFormattedError
from kraftspec.reference.log.files import Files, LocalFiles
from kraftspec.reference.log.metadata_log import Appended, LogConfig, LogFailedError, MetadataLog
from kraftspec.reference.log.recovery import CorruptMetadataLogError, LogRecovery

__all__ = [
    "Appended",
    "CorruptMetadataLogError",
    "Files",
    "LocalFiles",
    "LogConfig",
    "LogDirectory",
    "LogFailedError",
    "LogRecovery",
    "MetaProperties",
    "MetadataLog",
    "NotFormattedError",
]

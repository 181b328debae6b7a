"""Records of the metadata log that a node itself has to know, kept as of now.

A subclass names the records that it keeps; of the log nothing else is in memory. A log of 100,000
records is read in an eighth of a second, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar, Final

from kraftspec.fastpath.batch_reader import decode_batch
from kraftspec.fastpath.message import Message
from kraftspec.generated import kafka
from kraftspec.reference.metadata.frames import FrameError, read_frame
from kraftspec.reference.metadata.image import MetadataImage

if TYPE_CHECKING:
    from kraftspec.reference.metadata.frames import Frame
    from kraftspec.reference.storage import Storage

# What stands between these counts when they end.
TRANSACTIONS: Final[frozenset[type[Message]]] = frozenset(
    {
        kafka.BeginTransactionRecord,
        kafka.EndTransactionRecord,
        kafka.AbortTransactionRecord,
    }
)


class CommittedRecords:
    """The image of some records: ``refresh`` first reads what has been committed since the last.

    ``committed_offset`` returns the offset after the last committed record, -1 where it is unknown:
    all of the log counts then.
    """

    kept: ClassVar[frozenset[type[Message]]]

    def __init__(self, storage: Storage, committed_offset: Callable[[], int]) -> None:
        self.image = MetadataImage()
        self._storage = storage
        self._committed_offset = committed_offset
        self._position = -1  # Nothing was read yet.
        self._is_provisional = False

    def refresh(self) -> bool:
        """Read what came since; all of it again where the log was truncated or replaced.

        Returns whether there was anything to read.
        """
        log = self._storage.log
        committed = self._committed_offset()
        is_provisional = committed < 0
        end_offset = log.end_offset if is_provisional else min(committed, log.end_offset)
        is_stale = not log.start_offset <= self._position <= end_offset or (
            self._is_provisional and not is_provisional
        )
        if end_offset == self._position and not is_stale:
            return False
        if is_stale:
            self.image = MetadataImage()
            self.begin()
        self._is_provisional = is_provisional
        self.replay(self._log_values(end_offset))
        return True

    def begin(self) -> None:
        """Begin with the latest snapshot, if there is one: its records are committed."""
        snapshots = self._storage.log.snapshots
        self._position = self._storage.log.start_offset
        if snapshots and snapshots[-1].end_offset:
            values = self._storage.snapshot_values(snapshots[-1])
            last_offset = snapshots[-1].end_offset - 1
            self.replay((last_offset, value) for value in values)
            self._position = snapshots[-1].end_offset

    def replay(self, values: Iterable[tuple[int, bytes]]) -> None:
        """Take offsets and values of records, of which only those of ``kept`` count."""
        for offset, value in values:
            try:
                frame = read_frame(value)
            except FrameError:  # Of a release to come, or of no cluster of Kafka's at all.
                continue
            if frame.cls in self.kept:
                self.take(frame, value, offset)

    def take(self, frame: Frame, value: bytes, offset: int) -> None:
        """Take a record of ``kept``."""
        self.image.replay(frame.decode(value), offset, 0, 0)

    def _log_values(self, end_offset: int) -> Iterator[tuple[int, bytes]]:
        """Yield offset and value of data records from the position on, which goes along."""
        for header, data in self._storage.log.batches(self._position, end_offset):
            if not header.is_control:
                for record in decode_batch(data, header.position, check_crc=False):
                    if record.offset >= self._position:
                        yield record.offset, bytes(record.value or b"")
            self._position = header.last_offset + 1

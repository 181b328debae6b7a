"""SCRAM credentials and the ACLs of the cluster, as the metadata log has them.

Nothing but those is kept of the log. What is committed counts. Right after a start this is
unknown, and voters have to authenticate each other before they can learn it: until then all of the
log counts. A first quorum may be formatted with credentials (``kafka-storage format --add-scram``);
these of the bootstrap checkpoint count until a controller of Kafka's has begun the log with its own
checkpoint, levels of features first, or there is a snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from kraftspec.fastpath.batch_reader import decode_batch
from kraftspec.generated import kafka
from kraftspec.reference.metadata.frames import FrameError, read_frame
from kraftspec.reference.metadata.image import MetadataImage
from kraftspec.reference.node.security.authorizer import Acl, cluster_acl
from kraftspec.reference.node.security.scram import (
    RECORD_TYPES,
    ScramCredential,
    credential_of_record,
)

if TYPE_CHECKING:
    from kraftspec.reference.node.settings import Mechanism
    from kraftspec.reference.storage import Storage

_KEPT: Final = frozenset(
    {
        kafka.UserScramCredentialRecord,
        kafka.RemoveUserScramCredentialRecord,
        kafka.AccessControlEntryRecord,
        kafka.RemoveAccessControlEntryRecord,
        # What stands between these counts when they end.
        kafka.BeginTransactionRecord,
        kafka.EndTransactionRecord,
        kafka.AbortTransactionRecord,
    }
)
_MECHANISM_NUMBERS: Final = {mechanism: number for number, mechanism in RECORD_TYPES.items()}


class SecurityRecords:
    """Both, as of now: each question first reads what has been committed since the last.

    ``committed_offset`` returns the offset after the last committed record, -1 where it is unknown.
    """

    def __init__(self, storage: Storage, committed_offset: Callable[[], int]) -> None:
        self._storage = storage
        self._committed_offset = committed_offset
        self._image = MetadataImage()
        self._of_checkpoint: dict[tuple[str, int], kafka.UserScramCredentialRecord] = {}
        self._position = -1  # Nothing was read yet.
        self._is_provisional = False
        self._acls: list[Acl] = []

    def credential(self, mechanism: Mechanism, name: str) -> ScramCredential | None:
        """Return what a user's password is checked by."""
        self.refresh()
        record = self._image.scram_credentials.get((name, _MECHANISM_NUMBERS[mechanism]))
        return None if record is None else credential_of_record(record)

    def acls(self) -> list[Acl]:
        """Return the ACLs that are about the cluster."""
        self.refresh()
        return self._acls

    def refresh(self) -> None:
        """Read what came since; all of it again where the log was truncated or replaced."""
        log = self._storage.log
        committed = self._committed_offset()
        is_provisional = committed < 0
        end_offset = log.end_offset if is_provisional else min(committed, log.end_offset)
        is_stale = not log.start_offset <= self._position <= end_offset or (
            self._is_provisional and not is_provisional
        )
        if end_offset == self._position and not is_stale:
            return
        if is_stale:
            self._start()
        self._is_provisional = is_provisional
        self._replay(self._log_values(end_offset))
        acls = map(cluster_acl, self._image.acls.values())
        self._acls = [acl for acl in acls if acl is not None]

    def _start(self) -> None:
        """Begin with the latest snapshot: its records are committed."""
        self._image = MetadataImage()
        self._of_checkpoint = {}
        snapshots = self._storage.log.snapshots
        self._position = self._storage.log.start_offset
        if snapshots and snapshots[-1].end_offset:
            self._replay(self._storage.snapshot_values(snapshots[-1]))
            self._position = snapshots[-1].end_offset
        else:
            self._replay(self._storage.directory.bootstrap_values())
            self._of_checkpoint = dict(self._image.scram_credentials)

    def _replay(self, values: Iterable[bytes]) -> None:
        image = self._image
        for value in values:
            try:
                frame = read_frame(value)
            except FrameError:  # Of a release to come, or of no cluster of Kafka's at all.
                continue
            if frame.cls in _KEPT:
                image.replay(frame.decode(value), 0, 0, 0)
            elif frame.cls is kafka.FeatureLevelRecord and self._of_checkpoint:
                former, self._of_checkpoint = self._of_checkpoint, {}
                for key, record in former.items():
                    if image.scram_credentials.get(key) is record:
                        del image.scram_credentials[key]

    def _log_values(self, end_offset: int) -> Iterator[bytes]:
        """Yield the values of data records from the position on; the position goes along."""
        for header, data in self._storage.log.batches(self._position, end_offset):
            if not header.is_control:
                for record in decode_batch(data, header.position, check_crc=False):
                    if record.offset >= self._position:
                        yield bytes(record.value or b"")
            self._position = header.last_offset + 1

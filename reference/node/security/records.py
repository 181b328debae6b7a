"""SCRAM credentials and the ACLs of the cluster, as the metadata log has them.

Nothing but those is kept of the log. What is committed counts. Right after a start this is
unknown, and voters have to authenticate each other before they can learn it: until then all of the
log counts. A first quorum may be formatted with credentials (``kafka-storage format --add-scram``);
these of the bootstrap checkpoint count until a controller of Kafka's has begun the log with its own
checkpoint, levels of features first, or there is a snapshot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from kraftspec.generated import kafka
from kraftspec.reference.node.committed import TRANSACTIONS, CommittedRecords
from kraftspec.reference.node.security.authorizer import Acl, cluster_acl
from kraftspec.reference.node.security.scram import (
    RECORD_TYPES,
    ScramCredential,
    credential_of_record,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftspec.reference.metadata.frames import Frame
    from kraftspec.reference.node.settings import Mechanism
    from kraftspec.reference.storage import Storage

_MECHANISM_NUMBERS: Final = {mechanism: number for number, mechanism in RECORD_TYPES.items()}


class SecurityRecords(CommittedRecords):
    """Both, as of now: each question first reads what came since the last."""

    kept: ClassVar = TRANSACTIONS | {
        kafka.UserScramCredentialRecord,
        kafka.RemoveUserScramCredentialRecord,
        kafka.AccessControlEntryRecord,
        kafka.RemoveAccessControlEntryRecord,
        kafka.FeatureLevelRecord,  # Only that there is one.
    }

    def __init__(self, storage: Storage, committed_offset: Callable[[], int]) -> None:
        super().__init__(storage, committed_offset)
        self._of_checkpoint: dict[tuple[str, int], kafka.UserScramCredentialRecord] = {}
        self._acls: list[Acl] = []

    def credential(self, mechanism: Mechanism, name: str) -> ScramCredential | None:
        """Return what a user's password is checked by."""
        self.refresh()
        record = self.image.scram_credentials.get((name, _MECHANISM_NUMBERS[mechanism]))
        return None if record is None else credential_of_record(record)

    def acls(self) -> list[Acl]:
        """Return the ACLs that are about the cluster."""
        self.refresh()
        return self._acls

    def refresh(self) -> bool:
        """Read what came since."""
        is_more = super().refresh()
        if is_more:
            acls = map(cluster_acl, self.image.acls.values())
            self._acls = [acl for acl in acls if acl is not None]
        return is_more

    def begin(self) -> None:
        """Begin with the latest snapshot, or else with what formatting left."""
        self._of_checkpoint = {}
        super().begin()
        if not self._position:
            self.replay((0, value) for value in self._storage.directory.bootstrap_values())
            self._of_checkpoint = dict(self.image.scram_credentials)

    def take(self, frame: Frame, value: bytes, offset: int) -> None:
        """Take a record: levels of features end what formatting left."""
        if frame.cls is not kafka.FeatureLevelRecord:
            super().take(frame, value, offset)
            return
        former, self._of_checkpoint = self._of_checkpoint, {}
        for key, credential in former.items():
            if self.image.scram_credentials.get(key) is credential:
                del self.image.scram_credentials[key]

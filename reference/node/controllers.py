"""What the metadata says of features and controllers, and UnregisterController of a leader.

A node of ours takes no registrations. But it may lead a quorum in which others have registered,
and then it takes back what is left of one that is gone. The order of checks, and the error of each,
are those of Apache Kafka 4.4.0 (``QuorumController``, ``ClusterControlManager``), which refuses
itself alone: a voter that lives registers again.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from kraftspec.fastpath.errors import CodecError
from kraftspec.generated import kafka
from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.metadata.features import (
    FEATURES,
    KRAFT_VERSION,
    LATEST_STABLE,
    LEVEL_MIN,
    LEVELS,
    METADATA_VERSION,
    release_level,
)
from kraftspec.reference.metadata.image import ImageError
from kraftspec.reference.node.committed import TRANSACTIONS, CommittedRecords
from kraftspec.reference.raft import RoleName
from kraftspec.reference.raft.types import VersionRange

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kraftspec.reference.metadata.frames import Frame
    from kraftspec.reference.raft import Core
    from kraftspec.reference.storage import Storage

UNREGISTRATION_MIN: Final = LEVELS["4.4-IV2"]


class Unregistration(NamedTuple):
    """A controller is to be unregistered."""

    controller_id: int


def supported_features(
    kraft_versions: VersionRange, release: str | None
) -> Mapping[str, VersionRange]:
    """Return what a controller of a release supports: what that formats new clusters with.

    A node writes snapshots of the records of the newest release, and so it supports all of that.
    """
    level = LATEST_STABLE if release is None else release_level(release, allow_unstable=False)
    return {
        **{feature.name: VersionRange(0, feature.default(level)) for feature in FEATURES},
        METADATA_VERSION: VersionRange(LEVEL_MIN, level),
        KRAFT_VERSION: kraft_versions,
    }


class ControllerRecords(CommittedRecords):
    """The levels of features, and the controllers that are registered; nothing before a commit.

    ``features_offset`` is that of the record since which the levels are as they are, -1 as long as
    there are none.
    """

    kept: ClassVar = TRANSACTIONS | {
        kafka.FeatureLevelRecord,
        kafka.RegisterControllerRecord,
        kafka.UnregisterControllerRecord,
    }

    def __init__(self, storage: Storage, committed_offset: Callable[[], int]) -> None:
        super().__init__(storage, committed_offset)
        self.features_offset = -1

    def refresh(self) -> bool:
        """Read what was committed since."""
        return self._committed_offset() >= 0 and super().refresh()

    def take(self, frame: Frame, value: bytes, offset: int) -> None:
        """Take a record. Where the log is not a cluster's metadata, it only may look like one."""
        before = dict(self.image.features)
        with suppress(CodecError, ImageError):
            super().take(frame, value, offset)
        if self.image.features != before:
            self.features_offset = offset

    def levels(self) -> dict[str, int]:
        """Return the level of each feature that is on."""
        self.refresh()
        return {name: record.feature_level for name, record in self.image.features.items()}

    def refusal(self, core: Core, controller_id: int) -> kafka.UnregisterControllerResponse | None:
        """Return why a controller cannot be unregistered by this node now; None where it can.

        A record about one that is not registered is never written: no controller could replay it.
        """
        if core.role.name is not RoleName.LEADER or core.high_watermark < 0:
            return _answer(ErrorCode.NOT_CONTROLLER, "this node does not lead the quorum")
        if controller_id == core.config.node_id:
            text = f"controller {controller_id} is the active one, which does not unregister itself"
            return _answer(ErrorCode.INVALID_REQUEST, text)
        if self.levels().get(METADATA_VERSION, 0) < UNREGISTRATION_MIN:
            text = f"it takes a metadata.version of {UNREGISTRATION_MIN} (4.4-IV2) to unregister"
            return _answer(ErrorCode.UNSUPPORTED_VERSION, text)
        if self.image.transaction is not None:
            text = "a metadata transaction is open, which only a Kafka controller can end"
            return _answer(ErrorCode.NOT_CONTROLLER, text)
        if controller_id not in self.image.controllers:
            text = f"controller {controller_id} is not registered"
            return _answer(ErrorCode.CONTROLLER_ID_NOT_REGISTERED, text)
        return None


def _answer(error: ErrorCode, message: str) -> kafka.UnregisterControllerResponse:
    return kafka.UnregisterControllerResponse(error_code=error, error_message=message)

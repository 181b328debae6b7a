"""UpdateFeatures, as a leader answers it that is no Kafka controller: kraft.version, and no other.

kraft.version is the quorum's own: the core raises it, and with it the voters that were static are
written down (KIP-853). Every other feature is the metadata's, which this node does not lead; of
those it says what a Kafka controller says of a feature that it does not know. The order of checks,
and the error of each, are those that Apache Kafka 4.4.0 answered (``FeatureControlManager``); all
of a request is done or nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kraftspec.generated.errors import ErrorCode
from kraftspec.generated.kafka import UpdateFeaturesRequest, UpdateFeaturesResponse
from kraftspec.reference.raft import RoleName
from kraftspec.reference.raft.events import UpgradeRequested

if TYPE_CHECKING:
    from kraftspec.reference.raft import Core

KRAFT_VERSION: Final = "kraft.version"
UPGRADE: Final = 1  # org.apache.kafka.clients.admin.FeatureUpdate.UpgradeType
DOWNGRADES: Final = (2, 3)  # Safe, unsafe.
_NO_RESULTS_FROM: Final = 2  # Version 2 has none.
_ALL_FAILED: Final = "The update failed for all features since the following feature had an error"
_NOT_MINE: Final = "this node does not lead the quorum"


def begin_update(
    core: Core, request: UpdateFeaturesRequest, version: int, _listener: str
) -> UpdateFeaturesResponse | UpgradeRequested:
    """Return the answer, or what to ask the core first; its answer goes to ``end_update``."""
    if core.role.name is not RoleName.LEADER or core.high_watermark < 0:
        return end_update(request, version, ErrorCode.NOT_LEADER_OR_FOLLOWER, _NOT_MINE)
    current = core.log.kraft_versions.last
    level = None
    for update in request.feature_updates:
        kind = update.upgrade_type if version else UPGRADE  # Version 0 has a flag, not looked at.
        wrong = _wrong(core, update.feature, update.max_version_level, kind, current)
        if wrong:
            text = f"Invalid update version {update.max_version_level} for feature {update.feature}"
            return end_update(
                request, version, ErrorCode.INVALID_UPDATE_VERSION, f"{text}. {wrong}"
            )
        level = update.max_version_level
    if level is None or level == current:
        return end_update(request, version, 0, None)
    return UpgradeRequested(0, core.epoch, level, request.validate_only and version > 0)


def _wrong(core: Core, feature: str, level: int, kind: int, current: int) -> str:
    """Return why an update cannot be made; nothing where it can."""
    config = core.config
    known = config.kraft_versions
    if kind != UPGRADE and kind not in DOWNGRADES:
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    if feature != KRAFT_VERSION:
        if level == 0:
            return f"Feature {feature} not found."
        return f"Local controller {config.node_id} does not support this feature."
    if not known.covers(level):
        only = f"{known.min}-{known.max}"
        return f"Local controller {config.node_id} only supports versions {only}"
    if level < current:
        text = "Can't downgrade the version of this feature"
        if kind == UPGRADE:
            return f"{text} without setting the upgrade type to either safe or unsafe downgrade."
        return f"{text}."
    if level > current and kind != UPGRADE:
        return "Can't downgrade to a newer version."
    return ""


def end_update(
    request: UpdateFeaturesRequest, version: int, error: int, message: str | None
) -> UpdateFeaturesResponse:
    """Return the answer to a request, ``error`` and ``message`` the core's or ``begin_update``'s.

    Who does not lead is no controller, for a client: it looks for another.
    """
    if error == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        error = ErrorCode.NOT_CONTROLLER
    response = UpdateFeaturesResponse(error_code=error, error_message=message)
    if error == ErrorCode.INVALID_UPDATE_VERSION:
        response.error_message = f"{_ALL_FAILED}: {message}"
    if not error and version < _NO_RESULTS_FROM:
        result = UpdateFeaturesResponse.UpdatableFeatureResult
        response.results = [
            result(feature=update.feature, error_code=0, error_message="NONE")
            for update in request.feature_updates
        ]
    return response

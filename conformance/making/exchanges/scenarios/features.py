"""UpdateFeatures: kraft.version is raised, and why it is not."""

from __future__ import annotations

from kraftspec.conformance.making.exchanges import requests as rq
from kraftspec.conformance.making.exchanges.record import Recording
from kraftspec.conformance.making.exchanges.scenarios.case import Case, since
from kraftspec.conformance.making.exchanges.scenarios.elections import single
from kraftspec.conformance.making.exchanges.scenarios.wire import (
    EPOCH,
    unattached,
    unregistrations,
)
from kraftspec.generated.kafka import UpdateFeaturesRequest

KRAFT = "kraft.version"
NOBODYS = "no.such.feature"
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
NO_TYPES = (0, 9)


def _refused(r: Recording) -> None:
    """Ask for what no controller does."""
    for version in UpdateFeaturesRequest.VALID_VERSIONS:
        for name, target in ((NOBODYS, 1), (NOBODYS, 0), (NOBODYS, -1), (KRAFT, 2), (KRAFT, -1)):
            r.ask(rq.update_features(version, (name, target, UPGRADE)), version)
    for upgrade_type in (*NO_TYPES, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        r.ask(rq.update_features(2, (KRAFT, 2, upgrade_type)), 2)
        r.ask(rq.update_features(2, (NOBODYS, 1, upgrade_type)), 2)
    for upgrade_type in NO_TYPES:
        r.ask(rq.update_features(2, (KRAFT, 1, upgrade_type)), 2)
    both = (KRAFT, 1, UPGRADE), (NOBODYS, 1, UPGRADE)
    r.ask(rq.update_features(2, *both, validate_only=True), 2, note="one of them is nobody's")


def _back(r: Recording) -> None:
    """There is no way back to static voters."""
    for version in UpdateFeaturesRequest.VALID_VERSIONS:
        r.ask(rq.update_features(version, (KRAFT, 0, UPGRADE)), version)
    for upgrade_type in (SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        r.ask(rq.update_features(2, (KRAFT, 0, upgrade_type)), 2)


def _nothing_new(r: Recording, level: int) -> None:
    """Of a level that is asked for as it is, a controller's state machine has a NoOpRecord."""
    for version in UpdateFeaturesRequest.VALID_VERSIONS:
        r.ask(rq.update_features(version), version, note="nothing at all")
        r.ask(rq.update_features(version, (KRAFT, level, UPGRADE)), version, note="as it is")
        r.appended()


def static(r: Recording) -> None:
    """A static voter, alone, becomes the voter of the log."""
    _refused(r)
    for upgrade_type in (SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        r.ask(rq.update_features(2, (KRAFT, 1, upgrade_type)), 2, note="up is not down")
    _nothing_new(r, 0)
    update = (KRAFT, 1, UPGRADE)
    for version in (1, 2):
        r.ask(rq.update_features(version, update, validate_only=True), version)
    r.ask(rq.describe_quorum(), 2)
    before = r.end
    r.ask(rq.update_features(1, update), 1, writes=True)
    r.appended()
    r.ask(rq.fetch(17, EPOCH, before, last_epoch=EPOCH, sender=4), 17, note="what was written")
    r.ask(rq.update_features(2, update), 2, note="again")
    r.appended()
    r.ask(rq.describe_quorum(), 2, note="the voter has a directory now")
    _nothing_new(r, 1)
    _refused(r)
    _back(r)


def dynamic(r: Recording) -> None:
    """A voter of the log: there is nothing higher."""
    _nothing_new(r, 1)
    _refused(r)


def elsewhere(r: Recording) -> None:
    """A controller that does not lead."""
    for version in UpdateFeaturesRequest.VALID_VERSIONS:
        r.ask(rq.update_features(version, (KRAFT, 1, UPGRADE)), version)
        r.ask(rq.update_features(version, (NOBODYS, 1, UPGRADE)), version)
        r.ask(rq.update_features(version), version)


def too_old(r: Recording) -> None:
    """A leader, and a metadata.version of 4.0, at which nobody is unregistered."""
    r.ask(rq.update_features(2, (KRAFT, 1, UPGRADE)), 2, note="as it is: by then it is active")
    r.appended()
    unregistrations(r)


FEATURES = (
    Case("features-static", "alone-static", single, static, since("4.1.2")),
    Case("features-dynamic", "alone", single, dynamic),
    Case("features-back", "alone", single, _back),
    Case("features-elsewhere", "lives", unattached, elsewhere),
    Case("features-unregistrations", "alone", single, too_old),
)

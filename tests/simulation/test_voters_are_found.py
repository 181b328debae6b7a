"""A voter that listens elsewhere than its entry says: who is blamed, and which releases do it."""

from __future__ import annotations

import re

import pytest

from kraftspec.reference.profiles.kafka.profile import KafkaProfile
from kraftspec.simulation.catalogue import planted
from kraftspec.simulation.harness.cores import Core, RunCores
from kraftspec.simulation.harness.known import known_breach
from kraftspec.simulation.run import simulate

PROFILE = KafkaProfile()
MOVED = 29  # A run whose nodes listen elsewhere than the first voter set says.


def test_the_node_that_is_not_found_is_blamed() -> None:
    """And what it does is a known fault of the releases that have it alone."""
    with planted("does_not_tell_that_it_moved"):
        violation = simulate(MOVED, PROFILE, events=2_000).violation
    assert violation is not None
    named = re.match(
        r"node (\d+) is not where the voters say: \[Voter\(key=ReplicaKey\(id=\1,", violation[1]
    )
    assert named is not None
    cores = RunCores([Core("kafka:4.0.2"), Core("kraftspec")], MOVED)
    assert cores.cores_of(violation[1]) == [cores.core_of(int(named[1]))]
    for release, finding in (
        ("3.9.1", "kraft-unsent-update"), ("4.0.2", "kraft-unsent-update"), ("4.1.0", None),
    ):  # fmt: skip
        known = known_breach([Core(f"kafka:{release}")], violation)
        assert (known.finding if known else None) == finding


@pytest.mark.kafka
@pytest.mark.soak
@pytest.mark.parametrize(
    ("release", "finding"), [("3.9.1", "kraft-unsent-update"), ("4.1.2", None)]
)
def test_releases_of_kafka(release: str, finding: str | None) -> None:
    result = simulate(MOVED, PROFILE, events=300, cores=[Core(f"kafka:{release}")])
    assert not result.is_failure
    is_broken = result.violation is not None and result.violation[0] == "voters_are_found"
    assert is_broken == (finding is not None)
    if is_broken:
        assert result.known is not None
        assert result.known.finding == finding

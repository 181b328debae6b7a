"""Nodes of each draft as processes over TCP: they elect, change their voters, and are killed.

All the while a client appends through whoever leads. What was acknowledged is never lost.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.reference.node.processes import Processes

from kraftspec.reference.log import MetaProperties
from kraftspec.reference.log.properties import parse_properties, render_properties

PROFILES = ["kip-595", "kip-853", "kip-996"]


def form(quorum: Processes, voters: list[int]) -> None:
    """Make these the voters, where not all of them are from the start: KIP-853's first is alone."""
    if quorum.profile != "kip-853":
        return
    quorum.caught_up(*voters)  # Each has made its uuid by then.
    for node_id in voters:
        if node_id not in quorum.voters():
            quorum.quorum("add-voter", "--config", str(quorum.properties[node_id]))


def change(quorum: Processes, voters: list[int]) -> None:
    """Make these the voters, as an operator of that draft does."""
    if quorum.profile == "kip-595":
        quorum.quorum("alter", "--wait", "--voters", ",".join(map(str, voters)))
        return
    form(quorum, voters)
    for node_id in quorum.voters():
        if node_id not in voters:
            quorum.quorum("remove-voter", "--voter-id", str(node_id))


@pytest.mark.soak
@pytest.mark.parametrize("profile", PROFILES)
def test_it_survives_kill_9_of_any_one_of_three(tmp_path: Path, profile: str) -> None:
    with Processes(tmp_path, profile, voters=3) as quorum:
        form(quorum, [1, 2, 3])
        quorum.goes_on()
        leader = quorum.leader()
        for victim in (leader, *(node_id for node_id in (1, 2, 3) if node_id != leader)):
            quorum.kill(victim)
            quorum.goes_on()
            assert quorum.leader() != victim
            quorum.start(victim)
            quorum.caught_up(victim)
        quorum.stop_all()
        quorum.check_logs([1, 2, 3])


@pytest.mark.soak
@pytest.mark.parametrize("profile", ["kip-595", "kip-853"])
def test_voters_change_from_three_to_five_to_three_under_load(tmp_path: Path, profile: str) -> None:
    with Processes(tmp_path, profile, voters=3, observers=2) as quorum:
        form(quorum, [1, 2, 3])
        quorum.goes_on()
        assert quorum.voters() == [1, 2, 3]
        quorum.caught_up(4, 5)
        change(quorum, [1, 2, 3, 4, 5])
        assert quorum.voters() == [1, 2, 3, 4, 5]
        quorum.goes_on()
        leader = quorum.leader()
        other = 1 + leader % 5
        quorum.kill(leader, other)  # A minority of five.
        quorum.goes_on()
        quorum.start(leader)
        quorum.start(other)
        quorum.caught_up(leader, other)
        leader = quorum.leader()
        stay = [node_id for node_id in (1, 2, 3, 4, 5) if node_id != leader][:3]
        change(quorum, stay)  # The leader goes, too.
        assert quorum.voters() == stay
        quorum.goes_on()
        quorum.kill(quorum.leader())  # Of three, so the two that are left decide.
        quorum.goes_on()
        survivors = list(quorum.running)
        quorum.stop_all()
        quorum.check_logs(survivors)  # Those that only observe, too.


@pytest.mark.soak
def test_the_bootstrapping_example(tmp_path: Path) -> None:
    """KIP-595: one node alone, looked at; the others started; three voters by AlterQuorum.

    Once the first assignment is in the log, the property quorum.voters is of no more use: the
    first node is restarted without it, and the others never had it.
    """
    with Processes(tmp_path, "kip-595", voters=1, observers=2, first=1) as quorum:
        quorum.goes_on(10)
        alone = quorum.describe()
        assert (alone["leaderId"], alone["currentVoters"]) == (1, [1])
        assert cluster_of(tmp_path, 1)  # The first leader has made one.
        for node_id in (2, 3):
            drop(quorum.properties[node_id], "quorum.voters")
            quorum.start(node_id)
        quorum.caught_up(2, 3)
        assert quorum.describe()["currentVoters"] == [1]
        change(quorum, [1, 2, 3])
        grown = quorum.describe()
        assert (grown["currentVoters"], grown["targetVoters"]) == ([1, 2, 3], None)
        assert {cluster_of(tmp_path, node_id) for node_id in (2, 3)} == {cluster_of(tmp_path, 1)}
        quorum.stop(1)
        drop(quorum.properties[1], "quorum.voters")
        quorum.start(1)
        quorum.caught_up(1)
        quorum.goes_on()
        assert quorum.describe()["currentVoters"] == [1, 2, 3]
        for node_id in (2, 3):  # They began without a cluster id, and none is another's.
            assert "another cluster" not in quorum.output(node_id)
        quorum.stop_all()
        quorum.check_logs([1, 2, 3])


def cluster_of(directory: Path, node_id: int) -> str:
    """The cluster id that a node has cached."""
    path = directory / str(node_id) / "log" / "meta.properties"
    return MetaProperties.parse(path.read_bytes(), str(path)).cluster_id


def drop(path: Path, key: str) -> None:
    """Take a property out of a file."""
    properties = parse_properties(path.read_text("latin-1"))
    del properties[key]
    path.write_text(render_properties(properties), "latin-1")

"""What `verify` says of directories: each case is a quorum as it was left."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.reference.recovery.directories import (
    Change,
    Data,
    Lead,
    Node,
    Step,
    directory_id,
    quorum,
)

from kraftspec.reference.recovery import ADVICE, Judgement, verify
from kraftspec.reference.recovery import rules as rules_module

THREE = (1, 2, 3)
FIRST = (Lead(1, 1, THREE), Data(1, 4))  # Offsets 0 to 4.


def judged(nodes: Sequence[Node]) -> Judgement:
    return verify([str(node.path) for node in nodes])


def codes(judgement: Judgement) -> list[str]:
    return [verdict.code for verdict in judgement.verdicts]


def electable(judgement: Judgement) -> set[int]:
    return {one.key.id for one in judgement.candidates if one.is_electable}


def three(root: Path, one: Sequence[Step], two: Sequence[Step], last: Sequence[Step]) -> list[Node]:
    """Three voters, each with a log of its own behind the same beginning."""
    nodes = [Node(root, id, THREE).append(*FIRST) for id in THREE]
    for node, steps in zip(nodes, (one, two, last), strict=True):
        node.append(*steps)
        node.vote(max([1, *(step.epoch for step in steps)]))
    return nodes


def test_a_healthy_quorum(tmp_path: Path) -> None:
    judgement = judged(quorum(tmp_path, *FIRST))
    assert codes(judgement) == []
    assert judgement.exit_code == 0
    assert judgement.is_still
    assert electable(judgement) == {1, 2, 3}
    assert judgement.certain is not None
    assert (judgement.certain.end_offset, judgement.certain.epoch) == (5, 1)
    assert judgement.perhaps_end == 5
    assert {one.in_force.origin.kind for one in judgement.directories} == {"checkpoint"}


def test_nothing_is_changed(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    with nodes[0].segment.open("ab") as file:
        file.write(b"\0" * 7 + b"torn")
    (nodes[1].metadata / "quorum-state.tmp").write_bytes(b"{")
    before = {
        path: (path.read_bytes(), path.stat().st_mtime_ns)
        for path in tmp_path.rglob("*")
        if path.is_file()
    }
    judgement = judged(nodes)
    after = {
        path: (path.read_bytes(), path.stat().st_mtime_ns)
        for path in tmp_path.rglob("*")
        if path.is_file()
    }
    assert before == after
    assert codes(judgement) == ["torn-tail"]
    assert judgement.exit_code == 0


def test_one_of_three_says_nothing_of_elections(tmp_path: Path) -> None:
    judgement = judged(quorum(tmp_path, *FIRST)[:1])
    assert codes(judgement) == ["too-few-directories"]
    assert judgement.exit_code == 3
    assert judgement.perhaps_end is None
    assert judgement.certain is not None
    assert judgement.certain.kind == "data"  # The LeaderChange, and no more.
    assert judgement.certain.end_offset == 1


def test_two_of_three_can_elect(tmp_path: Path) -> None:
    judgement = judged(quorum(tmp_path, *FIRST)[:2])
    assert codes(judgement) == ["voters-not-given"]
    assert judgement.exit_code == 0
    assert electable(judgement) == {1, 2}
    assert judgement.certain is not None
    assert (judgement.certain.end_offset, judgement.certain.kind) == (5, "majority")


def test_what_is_no_directory(tmp_path: Path) -> None:
    judgement = verify([str(tmp_path), str(tmp_path / "none")])
    assert codes(judgement) == ["unreadable", "unreadable"]
    assert judgement.exit_code == 3


def test_a_blank_controller_is_read(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    judgement = judged([*nodes, Node(tmp_path, 4)])
    assert judgement.exit_code == 0
    assert judgement.directories[3].log.end_offset == 0


# ---- logs that part ----------------------------------------------------------------------------


def test_an_old_leader_with_a_tail(tmp_path: Path) -> None:
    later = (Lead(2, 2, THREE, (2, 3)), Data(2, 2))
    judgement = judged(three(tmp_path, [Data(1, 9)], later, later))
    assert codes(judgement) == ["logs-part", "logs-part"]
    assert judgement.exit_code == 0
    parting = judgement.comparison.parting(0, 1)
    assert parting is not None
    assert (parting.offset, parting.epoch, parting.other_epoch) == (5, 1, 2)
    assert electable(judgement) == {2, 3}
    assert judgement.certain is not None
    assert judgement.certain.end_offset == 8


def test_one_epoch_with_two_contents(tmp_path: Path) -> None:
    judgement = judged(three(tmp_path, [Data(1, 2)], [Data(1, 2, time_ms=5)], []))
    assert "same-epoch-two-contents" in codes(judgement)
    assert judgement.exit_code == 1
    assert judgement.certain is not None
    assert judgement.certain.end_offset == 5


def test_two_committed_branches(tmp_path: Path) -> None:
    one = (Lead(2, 1, THREE, (1, 2)), Data(2, 2))
    other = (Lead(3, 3, THREE, (2, 3)), Data(3, 2))
    judgement = judged(three(tmp_path, one, [], other))
    assert "two-committed-branches" in codes(judgement)
    assert judgement.exit_code == 1


def test_two_leaders_of_an_epoch(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    nodes[2].vote(1, leader=3)
    assert codes(judged(nodes)) == ["two-leaders"]


def test_a_majority_that_has_seen_a_later_epoch_proves_nothing(tmp_path: Path) -> None:
    """Who was elected by two of them may have other records (Raft, figure 8)."""
    nodes = [Node(tmp_path, id, THREE).append(*FIRST).vote(2, voted=3) for id in (1, 2)]
    judgement = judged(nodes)
    assert judgement.certain is not None
    assert (judgement.certain.end_offset, judgement.certain.kind) == (1, "data")
    for node in nodes:
        node.vote(1, leader=1)
    judgement = judged(nodes)
    assert judgement.certain is not None
    assert (judgement.certain.end_offset, judgement.certain.kind) == (5, "majority")


def test_all_that_can_be_elected_hold_what_stays(tmp_path: Path) -> None:
    """After an election that nobody won, all of the voters are needed to say so."""
    nodes = [Node(tmp_path, id, THREE).append(*FIRST).vote(1 + id) for id in THREE]
    judgement = judged(nodes)
    assert judgement.certain is not None
    assert (judgement.certain.end_offset, judgement.certain.kind) == (5, "all-electable")
    # The third could be elected, and has other records: Raft's figure 8.
    other = Node(tmp_path, 3, THREE, name="other").append(Lead(1, 1, THREE), Lead(3, 3, THREE))
    judgement = judged([*nodes[:2], other.vote(3, leader=3)])
    assert electable(judgement) == {1, 2, 3}
    assert judgement.certain is not None
    assert judgement.certain.end_offset == 1


def test_a_majority_of_new_voters_alone_proves_nothing(tmp_path: Path) -> None:
    """As long as their change may not be committed: the others count by the voters before."""
    steps = (Lead(1, 1, (1, 2)), Data(1), Change(1, THREE), Data(1, 3))
    nodes = [Node(tmp_path, id, (1, 2)).append(*steps).vote(1, leader=1) for id in (1, 3)]
    judgement = judged(nodes)
    assert judgement.certain is not None
    assert judgement.certain.end_offset == 1
    nodes.append(Node(tmp_path, 2, (1, 2)).append(*steps[:3]).vote(1, leader=1))
    judgement = judged(nodes)
    assert judgement.certain is not None
    assert (judgement.certain.end_offset, judgement.certain.kind) == (3, "majority")


# ---- voters ------------------------------------------------------------------------------------


def test_two_voters_who_block_each_other(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, Lead(1, 1, (1, 2)), Data(1, 3), ids=(1, 2))
    nodes[0].append(Change(1, (2,)))
    judgement = judged(nodes)
    assert "nobody-electable" in codes(judgement)
    assert judgement.exit_code == 1
    [verdict] = [one for one in judgement.verdicts if one.code == "nobody-electable"]
    assert "node 2 needs 2 votes: 1 refuses, its log is longer" in verdict.text
    assert "node 1 is no voter by the VotersRecord at offset 4 of epoch 1" in verdict.text
    # The batch copied to the other voter: it can be elected alone.
    nodes[1].append(Change(1, (2,)))
    assert electable(judged(nodes)) == {2}


def test_a_leader_by_other_voters(tmp_path: Path) -> None:
    steps = (*FIRST, Change(1, (1, 2)), Data(1), Lead(2, 1, THREE, (1, 3)))
    judgement = judged(quorum(tmp_path, *steps, epoch=2))
    [verdict] = [one for one in judgement.verdicts if one.code == "leader-by-other-voters"]
    assert verdict.nodes == THREE
    assert "by the VotersRecord at offset 5 of epoch 1" in verdict.text
    assert judgement.exit_code == 1


def test_a_leader_without_a_majority(tmp_path: Path) -> None:
    judgement = judged(quorum(tmp_path, Lead(1, 1, THREE, (1,)), Data(1)))
    assert "leader-without-majority" in codes(judgement)


def test_disjoint_majorities(tmp_path: Path) -> None:
    """Two nodes whose logs know different voters, of which none is in both."""
    steps = (Lead(1, 1, (1, 2, 3)), Data(1, 2))
    nodes = quorum(tmp_path, *steps)
    nodes[0].append(Lead(2, 1, (1, 2, 3), new_voters=(1,)))
    judgement = judged(nodes)
    assert "disjoint-majorities" in codes(judgement)


def test_voters_of_a_log(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST, Change(1, (1, 2)), Data(1))
    judgement = judged(nodes)
    assert {str(one.in_force.origin) for one in judgement.directories} == {
        "the VotersRecord at offset 5 of epoch 1"
    }
    assert not judgement.directories[2].is_voter
    assert electable(judgement) == {1, 2}
    assert codes(judgement) == ["few-voters"]


def test_a_change_that_may_not_be_committed(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    nodes[0].append(Change(1, (1, 2, 3, 4)))
    judgement = judged(nodes)
    assert "change-in-doubt" in codes(judgement)
    assert judgement.certain is not None
    assert judgement.certain.end_offset == 5


def test_every_verdict_is_documented() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "quorum-verify.md").read_text("utf-8")
    rules = (Path(rules_module.__file__)).read_text("utf-8")
    told = set(
        re.findall(r"^\| `([a-z-]+)` \| (?:error|warning|unknown|note) \|", page, re.MULTILINE)
    )
    used = set(re.findall(r'"([a-z]+(?:-[a-z]+)+|unreadable)"', rules))
    assert used == told
    assert set(ADVICE) <= told


def test_a_changed_disk(tmp_path: Path) -> None:
    steps = (Lead(1, 1, THREE, new_voters=THREE, level=1), Data(1, 4))
    nodes = quorum(tmp_path, *steps)[:2]
    new = Node(tmp_path, 3, directory=directory_id(33), name="new").append(*steps)
    new.vote(1, leader=1)
    judgement = judged([*nodes, new])
    assert "directory-id-differs" in codes(judgement)
    assert electable(judgement) == {1, 2}
    only = judged([nodes[0], new])
    assert electable(only) == set()
    [candidate] = only.candidates
    assert "its directory id is" in candidate.refused[3]


def test_static_voters(tmp_path: Path) -> None:
    nodes = [Node(tmp_path, id).append(*FIRST).vote(1, leader=1, static=THREE) for id in THREE]
    judgement = judged(nodes)
    assert codes(judgement) == []
    assert {one.in_force.origin.kind for one in judgement.directories} == {"static"}
    assert electable(judgement) == {1, 2, 3}
    assert judgement.certain is not None
    assert judgement.certain.end_offset == 5
    nodes[1].vote(1, leader=1, static=(2, 4))
    assert "static-voters-differ" in codes(judged(nodes))


def test_static_voters_that_were_upgraded(tmp_path: Path) -> None:
    steps = (*FIRST, Change(1, THREE, level=1))
    nodes = [Node(tmp_path, id).append(*steps).vote(1, leader=1) for id in THREE]
    judgement = judged(nodes)
    assert codes(judgement) == []
    assert {str(one.in_force.origin) for one in judgement.directories} == {
        "the VotersRecord at offset 6 of epoch 1"
    }
    assert judgement.certain is not None
    assert judgement.certain.end_offset == 7
    proofs = [proof for proof in judgement.proofs if proof.kind == "voters-change"]
    assert proofs == []  # An upgrade is written without a look at what is committed.


def test_new_controllers_behind_the_upgrade_are_no_voters(tmp_path: Path) -> None:
    """They have ids of static voters, and are told of none: with these they cannot be elected."""
    steps = (*FIRST, Change(1, (1,), level=1), Data(1, 2))
    nodes = [Node(tmp_path, 1).append(*steps).vote(1, leader=1)]
    for id in (2, 3):
        new = Node(tmp_path, id).append(*FIRST)
        state = (  # As Kafka writes it without controller.quorum.voters, and kraft.version 0.
            b'{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,'
            b'"currentVoters":[],"data_version":0}'
        )
        (new.metadata / "quorum-state").write_bytes(state)
        nodes.append(new)
    judgement = judged(nodes)
    assert electable(judgement) == {1}
    assert judgement.exit_code == 0, codes(judgement)
    (nodes[1].metadata / "quorum-state").unlink()
    (nodes[2].metadata / "quorum-state").unlink()
    assert electable(judged(nodes)) == {1, 2, 3}  # Now nobody knows: the properties decide.


def test_a_second_change_proves_the_first(tmp_path: Path) -> None:
    node = Node(tmp_path, 1, (1, 2)).append(
        Lead(1, 1, (1, 2)), Change(1, THREE), Change(1, (1, 2, 3, 4))
    )
    judgement = judged([node])
    assert judgement.certain is not None
    assert (judgement.certain.end_offset, judgement.certain.kind) == (2, "voters-change")


def test_a_change_that_came_with_an_election_proves_nothing(tmp_path: Path) -> None:
    node = Node(tmp_path, 1, (1, 2)).append(
        Lead(1, 1, (1, 2)), Change(1, THREE), Lead(2, 1, THREE, new_voters=THREE, level=1)
    )
    judgement = judged([node])
    assert judgement.certain is not None
    assert judgement.certain.end_offset == 1  # The first change proves the LeaderChange before it.


def test_observers_do_not_count(tmp_path: Path) -> None:
    """A broker that has what only one of the voters has commits nothing by that."""
    nodes = quorum(tmp_path, *FIRST)
    nodes[0].append(Data(1, 3))
    broker = Node(tmp_path, 11).append(Lead(1, 1, THREE), Data(1, 4)).append(Data(1, 3))
    judgement = judged([*nodes, broker.vote(1, leader=1)])
    assert judgement.certain is not None
    assert judgement.certain.end_offset == 5


def test_a_broker_that_is_ahead(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    broker = Node(tmp_path, 11).append(*FIRST, Data(1, 3)).vote(2, leader=-1)
    judgement = judged([*nodes, broker])
    assert codes(judgement) == ["observer-ahead", "observer-epoch-ahead"]
    assert judgement.exit_code == 1


def test_two_clusters(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)[:2]
    other = Node(tmp_path, 3, THREE, cluster_id="other", name="other")
    other.append(*FIRST).vote(1, leader=1)
    assert codes(judged([*nodes, other])) == ["cluster-ids-differ"]


def test_one_directory_twice(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    copy = Node(tmp_path, 1, THREE, name="copy").append(*FIRST).vote(1, leader=1)
    assert codes(judged([*nodes, copy])) == ["same-directory-twice"]


# ---- a recovery by force -----------------------------------------------------------------------


def test_a_forced_recovery(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    nodes[2].append(Data(1, 2))
    nodes[0].append(Lead(1001, 1, (1,), new_voters=(1,))).vote(1001)
    nodes[0].append(Lead(1002, 1, (1,)), Data(1002)).vote(1002, leader=1)
    judgement = judged(nodes)
    assert "forced-recovery" in codes(judgement)
    assert [v.nodes for v in judgement.verdicts if v.code == "left-of-forced-recovery"] == [(3,)]
    assert "leader-by-other-voters" not in codes(judgement)
    # The two that were left out could still elect a leader of their own.
    assert electable(judgement) == {1, 3}
    assert "disjoint-majorities" in codes(judgement)
    assert "forced-recovery" in codes(judged(nodes[:1]))
    assert judged(nodes[:1]).exit_code == 0


# ---- damage ------------------------------------------------------------------------------------


def test_a_damaged_log(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    data = bytearray(nodes[1].segment.read_bytes())
    data[40] ^= 1
    nodes[1].segment.write_bytes(data)
    judgement = judged(nodes)
    assert "damaged-log" in codes(judgement)
    assert electable(judgement) == {1, 3}


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"data_version":9}'])
def test_a_vote_that_cannot_be_read(tmp_path: Path, content: bytes) -> None:
    nodes = quorum(tmp_path, *FIRST)
    (nodes[0].metadata / "quorum-state").write_bytes(content)
    judgement = judged(nodes)
    assert "vote-unreadable" in codes(judgement)
    assert electable(judgement) == {2, 3}


def test_a_vote_that_is_gone(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    (nodes[0].metadata / "quorum-state").unlink()
    assert codes(judged(nodes)) == ["vote-missing"]


def test_epochs_are_used_up(tmp_path: Path) -> None:
    last = (1 << 31) - 1
    judgement = judged(quorum(tmp_path, *FIRST, epoch=last))
    assert codes(judgement)[:3] == ["epochs-used-up"] * 3
    assert electable(judgement) == set()


# ---- checkpoints -------------------------------------------------------------------------------


def test_a_checkpoint_proves_what_it_covers(tmp_path: Path) -> None:
    node = quorum(tmp_path, *FIRST)[0].checkpoint(4, 1, THREE)
    judgement = judged([node])
    assert judgement.certain is not None
    assert (judgement.certain.end_offset, judgement.certain.kind) == (4, "checkpoint")


def test_a_log_that_starts_at_a_checkpoint(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    nodes[2].checkpoint(5, 1, THREE).start_at(5, 1)
    judgement = judged(nodes)
    assert codes(judgement) == []
    log = judgement.directories[2].log
    assert (log.start_offset, log.end_offset, log.last_epoch) == (5, 5, 1)
    assert electable(judgement) == {1, 2, 3}


def test_a_checkpoint_alone(tmp_path: Path) -> None:
    """As a node leaves it that went down between the checkpoint and its log."""
    nodes = quorum(tmp_path, *FIRST)
    nodes[2].checkpoint(5, 1, THREE).start_at(5, 1)
    for path in nodes[2].metadata.glob("*.log"):
        path.unlink()
    judgement = judged(nodes)
    assert codes(judgement) == []
    log = judgement.directories[2].log
    assert (log.start_offset, log.end_offset, log.last_epoch) == (5, 5, 1)
    only = judged(nodes[2:])
    assert only.certain is not None
    assert (only.certain.end_offset, only.certain.kind) == (5, "checkpoint")


def test_a_log_without_its_checkpoint(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    nodes[2].checkpoint(5, 1, THREE).start_at(5, 1)
    for path in nodes[2].metadata.glob("*5-*.checkpoint"):
        path.unlink()
    assert "damaged-log" in codes(judged(nodes))


def test_a_damaged_checkpoint(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    nodes[0].checkpoint(4, 1, THREE)
    path = next(iter(nodes[0].metadata.glob("*4-*.checkpoint")))
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-5])
    judgement = judged(nodes)
    assert "checkpoint-damaged" in codes(judgement)


def test_records_that_could_be_lost(tmp_path: Path) -> None:
    """A checkpoint shows more than those have who could be elected."""
    nodes = quorum(tmp_path, *FIRST)
    nodes[2].append(Data(1, 5)).checkpoint(9, 1, THREE)
    judgement = judged(nodes)
    lost = [verdict for verdict in judgement.verdicts if verdict.code == "committed-could-be-lost"]
    assert [verdict.nodes for verdict in lost] == [(1,), (2,)]

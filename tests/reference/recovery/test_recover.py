"""What `recover` plans and what it refuses: each case is a quorum as it was left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.reference.recovery.directories import (
    Change,
    Data,
    Lead,
    Node,
    directory_id,
    quorum,
    voter_set,
)

from kraftspec.fastpath.batch_reader import decode_batch
from kraftspec.fastpath.walk import iterate_headers
from kraftspec.generated.kafka import KRaftVersionRecord, LeaderChangeMessage, VotersRecord
from kraftspec.reference.log import LogDirectory
from kraftspec.reference.log.control import decode_control_records
from kraftspec.reference.log.files import ReadOnlyFiles
from kraftspec.reference.raft.types import Endpoint
from kraftspec.reference.recovery.cure import recover
from kraftspec.reference.recovery.instructions import afterwards, headline, lost, to_json, written
from kraftspec.reference.recovery.plan import Plan, Request
from kraftspec.reference.recovery.report import LINES_MAX

THREE = (1, 2, 3)
# As a first leader of Kafka begins: the voters of the checkpoint 0-0 are in the log, too.
BEGUN = Lead(1, 1, THREE, new_voters=THREE, level=1)
FIRST = (BEGUN, Data(1, 4))  # Offsets 0 to 6.


def planned(nodes: Sequence[Node], *keep: int, **options: Any) -> Plan:
    return recover([str(node.path) for node in nodes], Request(keep=keep, **options))


def codes(plan: Plan) -> list[str]:
    return [one.code for one in plan.refusals]


def files_of(root: Path) -> dict[Path, tuple[bytes, int]]:
    return {
        path: (path.read_bytes(), path.stat().st_mtime_ns)
        for path in root.rglob("*")
        if path.is_file()
    }


def text_of(plan: Plan) -> str:
    files = ReadOnlyFiles()
    lines = [headline(plan)]
    for text, shown in written(plan, files):
        lines += [text, *shown]
    return "\n".join([*lines, *afterwards(plan)])


# ---- plans -------------------------------------------------------------------------------------


def test_one_of_three_becomes_the_only_voter(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    plan = planned(nodes[:1], 1)
    assert codes(plan) == []
    assert (plan.epoch, plan.end_offset) == (1_001, 7)
    (header,) = iterate_headers(plan.batch)
    assert (header.base_offset, header.partition_leader_epoch) == (7, 1_001)
    (_, change), (_, voters) = decode_control_records(decode_batch(plan.batch, 0))
    assert isinstance(change, LeaderChangeMessage)
    assert isinstance(voters, VotersRecord)
    assert change.leader_id == 1
    (voter,) = voters.voters
    assert voter.voter_directory_id == directory_id(1)
    assert (voter.endpoints[0].host, voter.endpoints[0].port) == ("localhost", 9001)
    (one,) = plan.changes
    assert (one.takes_batch, one.vote_epoch, one.cut_at, one.copy_to) == (True, 1_001, -1, -1)
    text = text_of(plan)
    assert "partitionLeaderEpoch: 1001" in text
    assert "KRaftVoters" in text
    assert "Never start the lost controllers with the directories that they had: nodes 2, 3" in text
    assert "controller.quorum.bootstrap.servers=localhost:9001" in text


def test_the_version_of_the_checkpoint_0_0_comes_into_the_log(tmp_path: Path) -> None:
    """Followers do not fetch that checkpoint: voters without a version are in no snapshot."""
    nodes = quorum(tmp_path)
    (_, _), (_, version), (_, voters) = decode_control_records(
        decode_batch(planned(nodes[:1], 1).batch, 0)
    )
    assert isinstance(version, KRaftVersionRecord)
    assert version.k_raft_version == 1
    assert isinstance(voters, VotersRecord)


def test_nothing_is_changed(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    with nodes[0].segment.open("ab") as file:
        file.write(b"\0" * 7 + b"torn")
    (nodes[0].path / ".lock").unlink(missing_ok=True)
    (nodes[0].metadata / "quorum-state.tmp").write_bytes(b"{")
    before = files_of(tmp_path)
    plan = planned(nodes[:1], 1)
    assert codes(plan) == []
    assert "bytes of an incomplete batch" in text_of(plan)
    assert files_of(tmp_path) == before


def test_the_same_bytes_are_planned_again(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    assert planned(nodes[:1], 1).batch == planned(nodes[:1], 1).batch


def test_the_longer_log_of_a_broker_is_taken(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    broker = Node(tmp_path, 11).append(*FIRST, Data(1, 3)).vote(5)
    plan = planned([nodes[1], broker], 2)
    assert codes(plan) == []
    assert plan.log_source.node_id == 11
    assert (plan.epoch, plan.end_offset) == (1_005, 10)
    (one,) = plan.changes
    assert (one.copy_from, one.copy_to) == (7, 10)
    assert text_of(plan).count("NO_OP_RECORD") == 3


def test_a_log_that_begins_behind_the_keepers_brings_its_checkpoint(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, BEGUN)
    broker = Node(tmp_path, 11).append(*FIRST).checkpoint(6, 1, THREE).start_at(6, 1)
    broker.append(Data(1, 2)).vote(1)
    plan = planned([nodes[1], broker], 2)
    assert codes(plan) == []
    (one,) = plan.changes
    assert one.checkpoint is not None
    assert one.checkpoint.id == (6, 1)
    assert (one.copy_from, one.copy_to) == (6, 8)


def test_a_voter_that_lacks_its_own_election_gets_the_record(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, Lead(1, 1, (1, 2), new_voters=(1, 2), level=1), Data(1), ids=(1, 2))
    nodes[0].append(Change(1, (2,)))
    plan = planned(nodes, 2)
    assert codes(plan) == []
    assert plan.batch == b""
    assert plan.epoch == -1
    (one,) = plan.changes
    assert (one.copy_from, one.copy_to, one.vote_epoch) == (4, 5, -1)
    assert "nothing is made up" in headline(plan)


def test_two_of_five_get_the_same_batch(tmp_path: Path) -> None:
    five = (1, 2, 3, 4, 5)
    nodes = quorum(tmp_path, Lead(1, 1, five, new_voters=five, level=1), Data(1, 4), ids=five)
    nodes[3].append(Data(1))
    plan = planned([nodes[1], nodes[3]], 2, 4)
    assert codes(plan) == []
    assert plan.voters.ids == (2, 4)
    assert [(one.number, one.takes_batch) for one in plan.changes] == [(0, True), (1, True)]
    assert plan.end_offset == 8


def test_a_controller_that_was_just_formatted_adopts_the_log_of_a_broker(tmp_path: Path) -> None:
    broker = Node(tmp_path, 11).append(*FIRST).vote(1)
    blank = Node(tmp_path, 7)
    assert codes(planned([blank, broker], 7)) == ["no-address"]
    endpoints = {7: (Endpoint("CONTROLLER", "new", 9093),)}
    plan = planned([blank, broker], 7, endpoints=endpoints)
    assert codes(plan) == []
    (one,) = plan.changes
    assert (one.copy_from, one.copy_to) == (0, 7)
    assert plan.voters.endpoints(7) == endpoints[7]


def test_voters_that_listen_elsewhere(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    endpoints = {id: (Endpoint("CONTROLLER", "elsewhere", 9_000 + id),) for id in THREE}
    plan = planned(nodes, *THREE, endpoints=endpoints)
    assert codes(plan) == []
    assert plan.voters.ids == THREE
    assert len(plan.changes) == 3
    assert headline(plan).endswith("by force, in epoch 1001. In the log they have other addresses.")
    same = {id: voter_set(THREE).endpoints(id) for id in THREE}
    assert set(codes(planned(nodes, *THREE, endpoints=same))) == {"could-elect"}
    assert set(codes(planned(nodes, 1, endpoints={1: endpoints[1]}))) == {"could-elect"}


def test_static_voters_are_properties(tmp_path: Path) -> None:
    nodes = [Node(tmp_path, id).append(Lead(1, 1, THREE), Data(1)) for id in THREE]
    for node in nodes:
        node.vote(1, static=THREE)
    plan = planned(nodes[:1], 1)
    assert codes(plan) == []
    assert plan.is_static
    assert plan.batch == b""
    (one,) = plan.changes
    assert (one.vote_epoch, one.changes_log) == (1_001, False)
    text = text_of(plan)
    assert "controller.quorum.voters=1@HOST:PORT" in text
    assert "blank controllers elect an empty leader" in text
    assert "It leads: kafka-metadata-quorum.sh --bootstrap-controller HOST:PORT describe" in text


def test_the_epoch_can_be_further_away(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    assert planned(nodes[:1], 1, epoch_bump=5_000).epoch == 5_001


# ---- refusals ----------------------------------------------------------------------------------


def test_a_directory_in_use(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    broker = Node(tmp_path, 11).append(*FIRST).vote(1)
    with LogDirectory.open(str(nodes[0].path)):
        assert codes(planned(nodes[:1], 1)) == ["in-use"]
    with LogDirectory.open(str(broker.path)):
        assert codes(planned([nodes[0], broker], 1)) == []


def test_a_voter_that_is_not_kept_must_not_run(tmp_path: Path) -> None:
    five = (1, 2, 3, 4, 5)
    nodes = quorum(tmp_path, Lead(1, 1, five, new_voters=five, level=1), Data(1), ids=five)
    with LogDirectory.open(str(nodes[1].path)):
        assert codes(planned(nodes[:2], 1)) == ["in-use"]


def test_directories_of_several_clusters(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    other = Node(tmp_path, 11, cluster_id="another").append(*FIRST).vote(1)
    assert "cluster-ids-differ" in codes(planned([nodes[0], other], 1))


def test_a_keeper_with_another_directory_id(tmp_path: Path) -> None:
    quorum(tmp_path, *FIRST)
    other = Node(tmp_path, 1, directory=directory_id(91), name="other").append(*FIRST).vote(1)
    assert codes(planned([other], 1)) == ["directory-id-differs"]


def test_a_keeper_that_is_no_voter(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    broker = Node(tmp_path, 11).append(*FIRST).vote(1)
    blank = Node(tmp_path, 7)
    assert codes(planned([nodes[0], broker], 11)) == ["not-a-voter"]
    assert codes(planned([broker], 11)) == ["not-a-voter"]
    assert codes(planned([nodes[0], blank], 7)) == ["not-a-voter"]


def test_a_keeper_without_directory(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    assert codes(planned(nodes[:1], 2)) == ["not-given"]
    assert codes(planned(nodes[:1], 1, source=str(nodes[1].path))) == ["not-given"]


def test_one_epoch_with_two_contents(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    nodes[0].append(Data(1, 2))
    broker = Node(tmp_path, 11).append(*FIRST, Data(1, 2, time_ms=5)).vote(1)
    assert "same-epoch-two-contents" in codes(planned([nodes[0], broker], 1))


def test_two_committed_branches(tmp_path: Path) -> None:
    five = (1, 2, 3, 4, 5)
    nodes = quorum(tmp_path, Lead(1, 1, five, new_voters=five, level=1), Data(1, 4), ids=five)
    nodes[0].append(Lead(2, 1, five, (1, 2, 3)), Data(2, 2)).vote(2)
    nodes[4].append(Lead(3, 5, five, (3, 4, 5)), Data(3, 2)).vote(3)
    assert codes(planned([nodes[0], nodes[4]], 1)) == ["two-committed-branches"]


def test_a_corrupt_log(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    data = bytearray(nodes[0].segment.read_bytes())
    data[70] ^= 1
    nodes[0].segment.write_bytes(data)
    assert codes(planned(nodes[:1], 1)) == ["damaged-log"]


def test_a_log_of_which_topic_is_not_known(tmp_path: Path) -> None:
    """No node starts with it, and no log of ours: it is seen before anything is written."""
    nodes = quorum(tmp_path, *FIRST)
    (nodes[1].metadata / "partition.metadata").write_text("version: 0\n")
    plan = planned(nodes[:2], 1)
    assert codes(plan) == ["damaged-log"]
    assert "partition.metadata" in plan.refusals[0].text


def test_a_vote_that_cannot_be_read(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    (nodes[0].metadata / "quorum-state").write_text("{")
    assert codes(planned(nodes[:1], 1)) == ["vote-unreadable"]


@pytest.mark.parametrize("epoch", [(1 << 31) - 1, (1 << 31) - 1_000_500])
def test_epochs_that_are_used_up(tmp_path: Path, epoch: int) -> None:
    nodes = quorum(tmp_path, *FIRST)
    nodes[0].vote(epoch)
    assert codes(planned(nodes[:1], 1)) == ["epochs-used-up"]


def test_static_voters_do_not_use_the_epochs_up(tmp_path: Path) -> None:
    node = Node(tmp_path, 1).append(Lead(1, 1, THREE), Data(1)).vote(1, static=THREE)
    plan = planned([node], 1, epoch_bump=(1 << 31) - 1_000_000)
    assert codes(plan) == ["epochs-used-up"]


def test_a_quorum_that_can_elect(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    assert set(codes(planned(nodes[:2], 1))) == {"could-elect"}
    assert set(codes(planned(nodes, 1, 2, 3))) == {"could-elect"}


def test_those_who_elect_get_what_a_longer_log_has(tmp_path: Path) -> None:
    """Nothing is forced; but who votes and is not kept would be left without it: refused."""
    nodes = quorum(tmp_path, *FIRST)
    nodes.append(Node(tmp_path, 11).append(*FIRST, Data(1, 2)).vote(1))
    plan = planned(nodes, *THREE)
    assert codes(plan) == []
    assert (plan.batch, plan.epoch) == (b"", -1)
    assert [(one.copy_from, one.copy_to) for one in plan.changes] == [(7, 9)] * 3
    assert set(codes(planned(nodes, 1, 2))) == {"could-elect"}
    assert set(codes(planned(nodes[:3], *THREE))) == {"could-elect"}


def test_a_keeper_that_is_shorter_by_choice(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    broker = Node(tmp_path, 11).append(*FIRST, Data(1, 3)).vote(1)
    source = str(nodes[0].path)
    plan = planned([nodes[0], broker], 1, source=source)
    assert codes(plan) == ["loss"]
    (loss,) = plan.losses
    text, lines = lost(plan, loss, ReadOnlyFiles())
    assert text == "node 11: records from offset 7 to 10"
    assert lines == ["offset: 7 to 9: NO_OP_RECORD"]
    plan = planned([nodes[0], broker], 1, source=source, accepts_loss=True)
    assert codes(plan) == []
    assert f"Stop node 11, and move {broker.metadata} out of {broker.path}" in text_of(plan)


def test_all_records_that_are_lost_are_told(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    broker = Node(tmp_path, 11).append(*FIRST).vote(1 + LINES_MAX)
    for epoch in range(2, 2 + LINES_MAX):
        broker.append(Lead(epoch, 2, THREE, (2, 3)), Data(epoch))
    plan = planned([nodes[0], broker], 1, source=str(nodes[0].path), accepts_loss=True)
    (loss,) = plan.losses
    offsets = [int(line.split()[1].rstrip(":")) for line in lost(plan, loss, ReadOnlyFiles())[1]]
    assert offsets == list(range(7, 7 + 2 * LINES_MAX))
    # Those that are copied are in the other log, too.
    lines = to_json(planned([nodes[0], broker], 1), ReadOnlyFiles())["changes"][0]["lines"]
    assert len(lines) == LINES_MAX + 1
    assert lines[-1] == f"and {LINES_MAX} more, up to offset {7 + 2 * LINES_MAX}"


def test_a_tail_that_a_later_leader_replaced_is_told(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    nodes[0].append(Data(1, 2))
    broker = Node(tmp_path, 11).append(*FIRST, Lead(2, 2, THREE, (2, 3)), Data(2)).vote(2)
    assert codes(planned([nodes[0], broker], 1)) == ["loss"]
    plan = planned([nodes[0], broker], 1, accepts_loss=True)
    (one,) = plan.changes
    assert (one.cut_at, one.copy_from, one.copy_to) == (7, 7, 9)


def test_what_only_a_checkpoint_has_is_told_as_lost(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, BEGUN)  # Offsets 0 to 2.
    broker = Node(tmp_path, 11).append(*FIRST).checkpoint(6, 1, THREE).start_at(6, 1)
    plan = planned([nodes[1], broker], 2, source=str(nodes[1].path), accepts_loss=True)
    assert codes(plan) == []
    (loss,) = plan.losses
    assert (loss.number, loss.start, loss.end) == (1, 3, 6)


def test_a_checkpoint_beyond_the_log_to_keep(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST, Data(1, 2))
    nodes[0].checkpoint(9, 1, THREE)
    broker = Node(tmp_path, 11).append(*FIRST).vote(1)
    plan = planned([nodes[0], broker], 1, source=str(broker.path), accepts_loss=True)
    assert codes(plan) == ["checkpoint-beyond"]


def test_a_gap_between_the_logs(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, BEGUN)
    broker = Node(tmp_path, 11).append(*FIRST).checkpoint(6, 1, THREE).start_at(6, 1)
    broker.vote(1)
    (checkpoint,) = broker.metadata.glob("*6-*.checkpoint")
    checkpoint.unlink()
    assert codes(planned([nodes[1], broker], 2)) == ["damaged-log"]

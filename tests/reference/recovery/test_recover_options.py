"""`recover` with `--to-dynamic`, `--withdraw-voters`, `--pad-to`; gridlock cured in three ways."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.reference.recovery.directories import (
    Change,
    Data,
    Lead,
    Node,
    directory_id,
    quorum,
)
from tests.reference.recovery.test_recover import BEGUN, FIRST, THREE, codes, planned, text_of

from kraftspec.fastpath.batch_reader import decode_batch
from kraftspec.fastpath.walk import iterate_headers
from kraftspec.generated.kafka import KRaftVersionRecord, LeaderChangeMessage, VotersRecord
from kraftspec.reference.log.control import decode_control_records
from kraftspec.reference.log.files import ReadOnlyFiles
from kraftspec.reference.raft.types import Endpoint
from kraftspec.reference.recovery import plan as plan_module
from kraftspec.reference.recovery import read_directory, withdrawal
from kraftspec.reference.recovery.cure import recover
from kraftspec.reference.recovery.forced import PADDING_MAX
from kraftspec.reference.recovery.instructions import headline, to_json
from kraftspec.reference.recovery.plan import Request, plan_of
from kraftspec.reference.recovery.refusals import WAYS_ON
from kraftspec.reference.recovery.verifier import judge

FOUR = (1, 2, 3, 4)


def gridlocked(root: Path) -> list[Node]:
    """Two voters; 1 led, removed itself at offset 4, and went on to 6; 2 has the log to 4."""
    nodes = quorum(root, Lead(1, 1, (1, 2), new_voters=(1, 2), level=1), Data(1), ids=(1, 2))
    nodes[0].append(Change(1, (2,)), Data(1))
    return nodes


def static(root: Path) -> list[Node]:
    nodes = [Node(root, id).append(Lead(1, 1, THREE), Data(1)) for id in THREE]
    return [node.vote(1, static=THREE) for node in nodes]


# ---- gridlock ----------------------------------------------------------------------------------


def test_gridlock_is_cured_by_the_record_that_the_other_lacks(tmp_path: Path) -> None:
    plan = planned(gridlocked(tmp_path), 2)
    assert codes(plan) == []
    assert (plan.batch, plan.losses, plan.voters.ids) == (b"", [], (2,))
    assert "Then node 1 may start, too" in text_of(plan)


def test_gridlock_is_cured_by_a_change_that_is_withdrawn(tmp_path: Path) -> None:
    nodes = gridlocked(tmp_path)
    plan = planned(nodes, 1, 2, withdraws_voters=True)
    assert codes(plan) == []
    assert (plan.batch, plan.epoch, plan.end_offset, plan.voters.ids) == (b"", -1, 4, (1, 2))
    assert [(one.number, one.cut_at, one.copy_to) for one in plan.changes] == [(0, 4, -1)]
    assert [(loss.number, loss.start, loss.end) for loss in plan.losses] == [(0, 4, 6)]
    assert "without it the voters are nodes 1, 2 again" in text_of(plan)


def test_gridlock_is_cured_by_force_whichever_is_left(tmp_path: Path) -> None:
    nodes = gridlocked(tmp_path)
    for node in nodes:
        plan = planned([node], node.id)
        assert codes(plan) == []
        assert (plan.epoch, plan.voters.ids) == (1_001, (node.id,))
        # The address is that of the set in which it voted.
        assert plan.voters.endpoints(node.id)[0].port == 9_000 + node.id


# ---- --withdraw-voters -------------------------------------------------------------------------


def test_the_voters_of_before_may_listen_elsewhere(tmp_path: Path) -> None:
    endpoints = {1: (Endpoint("CONTROLLER", "elsewhere", 9_093),)}
    plan = planned(gridlocked(tmp_path), 1, 2, withdraws_voters=True, endpoints=endpoints)
    assert codes(plan) == []
    assert (plan.end_offset, plan.epoch, plan.voters.ids) == (4, 1_001, (1, 2))
    assert plan.voters.endpoints(1) == endpoints[1]
    assert "nodes 1, 2 again, by force, in epoch 1001." in headline(plan)
    assert "made up" not in text_of(plan)


def test_only_a_change_of_voters_is_withdrawn(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    assert codes(planned(nodes[:1], 1, withdraws_voters=True)) == ["withdraw-nothing"]


def test_all_who_may_have_the_change_are_needed(tmp_path: Path) -> None:
    nodes = gridlocked(tmp_path)
    plan = planned(nodes[:1], 1, withdraws_voters=True)
    assert codes(plan) == ["withdraw-not-given"]
    assert "are not given: 2" in plan.refusals[0].text


def test_a_change_that_a_majority_of_the_new_voters_has(tmp_path: Path) -> None:
    """Node 4 is added; three of four have it, and two of them have lost their votes since."""
    nodes = quorum(tmp_path, *FIRST)
    nodes.append(Node(tmp_path, 4).append(*FIRST).vote(1))
    for node in nodes[:3]:
        node.append(Change(1, FOUR))
        (node.metadata / "quorum-state").write_text("{")
    directories = [read_directory(str(node.path)) for node in nodes]
    judged = judge(directories, ReadOnlyFiles(), is_still=True)
    judged.candidates, judged.verdicts = [], []
    plan = plan_of(judged, Request(keep=THREE, withdraws_voters=True), ReadOnlyFiles())
    assert "withdraw-committed" in codes(plan)


def test_all_who_have_the_change_are_kept_and_a_majority_votes(tmp_path: Path) -> None:
    nodes = gridlocked(tmp_path)
    plan = planned(nodes, 2, withdraws_voters=True)
    assert codes(plan) == ["withdraw-not-kept", "withdraw-not-kept"]
    assert "also in the logs of nodes 1" in plan.refusals[0].text
    assert "no majority" in plan.refusals[1].text


def test_a_quorum_that_elects_withdraws_nothing(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    nodes[0].append(Change(1, (1, 2)))
    assert set(codes(planned(nodes, 1, 2, withdraws_voters=True))) == {"could-elect"}


# ---- --to-dynamic ------------------------------------------------------------------------------


def test_static_voters_become_those_of_the_log(tmp_path: Path) -> None:
    nodes = static(tmp_path)
    assert codes(planned(nodes[:1], 1, to_dynamic=True)) == ["no-address"]
    endpoints = {1: (Endpoint("CONTROLLER", "here", 9093),)}
    plan = planned(nodes[:1], 1, to_dynamic=True, endpoints=endpoints)
    assert codes(plan) == []
    records = [record for _, record in decode_control_records(decode_batch(plan.batch, 0))]
    kinds = [LeaderChangeMessage, KRaftVersionRecord, VotersRecord]
    assert [type(record) for record in records] == kinds
    _, level, voters = records
    assert isinstance(level, KRaftVersionRecord)
    assert isinstance(voters, VotersRecord)
    assert level.k_raft_version == 1
    assert voters.voters[0].voter_directory_id == directory_id(1)
    assert voters.voters[0].k_raft_version_feature.max_supported_version == 1
    text = text_of(plan)
    assert "Take controller.quorum.voters out of the properties" in text
    assert "controller.quorum.bootstrap.servers=here:9093" in text
    assert "upgrade --feature" not in text


def test_dynamic_voters_stay_what_they_are(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    assert codes(planned(nodes[:1], 1, to_dynamic=True)) == ["is-dynamic"]


def test_a_voter_without_a_directory_id_cannot_become_dynamic(tmp_path: Path) -> None:
    node = static(tmp_path)[0]
    meta = node.path / "meta.properties"
    lines = [line for line in meta.read_text().splitlines() if "directory.id" not in line]
    meta.write_text("\n".join(lines) + "\n")
    endpoints = {1: (Endpoint("CONTROLLER", "here", 9093),)}
    plan = planned([node], 1, to_dynamic=True, endpoints=endpoints)
    assert codes(plan) == ["no-directory-id"]


# ---- --pad-to ----------------------------------------------------------------------------------


def test_the_voters_are_behind_the_longer_log(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    plan = planned(nodes[:1], 1, pad_to=2_100)
    assert codes(plan) == []
    headers = list(iterate_headers(plan.batch))
    assert [header.is_control for header in headers] == [True, False, False, False, True]
    assert {header.partition_leader_epoch for header in headers} == {1_001}
    ends = [header.last_offset + 1 for header in headers]
    assert [header.base_offset for header in headers] == [7, *ends[:-1]]
    assert headers[-1].base_offset == 2_100
    last = headers[-1]
    ((_, voters),) = decode_control_records(decode_batch(plan.batch[last.position : last.end], 0))
    assert isinstance(voters, VotersRecord)
    assert "NO_OP_RECORD at each offset from 9 to 2100" in text_of(plan)
    assert len(text_of(plan)) < 10_000
    shown = to_json(plan, ReadOnlyFiles())
    assert bytes.fromhex(shown["batch"]) == plan.batch


@pytest.mark.parametrize("pad_to", [0, 7, 8])
def test_a_log_that_is_long_enough_is_not_padded(tmp_path: Path, pad_to: int) -> None:
    plan = planned(quorum(tmp_path, *FIRST)[:1], 1, pad_to=pad_to)
    assert len(list(iterate_headers(plan.batch))) == 1


def test_padding_has_an_end_and_a_reason(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    assert codes(planned(nodes[:1], 1, pad_to=7 + PADDING_MAX + 1)) == ["no-padding"]
    (tmp_path / "two").mkdir()
    (tmp_path / "static").mkdir()
    gridlock = gridlocked(tmp_path / "two")
    assert codes(planned(gridlock, 2, pad_to=100)) == ["no-padding"]
    assert codes(planned(static(tmp_path / "static")[:1], 1, pad_to=100)) == ["no-padding"]


# ---- refusals of directories -------------------------------------------------------------------


def test_a_directory_that_changes_while_it_is_read(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    judgement = judge([read_directory(str(nodes[0].path))], ReadOnlyFiles(), is_still=False)
    assert codes(plan_of(judgement, Request(keep=(1,)), ReadOnlyFiles())) == ["running"]


def test_what_is_no_directory(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    (tmp_path / "empty").mkdir()
    plan = recover([str(nodes[0].path), str(tmp_path / "empty")], Request(keep=(1,)))
    assert codes(plan) == ["unreadable"]


def test_nobody_says_who_votes(tmp_path: Path) -> None:
    assert codes(planned([Node(tmp_path, 7)], 7)) == ["no-voters-known"]


def test_a_copy_of_a_directory(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    copy = Node(tmp_path, 1, name="copy").append(*FIRST).vote(1)
    assert "same-directory-twice" in codes(planned([nodes[0], copy], 1))


def test_two_directories_of_a_node(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    other = Node(tmp_path, 1, directory=directory_id(91), name="other").append(*FIRST).vote(1)
    assert codes(planned([nodes[0], other], 1)) == ["two-directories-of-a-node"]


def test_a_checkpoint_that_cannot_be_read(tmp_path: Path) -> None:
    node = quorum(tmp_path, *FIRST)[0].checkpoint(4, 1, THREE)
    path = next(iter(node.metadata.glob("*4-*.checkpoint")))
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-5])
    assert codes(planned([node], 1)) == ["checkpoint-damaged"]


def test_a_checkpoint_of_another_history(tmp_path: Path) -> None:
    node = quorum(tmp_path, *FIRST, Lead(2, 2, THREE), Data(2, 2))[0].vote(2)
    node.checkpoint(9, 2, THREE)
    path = next(iter(node.metadata.glob("*9-*.checkpoint")))
    path.rename(path.with_name(path.name.replace("-0000000002", "-0000000001")))
    assert codes(planned([node], 1)) == ["checkpoint-differs"]


def test_two_nodes_that_led_one_epoch(tmp_path: Path) -> None:
    five = (1, 2, 3, 4, 5)
    nodes = quorum(tmp_path, Lead(1, 1, five, new_voters=five, level=1), Data(1), ids=five)
    nodes[1].vote(1, leader=2)
    assert codes(planned(nodes[:2], 1)) == ["two-leaders"]


def test_a_log_to_keep_that_does_not_follow(tmp_path: Path) -> None:
    """The checkpoint that the log begins with goes while the directories are read."""
    nodes = quorum(tmp_path, BEGUN)
    broker = Node(tmp_path, 11).append(*FIRST).checkpoint(6, 1, THREE).start_at(6, 1)
    broker.append(Data(1, 2)).vote(1)
    directories = [read_directory(str(node.path)) for node in (nodes[1], broker)]
    directories[1].checkpoints = []
    judged = judge(directories, ReadOnlyFiles(), is_still=True)
    assert codes(plan_of(judged, Request(keep=(2,)), ReadOnlyFiles())) == ["gap"]


def test_every_refusal_has_a_way_on_a_row_and_a_test() -> None:
    modules = (plan_module, withdrawal)
    sources = [Path(module.__file__ or "").read_text("utf-8") for module in modules]
    used = {code for text in sources for code in re.findall(r'refusal\(\s*"([a-z-]+)"', text)}
    assert used <= set(WAYS_ON)
    page = Path(__file__).resolve().parents[3] / "docs" / "quorum-recover.md"
    rows = page.read_text("utf-8").partition("## Refusals\n")[2].partition("\n## ")[0]
    told = set(re.findall(r"^\| `([a-z][a-z-]+)` \|", rows, re.MULTILINE))
    assert set(WAYS_ON) == told
    tests = [Path(__file__), Path(__file__).with_name("test_recover.py")]
    text = "".join(path.read_text("utf-8") for path in tests)
    assert [code for code in WAYS_ON if f'"{code}"' not in text] == []

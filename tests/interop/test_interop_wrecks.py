"""Wrecked quorums are made, and what judges a cure can tell a good one from a bad one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kraftspec.fastpath.batch_reader import decode_batch
from kraftspec.fastpath.types import Uuid
from kraftspec.generated.kafka import LeaderChangeMessage, VotersRecord
from kraftspec.interop.logs import batches_of
from kraftspec.interop.wrecks import standing
from kraftspec.interop.wrecks.__main__ import main
from kraftspec.interop.wrecks.client import missing
from kraftspec.interop.wrecks.cures import cure
from kraftspec.interop.wrecks.judge import Changes, judge
from kraftspec.interop.wrecks.kept import make
from kraftspec.interop.wrecks.kinds import KINDS
from kraftspec.interop.wrecks.making import copy_wreck
from kraftspec.interop.wrecks.manifest import Manifest, NodeFacts, Truth, read_manifest
from kraftspec.reference.log import LogConfig
from kraftspec.reference.log.control import decode_control_records
from kraftspec.reference.log.files import LocalFiles
from kraftspec.reference.log.metadata_log import MetadataLog

from .manual_cure import force

# ---- on real processes ---------------------------------------------------------------------------


@pytest.mark.kafka
@pytest.mark.soak
@pytest.mark.parametrize("kind", ["leader-kept", "graft"])
def test_the_cure_by_hand_makes_a_quorum_whole(tmp_path: Path, kind: str) -> None:
    home = tmp_path / "copy"
    copy_wreck(make(kind, 0), home)
    assert judge(home, read_manifest(home), force) == []


@pytest.mark.kafka
@pytest.mark.soak
@pytest.mark.parametrize("kind", ["leader-kept", "graft"])
def test_the_command_makes_a_quorum_whole(tmp_path: Path, kind: str) -> None:
    home = tmp_path / "copy"
    copy_wreck(make(kind, 0), home)
    assert judge(home, read_manifest(home), cure) == []


@pytest.mark.kafka
@pytest.mark.soak
def test_a_wreck_that_nobody_cured_is_no_quorum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def do_nothing(home: Path, manifest: Manifest) -> Changes:
        return {}

    monkeypatch.setattr(standing, "LEADER_S", 20.0)
    home = tmp_path / "copy"
    copy_wreck(make("leader-kept", 0), home)
    (problem,) = judge(home, read_manifest(home), do_nothing)
    assert problem.startswith("a controller leads: not so")


# ---- the equipment -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "lines"),
    [
        ({"t": [["a", "b"], ["c"]], "u": [[]]}, []),
        ({"t": [["a", "b", "new"], ["c"]], "u": [[]], "v": []}, []),
        ({"t": [["a"], ["c"]], "u": [[]]}, ["t-0 has 1 of 2 records"]),
        ({"t": [["a", "x"], ["c"]], "u": [[]]}, ["t-0 begins with other records"]),
        ({"t": [["a", "b"]]}, ["t-1 has 0 of 1 records", "topic u is gone"]),
    ],
)
def test_what_is_missing_is_named(found: dict[str, list[list[str]]], lines: list[str]) -> None:
    assert missing({"t": [["a", "b"], ["c"]], "u": [[]]}, found) == lines


def a_manifest(home: Path, *, quorum: str = "initial") -> Manifest:
    """Write the logs of two controllers, the second of them shorter, which is the one to keep."""
    nodes = []
    for id, count in ((3001, 3), (3002, 1)):
        directory = home / f"controller-{id}" / "data-0" / "__cluster_metadata-0"
        directory.mkdir(parents=True)
        log = MetadataLog.open(str(directory), LocalFiles(), LogConfig())
        for at in range(count):
            log.append_records(7, [b"record %d" % at], 1_000)
        log.close()
        (directory / "quorum-state").write_text('{"leaderEpoch":9,"data_version":1}')
        nodes.append(
            NodeFacts(
                id=id, roles="controller", port=9_000 + id, directory_id=str(Uuid.random()),
                log_end=count, state="given", properties={},
            )
        )  # fmt: skip
    truth = Truth(records={}, kept=[], voters=[], leader=3001, epoch=7, high_watermark=1)
    return Manifest(
        kind="graft", seed=1, release="4.4.0", cluster_id="c", quorum=quorum, keep=[3002],
        returning=[], expect="recovered", options=[], nodes=nodes, truth=truth, story=[],
    )  # fmt: skip


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    manifest = a_manifest(tmp_path)
    manifest.write(tmp_path)
    assert read_manifest(tmp_path) == manifest
    assert json.loads((tmp_path / "manifest.json").read_text())["keep"] == [3002]


def test_the_cure_by_hand_copies_the_longer_log_and_starts_an_epoch(tmp_path: Path) -> None:
    manifest = a_manifest(tmp_path)
    directory = tmp_path / "controller-3002/data-0/__cluster_metadata-0"
    with next(directory.glob("*.log")).open("ab") as log:
        log.write(b"torn")
    assert force(tmp_path, manifest) == {}
    *copied, last = batches_of(directory)
    assert [batch.data for batch in copied] == [
        batch.data for batch in batches_of(tmp_path / "controller-3001/data-0/__cluster_metadata-0")
    ]
    assert (last.base_offset, last.last_offset, last.epoch) == (3, 4, 1_009)
    change, voters = (
        record for _, record in decode_control_records(decode_batch(last.data, 0))
    )  # fmt: skip
    assert isinstance(change, LeaderChangeMessage)
    assert isinstance(voters, VotersRecord)
    assert change.leader_id == 3002
    assert [voter.voter_id for voter in voters.voters] == [3002]
    assert json.loads((directory / "quorum-state").read_text())["leaderEpoch"] == 1_009


def test_a_static_quorum_is_cured_by_its_properties(tmp_path: Path) -> None:
    manifest = a_manifest(tmp_path, quorum="static")
    assert force(tmp_path, manifest) == {3002: {"controller.quorum.voters": "3002@127.0.0.1:12002"}}


def test_a_copy_keeps_bytes_and_length(tmp_path: Path) -> None:
    source = tmp_path / "wreck"
    source.mkdir()
    for name, data in {"index": b"ab" + bytes(1 << 20), "empty": b"", "log": b"\0\0a"}.items():
        (source / name).write_bytes(data)
    copy_wreck(source, tmp_path / "copy")
    for path in source.iterdir():
        assert (tmp_path / "copy" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("arguments", [["no-such-kind"], ["graft", "--seeds", "one"]])
def test_the_command_refuses(arguments: list[str]) -> None:
    assert CliRunner().invoke(main, arguments).exit_code == 2


def test_each_kind_says_what_it_is() -> None:
    assert len(KINDS) == 19
    for name, kind in KINDS.items():
        assert kind.__name__ == name.replace("-", "_")
        assert kind.__doc__

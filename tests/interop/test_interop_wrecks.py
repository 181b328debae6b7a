"""Wrecked quorums are made, and what judges a cure can tell a good one from a bad one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kraftspec.conformance.cluster import RELEASE
from kraftspec.fastpath.types import Uuid
from kraftspec.interop.wrecks import standing
from kraftspec.interop.wrecks.__main__ import main
from kraftspec.interop.wrecks.cells import PASSED
from kraftspec.interop.wrecks.client import missing
from kraftspec.interop.wrecks.judge import Changes, judge
from kraftspec.interop.wrecks.kept import make
from kraftspec.interop.wrecks.kinds import KINDS
from kraftspec.interop.wrecks.making import copy_wreck
from kraftspec.interop.wrecks.manifest import Manifest, NodeFacts, Truth, read_manifest
from kraftspec.interop.wrecks.matrix import run_cell

# ---- on real processes ---------------------------------------------------------------------------


@pytest.mark.kafka
@pytest.mark.soak
@pytest.mark.parametrize(
    "kind", ["graft", "gridlock", "static-kept", "broker-only", "lost-voters-return-higher"]
)
def test_the_command_makes_a_quorum_whole(kind: str) -> None:
    cell = run_cell(kind, 0, RELEASE)
    assert (cell.outcome, cell.problems) == (PASSED, [])


@pytest.mark.kafka
@pytest.mark.soak
def test_a_wreck_that_nobody_cured_is_no_quorum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def do_nothing(home: Path, manifest: Manifest) -> Changes:
        return {}

    monkeypatch.setattr(standing, "LEADER_S", 20.0)
    home = tmp_path / "copy"
    copy_wreck(make("graft", 0), home)
    (problem,) = judge(home, read_manifest(home), do_nothing)
    assert problem.startswith("a controller leads: not so")


# ---- the equipment -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("records", "lines"),
    [
        ({"t": [["a", "b"], ["c"]], "u": [[]]}, []),
        ({"t": [["a", "b", "new"], ["c"]], "u": [[]], "v": []}, []),
        ({"t": [["a"], ["c"]], "u": [[]]}, ["t-0 has 1 of 2 records"]),
        ({"t": [["a", "x"], ["c"]], "u": [[]]}, ["t-0 begins with other records"]),
        ({"t": [["a", "b"]]}, ["t-1 has 0 of 1 records", "topic u is gone"]),
    ],
)
def test_what_is_missing_is_named(records: dict[str, list[list[str]]], lines: list[str]) -> None:
    assert missing({"t": [["a", "b"], ["c"]], "u": [[]]}, records) == lines


def a_manifest() -> Manifest:
    node = NodeFacts(
        id=3002, roles="controller", port=12_002, directory_id=str(Uuid.random()), log_end=1,
        state="given", properties={},
    )  # fmt: skip
    truth = Truth(records={}, kept=[], voters=[], leader=3001, epoch=7, high_watermark=1)
    return Manifest(
        kind="graft", seed=1, release="4.4.0", cluster_id="c", quorum="initial", keep=[3002],
        returning=[], expect="recovered", options=[], nodes=[node], truth=truth, story=[],
    )  # fmt: skip


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    manifest = a_manifest()
    manifest.write(tmp_path)
    assert read_manifest(tmp_path) == manifest
    assert json.loads((tmp_path / "manifest.json").read_text())["keep"] == [3002]


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
    assert len(KINDS) == 26
    for name, kind in KINDS.items():
        assert kind.__name__ == name.replace("-", "_")
        assert kind.__doc__

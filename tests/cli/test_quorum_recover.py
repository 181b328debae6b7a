"""``kraftspec quorum recover``: what is printed, what is written, and the exit codes."""

from __future__ import annotations

import errno
import json
import os
import pwd
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.reference.recovery.directories import Data, Lead, Node, quorum

from kraftspec.cli import main
from kraftspec.cli.quorum_recover import _BUMP_MIN
from kraftspec.fastpath.files import LocalFile
from kraftspec.reference.recovery import verify
from kraftspec.reference.recovery.reading import FORCED_EPOCHS

THREE = (1, 2, 3)
FIRST = (Lead(1, 1, THREE, new_voters=THREE, level=1), Data(1, 4))


def run(*arguments: object) -> tuple[int, str]:
    runner = CliRunner(env={"COLUMNS": "300"})
    result = runner.invoke(main, ["quorum", "recover", *map(str, arguments)])
    return result.exit_code, result.output


def files_of(root: Path) -> dict[Path, tuple[bytes, int]]:
    return {
        path: (path.read_bytes(), path.stat().st_mtime_ns)
        for path in root.rglob("*")
        if path.is_file()
    }


def test_a_dry_run_and_then_in_earnest(tmp_path: Path) -> None:
    one = quorum(tmp_path, *FIRST)[0]
    before = files_of(tmp_path)
    code, planned = run("--keep", 1, one.path)
    assert code == 0
    assert "What is written:" in planned
    assert planned.endswith("Nothing was changed: --write --backup DIR does it.\n")
    assert files_of(tmp_path) == before
    code, written = run("--keep", 1, "--write", "--backup", tmp_path / "backup", one.path)
    assert code == 0
    (shown,) = [line for line in planned.splitlines() if "partitionLeaderEpoch: 1001" in line]
    assert shown in written.splitlines()
    assert written.endswith(f"Done. What was there before is in {tmp_path / 'backup'}.\n")
    (candidate,) = verify([str(one.path)]).candidates
    assert candidate.is_electable
    code, again = run("--keep", 1, "--write", "--backup", tmp_path / "another", one.path)
    assert code == 0
    assert "Nothing is left to write" in again


def test_what_is_refused_comes_with_the_way_on(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    before = files_of(tmp_path)
    paths = [node.path for node in nodes]
    code, output = run("--keep", 1, "--write", "--backup", tmp_path / "backup", *paths)
    assert code == 1
    assert "refused: could-elect: node 1 could be elected as it is" in output
    assert "Start the controllers, all of them" in output
    assert output.endswith("Nothing was changed.\n")
    assert {path: files_of(tmp_path)[path] for path in before} == before


def test_what_is_lost_is_told_first(tmp_path: Path) -> None:
    one = quorum(tmp_path, *FIRST)[0]
    broker = Node(tmp_path, 11).append(*FIRST, Data(1, 2)).vote(1)
    code, output = run("--keep", 1, "--source", one.path, one.path, broker.path)
    assert code == 1
    assert output.startswith("Lost:\n  node 11: records from offset 7 to 9\n")
    assert "    offset: 7 to 8: NO_OP_RECORD\n" in output


def test_json(tmp_path: Path) -> None:
    one = quorum(tmp_path, *FIRST)[0]
    code, output = run("--keep", 1, "--json", "--endpoint", "1=CONTROLLER://here:1234", one.path)
    plan = json.loads(output)
    assert code == 0
    assert not plan["written"]
    assert (plan["epoch"], plan["endOffset"]) == (1_001, 7)
    assert len(bytes.fromhex(plan["batch"])) > 100
    assert plan["voters"][0]["endpoints"] == ["CONTROLLER://here:1234"]
    assert len(plan["changes"]) == 2
    code, output = run("--keep", 2, "--json", one.path)
    assert code == 1
    assert [refusal["code"] for refusal in json.loads(output)["refusals"]] == ["not-given"]


def test_addresses_are_printed_as_properties_have_them(tmp_path: Path) -> None:
    one = quorum(tmp_path, *FIRST)[0]
    code, output = run("--keep", 1, "--endpoint", "1=CONTROLLER://[::1]:9093", one.path)
    assert code == 0
    assert "controller.quorum.bootstrap.servers=[::1]:9093\n" in output
    assert "advertised.listeners=CONTROLLER://[::1]:9093\n" in output
    assert "--bootstrap-controller [::1]:9093 describe" in output


def test_static_voters_are_printed_as_properties_have_them(tmp_path: Path) -> None:
    one = Node(tmp_path, 1).append(Lead(1, 1, THREE), Data(1)).vote(1, static=THREE)
    code, output = run("--keep", 1, "--endpoint", "1=CONTROLLER://[::1]:9093", one.path)
    assert code == 0
    assert "controller.quorum.voters=1@[::1]:9093\n" in output


def test_a_source_is_known_however_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = quorum(tmp_path, *FIRST)[0]
    monkeypatch.chdir(tmp_path)
    for source in (f"./{one.path.name}/", one.path, one.path / "__cluster_metadata-0"):
        assert run("--keep", 1, "--source", source, one.path.name)[0] == 0


def test_a_disk_that_fails_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: LocalFile, position: int, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    one = quorum(tmp_path, *FIRST)[0]
    before = files_of(tmp_path)
    monkeypatch.setattr(LocalFile, "write_at", full)
    code, output = run("--keep", 1, "--write", "--backup", tmp_path / "backup", one.path)
    assert code == 3
    assert f"No space left on device: '{tmp_path / 'backup' / 'node-1'}" in output
    assert output.endswith("the same command goes on, with another --backup.\n")
    monkeypatch.undo()
    assert all(files_of(one.path)[path] == before[path] for path in files_of(one.path))
    assert run("--keep", 1, "--write", "--backup", tmp_path / "another", one.path)[0] == 0


def test_files_of_another_user_are_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = quorum(tmp_path, *FIRST)[0]
    arguments = ("--keep", 1, "--write", "--backup", tmp_path / "backup", one.path)
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    code, output = run(*arguments)
    assert code == 2
    assert f"{one.path} belongs to {pwd.getpwuid(owner).pw_name}: run this as that" in output

    def nobody(uid: int) -> None:
        raise KeyError(f"uid not found: {uid}")

    monkeypatch.setattr(pwd, "getpwuid", nobody)  # A container, and the disk of another one.
    code, output = run(*arguments)
    assert code == 2
    assert f"{one.path} belongs to user {owner}: run this as that user" in output


@pytest.mark.parametrize(
    "options",
    [
        ["--keep", "one"],
        ["--keep", "1,1"],
        ["--keep", "1", "--write"],
        ["--keep", "1", "--backup", "new"],
        ["--keep", "1", "--endpoint", "1=here"],
        ["--keep", "1", "--endpoint", "1=CONTROLLER://here:0"],
        ["--keep", "1", "--endpoint", "2=CONTROLLER://here:1"],
        ["--keep", "1", "--epoch-bump", "1"],
        [],
    ],
)
def test_usage(tmp_path: Path, options: list[str]) -> None:
    assert run(*options, tmp_path)[0] == 2


def test_the_copy_is_no_directory_of_a_node(tmp_path: Path) -> None:
    one = quorum(tmp_path, *FIRST)[0]
    code, output = run("--keep", 1, "--write", "--backup", one.path / "backup", one.path)
    assert code == 2
    assert "a node would find it" in output
    code, output = run("--keep", 1, "--write", "--backup", tmp_path, one.path)
    assert code == 2
    assert "is there already" in output


def test_the_least_distance_is_that_of_a_forced_recovery() -> None:
    assert _BUMP_MIN == FORCED_EPOCHS

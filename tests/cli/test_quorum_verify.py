"""``kraftspec quorum verify``: what is printed, and the exit codes."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner
from tests.reference.recovery.directories import Change, Data, Lead, Node, quorum

from kraftspec.cli import main

THREE = (1, 2, 3)
FIRST = (Lead(1, 1, THREE), Data(1, 4))


def run(*nodes: Node, options: tuple[str, ...] = (), columns: int = 100) -> tuple[int, str]:
    paths = [str(node.path) for node in nodes]
    runner = CliRunner(env={"COLUMNS": str(columns)})
    result = runner.invoke(main, ["quorum", "verify", *options, *paths])
    return result.exit_code, result.output


def test_a_healthy_quorum(tmp_path: Path) -> None:
    code, output = run(*quorum(tmp_path, *FIRST))
    assert code == 0
    assert "node 1 could be elected, by nodes 1, 2, 3 (2 needed)" in output
    assert "committed: certainly all before 5 (epoch 1)" in output
    assert "leaders by epoch: 1: 1 from 0" in output
    assert "voters: 1, 2, 3, from the checkpoint 0-0 (nodes 1, 2, 3)" in output
    assert output.endswith("Nothing is wrong.\n")
    assert max(map(len, output.splitlines())) <= 100


def test_records_in_doubt_are_told_in_words(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    nodes[0].append(Data(1))
    code, output = run(*nodes, columns=200)
    assert code == 0
    assert "Not certainly committed, of the log of node 1:" in output
    assert '{"type":"NO_OP_RECORD","version":0,"data":{}}' in output


def test_what_is_wrong_comes_with_what_to_do(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, Lead(1, 1, (1, 2)), Data(1), ids=(1, 2))
    nodes[0].append(Change(1, (2,)))
    code, output = run(*nodes, columns=300)
    assert code == 1
    assert "error: nobody-electable: nobody can be elected: node 2 needs 2 votes" in output
    assert "Restarts do not help." in output


def test_too_few(tmp_path: Path) -> None:
    code, output = run(quorum(tmp_path, *FIRST)[0])
    assert code == 3
    assert "node 1 could be elected only with votes of nodes 2, 3" in output


def test_usage() -> None:
    code, _ = run()
    assert code == 2


def test_json(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    nodes[2].append(Data(1))
    code, output = run(*nodes, options=("--json",))
    report = json.loads(output)
    assert code == report["exitCode"] == 0
    assert set(report) == {
        "still", "directories", "leaders", "partings", "candidates", "votersNotGiven",
        "committed", "verdicts", "exitCode",
    }  # fmt: skip
    assert report["committed"]["certainly"]["endOffset"] == 5
    assert report["committed"]["atMost"] == 5
    assert len(report["committed"]["inDoubt"]) == 1
    [first, *_] = report["directories"]
    assert first["nodeId"] == 1
    assert first["log"]["epochs"] == [{"epoch": 1, "startOffset": 0}]
    assert first["quorumState"]["leaderId"] == 1
    assert [one["nodeId"] for one in report["candidates"] if one["electable"]] == [3, 1, 2]


def test_a_directory_that_is_none(tmp_path: Path) -> None:
    code, output = run(*quorum(tmp_path, *FIRST)[:1], options=(str(tmp_path),), columns=300)
    assert code == 3
    assert "there is no meta.properties" in output
    code, output = run(options=(str(tmp_path / "nowhere"),), columns=300)
    assert (code, "No such file or directory" in output) == (3, True)
    note = tmp_path / "note"
    note.touch()
    code, output = run(options=(str(note),), columns=300)
    assert (code, f"{note} is a file: name log directories" in output) == (3, True)


def test_the_directory_of_the_log_itself(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    inside = tuple(f"{node.path}/__cluster_metadata-0/" for node in nodes)
    assert run(options=inside, columns=300) == run(*nodes, columns=300)

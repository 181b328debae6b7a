"""The matrix of wrecks, and verifications beside live nodes: what is kept, and gone on with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from tests.reference.recovery.directories import Data, Lead, Node, quorum

from kraftspec.interop import verify_live
from kraftspec.interop.wrecks import matrix
from kraftspec.interop.wrecks.cells import FAILED, NOT_MADE, PASSED, Cell, read_cells
from kraftspec.interop.wrecks.cures import cure, is_refused, options_of
from kraftspec.interop.wrecks.kinds import KINDS
from kraftspec.interop.wrecks.manifest import Manifest, NodeFacts, Truth
from kraftspec.interop.wrecks.page import BEGIN, END, PAGE, with_cells
from kraftspec.reference.log.files import LocalFiles

THREE = (1, 2, 3)
FIRST = (Lead(1, 1, THREE, new_voters=THREE, level=1), Data(1, 4))


def a_wreck(
    root: Path, nodes: list[Node], *, expect: str, options: tuple[str, ...] = ()
) -> Manifest:
    facts = []
    for node in nodes:
        roles = "broker" if node.id > 10 else "controller"
        (root / f"{roles}-{node.id}").mkdir()
        node.path.rename(root / f"{roles}-{node.id}" / "data-0")
        facts.append(
            NodeFacts(
                id=node.id, roles=roles, port=9_000 + node.id, directory_id="", log_end=7,
                state="given", properties={},
            )
        )  # fmt: skip
    truth = Truth(records={}, kept=[], voters=[1, 2, 3], leader=1, epoch=1, high_watermark=7)
    return Manifest(
        kind="leader-kept", seed=0, release="4.4.0", cluster_id="c", quorum="initial", keep=[1],
        returning=[], expect=expect, options=list(options), nodes=facts, truth=truth, story=[],
    )  # fmt: skip


# ---- the command on a wreck --------------------------------------------------------------------


@pytest.mark.soak
def test_a_wreck_is_cured_and_what_is_said_is_done(tmp_path: Path) -> None:
    one = quorum(tmp_path, *FIRST)[0]
    broker = Node(tmp_path, 11).append(*FIRST, Data(1, 2)).vote(1)
    options = ("--source", "--accept-loss")
    manifest = a_wreck(tmp_path, [one, broker], expect="recovered", options=options)
    assert cure(tmp_path, manifest) == {}
    # The log of the broker is longer than the one that was kept.
    assert not list((tmp_path / "broker-11" / "data-0").glob("__*"))
    assert list((tmp_path / "broker-11-__cluster_metadata-0").glob("*.log"))


@pytest.mark.soak
def test_a_command_that_is_killed_at_each_change_comes_to_the_same_end(tmp_path: Path) -> None:
    ends = []
    for is_killed in (False, True):
        home = tmp_path / str(is_killed)
        home.mkdir()
        nodes = quorum(home, *FIRST)[:1]
        nodes.append(Node(home, 11).append(*FIRST, Data(1, 2)).vote(1))
        manifest = a_wreck(home, nodes, expect="recovered")
        cure(home, msgspec.structs.replace(manifest, is_killed=is_killed))
        log = home / "controller-1" / "data-0" / "__cluster_metadata-0"
        # All else a node makes anew from the log.
        paths = [*log.glob("*.log"), log / "quorum-state"]
        ends.append({path.name: path.read_bytes() for path in paths})
        assert len(list(home.glob("backup*"))) > (10 if is_killed else 0)
    assert ends[0] == ends[1]


def test_a_refusal_has_its_code_and_changes_nothing(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    manifest = a_wreck(tmp_path, nodes[:2], expect="could-elect")
    assert is_refused(tmp_path, manifest) == []
    other = msgspec.structs.replace(manifest, expect="loss")
    assert is_refused(tmp_path, other) == ["exit code 1, refusals ['could-elect']: not loss"]
    beside = msgspec.structs.replace(other, beside=["could-elect"])  # Alone it will not do.
    assert is_refused(tmp_path, beside) == is_refused(tmp_path, other)


def test_a_refusal_may_come_with_others(tmp_path: Path) -> None:
    one = quorum(tmp_path, *FIRST)[0]
    new = Node(tmp_path, 2, name="new").append(Lead(1, 2, THREE), Data(1, 2)).vote(1)
    manifest = a_wreck(tmp_path, [one, new], expect="two-committed-branches")
    (problem,) = is_refused(tmp_path, manifest)
    assert "'same-epoch-two-contents', 'two-committed-branches', 'two-leaders'" in problem
    others = ["same-epoch-two-contents", "two-leaders"]
    assert is_refused(tmp_path, msgspec.structs.replace(manifest, beside=others)) == []


def test_a_voter_that_runs_is_refused(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    manifest = a_wreck(tmp_path, nodes, expect="in-use")
    with closing(LocalFiles().lock(str(tmp_path / "controller-2" / "data-0" / ".lock"))):
        assert is_refused(tmp_path, manifest, running=(2, 3)) == []


def test_options_name_what_is_known_only_then(tmp_path: Path) -> None:
    options = ("--to-dynamic", "--endpoint", "--source")
    manifest = a_wreck(tmp_path, quorum(tmp_path, *FIRST), expect="recovered", options=options)
    assert options_of(tmp_path, manifest) == [
        "--keep", "1", "--to-dynamic", "--endpoint", "1=CONTROLLER://127.0.0.1:9001",
        "--source", str(tmp_path / "controller-1" / "data-0"),
    ]  # fmt: skip


# ---- the matrix --------------------------------------------------------------------------------


def run(out: Path, *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(matrix.main, ["--out", str(out), *arguments])
    return result.exit_code, result.output


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Cells that ran; those of gridlock fail."""
    cells: list[tuple[str, int]] = []

    def run_cell(kind: str, seed: int, release: str) -> Cell:
        cells.append((kind, seed))
        outcome = FAILED if kind == "gridlock" else PASSED
        problems = ["no leader"] if outcome == FAILED else []
        return Cell(
            kind=kind, seed=seed, release=release, outcome=outcome, expected="recovered",
            problems=problems, seconds=2.0,
        )  # fmt: skip

    monkeypatch.setattr(matrix, "run_cell", run_cell)
    return cells


def test_a_matrix_goes_on_where_it_stopped(tmp_path: Path, ran: list[tuple[str, int]]) -> None:
    assert run(tmp_path, "graft", "--seeds", "0..1")[0] == 0
    assert ran == [("graft", 0), ("graft", 1)]
    code, output = run(tmp_path, "graft", "two-of-five", "--seeds", "0..2", "--show")
    assert code == 3  # Four of six were not run.
    assert output.splitlines()[-2:] == [
        line for line in output.splitlines() if line.startswith(("graft", "two-of-five"))
    ]
    assert run(tmp_path, "graft", "--seeds", "0..2")[0] == 0
    assert ran[2:] == [("graft", 2)]
    assert len(read_cells(tmp_path)) == 3
    assert not list(tmp_path.glob("*.part"))


def test_a_cell_that_failed_is_told_and_run_again_if_asked(
    tmp_path: Path, ran: list[tuple[str, int]]
) -> None:
    code, output = run(tmp_path, "gridlock", "graft", "--seeds", "0..0")
    assert code == 1
    assert "gridlock 0: FAILED, 2 s\n    no leader" in output
    assert run(tmp_path, "gridlock", "graft", "--seeds", "0..0")[0] == 1
    assert len(ran) == 2
    run(tmp_path, "gridlock", "graft", "--seeds", "0..0", "--again")
    assert ran[2:] == [("gridlock", 0)]


def test_a_wreck_that_was_not_made_is_no_failure_of_the_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(kind: str, seed: int, release: str) -> Path:
        raise OSError("no room")

    monkeypatch.setattr(matrix, "make", fail)
    code, output = run(tmp_path, "graft", "--seeds", "0..0")
    assert code == 3
    assert "no room" in output
    (cell,) = read_cells(tmp_path).values()
    assert cell.outcome == NOT_MADE


def test_an_interrupted_matrix_has_its_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(kind: str, seed: int, release: str) -> Cell:
        raise KeyboardInterrupt

    monkeypatch.setattr(matrix, "run_cell", interrupt)
    code, output = run(tmp_path, "graft", "--seeds", "0..0")
    assert (code, read_cells(tmp_path)) == (130, {})
    assert "the same command goes on" in output


@pytest.mark.parametrize("arguments", [["no-such-kind"], ["graft", "--seeds", "one"]])
def test_the_matrix_refuses(tmp_path: Path, arguments: list[str]) -> None:
    assert run(tmp_path, *arguments)[0] == 2


def test_processes_share_the_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells: list[int] = []

    def run_cell(kind: str, seed: int, release: str) -> Cell:
        cells.append(seed)
        if seed == 0:  # Meanwhile another process takes what nobody has, and ends.
            run(tmp_path, "graft", "--seeds", "0..2")
        return Cell(kind=kind, seed=seed, release=release, outcome=PASSED)

    monkeypatch.setattr(matrix, "run_cell", run_cell)
    assert run(tmp_path, "graft", "--seeds", "0..2")[0] == 0
    assert cells == [0, 1, 2]


def test_the_page_says_of_which_seeds_a_kind_is_as_it_must_be() -> None:
    cells = [
        Cell(
            kind="majority-left", seed=seed, release="4.4.0", expected="could-elect",
            outcome=FAILED if seed == 3 else PASSED, seconds=4.0 + seed, begun="2026-11-26",
        )
        for seed in (5, 0, 3, 1)
    ]  # fmt: skip
    page = with_cells(f"before\n{BEGIN}\nold\n{END}\nafter\n", cells)
    assert page.startswith(f"before\n{BEGIN}\n\n3 of 4 wrecks are as they must be")
    assert page.endswith(f"|\n\n{END}\nafter\n")
    assert "old" not in page
    (row,) = (line for line in page.splitlines() if line.startswith("| `majority-left`"))
    assert row.endswith("| refused: `could-elect` | 0-1, 5 | 3 | 6 |")
    with pytest.raises(ValueError, match="nowhere to write to"):
        with_cells("a page", cells)


def test_the_page_has_every_kind() -> None:
    page = Path(__file__).parents[2].joinpath(PAGE).read_text("utf-8")
    rows = page.partition(BEGIN)[2].partition(END)[0].splitlines()
    assert [row.split("`")[1] for row in rows if row.startswith("| `")] == list(KINDS)


# ---- verifications -----------------------------------------------------------------------------


def test_verifications_are_counted_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (node,) = quorum(tmp_path, Lead(1, 1, (1,), new_voters=(1,), level=1), Data(1), ids=(1,))
    begun = []

    @contextmanager
    def standing(directory: Path) -> Iterator[list[str]]:
        begun.append(directory)
        yield [str(node.path)]

    monkeypatch.setattr(verify_live, "quorum_under_load", standing)
    out = tmp_path / "runs.jsonl"

    def verified(runs: int) -> tuple[int, str]:
        arguments = ["--runs", str(runs), "--out", str(out)]
        result = CliRunner().invoke(verify_live.main, arguments)
        return result.exit_code, result.output

    code, output = verified(2)
    assert code == 0
    assert "2 verifications, 0 of them of directories that changed meanwhile" in output
    with out.open("ab") as file:
        file.write(b'{"alarms":["half')  # Killed while it wrote.
    assert verified(3)[0] == 0
    assert [json.loads(line)["certain"] for line in out.read_bytes().splitlines()] == [4] * 3
    assert len(begun) == 2
    assert verified(3)[0] == 0
    assert len(begun) == 2
    node.segment.write_bytes(b"\1" * 100 + node.segment.read_bytes())
    code, output = verified(4)
    assert code == 1
    assert "damaged-log" in output

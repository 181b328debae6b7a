"""`recover --write`: what is on the disk then, also when the process or the machine ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pytest
from tests.reference.recovery.directories import Change, Data, Lead, Node, quorum
from tests.reference.recovery.test_recover import BEGUN, FIRST, THREE

from kraftspec.fastpath.walk import iterate_headers
from kraftspec.reference.log import LogDirectory
from kraftspec.reference.log.memory_files import MemoryFiles
from kraftspec.reference.raft.types import Endpoint
from kraftspec.reference.recovery import Judgement, Severity, verify
from kraftspec.reference.recovery.cure import recover
from kraftspec.reference.recovery.plan import Plan, Request


class Wreck:
    """Directories, and what is asked for."""

    def __init__(self, nodes: Sequence[Node], request: Request) -> None:
        self.nodes = nodes
        self.request = request

    @property
    def paths(self) -> list[str]:
        return [str(node.path) for node in self.nodes]


def one_of_three(root: Path) -> Wreck:
    nodes = quorum(root, *FIRST)
    with nodes[0].segment.open("ab") as file:
        file.write(bytes(7) + b"\7torn")
    return Wreck(nodes[:1], Request(keep=(1,)))


def graft(root: Path) -> Wreck:
    nodes = quorum(root, *FIRST)
    broker = Node(root, 11).append(*FIRST, Data(1, 2), Lead(2, 2, THREE), Data(2, 2)).vote(2)
    return Wreck([nodes[1], broker], Request(keep=(2,)))


def graft_behind_a_checkpoint(root: Path) -> Wreck:
    nodes = quorum(root, BEGUN)
    broker = Node(root, 11).append(*FIRST).checkpoint(6, 1, THREE).start_at(6, 1)
    broker.append(Data(1, 2)).vote(1)
    return Wreck([nodes[1], broker], Request(keep=(2,)))


def cut(root: Path) -> Wreck:
    nodes = quorum(root, *FIRST)
    nodes[0].append(Data(1, 3))
    broker = Node(root, 11).append(*FIRST, Lead(2, 2, THREE, (2, 3)), Data(2)).vote(2)
    return Wreck([nodes[0], broker], Request(keep=(1,), accepts_loss=True))


def two_of_five(root: Path) -> Wreck:
    five = (1, 2, 3, 4, 5)
    nodes = quorum(root, Lead(1, 1, five, new_voters=five, level=1), Data(1, 4), ids=five)
    nodes[3].append(Data(1))
    return Wreck([nodes[1], nodes[3]], Request(keep=(2, 4)))


def gridlock(root: Path) -> Wreck:
    nodes = quorum(root, Lead(1, 1, (1, 2), new_voters=(1, 2), level=1), Data(1), ids=(1, 2))
    nodes[0].append(Change(1, (2,)), Data(1, 2))
    return Wreck(nodes, Request(keep=(2,)))


def shorter_by_choice(root: Path) -> Wreck:
    nodes = quorum(root, *FIRST)
    nodes[0].append(Data(1, 3))
    broker = Node(root, 11).append(*FIRST).vote(1)
    request = Request(keep=(1,), source=str(broker.path), accepts_loss=True)
    return Wreck([nodes[0], broker], request)


def broker_only(root: Path) -> Wreck:
    broker = Node(root, 11).append(*FIRST).vote(1)
    endpoints = {7: (Endpoint("CONTROLLER", "new", 9093),)}
    return Wreck([Node(root, 7), broker], Request(keep=(7,), endpoints=endpoints))


def gridlock_withdrawn(root: Path) -> Wreck:
    wreck = gridlock(root)
    return Wreck(wreck.nodes, Request(keep=(1, 2), withdraws_voters=True))


def gridlock_of_which_the_removed_is_left(root: Path) -> Wreck:
    return Wreck(gridlock(root).nodes[:1], Request(keep=(1,)))


def padded(root: Path) -> Wreck:
    nodes = quorum(root, *FIRST)
    return Wreck(nodes[:1], Request(keep=(1,), pad_to=2_500))


def static_to_dynamic(root: Path) -> Wreck:
    five = (1, 2, 3, 4, 5)
    nodes = [Node(root, id).append(Lead(1, 1, five), Data(1)) for id in five]
    for node in nodes:
        node.vote(1, static=five)
    nodes[1].append(Data(1))
    endpoints = {id: (Endpoint("CONTROLLER", "here", 9_000 + id),) for id in (1, 2)}
    return Wreck(nodes[:2], Request(keep=(1, 2), to_dynamic=True, endpoints=endpoints))


WRECKS = [
    one_of_three, graft, graft_behind_a_checkpoint, cut, two_of_five, shorter_by_choice, gridlock,
    broker_only, gridlock_withdrawn, gridlock_of_which_the_removed_is_left, padded,
    static_to_dynamic,
]  # fmt: skip
by_wreck = pytest.mark.parametrize("make", WRECKS)
Make = Callable[[Path], Wreck]


def electable(judgement: Judgement) -> set[int]:
    return {one.key.id for one in judgement.candidates if one.is_electable}


@by_wreck
def test_who_is_kept_can_be_elected(tmp_path: Path, make: Make) -> None:
    wreck = make(tmp_path)
    untouched = {
        path: path.read_bytes()
        for node in wreck.nodes
        if node.id not in wreck.request.keep
        for path in node.path.rglob("*")
        if path.is_file()
    }
    before = verify(wreck.paths)
    assert electable(before) == set()
    plan = recover(wreck.paths, wreck.request, backup=str(tmp_path / "backup"))
    assert not plan.refusals
    after = verify(wreck.paths)
    assert electable(after) == set(wreck.request.keep)
    assert not [one for one in after.verdicts if one.severity is Severity.ERROR]
    assert ("forced-recovery" in {one.code for one in after.verdicts}) == bool(plan.batch)
    appended = [header.last_offset + 1 for header in iterate_headers(plan.batch)]
    for id_ in wreck.request.keep:
        (number,) = [at for at, one in enumerate(after.directories) if one.node_id == id_]
        # Nothing of the log that is kept is missing, or different.
        assert after.directories[number].log.end_offset == (appended or [plan.end_offset])[-1]
        assert after.comparison.agree_until(number, plan.source) >= plan.end_offset
        if plan.batch:
            assert after.directories[number].epoch == plan.epoch
    assert {path: path.read_bytes() for path in untouched} == untouched


@by_wreck
def test_the_copy_has_what_was_there(tmp_path: Path, make: Make) -> None:
    wreck = make(tmp_path)
    kept = [node for node in wreck.nodes if node.id in wreck.request.keep]
    before = {node.id: contents(node.metadata) for node in kept}
    plan = recover(wreck.paths, wreck.request, backup=str(tmp_path / "backup"))
    for change in plan.changes:
        id_ = plan.directories[change.number].node_id
        copied = tmp_path / "backup" / f"node-{id_}"
        assert contents(copied / "__cluster_metadata-0") == before[id_]
        assert (copied / "meta.properties").exists()


def contents(directory: Path) -> dict[str, bytes]:
    """Return the files; none of a directory that formatting did not make."""
    return {path.name: path.read_bytes() for path in directory.glob("*")}


def test_a_copy_is_not_written_over(tmp_path: Path) -> None:
    wreck = one_of_three(tmp_path)
    (tmp_path / "backup").mkdir()
    before = contents(wreck.nodes[0].metadata)
    with pytest.raises(FileExistsError, match="there already"):
        recover(wreck.paths, wreck.request, backup=str(tmp_path / "backup"))
    assert contents(wreck.nodes[0].metadata) == before


def test_what_is_refused_is_not_written(tmp_path: Path) -> None:
    nodes = quorum(tmp_path, *FIRST)
    before = contents(nodes[0].metadata)
    plan = recover(
        [str(node.path) for node in nodes], Request(keep=(1,)), backup=str(tmp_path / "backup")
    )
    assert plan.refusals
    assert contents(nodes[0].metadata) == before
    assert not (tmp_path / "backup").exists()


def test_the_directory_is_locked_meanwhile(tmp_path: Path) -> None:
    wreck = one_of_three(tmp_path)
    seen = []

    def look(plan: Plan) -> None:
        with pytest.raises(BlockingIOError):
            LogDirectory.open(wreck.paths[0])
        seen.append(plan)

    recover(wreck.paths, wreck.request, backup=str(tmp_path / "backup"), show=look)
    assert seen
    with LogDirectory.open(wreck.paths[0]):
        pass


def test_a_second_time_nothing_is_left_to_do(tmp_path: Path) -> None:
    wreck = two_of_five(tmp_path)
    recover(wreck.paths, wreck.request, backup=str(tmp_path / "backup"))
    again = recover(wreck.paths, wreck.request, backup=str(tmp_path / "another"))
    assert again.is_done
    assert not (tmp_path / "another").exists()


def test_recovered_once_more_after_another_loss(tmp_path: Path) -> None:
    wreck = two_of_five(tmp_path)
    recover(wreck.paths, wreck.request, backup=str(tmp_path / "backup"))
    for node in wreck.nodes:
        node.append(Lead(1_002, 2, (2, 4)), Data(1_002)).vote(1_002)
    plan = recover(wreck.paths[:1], Request(keep=(2,)), backup=str(tmp_path / "second"))
    assert not plan.refusals
    assert plan.epoch == 2_002
    assert electable(verify(wreck.paths[:1])) == {2}


def test_static_voters_keep_their_log(tmp_path: Path) -> None:
    nodes = [Node(tmp_path, id).append(Lead(1, 1, THREE), Data(1)) for id in THREE]
    for node in nodes:
        node.vote(1, static=THREE)
    log = nodes[0].segment.read_bytes()
    paths = [str(nodes[0].path)]
    recover(paths, Request(keep=(1,)), backup=str(tmp_path / "backup"))
    assert nodes[0].segment.read_bytes() == log
    vote = verify(paths).directories[0].vote
    assert vote is not None
    assert (vote.version, vote.epoch, vote.voters) == (0, 1_001, THREE)
    assert recover(paths, Request(keep=(1,))).is_done


# ---- the process, or the machine, ends amid it ---------------------------------------------------


class EndedError(BaseException):
    """Not an OSError: the process is gone."""


def in_memory(wreck: Wreck) -> MemoryFiles:
    """Return a disk with the directories, all of it durable."""
    files = MemoryFiles()
    for node in wreck.nodes:
        parts = node.path.parts[1:]
        for depth in range(1, len(parts) + 1):
            make(files, "/" + "/".join(parts[:depth]))
        make(files, str(node.metadata))
        for path in sorted(node.path.rglob("*")):
            if path.is_file():
                file = files.open(str(path), create=True)
                file.write_at(0, path.read_bytes())
                file.sync()
                files.sync_directory(str(path.parent))
    return files


def make(files: MemoryFiles, path: str) -> None:
    files.make_directory(path)
    files.sync_directory(path.rpartition("/")[0] or "/")


def kept(wreck: Wreck, files: MemoryFiles) -> list[tuple[bytes, ...]]:
    """Return the logs and the votes of who is kept."""
    kept_files = []
    for node in wreck.nodes:
        if node.id in wreck.request.keep:
            names = [name for name in files.names(str(node.metadata)) if name.endswith(".log")]
            names += [name for name in files.names(str(node.metadata)) if name == "quorum-state"]
            kept_files.append(tuple(files.content(f"{node.metadata}/{name}") for name in names))
    return kept_files


def run_until(files: MemoryFiles, wreck: Wreck, number: int, backup: str) -> bool:
    """Recover, and end at the operation of that number; return whether it came so far."""
    left = number

    def count(operation: str, path: str, size: int) -> None:
        nonlocal left
        if operation in ("read", "names"):
            return
        left -= 1
        if left < 0:
            raise EndedError

    files.hook = count
    try:
        recover(wreck.paths, wreck.request, files, backup=backup)
    except EndedError:
        return True
    finally:
        files.hook = None
    return False


@pytest.mark.parametrize("is_power_lost", [False, True])
@by_wreck
def test_a_crash_at_any_operation(tmp_path: Path, make: Make, is_power_lost: bool) -> None:
    wreck = make(tmp_path)
    whole = in_memory(wreck)
    backups = str(tmp_path)
    recover(wreck.paths, wreck.request, whole, backup=f"{backups}/backup")
    wanted = kept(wreck, whole)
    number = 0
    while True:
        files = in_memory(wreck)
        if not run_until(files, wreck, number, f"{backups}/backup"):
            break
        if is_power_lost:
            files.power_loss(Random(number))
        else:
            files.kill()
        judgement = verify(wreck.paths, files)
        seen = {one.code for one in judgement.verdicts if one.severity is Severity.ERROR}
        # Nothing that verify takes for damage, or for two histories; who may lead has everything.
        assert seen <= {"nobody-electable"}, number
        assert electable(judgement) <= set(wreck.request.keep), number
        recover_the_rest(wreck, files, f"{backups}/second", number)
        assert kept(wreck, files) == wanted, number
        number += 1
    assert number > 10


def recover_the_rest(wreck: Wreck, files: MemoryFiles, backup: str, number: int) -> None:
    plan = recover(wreck.paths, wreck.request, files, backup=backup)
    if {one.code for one in plan.refusals} == {"could-elect"}:
        # A graft that is complete: the nodes elect by themselves.
        assert electable(plan.judgement) == set(wreck.request.keep)
    else:
        assert not plan.refusals, (number, plan.refusals)


@by_wreck
def test_a_disk_that_fails_leaves_what_can_be_gone_on_with(tmp_path: Path, make: Make) -> None:
    wreck = make(tmp_path)
    whole = in_memory(wreck)
    backups = str(tmp_path)
    recover(wreck.paths, wreck.request, whole, backup=f"{backups}/backup")
    wanted = kept(wreck, whole)
    for kind in ("write", "sync", "rename", "sync_directory"):
        number = 0
        while True:
            files = in_memory(wreck)
            calls = 0

            def fail(operation: str, path: str, size: int) -> None:
                nonlocal calls
                if operation == kind:  # noqa: B023 - it is called within this turn
                    calls += 1
                    if calls == number + 1:  # noqa: B023 - as above
                        raise OSError(5, "the disk failed", path)

            files.hook = fail
            try:
                recover(wreck.paths, wreck.request, files, backup=f"{backups}/backup")
                break
            except OSError:
                pass
            finally:
                files.hook = None
            files.power_loss(Random(number))
            recover_the_rest(wreck, files, f"{backups}/second", number)
            assert kept(wreck, files) == wanted, (kind, number)
            number += 1
        assert number or kind == "rename", kind  # A graft within an epoch renames nothing.

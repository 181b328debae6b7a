"""The host of the core is the only one, and carries out every effect, in order."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random

import msgspec
import pytest
from tests.reference.storage_disk import NOW_US, in_memory, static

from kraftspec.reference.host import Host, PowerLostError, Wait
from kraftspec.reference.raft import ElectionState
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft.messages import Request
from kraftspec.reference.raft.types import Node

ROOT = Path(__file__).parents[2]
SOURCES = (
    "reference", "simulation", "conformance", "interop", "pipeline", "src/kraftspec/cli",
    "benchmarks", "tests",
)  # fmt: skip
HOST = "reference/host.py"
EFFECTS = "kraftspec.reference.raft.effects"
NAMES = {kind.__name__ for kind in fx.Effect.__subclasses__() if kind.__module__ == EFFECTS}


# ---- there is no other ---------------------------------------------------------------------------


def effects_in(tree: ast.AST, names: dict[str, str]) -> set[str]:
    """Return the effect classes that an expression or a pattern names."""
    named = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if names.get(node.value.id) == EFFECTS:
                named.add(node.attr)
        elif isinstance(node, ast.Name) and names.get(node.id) == f"{EFFECTS}.{node.id}":
            named.add(node.id)
    return named & NAMES


def choices(tree: ast.AST) -> Iterator[tuple[int, list[ast.AST]]]:
    """Yield what code chooses by: the keys of a dict, the cases of a match, a chain of ifs."""
    followers = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            yield node.lineno, [key for key in node.keys if key is not None]
        elif isinstance(node, ast.Match):
            yield node.lineno, [case.pattern for case in node.cases]
        elif isinstance(node, ast.If) and node not in followers:
            tests: list[ast.AST] = []
            chain: ast.stmt = node
            while isinstance(chain, ast.If):
                followers.add(chain)
                tests.append(chain.test)
                if len(chain.orelse) != 1:
                    break
                chain = chain.orelse[0]
            yield node.lineno, tests


def dispatches(source: str) -> list[int]:
    """Return the lines of a module where it chooses between kinds of effects."""
    tree = ast.parse(source)
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for one in node.names:
                names[one.asname or one.name] = f"{node.module}.{one.name}"
    return [
        line
        for line, options in choices(tree)
        if sum(bool(effects_in(option, names)) for option in options) > 1
    ]


@pytest.mark.parametrize(
    "body",
    [
        "how = {fx.Ask: ask, fx.Commit: commit}",
        "match effect:\n  case fx.Ask():\n    ask()\n  case fx.Commit() | fx.Appended():\n    x()",
        "if isinstance(effect, fx.Ask):\n    ask()\nelif type(effect) is fx.Commit:\n    commit()",
    ],
    ids=["a dict", "a match", "a chain of ifs"],
)
def test_a_dispatch_is_recognised(body: str) -> None:
    assert dispatches(f"from kraftspec.reference.raft import effects as fx\n{body}")
    named = body.replace("fx.", "")
    assert dispatches(f"from {EFFECTS} import Appended, Ask, Commit\n{named}")
    assert not dispatches(body)


def test_nothing_else_dispatches_effects() -> None:
    """What carries effects out is a `Host`: else it has an order of durability of its own."""
    dispatchers = {
        str(path.relative_to(ROOT)): lines
        for top in SOURCES
        for path in sorted((ROOT / top).rglob("*.py"))
        if "effects" in (source := path.read_text()) and (lines := dispatches(source))
    }
    assert dispatchers.keys() == {HOST}


# ---- it carries out all of them ------------------------------------------------------------------


class Bare(Host):
    """A host that notes what its disk does, and when."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = in_memory().format()
        self.storage = self.disk.storage
        self.core = self.storage.make_core(self.disk.config, Random(1))
        self.done: list[str] = []

    def clock_us(self) -> int:
        return NOW_US

    def on_ask(self, effect: fx.Ask) -> None:
        self.done.append("ask")

    def on_persist_election(self, effect: fx.PersistElection) -> Wait | None:
        wait = super().on_persist_election(effect)
        self.done.append(f"persist {effect.state.epoch}")
        return wait


class Slow(Bare):
    """One whose disk takes its time, and syncs beside other things."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[fx.FlushLog] = []

    async def on_disk(self, work: object, argument: object) -> None:
        assert callable(work)
        await asyncio.sleep(0)
        work(argument)
        self.done.append("disk")

    def begin_sync(self) -> None:
        self.is_syncing = True
        self.begun.append(self.take_flush())


def persist(epoch: int) -> fx.PersistElection:
    return fx.PersistElection(ElectionState(epoch), 0, (1,))


def ask() -> fx.Ask:
    return fx.Ask(1, Node(2, "node2", 9002), Request())


def test_every_effect_has_a_handler() -> None:
    assert {kind.__name__ for kind in Host.HANDLERS} == NAMES
    assert len(set(Host.HANDLERS.values())) == len(NAMES)


def test_the_power_goes_between_two_effects() -> None:
    host = Bare()
    host.effects_left = 1
    with pytest.raises(PowerLostError):
        host.carry_out([persist(1), persist(2)])
    assert host.done == ["persist 1"]
    assert host.storage.election == ElectionState(1)


def test_nothing_follows_an_effect_that_fails() -> None:
    host = Bare()

    def refuse(effect: fx.PersistElection) -> None:
        raise OSError

    host.storage.persist_election = refuse  # type: ignore[method-assign] # A disk that refuses.
    with pytest.raises(OSError):  # noqa: PT011 - the very one.
        host.carry_out([persist(1), ask()])
    assert host.done == []


def test_an_effect_waits_for_a_slow_disk() -> None:
    host = Slow()
    wait = host.carry_out([persist(1), ask(), persist(2)])
    assert wait is not None
    assert "ask" not in host.done
    asyncio.run(wait)
    assert [one for one in host.done if not one.startswith("persist")] == ["disk", "ask", "disk"]
    assert host.storage.election == ElectionState(2)


def test_flushes_share_a_sync() -> None:
    host = Slow()
    for end in (1, 2, 3):
        host.on_flush_log(fx.FlushLog(end))
    assert host.begun == [fx.FlushLog(1)]
    host.synced(ev.LogFlushed(1))
    assert host.begun == [fx.FlushLog(1), fx.FlushLog(3)]
    host.on_flush_log(fx.FlushLog(4))
    host.synced(ev.LogFlushed(4))  # It began when the log had that much already.
    assert host.begun[2:] == []
    assert host.flush_wanted is None


def test_a_sync_that_a_cut_overtook_is_followed_by_another() -> None:
    host = Slow()
    host.on_flush_log(fx.FlushLog(5, 0))
    host.on_flush_log(fx.FlushLog(3, 1))
    host.synced(ev.LogFlushed(5, 0))
    assert host.begun[1:] == [fx.FlushLog(3, 1)]


def test_a_quick_disk_answers_in_the_same_step() -> None:
    host = Bare()
    host.core = host.storage.make_core(
        # A quorum of itself: it elects itself, and commits the start of its epoch.
        msgspec.structs.replace(host.disk.config, voters=static(1)),
        Random(1),
    )
    host.step(ev.Start())
    assert host.core.high_watermark == host.storage.log.flushed_offset == 1
    assert not host.upcoming

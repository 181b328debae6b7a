"""The compiled simulator: its sources say the same, and its runs are the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kraftspec.reference.profiles.kafka.profile import KafkaProfile
from kraftspec.simulation.catalogue import planted
from kraftspec.simulation.compiled import loading
from kraftspec.simulation.compiled.adapt import INTERPRETED, adapted
from kraftspec.simulation.compiled.build import write_sources
from kraftspec.simulation.compiled.plain import replaced
from kraftspec.simulation.compiled.rewrite import rewrite, structs_of
from kraftspec.simulation.run import simulate

SEEDS = "0..79"
EVENTS = 5_000

HASHES = """
import kraftspec
from kraftspec.reference.profiles.kafka.profile import KafkaProfile
from kraftspec.simulation.run import simulate
hashes = [simulate(seed, KafkaProfile(), events=150).trace_hash for seed in range(2)]
print(kraftspec.__file__, *hashes)
"""
STRUCTS = '''
"""A module."""

from __future__ import annotations

import msgspec


class Base(msgspec.Struct, gc=False):
    """Has two fields."""

    first: int
    second: tuple[int, ...] = (
        1,
    )


class Derived(Base, gc=False, kw_only=True):
    """Has a default before what has none, and a method."""

    third: str = "x"  # As text.
    fourth: int

    def total(self) -> int:
        return self.first + self.fourth


class Frozen(msgspec.Struct, frozen=True):
    """Can be a key."""

    one: int
    two: str | None = None


class Empty(Base, gc=False):
    """Nothing of its own."""


class Lists(msgspec.Struct):
    """Each object has a list of its own."""

    first: int
    items: list[int] = []
'''


def _loaded(text: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "sample"}
    exec(text, names)
    return names


@pytest.fixture(scope="module")
def twins() -> tuple[dict[str, Any], dict[str, Any]]:
    """The classes of a module, and what they are rewritten to."""
    text = rewrite("sample", STRUCTS, structs_of({"sample": STRUCTS}))
    assert "msgspec.Struct" not in text
    plain = "from mypy_extensions import mypyc_attr\nfrom typing import ClassVar\n"
    future = "from __future__ import annotations\n"
    return _loaded(STRUCTS), _loaded(text.replace(future, future + plain))


CALLS: tuple[tuple[str, tuple[Any, ...], dict[str, Any]], ...] = (
    ("Base", (1,), {}),
    ("Base", (1, (2, 3)), {}),
    ("Base", (), {"second": (), "first": 4}),
    ("Derived", (1,), {"fourth": 2}),
    ("Derived", (1, (5,)), {"fourth": 2, "third": "y"}),
    ("Frozen", (1,), {}),
    ("Frozen", (1, "two"), {}),
    ("Empty", (7,), {}),
    ("Lists", (7,), {}),
    ("Lists", (7, [8]), {}),
)


@pytest.mark.parametrize(("name", "arguments", "named"), CALLS)
def test_a_plain_class_is_as_its_struct(
    twins: tuple[dict[str, Any], dict[str, Any]],
    name: str,
    arguments: tuple[Any, ...],
    named: dict[str, Any],
) -> None:
    structs, plain = (twin[name] for twin in twins)
    struct, one = structs(*arguments, **named), plain(*arguments, **named)
    fields = struct.__struct_fields__
    assert one.__struct_fields__ == fields
    assert {each: getattr(one, each) for each in fields} == msgspec.structs.asdict(struct)
    assert repr(one) == repr(struct)
    assert one == plain(*arguments, **named)
    other = replaced(one, first=99) if "first" in fields else replaced(one, one=99)
    assert one != other
    assert type(other) is plain


@pytest.mark.parametrize(
    ("name", "arguments", "named"),
    [
        ("Base", (), {}),
        ("Base", (1, (), 3), {}),
        ("Derived", (1,), {}),
        ("Derived", (1, (), "x", 2), {}),
    ],
)
def test_what_a_struct_refuses_a_plain_class_refuses(
    twins: tuple[dict[str, Any], dict[str, Any]],
    name: str,
    arguments: tuple[Any, ...],
    named: dict[str, Any],
) -> None:
    for twin in twins:
        with pytest.raises(TypeError):
            twin[name](*arguments, **named)


def test_objects_of_two_classes_are_not_equal_and_frozen_ones_are_keys(
    twins: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    for twin in twins:
        assert twin["Base"](1) != twin["Empty"](1)
        assert {twin["Frozen"](1): "x"}[twin["Frozen"](1)] == "x"
        with pytest.raises(TypeError, match="unhashable"):
            hash(twin["Base"](1))


def test_an_empty_default_is_not_shared(twins: tuple[dict[str, Any], dict[str, Any]]) -> None:
    for twin in twins:
        one, other = twin["Lists"](1), twin["Lists"](1)
        one.items.append(2)
        assert other.items == []


@pytest.mark.soak
def test_adapted_sources_run_the_same(tmp_path: Path) -> None:
    """What is compiled is made of today's sources; a rule that fits them no more says so here."""
    paths = write_sources(tmp_path)
    for name in INTERPRETED:
        assert f"kraftspec/{name.replace('.', '/')}" in {path.partition(".")[0] for path in paths}
    for path in paths:
        assert "(msgspec.Struct" not in (tmp_path / path).read_text("utf-8"), path
    done = subprocess.run(
        [sys.executable, "-c", HASHES],
        capture_output=True, check=True, text=True, env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    where, *hashes = done.stdout.split()
    assert Path(where).is_relative_to(tmp_path)
    assert hashes == [simulate(seed, KafkaProfile(), events=150).trace_hash for seed in range(2)]


def test_a_source_that_has_changed_is_named() -> None:
    with pytest.raises(ValueError, match=r"no class Host: see adapt\.py"):
        adapted({"kraftspec.reference.host": "", "kraftspec.simulation.own": ""})


def test_a_bug_is_not_planted_where_it_would_do_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "is_in_use", lambda: True)
    with (
        pytest.raises(RuntimeError, match="a seeded bug needs the readable sources"),
        planted("votes_twice"),
    ):
        pass


@pytest.mark.parametrize("profile", ["kafka", "kip-595"])
def test_a_process_that_has_readable_modules_keeps_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, profile: str
) -> None:
    """Half of each would be neither. And there is no compiled profile but Kafka's."""
    monkeypatch.setattr(loading, "cache_directory", lambda: tmp_path)
    monkeypatch.setattr(loading, "directory", lambda: tmp_path / "simulator-1")
    monkeypatch.setattr(loading, "_modules", lambda home: {KafkaProfile.__module__: None})
    assert not loading.use(profile)
    (tmp_path / "simulator-1").mkdir()
    loading.library(tmp_path / "simulator-1").touch()
    finders = list(sys.meta_path)
    assert not loading.use(profile)
    assert not loading.is_in_use()
    assert sys.meta_path == finders


def _runs(environment: dict[str, str], *options: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "kraftspec", "simulate", "--seeds", SEEDS),
            *("--events", str(EVENTS), "--json", *options),
        ],
        capture_output=True, check=True, text=True, env=environment,
    )  # fmt: skip
    runs: list[dict[str, Any]] = json.loads(done.stdout)
    return runs


TINY = """
import sys
from pathlib import Path
from kraftspec.simulation.compiled.build import compile_into
from kraftspec.simulation.compiled.loading import take
folder = Path(sys.argv[1])
compile_into(folder, ["one.py", "two.py"], profiled=sys.argv[2] == "profiled")
take(folder)
sys.path.append(str(folder))
import two
print(two.four_times(21), type(two.four_times).__name__)
"""


@pytest.mark.soak
@pytest.mark.parametrize("how", ["profiled", "quick"])
def test_modules_are_compiled_with_and_without_a_training_run(tmp_path: Path, how: str) -> None:
    (tmp_path / "one.py").write_text("def twice(number: int) -> int:\n    return number * 2\n")
    (tmp_path / "two.py").write_text(
        "from one import twice\n\n\n"
        "def four_times(number: int) -> int:\n    return twice(twice(number))\n"
    )
    command = [sys.executable, "-c", TINY, str(tmp_path), how]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    assert done.stdout.split() == ["84", "builtin_function_or_method"]


@pytest.mark.soak
def test_both_run_the_same(tmp_path: Path) -> None:
    """Whole results of eighty seeds: every event, and all that was counted."""
    # A quick build, which takes a third of the time. It is not for the user's cache.
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    environment.pop("KRAFTSPEC_READABLE", None)
    command = [sys.executable, "-m", "kraftspec.simulation.compiled", "--quick"]
    subprocess.run(command, check=True, env=environment)
    compiled, readable = _runs(environment), _runs(environment, "--readable")
    assert all(run.pop("compiled") for run in compiled)
    assert not any(run.pop("compiled") for run in readable)
    for run in compiled + readable:
        del run["eventsPerSecond"]
    assert compiled == readable

"""``kraftspec conform strength``: how many wrong plans do the vectors notice?

Every mutant of every pair (``mutants``) is run against that pair's vectors, as a codec under test
would be: by the interpreter, by the native engine, and some by code rendered from them. A mutant
is killed when any vector fails. One that no vector kills is a hole in the suite, or equivalent to
the right plan as far as any bytes can tell.
"""

from __future__ import annotations

import importlib
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import UNSET

from kraftspec.codegen.generate import MessageSet, read_set, specs_sets
from kraftspec.codegen.model import Message as Spec
from kraftspec.codegen.plan import class_name
from kraftspec.conformance.judge import fails
from kraftspec.conformance.mutant_codecs import Subject, engine
from kraftspec.conformance.mutants import mutants
from kraftspec.conformance.raw.vectors import Test, VectorFile
from kraftspec.conformance.vectors import KAFKA, vectors_root
from kraftspec.specs import specs_root

Direction = Literal["encode", "decode"]
DIRECTIONS: tuple[Direction, ...] = ("encode", "decode")
RENDERED_ONE_IN = 20  # Rendering and compiling a codec takes longer than all else together.
CODECS = ("interpreter", "native", "rendered")

Progress = Callable[[str, int, int], None]


@dataclass(slots=True)
class Tally:
    """The mutants of one operator: how many, and how many each kind of vector kills."""

    mutants: int = 0
    killed: int = 0
    by_encode: int = 0
    by_decode: int = 0

    def add(self, other: Tally) -> None:
        """Add the counts of another."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(frozen=True, slots=True, order=True)
class Survivor:
    """A mutant that no vector of its pair kills, and by which codec it was run."""

    operator: str
    spec: str
    message: str
    version: int
    path: str
    detail: str
    codec: str

    def __str__(self) -> str:
        what = f"{self.operator} {self.detail}".strip()
        return f"{self.spec}/{self.message} v{self.version} {self.path or '(message)'}: {what}"


@dataclass(slots=True)
class Strength:
    """What a run found.

    ``runs`` counts mutants by the codec that ran them; ``operators`` are those of the interpreter.
    """

    pairs: int = 0
    seconds: float = 0.0
    operators: dict[str, Tally] = field(default_factory=dict)
    runs: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CODECS, 0))
    survivors: list[Survivor] = field(default_factory=list)

    @property
    def total(self) -> Tally:
        """All operators together."""
        total = Tally()
        for tally in self.operators.values():
            total.add(tally)
        return total

    @property
    def percent(self) -> float:
        """How many of a hundred mutants were killed; 0 where there were none."""
        total = self.total
        return 100 * total.killed / total.mutants if total.mutants else 0.0

    def add(self, other: Strength) -> None:
        """Add what was found of other messages."""
        self.pairs += other.pairs
        for operator, tally in other.operators.items():
            self.operators.setdefault(operator, Tally()).add(tally)
        for codec, count in other.runs.items():
            self.runs[codec] += count
        self.survivors += other.survivors

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return {
            "pairs": self.pairs,
            "seconds": round(self.seconds, 1),
            "mutants": self.total.mutants,
            "killed": self.total.killed,
            "percent": round(self.percent, 2),
            "runs": self.runs,
            "operators": {
                operator: {
                    "mutants": tally.mutants, "killed": tally.killed,
                    "killedByEncode": tally.by_encode, "killedByDecode": tally.by_decode,
                }
                for operator, tally in sorted(self.operators.items())
            },
            "survivors": [msgspec.to_builtins(survivor) for survivor in sorted(self.survivors)],
        }  # fmt: skip


def strength(
    *,
    name: str = "",
    root: Path | None = None,
    one_in: int = 1,
    seed: int = 0,
    jobs: int = 1,
    progress: Progress | None = None,
) -> Strength:
    """Run the mutants of all messages whose ``SET/MESSAGE`` contains ``name``.

    ``one_in`` takes a sample, another one for each ``seed``. ``root`` is the vectors' directory.
    """
    started = time.perf_counter()
    found = Strength()
    chosen = [
        (message_set, spec)
        for message_set in specs_sets(specs_root(), Path(), "kraftspec.generated")
        for spec in read_set(message_set).values()
        if name.lower() in f"{message_set.name}/{spec.name}".lower()
        and not spec.valid_versions.empty
    ]
    work = partial(_of_message, root=root or vectors_root(), one_in=one_in, seed=seed)
    with ProcessPoolExecutor(jobs) as pool:
        parts: Iterable[Strength] = (
            map(work, chosen) if jobs == 1 else pool.map(work, chosen, chunksize=4)
        )
        for number, (part, (message_set, spec)) in enumerate(zip(parts, chosen, strict=True), 1):
            found.add(part)
            if progress is not None:
                progress(f"{message_set.name}/{spec.name}", number, len(chosen))
    found.seconds = time.perf_counter() - started
    return found


def _of_message(chosen: tuple[MessageSet, Spec], root: Path, one_in: int, seed: int) -> Strength:
    message_set, spec = chosen
    package = importlib.import_module(message_set.package)
    cls = getattr(package, class_name(spec.name))
    found = Strength()
    tests = _tests(root, message_set.name, spec.name)
    for version in spec.valid_versions:
        found.pairs += 1
        vectors = Vectors(tests.get(version, []))
        for number, mutant in enumerate(mutants(spec, version)):
            text = f"{seed}/{message_set.name}/{spec.name}/{version}/{number}"
            draw = zlib.crc32(text.encode())
            if draw % one_in:
                continue
            subject = Subject(spec, cls, version, mutant)
            render = draw // one_in % RENDERED_ONE_IN == 0
            for codec in _run(subject, vectors, found, render):
                found.survivors.append(
                    Survivor(
                        mutant.operator, message_set.name, spec.name, version, mutant.path,
                        mutant.detail, codec,
                    )
                )  # fmt: skip
    return found


def _tests(root: Path, spec: str, message: str) -> dict[int, list[Test]]:
    """Read the tests of a message, whatever directories they are in, by version."""
    found: dict[int, list[Test]] = {}
    for path in sorted(root.glob(f"*/{message}.json")):
        file = msgspec.json.decode(path.read_bytes(), type=VectorFile)
        if (KAFKA if file.spec is UNSET else file.spec) == spec:
            for test in file.tests:
                found.setdefault(test.version, []).append(test)
    return found


class Vectors:
    """The tests of one pair, those that killed last first."""

    def __init__(self, tests: Iterable[Test]) -> None:
        # What sets every field kills most.
        ordered = sorted(tests, key=lambda test: test.family not in ("populated", "multi-element"))
        self.tests: dict[Direction, list[tuple[Test, Any]]] = {
            "encode": [(t, t.value) for t in ordered if t.op in ("roundtrip", "encode")],
            "decode": [
                (t, bytes.fromhex(str(t.hex))) for t in ordered if t.op in ("roundtrip", "decode")
            ],
        }

    def kill(self, direction: Direction, answer: Callable[[Any], dict[str, Any]]) -> bool:
        """Ask until a test fails; return whether one did."""
        tests = self.tests[direction]
        for at, (test, asked) in enumerate(tests):
            if fails(test, direction, answer(asked)):
                tests.insert(0, tests.pop(at))
                return True
        return False


def _run(subject: Subject, vectors: Vectors, found: Strength, render: bool) -> Iterator[str]:
    """Run a mutant by each codec; yield the names of those that it survived in."""
    found.runs["interpreter"] += 1
    tally = found.operators.setdefault(subject.mutant.operator, Tally())
    tally.mutants += 1
    by_encode = vectors.kill("encode", subject.encode)
    by_decode = vectors.kill("decode", subject.decode)
    tally.by_encode += by_encode
    tally.by_decode += by_decode
    tally.killed += by_encode or by_decode
    if not (by_encode or by_decode):
        yield "interpreter"
    if engine is not None:
        with subject.compiled() as native:
            if native is not None:
                found.runs["native"] += 1
                if not _killed(vectors, native):
                    yield "native"
    rendered = subject.rendered() if render else None
    if rendered is not None:
        found.runs["rendered"] += 1
        if not _killed(vectors, rendered):
            yield "rendered"


def _killed(vectors: Vectors, codec: Any) -> bool:
    return vectors.kill("encode", codec.encode) or vectors.kill("decode", codec.decode)

"""``kraftspec conform strength``: how many mutants do the vectors kill?

Every mutant of every pair (``mutants``) runs against the vectors of the pair, as a codec under test
would: in the interpreter, in the native engine, and some as rendered code. A mutant is killed if
any vector fails. A survivor is a gap in the vectors, or it is equivalent to the right plan.
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
from typing import Any

import msgspec

from kraftspec.codegen.generate import MessageSet, read_set, specs_sets
from kraftspec.codegen.model import Message as Spec
from kraftspec.codegen.plan import class_name
from kraftspec.conformance.runner.cases import Case, Direction, RawFile, directions
from kraftspec.conformance.runner.judge import fails
from kraftspec.conformance.strength.codecs import Subject, engine
from kraftspec.conformance.strength.mutants import mutants
from kraftspec.conformance.vectors import vectors_root
from kraftspec.specs import specs_root

RENDERED_ONE_IN = 20  # Rendering and compiling a codec takes longer than everything else.
CODECS = ("interpreter", "native", "rendered")

Progress = Callable[[str, int, int], None]


@dataclass(slots=True)
class Tally:
    """The mutants of one operator: their number, and how many each kind of vector kills."""

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
    """A mutant that no vector of its pair kills, and the codec that ran it."""

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
    """The results of a run.

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
        """The percentage of killed mutants; 0 if there are no mutants."""
        total = self.total
        return 100 * total.killed / total.mutants if total.mutants else 0.0

    def add(self, other: Strength) -> None:
        """Add the results of other messages."""
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

    ``one_in`` takes a sample, which depends on ``seed``. ``root`` is the vectors' directory.
    """
    started = time.perf_counter()
    result = Strength()
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
            result.add(part)
            if progress is not None:
                progress(f"{message_set.name}/{spec.name}", number, len(chosen))
    result.seconds = time.perf_counter() - started
    return result


def _of_message(chosen: tuple[MessageSet, Spec], root: Path, one_in: int, seed: int) -> Strength:
    message_set, spec = chosen
    package = importlib.import_module(message_set.package)
    cls = getattr(package, class_name(spec.name))
    result = Strength()
    cases = _cases(root, message_set.name, spec.name)
    for version in spec.valid_versions:
        result.pairs += 1
        vectors = Vectors(cases.get(version, []))
        for number, mutant in enumerate(mutants(spec, version)):
            text = f"{seed}/{message_set.name}/{spec.name}/{version}/{number}"
            draw = zlib.crc32(text.encode())
            if draw % one_in:
                continue
            subject = Subject(spec, cls, version, mutant)
            render = draw // one_in % RENDERED_ONE_IN == 0
            for codec in _run(subject, vectors, result, render):
                result.survivors.append(
                    Survivor(
                        mutant.operator, message_set.name, spec.name, version, mutant.path,
                        mutant.detail, codec,
                    )
                )  # fmt: skip
    return result


def _cases(root: Path, spec: str, message: str) -> dict[int, list[Case]]:
    """Read the cases of a message by version, from all directories."""
    cases: dict[int, list[Case]] = {}
    for path in sorted(root.glob(f"*/{message}.json")):
        file = msgspec.json.decode(path.read_bytes(), type=RawFile)
        if file.spec == spec:
            for test in file.tests:
                cases.setdefault(test.version, []).extend(
                    Case(spec, message, test, direction) for direction in directions(test)
                )
    return cases


class Vectors:
    """The cases of one pair. Those that killed a mutant move to the front."""

    def __init__(self, cases: Iterable[Case]) -> None:
        self.cases: dict[Direction, list[tuple[Case, Any]]] = {"encode": [], "decode": []}
        # Vectors that set every field kill most mutants.
        for case in sorted(
            cases, key=lambda case: case.test.family not in ("populated", "multi-element")
        ):
            payload = (
                bytes.fromhex(str(case.test.hex))
                if case.direction == "decode"
                else msgspec.json.decode(bytes(case.test.value or b"null"))
            )
            self.cases[case.direction].append((case, payload))

    def kill(self, direction: Direction, answer: Callable[[Any], dict[str, Any]]) -> bool:
        """Run cases until one fails; return whether one failed."""
        cases = self.cases[direction]
        for at, (case, payload) in enumerate(cases):
            if fails(case, answer(payload)):
                cases.insert(0, cases.pop(at))
                return True
        return False


def _run(subject: Subject, vectors: Vectors, result: Strength, render: bool) -> Iterator[str]:
    """Run a mutant in each codec; yield the names of the codecs in which it survived."""
    result.runs["interpreter"] += 1
    tally = result.operators.setdefault(subject.mutant.operator, Tally())
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
                result.runs["native"] += 1
                if not _killed(vectors, native):
                    yield "native"
    rendered = subject.rendered() if render else None
    if rendered is not None:
        result.runs["rendered"] += 1
        if not _killed(vectors, rendered):
            yield "rendered"


def _killed(vectors: Vectors, codec: Any) -> bool:
    return vectors.kill("encode", codec.encode) or vectors.kill("decode", codec.decode)

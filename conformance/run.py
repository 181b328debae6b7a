"""``kraftspec conform run``: an adapter's answers held against the golden vectors."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kraftspec.conformance.harness import Adapter, Hello, Request, decode_request, encode_request
from kraftspec.conformance.raw.vectors import Test, VectorFile
from kraftspec.conformance.vectors import read_vectors, vectors_root
from kraftspec.specs import specs_root

SCHEMA_VERSION = 1
KAFKA = "kafka"
_OURS = "from kraftspec.cli import main; main()"
BYTES_SHOWN = 16  # around the first byte that differs

Progress = Callable[[str, int, int], None]
Expected = tuple[str, VectorFile, Test, str]


@dataclass(slots=True)
class Counts:
    """How many tests went which way. A roundtrip test counts in each direction."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def add(self, outcome: str) -> None:
        """Count one outcome: passed, failed or skipped."""
        setattr(self, outcome, getattr(self, outcome) + 1)

    def to_json(self) -> dict[str, int]:
        """Return the counts as JSON."""
        return {"passed": self.passed, "failed": self.failed, "skipped": self.skipped}


@dataclass(frozen=True, slots=True)
class Failure:
    """One test that went wrong in one direction."""

    spec: str
    message: str
    version: int
    id: str
    direction: str
    detail: str

    def __str__(self) -> str:
        return (
            f"{self.spec}/{self.message} v{self.version} {self.direction} {self.id}: {self.detail}"
        )


@dataclass(slots=True)
class Results:
    """What an adapter did with the vectors; ``to_json`` is results.schema.json."""

    adapter: Hello
    seconds: float = 0.0
    counts: Counts = field(default_factory=Counts)
    messages: dict[str, Counts] = field(default_factory=dict)
    pairs: set[tuple[str, str, int]] = field(default_factory=set)
    tests: int = 0
    failures: list[Failure] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0: all as expected; 1: a test failed."""
        return 1 if self.failures else 0

    def to_json(self) -> dict[str, Any]:
        """Return the results as JSON."""
        return {
            "schemaVersion": SCHEMA_VERSION,
            "adapter": {
                "name": self.adapter.name,
                "language": self.adapter.language,
                "version": self.adapter.version,
            },
            "seconds": round(self.seconds, 3),
            "counts": self.counts.to_json(),
            "messages": {name: counts.to_json() for name, counts in self.messages.items()},
            "failures": [
                {"spec": entry.spec, "message": entry.message, "version": entry.version,
                 "id": entry.id, "direction": entry.direction, "detail": entry.detail}
                for entry in self.failures
            ],
        }  # fmt: skip


def adapter_named(name: str) -> Adapter:
    """Return one of the project's adapters: kraftspec, kraftspec-python or kafka (Java)."""
    if name == KAFKA:
        from kraftspec.conformance.java import KafkaAdapter  # noqa: PLC0415 - builds with Maven

        return KafkaAdapter()
    options = {"kraftspec": [], "kraftspec-python": ["--codec", "python"]}
    if name not in options:
        raise ValueError(f"there is no adapter {name!r}: {', '.join([*options, KAFKA])}")
    return Adapter([sys.executable, "-c", _OURS, "adapter", *options[name]])


def adapter_exec(command: str) -> Adapter:
    """Return an adapter for a command line."""
    return Adapter(shlex.split(command))


def run(
    adapter: Adapter,
    *,
    name: str = "",
    root: Path | None = None,
    progress: Progress | None = None,
) -> Results:
    """Put every test of the vectors whose path contains ``name`` to an adapter.

    Raises ``AdapterError`` when the harness fails rather than a test.
    """
    started = time.perf_counter()
    files = list(read_vectors(root or vectors_root(), name))
    with adapter:
        results = Results(adapter.hello())
        served = _served(adapter, results.adapter, {spec for spec, _ in files})
        expected: deque[Expected] = deque()
        requests = _requests(files, served, expected, results, progress)
        for reply in adapter.run(requests):
            _judge(expected.popleft(), reply, results)
    results.seconds = time.perf_counter() - started
    return results


def _served(adapter: Adapter, hello: Hello, sets: Iterable[str]) -> dict[str, set[str]]:
    """Return the messages of each set that the adapter says it has."""
    served = {KAFKA: set(hello.messages)} | {
        name: set(messages) for name, messages in hello.sets.items()
    }
    load = getattr(adapter, "load", None)
    if load is not None:
        for name in sorted(set(sets) - set(served)):
            served[name] = set(load(name, directory=specs_root() / name))
    return served


def _requests(
    files: Sequence[tuple[str, VectorFile]],
    served: dict[str, set[str]],
    expected: deque[Expected],
    results: Results,
    progress: Progress | None,
) -> Iterator[Request]:
    for number, (spec, file) in enumerate(files, 1):
        if progress is not None:
            progress(f"{spec}/{file.message}", number, len(files))
        counts = results.messages.setdefault(_key(spec, file.message), Counts())
        set_name = None if spec == KAFKA else spec
        for test in file.tests:
            results.tests += 1
            results.pairs.add((spec, file.message, test.version))
            for direction in ("encode", "decode"):
                if test.op not in ("roundtrip", direction):
                    continue
                if file.message not in served.get(spec, ()):
                    counts.add("skipped")
                    results.counts.add("skipped")
                    continue
                expected.append((spec, file, test, direction))
                arguments = (f"{test.id}-{direction[0]}", file.message, test.version)
                if direction == "encode":
                    assert isinstance(test.value, dict)
                    yield encode_request(*arguments, test.value, set_name)
                else:
                    yield decode_request(*arguments, str(test.hex), set_name)


def _key(spec: str, message: str) -> str:
    return message if spec == KAFKA else f"{spec}/{message}"


def _judge(expected: Expected, reply: dict[str, Any], results: Results) -> None:
    spec, file, test, direction = expected
    outcome, detail = _verdict(test, direction, reply)
    results.counts.add(outcome)
    results.messages[_key(spec, file.message)].add(outcome)
    if outcome == "failed":
        results.failures.append(
            Failure(spec, file.message, test.version, test.id, direction, detail)
        )


def _verdict(test: Test, direction: str, reply: dict[str, Any]) -> tuple[str, str]:
    if "skipped" in reply:
        return "skipped", ""
    error = reply.get("error")
    if test.result == "invalid":
        return ("passed", "") if error else ("failed", "accepted what must be refused")
    if error:
        if test.result == "acceptable":
            return "passed", ""
        where = "".join(
            f" {word} {error[key]}"
            for key, word in (("path", "at"), ("offset", "byte"))
            if error.get(key) not in (None, "")
        )
        return "failed", f"refused{where}: {error.get('detail', '')} [{error.get('class')}]"
    if direction == "encode":
        difference = hex_difference(str(test.hex), reply.get("hex"))
    elif isinstance(test.value, dict):
        difference = value_difference(test.value, reply.get("value"))
    else:  # Bytes that must be read, whatever is made of them.
        difference = ""
    return ("failed", difference) if difference else ("passed", "")


def hex_difference(wanted: str, got: object) -> str:
    """Say where two byte strings in hex part; empty when they do not."""
    if got == wanted:
        return ""
    if not isinstance(got, str):
        return f"no hex in the reply, but {got!r:.80}"
    at = next(
        (index for index, pair in enumerate(zip(wanted, got, strict=False)) if pair[0] != pair[1]),
        min(len(wanted), len(got)),
    )
    byte = at // 2
    start, stop = 2 * max(0, byte - BYTES_SHOWN // 2), 2 * (byte + BYTES_SHOWN // 2)
    return (
        f"bytes differ from byte {byte} on ({len(wanted) // 2} wanted, {len(got) // 2} given): "
        f"…{wanted[start:stop]}… wanted, …{got[start:stop]}… given"
    )


def value_difference(wanted: Any, got: Any, path: str = "") -> str:
    """Say where two JSON values part; empty when they do not. 1, 1.0 and true are different."""
    if isinstance(wanted, dict) and isinstance(got, dict):
        for key in {**wanted, **got}:
            inside = f"{path}.{key}" if path else key
            if key not in got or key not in wanted:
                return f"{inside}: {'missing' if key not in got else 'not wanted'}"
            if difference := value_difference(wanted[key], got[key], inside):
                return difference
        return ""
    if isinstance(wanted, list) and isinstance(got, list) and len(wanted) == len(got):
        for at, pair in enumerate(zip(wanted, got, strict=True)):
            if difference := value_difference(*pair, f"{path}[{at}]"):
                return difference
        return ""
    if json.dumps(wanted) == json.dumps(got):
        return ""
    return f"{path}: {json.dumps(wanted)[:80]} wanted, {json.dumps(got)[:80]} given"

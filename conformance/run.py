"""``kraftspec conform run``: an adapter's answers held against the golden vectors."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import UNSET

from kraftspec.conformance.harness import Adapter, Request, decode_request, encode_request
from kraftspec.conformance.raw.harness import HelloReply
from kraftspec.conformance.raw.results import (
    Counts,
    Failure,
    ResultAdapter,
    Results,
    Selection,
    Skip,
)
from kraftspec.conformance.raw.vectors import Test, VectorFile
from kraftspec.conformance.vectors import read_vectors, vectors_root
from kraftspec.specs import specs_root

SCHEMA_VERSION: Literal[1] = 1
KAFKA = "kafka"
_OURS = "from kraftspec.cli import main; main()"
BYTES_SHOWN = 16  # around the first byte that differs

Progress = Callable[[str, int, int], None]
Direction = Literal["encode", "decode"]
Outcome = Literal["passed", "failed", "skipped"]
Expected = tuple[str, VectorFile, Test, Direction]
_DIRECTIONS: tuple[Direction, ...] = ("encode", "decode")


def describe(failure: Failure) -> str:
    """Say in a line which test went wrong in which direction, and how."""
    return (
        f"{failure.spec}/{failure.message} v{failure.version} {failure.direction} {failure.id}: "
        f"{failure.detail}"
    )


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
    """Return an adapter for a command line; ``ValueError`` for one that is none."""
    words = shlex.split(command)
    if not words:
        raise ValueError("there is no command in it")
    return Adapter(words)


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
        hello = adapter.hello()
        results = Results(
            schema_version=SCHEMA_VERSION,
            adapter=ResultAdapter(name=hello.name, language=hello.language, version=hello.version),
            seconds=0.0,
            pairs=sum(len({test.version for test in file.tests}) for _, file in files),
            tests=sum(len(file.tests) for _, file in files),
            counts=_no_counts(),
            selection=Selection(),
            messages={},
            failures=[],
            unexpected_passes=[],
            known=[],
            skips=[],
            restarts=0,
        )
        served = _served(adapter, hello, {spec for spec, _ in files})
        expected: deque[Expected] = deque()
        requests = _requests(files, served, expected, results, progress)
        for reply in adapter.run(requests):
            _judge(expected.popleft(), reply, results)
    results.seconds = round(time.perf_counter() - started, 3)
    return results


def _no_counts() -> Counts:
    return Counts(passed=0, failed=0, skipped=0, known_failures=0, unexpected_passes=0)


def _count(results: Results, key: str, version: int, outcome: Outcome) -> None:
    """Count one test in one direction."""
    of_version = results.messages[key].setdefault(str(version), _no_counts())
    for counts in (results.counts, of_version):
        setattr(counts, outcome, getattr(counts, outcome) + 1)


def _skip(results: Results, reason: str) -> None:
    for skip in results.skips:
        if skip.reason == reason:
            skip.count += 1
            return
    results.skips.append(Skip(reason=reason, count=1))


def _served(adapter: Adapter, hello: HelloReply, sets: Iterable[str]) -> dict[str, set[str]]:
    """Return the messages of each set that the adapter says it has."""
    others = {} if hello.sets is UNSET else hello.sets
    served = {name: set(messages) for name, messages in others.items()}
    served[KAFKA] = set(hello.messages)
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
        key = _key(spec, file.message)
        results.messages[key] = {}
        set_name = None if spec == KAFKA else spec
        for test in file.tests:
            for direction in _DIRECTIONS:
                if test.op not in ("roundtrip", direction):
                    continue
                if file.message not in served.get(spec, ()):
                    _count(results, key, test.version, "skipped")
                    _skip(results, "the adapter does not have this message")
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
    _count(results, _key(spec, file.message), test.version, outcome)
    if outcome == "skipped":
        _skip(results, str(reply["skipped"].get("reason")))
    if outcome == "failed":
        results.failures.append(
            Failure(
                spec=spec,
                message=file.message,
                version=test.version,
                id=test.id,
                direction=direction,
                family=test.family,
                flags=[] if test.flags is UNSET else list(test.flags),
                kind="wrong",
                detail=detail,
                reproduce=f"kraftspec conform run --filter {spec}/{file.message}",
            )
        )


def _verdict(test: Test, direction: Direction, reply: dict[str, Any]) -> tuple[Outcome, str]:
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

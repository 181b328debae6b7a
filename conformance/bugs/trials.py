"""Run the vectors of a bug against releases with the bug, and against releases without it.

``verify`` fetches each release from its own registry, builds a small program around it (a folder
of ``evidence``, or of ``adapters``), and has it answer the vectors as any adapter would. The
verdicts are recorded in ``evidence.json`` (``schemas/bug-evidence.schema.json``), from which the
table of docs/bugs.md is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import UNSET

from kraftspec.conformance.adapters.harness import (
    AdapterError,
    Reply,
    Request,
    decode_request,
    encode_request,
)
from kraftspec.conformance.adapters.registry import AdapterSpec, find
from kraftspec.conformance.bugs import bugs
from kraftspec.conformance.raw.bug_evidence import EvidenceFile, Verdict
from kraftspec.conformance.raw.bugs import Bug, BugTest, Trial
from kraftspec.conformance.raw.vectors import Test, VectorFile
from kraftspec.conformance.runner import cases as runner
from kraftspec.conformance.runner.judge import fails, hex_difference, value_difference
from kraftspec.conformance.vectors import KAFKA, vectors_root

SCHEMA_VERSION: Final = 1
DETAIL_CHARS_MAX: Final = 160

Progress = Callable[[str, int, int], None]
_PACKAGE: Final = Path(str(files("kraftspec.conformance"))).resolve()


@dataclass(frozen=True, slots=True)
class Case:
    """One vector, for one release."""

    bug: Bug
    trial: Trial
    is_buggy: bool
    case: BugTest
    test: Test

    @property
    def judged(self) -> runner.Case:
        """The vector as the runner judges it."""
        test = msgspec.json.decode(msgspec.json.encode(self.test), type=runner.RawTest)
        return runner.Case(KAFKA, self.case.message, test, self.trial.direction)

    @property
    def release(self) -> str:
        """The adapter and its release, as ``find`` takes them."""
        release = self.trial.buggy if self.is_buggy else self.trial.fixed
        return f"{self.trial.adapter}@{release}"


def evidence_path() -> Path:
    """Return the file of recorded verdicts."""
    return _PACKAGE / "bugs" / "evidence.json"


def recorded() -> list[Verdict]:
    """Return the recorded verdicts."""
    return msgspec.json.decode(evidence_path().read_bytes(), type=EvidenceFile).verdicts


def record(verdicts: Iterable[Verdict]) -> bool:
    """Write verdicts as the recorded ones; return whether the file changed."""
    lines = ",\n".join(f"  {msgspec.json.encode(verdict).decode()}" for verdict in verdicts)
    text = f'{{"schemaVersion": {SCHEMA_VERSION}, "verdicts": [\n{lines}\n]}}\n'
    path = evidence_path()
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    path.write_text(text, encoding="utf-8")
    return True


def vector_of(bug: Bug, case: BugTest, root: Path | None = None) -> Test:
    """Return the vector made of one of a bug's tests.

    Raises ``ValueError`` if there is none: the vectors are older than ``bugs.json``.
    """
    for test in _tests((root or vectors_root()) / KAFKA / f"{case.message}.json"):
        if test.flags is UNSET or bug.flag not in test.flags or test.version != case.version:
            continue
        is_same = test.hex == case.hex if case.value is UNSET else test.value == case.value
        if is_same:
            return test
    raise ValueError(
        f"{bug.flag}: no vector of {case.message} v{case.version} ({case.comment}); make them "
        f"again: kraftspec conform make --filter {case.message}"
    )


def cases(name: str = "", root: Path | None = None) -> Iterator[Case]:
    """Yield the cases of bugs whose flag contains ``name``. Raises ``ValueError``."""
    for bug in bugs():
        if name.lower() not in bug.flag.lower():
            continue
        for trial in bug.evidence:
            for at in trial.tests:
                test = vector_of(bug, bug.tests[at], root)
                yield Case(bug, trial, True, bug.tests[at], test)
                if trial.fixed is not UNSET:
                    yield Case(bug, trial, False, bug.tests[at], test)


def spec_of(release: str) -> AdapterSpec:
    """Return the program around a release: of ``evidence``, else of ``adapters``."""
    own = _PACKAGE / "bugs" / "evidence"
    has_own = (own / release.partition("@")[0]).is_dir()
    return find(release, own) if has_own else find(release)


def verify(
    name: str = "", root: Path | None = None, progress: Progress | None = None
) -> list[Verdict]:
    """Try every release, in the order of ``bugs.json``; see ``cases`` for ``name``.

    Raises:
        AdapterBuildError: a release could not be built (its registry, or a tool, is missing).
        ValueError: the vectors are older than ``bugs.json``.
    """
    chosen = list(cases(name, root))
    by_release: dict[str, list[Case]] = {}
    for case in chosen:
        by_release.setdefault(case.release, []).append(case)
    verdicts: dict[int, Verdict] = {}
    for number, (release, alike) in enumerate(by_release.items(), 1):
        if progress is not None:
            progress(release, number, len(by_release))
        replies = _replies(spec_of(release), alike)
        for case, reply in zip(alike, replies, strict=True):
            verdicts[id(case)] = _verdict(case, reply)
    return [verdicts[id(case)] for case in chosen]


def as_expected(verdict: Verdict) -> bool:
    """Whether the release with the bug failed, or the one without it passed."""
    return verdict.verdict == ("failed" if verdict.is_buggy else "passed")


def _replies(spec: AdapterSpec, alike: Iterable[Case]) -> Iterator[Reply]:
    """Run vectors one after another, so that a crash is not charged to the next one."""
    with spec.adapter() as adapter:
        for case in alike:
            try:
                yield adapter.request(_request(case))
            except AdapterError as error:
                yield {"error": {"class": "crash", "detail": f"{error.kind}: {error}"}}
                adapter.start()


def _request(case: Case) -> Request:
    message, version = case.case.message, case.test.version
    if case.trial.direction == "decode":
        return decode_request("1", message, version, str(case.test.hex))
    assert isinstance(case.test.value, dict)
    return encode_request("1", message, version, case.test.value)


def _verdict(case: Case, reply: Reply) -> Verdict:
    verdict: Literal["passed", "failed", "skipped"]
    if "skipped" in reply:
        verdict, detail = "skipped", str(reply["skipped"].get("reason"))
    elif case.trial.judge == "accepted":
        verdict = "failed" if "error" in reply else "passed"
        detail = _detail(case, reply) if verdict == "failed" else ""
    else:
        verdict = "failed" if fails(case.judged, reply) else "passed"
        detail = _detail(case, reply) if verdict == "failed" else ""
    adapter, _, release = case.release.partition("@")
    return Verdict(
        flag=case.bug.flag,
        adapter=adapter,
        release=release,
        is_buggy=case.is_buggy,
        message=case.case.message,
        version=case.test.version,
        test=case.test.id,
        direction=case.trial.direction,
        verdict=verdict,
        detail=detail,
        command=f"kraftspec conform bugs --verify --filter {case.bug.flag}",
    )


def _detail(case: Case, reply: Reply) -> str:
    if case.test.result == "invalid":
        text = "accepted"
    elif "error" in reply:
        error = reply["error"]
        text = f"refused: {error.get('detail') or error.get('class')}"
    elif case.trial.direction == "encode":
        text = hex_difference(str(case.test.hex), reply.get("hex"))
    else:
        text = value_difference(case.test.value, reply.get("value"))
    return text if len(text) <= DETAIL_CHARS_MAX else f"{text[: DETAIL_CHARS_MAX - 1]}…"


@lru_cache(maxsize=32)  # A bug has tests of few messages, and a message has tests of many bugs.
def _tests(path: Path) -> list[Test]:
    if not path.exists():
        return []
    return msgspec.json.decode(path.read_bytes(), type=VectorFile).tests

"""``kraftspec conform fuzz``: the loop that queries two adapters and keeps their differences."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from kraftspec.codegen.generate import read_set, specs_sets
from kraftspec.codegen.model import Message
from kraftspec.codegen.plan import StructPlan, plan_message
from kraftspec.conformance.adapters.harness import Reply
from kraftspec.conformance.fuzz.compare import Difference, claimed, compare
from kraftspec.conformance.fuzz.findings import Disagreement, Signature
from kraftspec.conformance.fuzz.minimise import (
    FULL,
    LITTLE,
    NONE,
    Effort,
    least_bytes,
    least_value,
    salient,
)
from kraftspec.conformance.fuzz.side import Question, Side
from kraftspec.conformance.fuzz.values import Value, Values, mutated
from kraftspec.specs import specs_root

VALUES_PER_VISIT = 4  # Of each pair; half of them without unknown tags.
CHANGES_PER_VALUE = 3
PAIRS_PER_BATCH = 32
CHANGED_BYTES_MAX = 4096
# An adapter that hangs on a huge count costs a whole timeout each time; one that dies, a restart.
# After this many endings, questions with a count above CLAIMED_MAX are omitted.
ENDINGS_MINIMISED_MAX = 4
CLAIMED_MAX = 1 << 16
ENDINGS_MAX = 3  # For one pair and direction; its further questions are omitted.

Pair = tuple[str, str, int]  # set, message, version
Kin = tuple[str, str, int, str]  # The same, and the direction.
Answers = tuple[Reply, Reply]
Progress = Callable[[str, int, int], None]


@dataclass(slots=True)
class Report:
    """The results of a run. ``inputs`` counts the questions to both adapters."""

    pairs: int = 0
    inputs: int = 0
    agreed: int = 0
    refused: int = 0  # By both.
    skipped: int = 0
    differed: int = 0
    policies: Counter[str] = field(default_factory=Counter)
    loose_ends: int = 0
    omitted: int = 0  # Not sent, because an adapter ended on similar questions.
    seconds: float = 0.0
    findings: dict[Signature, Disagreement] = field(default_factory=dict)

    def add(self, other: Report) -> None:
        """Add the report of another process, which is about other pairs."""
        for name in (
            "pairs",
            "inputs",
            "agreed",
            "refused",
            "skipped",
            "differed",
            "loose_ends",
            "omitted",
        ):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.policies += other.policies
        for finding in other.findings.values():
            self.add_finding(finding)

    def add_finding(self, finding: Disagreement) -> None:
        """Add a finding; a known one gets its versions."""
        known = self.findings.setdefault(finding.signature, finding)
        known.versions |= finding.versions

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return {
            "pairs": self.pairs, "inputs": self.inputs, "agreed": self.agreed,
            "refusedByBoth": self.refused, "skipped": self.skipped, "differed": self.differed,
            "policies": dict(sorted(self.policies.items())), "looseEnds": self.loose_ends,
            "omitted": self.omitted,
            "seconds": round(self.seconds, 1),
            "findings": [self.findings[name].to_json() for name in sorted(self.findings)],
        }  # fmt: skip


@cache
def _messages() -> dict[tuple[str, str], Message]:
    return {
        (message_set.name, spec.name): spec
        for message_set in specs_sets(specs_root(), Path(), "")
        for spec in read_set(message_set).values()
    }


@cache
def plan_of(spec: str, message: str, version: int) -> StructPlan:
    """Return the plan of a message of the specs of this package at a version."""
    return plan_message(_messages()[spec, message], version).struct


def known_pairs(name: str = "") -> list[Pair]:
    """List the pairs of all sets whose ``SET/MESSAGE`` contains ``name``."""
    return [
        (spec, message, version)
        for (spec, message), entry in _messages().items()
        if name.lower() in f"{spec}/{message}".lower()
        for version in entry.valid_versions
    ]


class Fuzz:
    """A comparison of two adapters: ``Fuzz(one, other).run(runs=10_000)``.

    ``start`` starts the adapters. Changed bytes are derived from the bytes that the second one
    encodes, so it should be the reference. ``outcomes`` counts the outcomes of the questions,
    ``met`` how often a finding occurred at a version.
    """

    def __init__(self, one: Side, other: Side, *, name: str = "", policies: bool = False) -> None:
        self.sides = (one, other)
        self.names = (one.name, other.name)
        self.name = name
        self.policies = policies
        self._threads = ThreadPoolExecutor(2)
        self.reset()

    def reset(self) -> None:
        """Forget all earlier questions and answers, so that the next ones do not depend on them."""
        self.report = Report()
        self.outcomes: Counter[tuple[Kin, str]] = Counter()
        self.met: Counter[tuple[Signature, int]] = Counter()
        self._seen: dict[tuple[str, ...], Signature | None] = {}
        self._ended = 0
        self._endings: Counter[Kin] = Counter()
        for side in self.sides:
            side.loose_ends = 0

    def start(self, shard: tuple[int, int] = (0, 1)) -> list[Pair]:
        """Start both adapters; return the pairs that both serve, or one shard of them.

        Raises ``AdapterError``.
        """
        known = known_pairs(self.name)
        sets = sorted({spec for spec, _, _ in known})
        self.sides[0].start(sets)
        # Loading a set makes Kafka compile its classes: only load those that the other serves.
        self.sides[1].start([name for name in sets if self._serves(self.sides[0], name)])
        both = [pair for pair in known if all(pair in side.served for side in self.sides)]
        chosen = both[shard[0] :: shard[1]]
        self.report.pairs = len(chosen)
        return chosen

    @staticmethod
    def _serves(side: Side, name: str) -> bool:
        return any(spec == name for spec, _, _ in side.served)

    def settle(self) -> None:
        """Move the counters of the sides to the report."""
        for side in self.sides:
            self.report.loose_ends += side.loose_ends
            side.loose_ends = 0

    def stop(self) -> None:
        """Stop both adapters."""
        self._threads.shutdown()
        for side in self.sides:
            side.adapter.stop()
        self.settle()

    def run(
        self,
        pairs: Sequence[Pair],
        *,
        seed: int = 0,
        runs: int | None = None,
        seconds: float | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Visit pairs in turn, until there were ``runs`` inputs or ``seconds`` have passed."""
        started = time.monotonic()
        batches = [pairs[at : at + PAIRS_PER_BATCH] for at in range(0, len(pairs), PAIRS_PER_BATCH)]
        for visit in count() if batches else ():
            for batch in batches:
                self.visit(batch, seed, visit)
                self.report.seconds = time.monotonic() - started
                if progress is not None:
                    done = self.report.inputs if runs is not None else int(self.report.seconds)
                    progress(
                        f"{len(self.report.findings)} findings", done, runs or int(seconds or 1)
                    )
                if runs is not None and self.report.inputs >= runs:
                    return
                if seconds is not None and self.report.seconds >= seconds:
                    return

    # ----------------------------------------------------------------------------- querying

    def query(self, questions: Sequence[Question]) -> list[Answers]:
        """Send questions to both adapters in parallel; return the answers."""
        one, other = self._threads.map(lambda side: side.query(questions), self.sides)
        return list(zip(one, other, strict=True))

    def differences(self, questions: Sequence[Question]) -> list[Difference | None]:
        """Return the difference of the answers to each question."""
        return [
            compare(question, self.names, answers)
            for question, answers in zip(questions, self.query(questions), strict=True)
        ]

    def visit(self, pairs: Sequence[Pair], seed: int, visit: int) -> None:
        """Visit each pair once. Pair, seed and visit determine the questions."""
        values: list[Question] = []
        randoms: dict[Pair, Random] = {}
        for pair in pairs:
            random = randoms[pair] = Random(f"{seed}/{visit}/{'/'.join(map(str, pair))}")
            for number in range(VALUES_PER_VISIT):
                value = Values(random, unknown_tags=number % 2 == 1).struct(plan_of(*pair))
                values.append(Question(*pair, value))
        values = self._bearable(values)
        encoded = self.query(values)
        self._judge(values, encoded)
        written: list[tuple[Question, Value]] = []
        for question, answers in zip(values, encoded, strict=True):
            # Equal bytes make one question. The bytes of the second adapter come first.
            hexes = dict.fromkeys(reply["hex"] for reply in answers[::-1] if "hex" in reply)
            pair = (question.spec, question.message, question.version)
            assert isinstance(question.payload, dict)
            written += [(Question(*pair, bytes.fromhex(each)), question.payload) for each in hexes]
        written = [each for each in written if self._bearable([each[0]])]
        questions = [question for question, _ in written]
        self._judge(questions, self.query(questions), [value for _, value in written])
        changed = self._bearable(list(self._changed(questions, randoms)))
        self._judge(changed, self.query(changed))

    def _bearable(self, questions: list[Question]) -> list[Question]:
        """Omit questions that are like those on which a process ended repeatedly."""
        bearable = [question for question in questions if self._endings[question.kin] < ENDINGS_MAX]
        if self._ended >= ENDINGS_MINIMISED_MAX:
            bearable = [question for question in bearable if claimed(question) <= CLAIMED_MAX]
        self.report.omitted += len(questions) - len(bearable)
        return bearable

    def _changed(
        self, questions: Sequence[Question], randoms: dict[Pair, Random]
    ) -> Iterator[Question]:
        before: dict[Pair, bytes] = {}
        for question in questions:
            pair = (question.spec, question.message, question.version)
            assert isinstance(question.payload, bytes)
            other = before.setdefault(pair, question.payload)
            for _ in range(CHANGES_PER_VALUE):
                data = mutated(randoms[pair], question.payload, other, size_max=CHANGED_BYTES_MAX)
                yield Question(*pair, data)

    # ---------------------------------------------------------------------------- judging

    def _judge(
        self,
        questions: Sequence[Question],
        answers: Sequence[Answers],
        values: Sequence[Value] | None = None,
    ) -> None:
        """Count the answers and record the differences. ``values`` are those of the bytes."""
        self.report.inputs += len(questions)
        for at, (question, both) in enumerate(zip(questions, answers, strict=True)):
            difference = compare(question, self.names, both)
            if difference is None:
                if any("skipped" in reply for reply in both):
                    outcome = "skipped"
                else:
                    outcome = "refused" if "error" in both[0] else "agreed"
                setattr(self.report, outcome, getattr(self.report, outcome) + 1)
            elif difference.policy and not self.policies:
                outcome = "policy"
                self.report.policies[difference.reason] += 1
            else:
                outcome = f"parted: {difference.kind}"
                self.report.differed += 1
                self._ended += difference.kind == "ended"
                self._endings[question.kin] += difference.kind == "ended"
                self._look(question, difference, both, None if values is None else values[at])
            self.outcomes[question.kin, outcome] += 1

    def _look(
        self, question: Question, difference: Difference, both: Answers, value: Value | None
    ) -> None:
        """Minimise a difference, unless there was a similar one, and record its signature."""
        rough = _rough(question, difference, both)
        if rough not in self._seen:
            finding = self._finding(question, difference, both, value)
            self._seen[rough] = finding.signature if finding is not None else None
            if finding is not None:
                self.report.add_finding(finding)
        signature = self._seen[rough]
        if signature is not None:
            self.report.findings[signature].versions.add(question.version)
            self.met[signature, question.version] += 1

    def _finding(
        self, question: Question, difference: Difference, both: Answers, value: Value | None
    ) -> Disagreement | None:
        """Minimise a difference and name it; None if it does not occur again."""
        about: tuple[str, ...] = ()
        effort = self._effort(question, difference, value)
        if effort is not NONE:
            question, about = self._minimised(question, difference, value, effort)
            [both] = self.query([question])
        last = compare(question, self.names, both)
        if last is None:
            self.report.loose_ends += 1
            return None
        signature = Signature(
            question.spec, question.message, question.direction, last.kind, last.side, last.path,
            last.reason, about,
        )  # fmt: skip
        answers = dict(zip(self.names, both, strict=True))
        return Disagreement(signature, question, answers, {question.version})

    def _effort(self, question: Question, difference: Difference, value: Value | None) -> Effort:
        if difference.kind != "ended":
            return FULL
        many = self._ended > ENDINGS_MINIMISED_MAX
        changed = isinstance(question.payload, bytes) and value is None
        return NONE if difference.reason == "timeout" or (many and changed) else LITTLE

    def _minimised(
        self, question: Question, difference: Difference, value: Value | None, effort: Effort
    ) -> tuple[Question, tuple[str, ...]]:
        """Return the least question with the same difference, and the fields that it sets."""
        pair = (question.spec, question.message, question.version)
        plan, payload = plan_of(*pair), question.payload
        if isinstance(payload, dict):
            payload = least_value(plan, payload, lambda cases: self._same(
                [Question(*pair, case) for case in cases], difference), effort)  # fmt: skip
            return Question(*pair, payload), tuple(salient(plan, payload))
        if value is not None and self._same(self._bytes_of(pair, [value]), difference) == [True]:
            value = least_value(plan, value, lambda cases: self._same(
                self._bytes_of(pair, cases), difference), effort)  # fmt: skip
            [least] = self._bytes_of(pair, [value])
            assert least is not None
            return least, tuple(salient(plan, value))
        payload = least_bytes(payload, lambda cases: self._same(
            [Question(*pair, case) for case in cases], difference), effort)  # fmt: skip
        return Question(*pair, payload), ()

    def _same(self, questions: Sequence[Question | None], difference: Difference) -> list[bool]:
        """Return for each question whether it has the same difference; None is not a question."""
        present = [question for question in questions if question is not None]
        differences = iter(self.differences(present))
        return [
            question is not None and _alike(next(differences), difference) for question in questions
        ]

    def _bytes_of(self, pair: Pair, values: Sequence[Value]) -> list[Question | None]:
        """Encode values, by the second adapter if it can."""
        replies = self.query([Question(*pair, value) for value in values])
        hexes = [other.get("hex", one.get("hex")) for one, other in replies]
        return [None if data is None else Question(*pair, bytes.fromhex(data)) for data in hexes]


def _alike(actual: Difference | None, expected: Difference) -> bool:
    """Whether two differences are of the same kind. Minimising may change the path."""
    return actual is not None and replace(actual, path="") == replace(expected, path="")


def _rough(question: Question, difference: Difference, both: Answers) -> tuple[str, ...]:
    """A key that similar differences share: a guess, before minimising."""
    error: dict[str, Any] = next((reply["error"] for reply in both if "error" in reply), {})
    text = re.sub(r"[^A-Za-z ]+", "", f"{error.get('class')} {error.get('detail')}")[:80]
    path = difference.path or re.sub(r"\[\d+\]", "[]", str(error.get("path", "")))
    return (
        question.spec, question.message, question.direction, difference.kind, difference.side,
        path, difference.reason, text,
    )  # fmt: skip

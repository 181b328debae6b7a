"""Every bad spec gets the diagnostics that ``bad/expected.txt`` works out by hand, all of them and
no others, and Kafka's own generator the verdict that stands beside them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kraftspec.codegen.diagnostics import RULES
from kraftspec.codegen.reader import check_text
from kraftspec.conformance.adapters.kafka import KafkaAdapter
from kraftspec.conformance.adapters.registry import kafka_adapter

# These are about files, and have no text that breaks them: tests/codegen/test_check.py.
FILE_RULES = {"file-readable", "file-name", "message-name-unique"}
LINE = re.compile(r"(?P<path>[^:]+):(\d+):(\d+): (?P<what>.+) \[(?P<rule>[a-z-]+)\]; (?P<mend>.+)")
# Kafka gets a text; bytes that are no text cannot be given to it.
NOT_TEXT = {"json-encoding-latin.json"}

BAD = Path(__file__).with_name("bad")


class Case(NamedTuple):
    """A bad spec, the mistakes in it as (line, column, rule), and Kafka's verdict."""

    name: str
    mistakes: list[tuple[int, int, str]]
    kafka_refuses: bool
    kafka_reason: str  # Why Kafka accepts what we reject.

    @property
    def data(self) -> bytes:
        return (BAD / self.name).read_bytes()


def _case(line: str) -> Case:
    name, mistakes, kafka = line.split(" | ")
    result = []
    for mistake in mistakes.split(", ") if mistakes != "-" else []:
        place, rule = mistake.split(" ")
        row, column = place.split(":")
        result.append((int(row), int(column), rule))
    verdict, _, reason = kafka.partition(": ")
    if verdict not in ("refuses", "accepts"):
        raise ValueError(line)
    return Case(name, result, verdict == "refuses", reason)


CASES = [
    _case(line)
    for line in (BAD / "expected.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_mistakes(case: Case) -> None:
    message, diagnostics = check_text(case.data, case.name)
    diagnostic = [
        (diagnostic.line, diagnostic.column, diagnostic.rule) for diagnostic in diagnostics
    ]
    assert diagnostic == case.mistakes
    assert (message is None) == bool(case.mistakes)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_mistake_is_one_line(case: Case) -> None:
    for diagnostic in check_text(case.data, case.name)[1]:
        match = LINE.fullmatch(str(diagnostic))
        assert match is not None, str(diagnostic)
        assert (match["path"], match["rule"]) == (case.name, diagnostic.rule)
        assert diagnostic.rule in RULES


def test_every_file_is_expected() -> None:
    files = sorted(path.relative_to(BAD).as_posix() for path in BAD.rglob("*.json"))
    assert files == sorted(case.name for case in CASES)


def test_every_rule_is_broken_somewhere() -> None:
    broken = {rule for case in CASES for _, _, rule in case.mistakes}
    assert set(RULES) - broken == FILE_RULES


def test_the_corpus_is_large() -> None:
    assert sum(bool(case.mistakes) for case in CASES) >= 80


def test_mistakes_are_said_in_full() -> None:
    """What a person reads, for a few that stand for all."""
    lines = {
        str(diagnostic) for case in CASES for diagnostic in check_text(case.data, case.name)[1]
    }
    assert {
        'seeds/kip-595-QuorumStateMessage-later.json:15:40: field "TargetVoters": struct "Voter" '
        'is declared twice [struct-declared-once]; declare it once under "commonStructs", and '
        'leave "fields" out',
        "seeds/kip-595-FindQuorumResponse.json:26:5: the [ of 20:52 is not closed before this } "
        "[json-unclosed]; write ] before it",
        'seeds/kip-595-FindQuorumResponse.json:16:69: field "TargetVoters": there is no key '
        '"nullableVersion" [key-known]; write "nullableVersions"',
        'seeds/kip-853-QuorumStateData.json:8:34: a colon is missing after "type" [json-colon]; '
        "write : here",
        'seeds/kip-853-AddVoterResponse.json:19:62: field "Topics.Partitions.CurrentLeader.'
        'LeaderId": versions 12+ begins after the versions around it, 0 [versions-live]; '
        'write "0" or a part of it',
    } <= lines


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaAdapter]:
    with kafka_adapter() as adapter:
        yield adapter


@pytest.mark.kafka
@pytest.mark.parametrize(
    "case", [case for case in CASES if case.name not in NOT_TEXT], ids=lambda case: case.name
)
def test_verdict_of_kafka(case: Case, kafka: KafkaAdapter) -> None:
    complaint = kafka.verdict(case.data.decode("utf-8"))
    assert (complaint is not None) == case.kafka_refuses, complaint


def test_where_kafka_accepts_what_we_refuse_there_is_a_reason() -> None:
    for case in CASES:
        assert bool(case.kafka_reason) == (bool(case.mistakes) and not case.kafka_refuses)

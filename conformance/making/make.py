"""``kraftspec conform make``: golden vectors, whose bytes Apache Kafka's own classes make.

Values are enumerated from the plans (``families``); the Java adapter encodes each, and decodes the
bytes again to say what the value is in Kafka's own words. Nothing here calls our codec.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kraftspec.codegen.generate import MessageSet, read_set, specs_sets
from kraftspec.codegen.model import Message
from kraftspec.codegen.plan import plan_message
from kraftspec.conformance.adapters.harness import decode_request, encode_request
from kraftspec.conformance.adapters.kafka import KafkaAdapter
from kraftspec.conformance.adapters.registry import kafka_adapter
from kraftspec.conformance.making.bug_tests import bug_notes, with_bugs
from kraftspec.conformance.making.families import Candidate, candidates
from kraftspec.conformance.making.make_batches import MESSAGE as BATCH
from kraftspec.conformance.making.make_batches import batch_tests
from kraftspec.conformance.making.make_invalid import (
    invalid_batch_tests,
    invalid_tests,
    unknown_message_tests,
)
from kraftspec.conformance.making.policies import notes_of
from kraftspec.conformance.vectors import (
    KAFKA,
    NO_MESSAGE,
    SCHEMA_VERSION,
    dumps,
    test_id,
    write_vectors,
)
from kraftspec.specs import kafka_release

# Messages whose newest version has vectors with lengths of many kilobytes; all have the short ones.
LONG = frozenset({"VoteRequest", "SaslAuthenticateRequest", "DescribeGroupsRequest"})


@dataclass(slots=True)
class MakeReport:
    """What was made. ``refused`` are candidates that Kafka itself did not take."""

    release: str = ""
    messages: int = 0
    pairs: int = 0
    tests: int = 0
    changed: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return {
            "release": self.release, "messages": self.messages, "pairs": self.pairs,
            "tests": self.tests, "changed": self.changed, "refused": self.refused,
            "seconds": round(self.seconds, 1),
        }  # fmt: skip


def make(
    specs: Path,
    out: Path,
    sets: Iterable[str] = (),
    name: str = "",
    progress: Callable[[str, int, int], None] | None = None,
    release: str | None = None,
) -> MakeReport:
    """Make the vectors of sets (all by default), of messages whose name contains ``name``.

    Needs Java: raises ``AdapterError``. ``progress`` is called with a message's
    name, its number and how many there are. The classes are those of a ``release`` of Kafka;
    that of ``specs/kafka`` by default.
    """
    started = time.perf_counter()
    release = release or kafka_release()
    report = MakeReport(release=release)
    chosen = specs_sets(specs, out, "unused", tuple(sets))
    with kafka_adapter(release) as kafka:
        for message_set in chosen:
            if message_set.name != KAFKA:
                kafka.load(message_set.name, directory=message_set.directory)
            messages = {
                path: message
                for path, message in read_set(message_set).items()
                if name.lower() in message.name.lower() and len(message.valid_versions)
            }
            for number, (path, message) in enumerate(messages.items(), 1):
                if progress is not None:
                    progress(f"{message_set.name}/{message.name}", number, len(messages))
                _make_file(kafka, message_set, path, message, out, report)
            if message_set.name == KAFKA and name.lower() in BATCH.lower():
                _make_batches(kafka, out, report)
            if message_set.name == KAFKA and name.lower() in NO_MESSAGE.lower():
                _make_unknown(kafka, out, report)
            if not name:
                kept = {BATCH, NO_MESSAGE, *(message.name for message in messages.values())}
                for file in (out / message_set.name).glob("*.json"):
                    if file.stem not in kept:  # The set has no such message any more.
                        file.unlink()
                        report.changed.append(f"{message_set.name}/{file.stem}")
    report.seconds = time.perf_counter() - started
    return report


def _make_batches(kafka: KafkaAdapter, out: Path, report: MakeReport) -> None:
    tests, refused = batch_tests(kafka, drafts=report.release == kafka_release())
    invalid, wrong = invalid_batch_tests(kafka, tests)
    tests = with_bugs(kafka, KAFKA, BATCH, tests + invalid)
    refused += wrong
    head: dict[str, Any] = {"schemaVersion": SCHEMA_VERSION, "message": BATCH}
    head |= {"source": {"kafka": report.release}, "notes": notes_of(tests) | bug_notes(tests)}
    if write_vectors(out / KAFKA / f"{BATCH}.json", head, tests):
        report.changed.append(f"{KAFKA}/{BATCH}")
    report.messages += 1
    report.pairs += 1
    report.tests += len(tests)
    report.refused += refused


def _make_unknown(kafka: KafkaAdapter, out: Path, report: MakeReport) -> None:
    """Make the tests of a message that there is not."""
    tests, wrong = unknown_message_tests(kafka)
    head: dict[str, Any] = {"schemaVersion": SCHEMA_VERSION, "message": NO_MESSAGE}
    head |= {"source": {"kafka": report.release}, "notes": notes_of(tests)}
    if write_vectors(out / KAFKA / f"{NO_MESSAGE}.json", head, tests):
        report.changed.append(f"{KAFKA}/{NO_MESSAGE}")
    report.tests += len(tests)
    report.refused += wrong


def _make_file(
    kafka: KafkaAdapter,
    message_set: MessageSet,
    path: Path,
    message: Message,
    out: Path,
    report: MakeReport,
) -> None:
    tests: list[dict[str, Any]] = []
    invalid = invalid_tests(kafka, message_set.name, message, is_long=message.name in LONG)
    for version, (refused, wrong) in invalid.items():
        if version in message.valid_versions:
            tests += _make_pair(kafka, message_set.name, message, version, report)
        tests += refused
        report.refused += wrong
    tests = with_bugs(kafka, message_set.name, message.name, tests)
    head: dict[str, Any] = {"schemaVersion": SCHEMA_VERSION, "message": message.name}
    source: dict[str, Any] = {"kafka": report.release}
    if message_set.name != KAFKA:
        head["spec"] = message_set.name
        source["generator"] = True
    source["schemaSha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    head |= {"source": source, "notes": notes_of(tests) | bug_notes(tests)}
    target = out / message_set.name / f"{message.name}.json"
    if write_vectors(target, head, tests):
        report.changed.append(f"{message_set.name}/{message.name}")
    report.messages += 1
    report.pairs += len(message.valid_versions)
    report.tests += len(tests)


def _make_pair(
    kafka: KafkaAdapter, spec: str, message: Message, version: int, report: MakeReport
) -> list[dict[str, Any]]:
    """Make the tests of one message at one version."""
    set_name = None if spec == KAFKA else spec
    plan = plan_message(message, version)
    unique: dict[str, Candidate] = {}
    for candidate in candidates(
        plan, long=message.name in LONG and version == message.valid_versions.highest
    ):
        unique.setdefault(candidate.op + dumps(candidate.value), candidate)
    encoded = []
    replies = kafka.run(
        encode_request(str(at), message.name, version, candidate.value, set_name)
        for at, candidate in enumerate(unique.values())
    )
    for candidate, reply in zip(unique.values(), replies, strict=True):
        if "hex" in reply:
            encoded.append((candidate, reply["hex"]))
        else:
            report.refused.append(
                f"{spec}/{message.name} v{version} {candidate.family} ({candidate.comment}): "
                f"{reply.get('error', reply)}"
            )
    decoded = kafka.run(
        decode_request(str(at), message.name, version, hex_, set_name)
        for at, (_, hex_) in enumerate(encoded)
    )
    tests: dict[str, dict[str, Any]] = {}
    for (candidate, hex_), reply in zip(encoded, decoded, strict=True):
        test = _test(message.name, version, candidate, hex_, reply)
        tests.setdefault(test["id"], test)
    return list(tests.values())


def _test(
    message: str, version: int, candidate: Candidate, hex_: str, reply: dict[str, Any]
) -> dict[str, Any]:
    """Make one test. A value that Kafka reads back otherwise than it was given is encode-only."""
    op = candidate.op if reply.get("value") == candidate.value else "encode"
    content = hex_ if op == "roundtrip" else dumps(candidate.value)
    return {
        "id": test_id(message, version, op, content),
        "version": version,
        "op": op,
        "family": candidate.family,
        "value": candidate.value,
        "hex": hex_,
        "result": "valid",
        "comment": candidate.comment,
    }

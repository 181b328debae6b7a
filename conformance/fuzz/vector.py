"""A finding as a golden vector: the question that parted two adapters, and Kafka's answer to it.

Such vectors are kept in a directory of their own, which ``conform make`` does not write to.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kraftspec.conformance.adapter import message_class
from kraftspec.conformance.fuzz.ask import Question, Side
from kraftspec.conformance.fuzz.findings import Finding
from kraftspec.conformance.policies import notes_of, policy_of
from kraftspec.conformance.vectors import KAFKA, SCHEMA_VERSION, dumps, test_id, write_vectors
from kraftspec.fastpath.errors import CodecError

KAFKA_VERSION = "4.3.1"
FAMILY = "found"


def write_vector(finding: Finding, kafka: Side, root: Path) -> Path | None:
    """Add a finding to the vectors below ``root``; return the file, None where it has the test.

    Raises ``ValueError`` where Kafka gives nothing to go by: it refuses the value, or this project
    and Kafka do not agree about the bytes.
    """
    question = finding.question
    test = _encode(finding, kafka) if isinstance(question.asked, dict) else _decode(finding, kafka)
    directory = FAMILY if question.spec == KAFKA else f"{FAMILY}-{question.spec}"
    path = root / directory / f"{question.message}.json"
    tests = json.loads(path.read_text(encoding="utf-8"))["tests"] if path.exists() else []
    if any(known["id"] == test["id"] for known in tests):
        return None
    tests = sorted([*tests, test], key=lambda each: (each["version"], each["id"]))
    head: dict[str, Any] = {"schemaVersion": SCHEMA_VERSION, "message": question.message}
    source: dict[str, Any] = {"kafka": KAFKA_VERSION}
    if question.spec != KAFKA:
        head["spec"] = question.spec
        source["generator"] = True
    write_vectors(path, {**head, "source": source, "notes": notes_of(tests)}, tests)
    return path


def _test(question: Question, op: str, content: str, comment: str, **fields: Any) -> dict[str, Any]:
    identity = test_id(question.message, question.version, op, content)
    test = {"id": identity, "version": question.version, "op": op, "family": FAMILY}
    return {**test, **fields, "comment": comment}


def _encode(finding: Finding, kafka: Side) -> dict[str, Any]:
    question = finding.question
    [made] = kafka.ask([question])
    if "hex" not in made:
        raise ValueError(f"Kafka refuses the value: {made.get('error', made)}")
    asked = bytes.fromhex(made["hex"])
    [read] = kafka.ask([Question(question.spec, question.message, question.version, asked)])
    op = "roundtrip" if read.get("value") == question.asked else "encode"
    content = made["hex"] if op == "roundtrip" else dumps(question.asked)
    return _test(
        question, op, content, str(finding.signature), value=question.asked, hex=made["hex"],
        result="valid",
    )  # fmt: skip


def _decode(finding: Finding, kafka: Side) -> dict[str, Any]:
    question = finding.question
    assert isinstance(question.asked, bytes)
    [said] = kafka.ask([question])
    shown = question.asked.hex()
    comment = str(finding.signature)
    try:
        message_class(question.spec, question.message).decode(question.asked, question.version)
    except CodecError as error:
        ours = {"class": str(error.error_class), "offset": error.offset, "path": error.path}
        if "value" in said:
            policy = policy_of("decode", str(error.error_class))
            if policy is None:
                raise ValueError(f"Kafka reads what is refused here: {error}") from error
            verdict = {"verdict": "accepted", "value": said["value"]}
            if "trailing" in said:
                verdict["trailing"] = said["trailing"]
            return _test(
                question, "decode", shown, comment, hex=shown, result="acceptable", error=ours,
                kafka=verdict, flags=[policy.flag],
            )  # fmt: skip
        refusal = {"verdict": "refused", "class": said["error"].get("class", "refused")}
        return _test(
            question, "decode", shown, comment, hex=shown, result="invalid", error=ours,
            kafka=refusal,
        )  # fmt: skip
    if "value" not in said:
        raise ValueError(f"Kafka refuses bytes that are read here: {said['error']}")
    return _test(question, "decode", shown, comment, value=said["value"], hex=shown, result="valid")

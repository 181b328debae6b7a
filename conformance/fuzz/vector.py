"""A finding as a golden vector: the question for which two adapters differ, and Kafka's answer.

Such vectors have their own directory, which ``conform make`` does not write to.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kraftspec.conformance.adapters.ours import message_class
from kraftspec.conformance.fuzz.findings import Disagreement
from kraftspec.conformance.fuzz.side import Question, Side
from kraftspec.conformance.making.policies import notes_of, policy_of
from kraftspec.conformance.vectors import KAFKA, SCHEMA_VERSION, dumps, test_id, write_vectors
from kraftspec.fastpath.errors import CodecError
from kraftspec.specs import kafka_release

FAMILY = "found"


def write_vector(finding: Disagreement, kafka: Side, root: Path) -> Path | None:
    """Add a finding to the vectors below ``root``; return the file, or None if it has the test.

    Raises ``ValueError`` if Kafka rejects the value, or if this project and Kafka do not agree
    about the bytes.
    """
    question = finding.question
    test = (
        _encode(finding, kafka) if isinstance(question.payload, dict) else _decode(finding, kafka)
    )
    directory = FAMILY if question.spec == KAFKA else f"{FAMILY}-{question.spec}"
    path = root / directory / f"{question.message}.json"
    tests = json.loads(path.read_text(encoding="utf-8"))["tests"] if path.exists() else []
    if any(known["id"] == test["id"] for known in tests):
        return None
    tests = sorted([*tests, test], key=lambda each: (each["version"], each["id"]))
    head: dict[str, Any] = {"schemaVersion": SCHEMA_VERSION, "message": question.message}
    source: dict[str, Any] = {"kafka": kafka_release()}
    if question.spec != KAFKA:
        head["spec"] = question.spec
        source["generator"] = True
    write_vectors(path, {**head, "source": source, "notes": notes_of(tests)}, tests)
    return path


def _test(question: Question, op: str, content: str, comment: str, **fields: Any) -> dict[str, Any]:
    identity = test_id(question.message, question.version, op, content)
    test = {"id": identity, "version": question.version, "op": op, "family": FAMILY}
    return {**test, **fields, "comment": comment}


def _encode(finding: Disagreement, kafka: Side) -> dict[str, Any]:
    question = finding.question
    [encoded] = kafka.query([question])
    if "hex" not in encoded:
        raise ValueError(f"Kafka refuses the value: {encoded.get('error', encoded)}")
    data = bytes.fromhex(encoded["hex"])
    [read] = kafka.query([Question(question.spec, question.message, question.version, data)])
    op = "roundtrip" if read.get("value") == question.payload else "encode"
    content = encoded["hex"] if op == "roundtrip" else dumps(question.payload)
    return _test(
        question, op, content, str(finding.signature), value=question.payload, hex=encoded["hex"],
        result="valid",
    )  # fmt: skip


def _decode(finding: Disagreement, kafka: Side) -> dict[str, Any]:
    question = finding.question
    assert isinstance(question.payload, bytes)
    [reply] = kafka.query([question])
    shown = question.payload.hex()
    comment = str(finding.signature)
    try:
        message_class(question.spec, question.message).decode(question.payload, question.version)
    except CodecError as error:
        ours = {"class": str(error.error_class), "offset": error.offset, "path": error.path}
        if "value" in reply:
            policy = policy_of("decode", str(error.error_class))
            if policy is None:
                raise ValueError(f"Kafka reads what is refused here: {error}") from error
            verdict = {"verdict": "accepted", "value": reply["value"]}
            if "trailing" in reply:
                verdict["trailing"] = reply["trailing"]
            return _test(
                question, "decode", shown, comment, hex=shown, result="acceptable", error=ours,
                kafka=verdict, flags=[policy.flag],
            )  # fmt: skip
        refusal = {"verdict": "refused", "class": reply["error"].get("class", "refused")}
        return _test(
            question, "decode", shown, comment, hex=shown, result="invalid", error=ours,
            kafka=refusal,
        )  # fmt: skip
    if "value" not in reply:
        raise ValueError(f"Kafka refuses bytes that are read here: {reply['error']}")
    return _test(
        question, "decode", shown, comment, value=reply["value"], hex=shown, result="valid"
    )

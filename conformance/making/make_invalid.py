"""Vectors that must be refused, with what Apache Kafka's classes do with the same input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from kraftspec.codegen.model import Message
from kraftspec.codegen.plan import MessagePlan, plan_message
from kraftspec.conformance.adapters.harness import Reply, Request, decode_request, encode_request
from kraftspec.conformance.making import invalid_batches as batches
from kraftspec.conformance.making.annotate import annotate, joined
from kraftspec.conformance.making.families import populated_value
from kraftspec.conformance.making.invalid import Base, Fault, bases, decode_faults
from kraftspec.conformance.making.invalid_values import encode_faults, fields_of
from kraftspec.conformance.making.make_batches import MESSAGE as BATCH
from kraftspec.conformance.making.make_batches import VERSION as BATCH_VERSION
from kraftspec.conformance.making.policies import Op, policy_of
from kraftspec.conformance.vectors import KAFKA, NO_MESSAGE, dumps, test_id
from kraftspec.fastpath.records import COMPRESSION_MASK

if TYPE_CHECKING:
    from kraftspec.conformance.adapters.kafka import KafkaAdapter

VERSION_MAX: Final = (1 << 15) - 1
_BEFORE_BYTES: Final = ("unsupported_version", "unknown_message")  # No byte is looked at.
# Kafka's own words are kept; those of the JDK differ from release to release.
_KAFKAS_OWN: Final = (
    "java.lang.RuntimeException: ", "java.lang.UnsupportedOperationException: "
)  # fmt: skip
VALUE_CHARS_MAX: Final = 1 << 16  # What is longer (a bomb that went off) is not kept.

Test = dict[str, Any]
TestsAndErrors = tuple[list[Test], list[str]]


def invalid_tests(
    kafka: KafkaAdapter, spec: str, message: Message, *, is_long: bool
) -> dict[int, TestsAndErrors]:
    """Return the tests of each version, and what is wrong with them: nothing, if all is well."""
    plans = {version: plan_message(message, version) for version in message.valid_versions}
    fields = fields_of(plans)
    highest = message.valid_versions.highest
    out: dict[int, TestsAndErrors] = {}
    for version, plan in plans.items():
        originals = bases(plan)
        is_empty = not originals[0].tokens
        is_full = version == highest or is_empty
        faults = list(decode_faults(plan, originals, is_full=is_full))
        if is_empty:
            faults += _later_bodies(plans[highest])
        faults += encode_faults(plan, fields, is_full=is_full, is_long=is_long and is_full)
        tests, wrong = judged(kafka, spec, message.name, version, faults)
        out[version] = tests, [*wrong, *_unlike(kafka, spec, plan, originals)]
    first, last = plans[message.valid_versions.lowest], plans[highest]
    for version, plan in ((first.version - 1, first), (highest + 1, last), (VERSION_MAX, last)):
        out[version] = judged(kafka, spec, message.name, version, list(_unsupported(plan)))
    return out


def _unsupported(plan: MessagePlan) -> Iterator[Fault]:
    """Give a version that a message lacks what its nearest version would take."""
    base = bases(plan)[0]
    yield Fault("unsupported_version", "a version that there is not", data=joined(base.tokens))
    yield Fault("unsupported_version", "a version that there is not", value=base.value)


def _later_bodies(newest: MessagePlan) -> Iterator[Fault]:
    """Give a version without fields what its newest version would hold (KIP-511's fallback)."""
    for value in (bases(newest)[0].value, populated_value(newest.struct)):
        body = joined(annotate(newest.struct, value))
        yield Fault("trailing", f"the body of version {newest.version}", "", body, 0)


def invalid_batch_tests(kafka: KafkaAdapter, valid: Sequence[Test]) -> TestsAndErrors:
    """Return the tests of record batches; ``valid`` are those of good ones."""
    faults = [*batches.decode_faults(), *batches.encode_faults()]
    compressed: dict[int, bytes] = {}
    for test in valid:
        if test["family"] == "compressed":
            data = bytes.fromhex(test["hex"])
            compressed.setdefault(test["value"]["attributes"] & COMPRESSION_MASK, data)
    for data in compressed.values():
        faults += batches.compressed_faults(data)
    tests, wrong = judged(kafka, KAFKA, BATCH, BATCH_VERSION, faults)
    value = batches.base_value()
    annotated = batches.bytes_of(batches.annotate_batch(value))
    for version in (1, 3):
        unsupported = [
            Fault("unsupported_version", "a version that there is not", data=annotated),
            Fault("unsupported_version", "a version that there is not", value=value),
        ]
        more, _ = judged(kafka, KAFKA, BATCH, version, unsupported)
        tests += more
    reply = kafka.request(encode_request("", BATCH, BATCH_VERSION, value))
    if reply.get("hex") != annotated.hex():
        wrong.append(f"{BATCH}: annotated otherwise: {reply}")
    return tests, wrong


def unknown_message_tests(kafka: KafkaAdapter) -> TestsAndErrors:
    """Return the tests of a message that there is not."""
    faults = [
        Fault("unknown_message", "no message has this name", data=data) for data in (b"", b"\x00")
    ]
    faults += [
        Fault("unknown_message", "no message has this name", value=value)
        for value in ({}, {"name": "text"})
    ]
    return judged(kafka, KAFKA, NO_MESSAGE, 0, faults)


def _unlike(
    kafka: KafkaAdapter, spec: str, plan: MessagePlan, originals: Sequence[Base]
) -> Iterator[str]:
    """Say which bases Kafka writes otherwise than they were annotated."""
    requests = (
        encode_request(str(at), plan.message, plan.version, base.value, _set_name(spec))
        for at, base in enumerate(originals)
    )
    for base, reply in zip(originals, kafka.run(requests), strict=True):
        if reply.get("hex") != joined(base.tokens).hex():
            yield f"{spec}/{plan.message} v{plan.version} {base.path}: annotated otherwise: {reply}"


def _set_name(spec: str) -> str | None:
    return None if spec == KAFKA else spec


def judged(
    kafka: KafkaAdapter, spec: str, message: str, version: int, faults: Sequence[Fault]
) -> TestsAndErrors:
    """Ask Kafka about each fault; return the tests, and what it let pass without a policy."""
    requests = (_request(spec, message, version, fault) for fault in faults)
    tests: dict[str, Test] = {}
    wrong = []
    for fault, reply in zip(faults, kafka.run(requests), strict=True):
        test = _test(message, version, fault, reply)
        if test["result"] == "acceptable" and not test["flags"]:
            wrong.append(f"{spec}/{message} v{version} {fault.comment}: Kafka takes it: {reply}")
        tests.setdefault(test["id"], test)
    return list(tests.values()), wrong


def _request(spec: str, message: str, version: int, fault: Fault) -> Request:
    if fault.value is None:
        return decode_request("", message, version, fault.data.hex(), _set_name(spec))
    return encode_request("", message, version, fault.value, _set_name(spec))


def _test(message: str, version: int, fault: Fault, reply: Reply) -> Test:
    op: Op = "decode" if fault.value is None else "encode"
    content = fault.data.hex() if fault.value is None else dumps(fault.value)
    test: Test = {
        "id": test_id(message, version, op, content), "version": version, "op": op,
        "family": fault.error_class,
    }  # fmt: skip
    error: dict[str, Any] = {"class": fault.error_class}
    if fault.value is None:
        test["hex"] = content
        if fault.error_class not in _BEFORE_BYTES:
            error["offset"] = fault.offset
    else:
        test["value"] = fault.value
    if fault.path:
        error["path"] = fault.path
    is_refused = "error" in reply
    test |= {"result": "invalid" if is_refused else "acceptable", "error": error}
    test["kafka"] = _verdict(reply)
    if not is_refused:
        policy = policy_of(op, fault.error_class)
        test["flags"] = [policy.flag] if policy else []
    return {**test, "comment": fault.comment} if fault.comment else test


def _verdict(reply: Reply) -> dict[str, Any]:
    if "error" in reply:
        error = reply["error"]
        verdict = {"verdict": "refused", "class": error["class"]}
        detail = error.get("detail", "")
        is_of_jdk = detail.startswith(("java.", "com.")) and not detail.startswith(_KAFKAS_OWN)
        return verdict if is_of_jdk else {**verdict, "detail": detail}
    verdict = {"verdict": "accepted"}
    for key in ("value", "hex", "trailing"):
        if key in reply and len(dumps(reply[key])) <= VALUE_CHARS_MAX:
            verdict[key] = reply[key]
    return verdict

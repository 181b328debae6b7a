"""The verdict on one answer, and the first difference from the expected answer."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec import UNSET

from kraftspec.conformance.adapters.harness import Answer, Reply
from kraftspec.conformance.raw.harness import Refusal
from kraftspec.conformance.runner.cases import Case
from kraftspec.conformance.runner.swapped import swapped_when_read, swapped_when_written
from kraftspec.fastpath.errors import CodecError

ROW_BYTES = 16
HEX_BYTES_MAX = 64 * ROW_BYTES  # Of a longer text, only the part that differs is kept.
HEX_ROWS_BEFORE = 4  # Context before the first difference.
JSON_CHARS_MAX = 2000
TEXT_CHARS_MAX = 500  # An adapter's text may be as long as a line.
DETAIL_CHARS_MAX = 80

Kind = Literal[
    "wrong", "refused", "accepted", "class", "offset", "malformed",
    "crash", "hang", "rubbish", "order", "twice", "oversize",
]  # fmt: skip


class Skipped(NamedTuple):
    """The implementation does not support the requested message or version."""

    reason: str
    issue: str = ""


class Wrong(msgspec.Struct, kw_only=True):
    """Why an answer is wrong; the fields are those of a failure in the results."""

    kind: Kind
    detail: str
    path: str = ""
    offset: int | None = None
    wanted: str | None = None
    given: str | None = None
    shown_from: int = 0


PASSED: Final = None
_PLAIN: Final = ("hex", "trailing", "error", "skipped")  # Of an answer, all but its id and value.
Outcome = Wrong | Skipped | None

_decode = msgspec.json.Decoder().decode
_sorted = msgspec.json.Encoder(order="deterministic").encode


def judge(case: Case, answer: Answer, *, exact: bool) -> Outcome:
    """Judge one answer; ``exact``: class and offset of a refusal must be right too."""
    test = case.test
    if test.result == "valid":  # The fast path, for most answers.
        if case.direction == "encode":
            if answer.hex == test.hex and answer.hex is not None:
                return PASSED
        elif (
            test.value is not UNSET
            and bytes(answer.value) == bytes(test.value)
            and answer.trailing is None
        ):
            return PASSED
    if answer.skipped is not None:
        return _skipped(answer.skipped)
    if answer.error is not None:
        return _refusal(case, answer.error, exact=exact)
    if test.result == "invalid":
        if case.direction == "encode":
            actual = answer.hex[: 2 * HEX_BYTES_MAX] if isinstance(answer.hex, str) else None
        else:  # Shortened before it is decoded; it may be any bytes.
            actual = _cut(bytes(answer.value)[: 4 * JSON_CHARS_MAX].decode(errors="replace"))
        expected = "" if test.error is UNSET else _where(test.error.class_, test.error.offset)
        return Wrong(
            kind="accepted",
            detail=f"accepted what must be refused: {expected}",
            path="" if test.error is UNSET or test.error.path is UNSET else test.error.path,
            wanted=expected,
            given=actual,
        )
    if case.direction == "encode":
        return _bytes(case, answer.hex)
    return _value(case, answer)


def fails(case: Case, reply: Reply) -> bool:
    """Whether a decoded reply is wrong; an error may have any class and offset."""
    value = msgspec.json.encode(reply["value"]) if "value" in reply else b""
    known = {name: reply[name] for name in _PLAIN if name in reply}
    answer = Answer(**known, value=msgspec.Raw(value))
    return isinstance(judge(case, answer, exact=False), Wrong)


def _skipped(skipped: Any) -> Outcome:
    if not isinstance(skipped, dict) or not isinstance(skipped.get("reason"), str):
        return Wrong(
            kind="malformed", detail=f"skipped without a reason: {_cut(json.dumps(skipped))}"
        )
    issue = skipped.get("issue")
    issue = _cut(issue, TEXT_CHARS_MAX) if isinstance(issue, str) else ""
    return Skipped(_cut(skipped["reason"], TEXT_CHARS_MAX), issue)


def _refusal(case: Case, error_json: Any, *, exact: bool) -> Outcome:
    test = case.test
    try:
        error = msgspec.convert(error_json, Refusal)
    except msgspec.ValidationError as why:
        why_not = _cut(str(why), TEXT_CHARS_MAX)
        text = f"an error that is none ({why_not}): {_cut(json.dumps(error_json))}"
        return Wrong(kind="malformed", detail=text)
    path = "" if error.path is UNSET else _cut(error.path, TEXT_CHARS_MAX)
    offset = None if error.offset is UNSET else error.offset
    actual = _where(error.class_, error.offset)
    if test.result == "valid":
        where = f" at {path}" if path else ""
        where += f" byte {offset}" if offset is not None else ""
        detail = "" if error.detail is UNSET else _cut(error.detail)
        text = f"refused{where}: {detail} [{error.class_}]"
        return Wrong(kind="refused", detail=text, path=path, offset=offset, given=actual)
    if not exact or test.error is UNSET:
        return PASSED
    expected = _where(test.error.class_, test.error.offset)
    kind: Kind
    if error.class_ != test.error.class_:
        kind = "class"
    elif test.error.offset is not UNSET and test.error.offset != offset:
        kind = "offset"
    else:
        return PASSED
    detail = f"refused for another reason: {expected} wanted, {actual} given"
    return Wrong(kind=kind, detail=detail, path=path, offset=offset, wanted=expected, given=actual)


def _where(class_: str, offset: Any) -> str:
    return class_ if offset is UNSET else f"{class_} at byte {offset}"


def _bytes(case: Case, actual: Any) -> Outcome:
    test = case.test
    expected: str | None
    if test.result == "acceptable" and test.kafka is not UNSET and test.kafka.hex is not UNSET:
        expected = test.kafka.hex
    elif test.hex is not UNSET:
        expected = test.hex
    else:  # A value that may be encoded; the bytes are not specified.
        expected = None
    if not isinstance(actual, str):
        return _no_answer("hex", actual)
    data = _digits(actual)
    if data is None:
        shown = repr(_cut(actual, DETAIL_CHARS_MAX))
        return Wrong(kind="malformed", detail=f"hex is two digits a byte, and no more: {shown}")
    actual = data.hex()  # Upper-case digits are allowed.
    if expected is None or actual == expected:
        return PASSED
    at = first_difference(expected, actual)
    start = 0
    if max(len(expected), len(actual)) > 2 * HEX_BYTES_MAX:
        start = max(0, at // ROW_BYTES - HEX_ROWS_BEFORE) * ROW_BYTES
    stop = start + HEX_BYTES_MAX
    return Wrong(
        kind="wrong",
        detail=hex_difference(expected, actual)
        + swapped_when_written(_spans(case, expected), bytes.fromhex(expected), data),
        path=field_at(case.spec, case.message, test.version, expected, at),
        offset=at,
        wanted=expected[2 * start : 2 * stop],
        given=actual[2 * start : 2 * stop],
        shown_from=start,
    )


def _digits(hex: str) -> bytes | None:
    try:
        data = bytes.fromhex(hex)
    except ValueError:
        return None
    return data if 2 * len(data) == len(hex) else None  # Python accepts spaces.


def _no_answer(name: str, other: object) -> Wrong:
    instead = f", but {_cut(json.dumps(other), DETAIL_CHARS_MAX)}" if other is not None else ""
    return Wrong(kind="malformed", detail=f"no {name} in the reply{instead}")


def _value(case: Case, answer: Answer) -> Outcome:
    test, value = case.test, bytes(answer.value)
    trailing: Any = UNSET
    if test.result == "acceptable" and test.kafka is not UNSET and test.kafka.value is not UNSET:
        expected = bytes(test.kafka.value)
        trailing = test.kafka.trailing
    elif test.value is not UNSET:
        expected = bytes(test.value)
    else:  # Bytes that must be decoded; the value is not specified.
        expected = b""
    if not value:
        return _no_answer("value", answer.hex)
    if answer.trailing not in (None, 0, trailing):
        unread = _cut(json.dumps(answer.trailing), DETAIL_CHARS_MAX)
        return Wrong(kind="wrong", detail=f"{unread} bytes were left unread")
    if not expected or _same(expected, value):
        return PASSED
    try:
        read = json.loads(value)
        difference = _first_part(json.loads(expected), read)
    except (ValueError, RecursionError) as error:
        return Wrong(kind="malformed", detail=f"the value is not JSON: {error}")
    if difference is None:
        return PASSED
    return Wrong(
        kind="wrong",
        detail=_cut(str(difference)) + _swapped(case, read),
        path=_cut(difference.path, TEXT_CHARS_MAX),
        wanted=None if difference.expected is _LACKING else _cut(json.dumps(difference.expected)),
        given=None if difference.actual is _LACKING else _cut(json.dumps(difference.actual)),
    )


def _swapped(case: Case, read: Any) -> str:
    hex = case.test.hex
    if case.test.result != "valid" or hex is UNSET:
        return ""
    return swapped_when_read(_spans(case, hex), bytes.fromhex(hex), read)


def _spans(case: Case, hex: str) -> tuple[Any, ...]:
    """Return the primitives of a message's bytes, none where our interpreter cannot read them."""
    try:
        return _trace(case.spec, case.message, case.test.version, hex)
    except CodecError:
        return ()


def _same(expected: bytes, actual: bytes) -> bool:
    """Whether two texts are the same JSON: 1, 1.0 and true differ, the order does not matter."""
    if expected == actual:
        return True
    try:
        return _sorted(_decode(expected)) == _sorted(_decode(actual))
    except (msgspec.DecodeError, ValueError, RecursionError):
        return False


def _cut(text: str, chars: int = JSON_CHARS_MAX) -> str:
    return text if len(text) <= chars else f"{text[: chars - 1]}…"


def first_difference(expected: str, actual: str) -> int:
    """Return the first byte at which two strings of hex digits differ."""
    digits = zip(expected, actual, strict=False)
    differing = (at for at, (ours, theirs) in enumerate(digits) if ours != theirs)
    return next(differing, min(len(expected), len(actual))) // 2


def hex_difference(expected: str, actual: object) -> str:
    """Describe where two byte strings in hex differ; empty if they are equal."""
    if actual == expected:
        return ""
    if not isinstance(actual, str):
        return f"no hex in the reply, but {actual!r:.80}"
    byte = first_difference(expected, actual)
    start, stop = 2 * max(0, byte - ROW_BYTES // 2), 2 * (byte + ROW_BYTES // 2)
    sizes = f"{len(expected) // 2} wanted, {len(actual) // 2} given"
    return (
        f"bytes differ from byte {byte} on ({sizes}): "
        f"…{expected[start:stop]}… wanted, …{actual[start:stop]}… given"
    )


@lru_cache(maxsize=64)  # A test that fails in one codec often fails in the next, too.
def _trace(spec: str, message: str, version: int, hex: str) -> tuple[Any, ...]:
    from kraftspec.conformance.adapters.ours import BATCH, message_class  # noqa: PLC0415 - as below
    from kraftspec.fastpath.interpret import Decoder, Span  # noqa: PLC0415 - only on failures

    if message == BATCH:
        return ()
    codec = message_class(spec, message).CODEC
    spans: list[Span] = []
    data = bytes.fromhex(hex)
    Decoder(data, 0, codec.layouts, codec.make, trace=spans).struct(codec.layout(version))
    return tuple(spans)


def field_at(spec: str, message: str, version: int, hex: str, offset: int) -> str:
    """Return the path of the field that contains a byte of a message; empty if unknown.

    The bytes are valid; our interpreter decodes them. A batch has no plan, and no paths.
    """
    try:
        spans = _trace(spec, message, version, hex)
    except CodecError:  # Unknown set, message or version: the path is optional.
        return ""
    return next((span.path for span in spans if span.start <= offset < span.end), "")


_LACKING: Final = object()


class Difference(NamedTuple):
    """The first place where two JSON values differ; it may be missing in one of them."""

    path: str
    expected: Any
    actual: Any

    def __str__(self) -> str:
        if self.actual is _LACKING or self.expected is _LACKING:
            return f"{self.path}: {'missing' if self.actual is _LACKING else 'not wanted'}"
        expected, actual = json.dumps(self.expected), json.dumps(self.actual)
        return (
            f"{self.path}: {expected[:DETAIL_CHARS_MAX]} wanted, {actual[:DETAIL_CHARS_MAX]} given"
        )


def value_difference(expected: Any, actual: Any, path: str = "") -> str:
    """Describe where two JSON values differ; empty if they are equal. 1, 1.0 and true differ."""
    difference = _first_part(expected, actual, path)
    return "" if difference is None else str(difference)


def _first_part(expected: Any, actual: Any, path: str = "") -> Difference | None:
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in {**expected, **actual}:
            inside = f"{path}.{key}" if path else key
            if key not in actual or key not in expected:
                return Difference(inside, expected.get(key, _LACKING), actual.get(key, _LACKING))
            if difference := _first_part(expected[key], actual[key], inside):
                return difference
        return None
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for at, pair in enumerate(zip(expected, actual, strict=True)):
            if difference := _first_part(*pair, f"{path}[{at}]"):
                return difference
        return None
    return (
        None if json.dumps(expected) == json.dumps(actual) else Difference(path, expected, actual)
    )


__all__ = [
    "PASSED", "Difference", "Outcome", "Skipped", "Wrong", "fails", "field_at",
    "first_difference", "hex_difference", "judge", "value_difference",
]  # fmt: skip

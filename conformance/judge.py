"""The verdict on one answer, and where what was given parts from what was wanted."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec import UNSET

from kraftspec.conformance.cases import Case, Direction
from kraftspec.conformance.harness import Answer, Reply
from kraftspec.conformance.raw.harness import Refusal
from kraftspec.conformance.raw.vectors import Test
from kraftspec.fastpath.errors import CodecError

ROW_BYTES = 16
HEX_BYTES_MAX = 64 * ROW_BYTES  # Of a longer one only the part that differs is kept.
HEX_ROWS_BEFORE = 4  # Of what is kept of a long one, as context.
JSON_CHARS_MAX = 2000
TEXT_CHARS_MAX = 500  # Of what an adapter says in words, which may be as long as a line.
DETAIL_CHARS_MAX = 80

Kind = Literal[
    "wrong", "refused", "accepted", "class", "offset", "malformed",
    "crash", "hang", "rubbish", "order", "twice", "oversize",
]  # fmt: skip


class Skipped(NamedTuple):
    """The implementation does not have what was asked."""

    reason: str
    issue: str = ""


class Wrong(msgspec.Struct, kw_only=True):
    """What is wrong with an answer; the fields are those of a failure in the results."""

    kind: Kind
    detail: str
    path: str = ""
    offset: int | None = None
    wanted: str | None = None
    given: str | None = None
    shown_from: int = 0


PASSED: Final = None
Outcome = Wrong | Skipped | None

_decode = msgspec.json.Decoder().decode
_sorted = msgspec.json.Encoder(order="deterministic").encode


def judge(case: Case, answer: Answer, *, exact: bool) -> Outcome:
    """Judge one answer; ``exact``: class and offset of a refusal must be right too."""
    test = case.test
    if test.result == "valid":  # The quick way through, which most answers take.
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
            given = answer.hex[: 2 * HEX_BYTES_MAX] if isinstance(answer.hex, str) else None
        else:  # No longer than is shown before it is read, and of whatever bytes.
            given = _cut(bytes(answer.value)[: 4 * JSON_CHARS_MAX].decode(errors="replace"))
        wanted = "" if test.error is UNSET else _where(test.error.class_, test.error.offset)
        return Wrong(
            kind="accepted",
            detail=f"accepted what must be refused: {wanted}",
            path="" if test.error is UNSET or test.error.path is UNSET else test.error.path,
            wanted=wanted,
            given=given,
        )
    if case.direction == "encode":
        return _bytes(case, answer.hex)
    return _value(case, answer)


def fails(test: Test, direction: Direction, reply: Reply) -> bool:
    """Whether a reply to a test is wrong, both read to the end; a skipped one is not."""
    if "skipped" in reply:
        return False
    if test.result == "invalid":
        return "error" not in reply
    if "error" in reply:
        return test.result == "valid"
    if direction == "encode":
        return test.hex is not UNSET and reply.get("hex") != test.hex
    return test.value is not UNSET and bool(value_difference(test.value, reply.get("value")))


def _skipped(skipped: Any) -> Outcome:
    if not isinstance(skipped, dict) or not isinstance(skipped.get("reason"), str):
        return Wrong(
            kind="malformed", detail=f"skipped without a reason: {_cut(json.dumps(skipped))}"
        )
    issue = skipped.get("issue")
    issue = _cut(issue, TEXT_CHARS_MAX) if isinstance(issue, str) else ""
    return Skipped(_cut(skipped["reason"], TEXT_CHARS_MAX), issue)


def _refusal(case: Case, told: Any, *, exact: bool) -> Outcome:
    test = case.test
    try:
        error = msgspec.convert(told, Refusal)
    except msgspec.ValidationError as why:
        why_not = _cut(str(why), TEXT_CHARS_MAX)
        text = f"an error that is none ({why_not}): {_cut(json.dumps(told))}"
        return Wrong(kind="malformed", detail=text)
    path = "" if error.path is UNSET else _cut(error.path, TEXT_CHARS_MAX)
    offset = None if error.offset is UNSET else error.offset
    given = _where(error.class_, error.offset)
    if test.result == "valid":
        where = f" at {path}" if path else ""
        where += f" byte {offset}" if offset is not None else ""
        detail = "" if error.detail is UNSET else _cut(error.detail)
        text = f"refused{where}: {detail} [{error.class_}]"
        return Wrong(kind="refused", detail=text, path=path, offset=offset, given=given)
    if not exact or test.error is UNSET:
        return PASSED
    wanted = _where(test.error.class_, test.error.offset)
    kind: Kind
    if error.class_ != test.error.class_:
        kind = "class"
    elif test.error.offset is not UNSET and test.error.offset != offset:
        kind = "offset"
    else:
        return PASSED
    detail = f"refused for another reason: {wanted} wanted, {given} given"
    return Wrong(kind=kind, detail=detail, path=path, offset=offset, wanted=wanted, given=given)


def _where(class_: str, offset: Any) -> str:
    return class_ if offset is UNSET else f"{class_} at byte {offset}"


def _bytes(case: Case, given: Any) -> Outcome:
    test = case.test
    wanted: str | None
    if test.result == "acceptable" and test.kafka is not UNSET and test.kafka.hex is not UNSET:
        wanted = test.kafka.hex
    elif test.hex is not UNSET:
        wanted = test.hex
    else:  # A value that may be written, and no word on the bytes.
        wanted = None
    if not isinstance(given, str):
        return _no_answer("hex", given)
    data = _digits(given)
    if data is None:
        shown = repr(_cut(given, DETAIL_CHARS_MAX))
        return Wrong(kind="malformed", detail=f"hex is two digits a byte, and no more: {shown}")
    given = data.hex()  # Upper case is the same bytes.
    if wanted is None or given == wanted:
        return PASSED
    at = first_difference(wanted, given)
    start = 0
    if max(len(wanted), len(given)) > 2 * HEX_BYTES_MAX:
        start = max(0, at // ROW_BYTES - HEX_ROWS_BEFORE) * ROW_BYTES
    stop = start + HEX_BYTES_MAX
    return Wrong(
        kind="wrong",
        detail=hex_difference(wanted, given),
        path=field_at(case.spec, case.message, test.version, wanted, at),
        offset=at,
        wanted=wanted[2 * start : 2 * stop],
        given=given[2 * start : 2 * stop],
        shown_from=start,
    )


def _digits(hex: str) -> bytes | None:
    try:
        data = bytes.fromhex(hex)
    except ValueError:
        return None
    return data if 2 * len(data) == len(hex) else None  # Python lets spaces pass.


def _no_answer(name: str, given: object) -> Wrong:
    said = f", but {_cut(json.dumps(given), DETAIL_CHARS_MAX)}" if given is not None else ""
    return Wrong(kind="malformed", detail=f"no {name} in the reply{said}")


def _value(case: Case, answer: Answer) -> Outcome:
    test, value = case.test, bytes(answer.value)
    trailing: Any = UNSET
    if test.result == "acceptable" and test.kafka is not UNSET and test.kafka.value is not UNSET:
        wanted = bytes(test.kafka.value)
        trailing = test.kafka.trailing
    elif test.value is not UNSET:
        wanted = bytes(test.value)
    else:  # Bytes that must be read, whatever is made of them.
        wanted = b""
    if not value:
        return _no_answer("value", answer.hex)
    if answer.trailing not in (None, 0, trailing):
        unread = _cut(json.dumps(answer.trailing), DETAIL_CHARS_MAX)
        return Wrong(kind="wrong", detail=f"{unread} bytes were left unread")
    if not wanted or _same(wanted, value):
        return PASSED
    try:
        difference = _first_part(json.loads(wanted), json.loads(value))
    except (ValueError, RecursionError) as error:
        return Wrong(kind="malformed", detail=f"the value is not JSON: {error}")
    if difference is None:
        return PASSED
    return Wrong(
        kind="wrong",
        detail=_cut(str(difference)),
        path=_cut(difference.path, TEXT_CHARS_MAX),
        wanted=None if difference.wanted is _LACKING else _cut(json.dumps(difference.wanted)),
        given=None if difference.given is _LACKING else _cut(json.dumps(difference.given)),
    )


def _same(wanted: bytes, given: bytes) -> bool:
    """Whether two texts are the same JSON: 1, 1.0 and true are different, the order is not."""
    if wanted == given:
        return True
    try:
        return _sorted(_decode(wanted)) == _sorted(_decode(given))
    except (msgspec.DecodeError, ValueError, RecursionError):
        return False


def _cut(text: str, chars: int = JSON_CHARS_MAX) -> str:
    return text if len(text) <= chars else f"{text[: chars - 1]}…"


def first_difference(wanted: str, given: str) -> int:
    """Return the byte from which on two strings of hex digits part."""
    digits = zip(wanted, given, strict=False)
    parted = (at for at, (ours, theirs) in enumerate(digits) if ours != theirs)
    return next(parted, min(len(wanted), len(given))) // 2


def hex_difference(wanted: str, got: object) -> str:
    """Say where two byte strings in hex part; empty when they do not."""
    if got == wanted:
        return ""
    if not isinstance(got, str):
        return f"no hex in the reply, but {got!r:.80}"
    byte = first_difference(wanted, got)
    start, stop = 2 * max(0, byte - ROW_BYTES // 2), 2 * (byte + ROW_BYTES // 2)
    return (
        f"bytes differ from byte {byte} on ({len(wanted) // 2} wanted, {len(got) // 2} given): "
        f"…{wanted[start:stop]}… wanted, …{got[start:stop]}… given"
    )


@lru_cache(maxsize=64)  # One test fails in many codecs alike, and one after another.
def _trace(spec: str, message: str, version: int, hex: str) -> tuple[Any, ...]:
    from kraftspec.conformance.adapter import BATCH, message_class  # noqa: PLC0415 - as below
    from kraftspec.fastpath.interpret import Decoder, Span  # noqa: PLC0415 - only on failures

    if message == BATCH:
        return ()
    codec = message_class(spec, message).CODEC
    spans: list[Span] = []
    data = bytes.fromhex(hex)
    Decoder(data, 0, codec.layouts, codec.make, trace=spans).struct(codec.layout(version))
    return tuple(spans)


def field_at(spec: str, message: str, version: int, hex: str, offset: int) -> str:
    """Return the path of the field that a byte of a message belongs to; empty: not known.

    The bytes are right ones, read by our interpreter. A batch has no plan, and no paths.
    """
    try:
        spans = _trace(spec, message, version, hex)
    except CodecError:  # No such set, message or version here: a path is a help, and no verdict.
        return ""
    return next((span.path for span in spans if span.start <= offset < span.end), "")


_LACKING: Final = object()


class Difference(NamedTuple):
    """The first place where two JSON values part; one of them may lack it."""

    path: str
    wanted: Any
    given: Any

    def __str__(self) -> str:
        if self.given is _LACKING or self.wanted is _LACKING:
            return f"{self.path}: {'missing' if self.given is _LACKING else 'not wanted'}"
        wanted, given = json.dumps(self.wanted), json.dumps(self.given)
        return f"{self.path}: {wanted[:DETAIL_CHARS_MAX]} wanted, {given[:DETAIL_CHARS_MAX]} given"


def value_difference(wanted: Any, got: Any, path: str = "") -> str:
    """Say where two JSON values part; empty when they do not. 1, 1.0 and true are different."""
    difference = _first_part(wanted, got, path)
    return "" if difference is None else str(difference)


def _first_part(wanted: Any, got: Any, path: str = "") -> Difference | None:
    if isinstance(wanted, dict) and isinstance(got, dict):
        for key in {**wanted, **got}:
            inside = f"{path}.{key}" if path else key
            if key not in got or key not in wanted:
                return Difference(inside, wanted.get(key, _LACKING), got.get(key, _LACKING))
            if difference := _first_part(wanted[key], got[key], inside):
                return difference
        return None
    if isinstance(wanted, list) and isinstance(got, list) and len(wanted) == len(got):
        for at, pair in enumerate(zip(wanted, got, strict=True)):
            if difference := _first_part(*pair, f"{path}[{at}]"):
                return difference
        return None
    return None if json.dumps(wanted) == json.dumps(got) else Difference(path, wanted, got)


__all__ = [
    "PASSED", "Difference", "Outcome", "Skipped", "Wrong", "fails", "field_at",
    "first_difference", "hex_difference", "judge", "value_difference",
]  # fmt: skip

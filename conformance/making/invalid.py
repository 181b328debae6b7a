"""Bytes that must be rejected, each with its error class and the offset of the error.

Every fault replaces one primitive of a valid message (``annotate`` finds its bytes). So the class
and the offset are known without a decoder. ``make`` gets the outcome of Kafka for the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from kraftspec.codegen.plan import FieldPlan, MessagePlan, StructPlan
from kraftspec.conformance.making.annotate import (
    Token,
    annotate,
    edited,
    joined,
    length_prefix,
    start_of,
    uvarint,
)
from kraftspec.conformance.making.families import (
    Path,
    Value,
    default_value,
    populated_value,
    structs_of,
    value_with,
)
from kraftspec.fastpath.plan import STRING_BYTES_MAX, UVARINT_BYTES_MAX, UVARINT_MAX
from kraftspec.fastpath.values import UNKNOWN_TAGS

SMALL_BYTES_MAX: Final = 48  # Messages up to this size are truncated at each byte.
# Of each kind at the version with all kinds; other versions have one of each class.
PICKED: Final = 2
# A codec states for each field whether it may be null, and for each tag in which versions it is
# known. It can be wrong about one and right about all others, so none is left out. What breaks
# otherwise (lengths, varints, texts) is read by code that the fields of a codec share.
PICKED_ALL: Final = frozenset({"null_for_non_nullable", "tag_below_version"})
INT32_MAX: Final = (1 << 31) - 1
UNKNOWN_TAG: Final = 10_009
BAD_UTF8: Final = {
    "a byte that UTF-8 never has": b"\xff",
    "an overlong form": b"\xc0\x80",
    "half of a surrogate pair": b"\xed\xa0\x80",
    "a character cut short": b"\xe2\x82",
    "a character beyond Unicode": b"\xf4\x90\x80\x80",
}
BAD_MARKERS: Final = {"int8": (b"\x00", b"\x02", b"\xfe"), "uvarint": (b"\x02", b"\x7f")}


@dataclass(frozen=True, slots=True)
class Fault:
    """An invalid input: ``data`` with an error at ``offset``, or ``value`` to encode."""

    error_class: str
    comment: str
    path: str = ""
    data: bytes = b""
    offset: int = 0
    value: Value | None = None
    kind: str = ""  # Groups the faults of one class; not written into the vectors.


@dataclass(frozen=True, slots=True)
class Base:
    """A valid message to change: with one field set, or with tags, at ``path``."""

    path: str
    value: Value
    tokens: list[Token]
    entry: FieldPlan | None = None


def bases(plan: MessagePlan) -> list[Base]:
    """Return the valid messages; the first has only defaults."""
    top = plan.struct
    value = default_value(top)
    out = [Base("", value, annotate(top, value))]
    for path, struct_plan in structs_of(top, ()):
        for entry in (*struct_plan.fields, *struct_plan.tagged):
            value = value_with(top, path, {entry.name: populated_value(entry)})
            out.append(Base(place(path, entry.name), value, annotate(top, value), entry))
    return out


def place(path: Path, name: str = "") -> str:
    """Return the path of a field in the first element of every array around it."""
    steps = [
        step.name + ("[0]" if step.wire in ("array", "compact_array") else "") for step in path
    ]
    return ".".join([*steps, name] if name else steps)


def decode_faults(
    plan: MessagePlan, originals: Sequence[Base], *, is_full: bool
) -> Iterator[Fault]:
    """Enumerate invalid bytes of one message at one version.

    ``is_full`` is for one version of a message: its faults of every kind, and not only some of
    each class. Other versions have them of other fields, as the version says where to begin. Of
    the classes ``PICKED_ALL``, every version has every fault.
    """
    yield from _cuts(originals[0].tokens)
    yield from _trailing(originals[0])
    faults = [fault for base in originals for fault in _broken(base)]
    faults += list(_populated_cuts(plan)) + list(_tags(plan))
    yield from picked(faults, plan.version, PICKED, is_full=is_full, whole=PICKED_ALL)


def picked(
    faults: Sequence[Fault],
    version: int,
    count_max: int,
    *,
    is_full: bool,
    whole: Set[str] = frozenset(),
) -> Iterator[Fault]:
    """Choose faults of each class (of each kind if ``is_full``), evenly spread.

    Of the classes ``whole``, all are taken.
    """

    def group(fault: Fault) -> tuple[str, str]:
        return fault.error_class, fault.kind if is_full else ""

    for (error_class, _), alike in groupby(sorted(faults, key=group), key=group):
        items = list(alike)
        count = min(len(items), count_max if is_full else 1)
        if error_class in whole:
            count = len(items)
        for number in range(count):
            yield items[(version * count + number * len(items) // count) % len(items)]


# ------------------------------------------------------------------------------------- cut short


def cut_error(tokens: Sequence[Token], size: int) -> tuple[str, Token, int]:
    """Say which primitive cannot be read when only ``size`` bytes of a message are left.

    Returns the error class, the primitive and its offset. A length, a count (an element takes a
    byte or more) or a tag's size that announces more than is left is refused before what it is
    about.
    """
    start = 0
    for token in tokens:
        end = start + len(token.raw)
        if end > size:
            is_begun = token.is_uvarint and start < size
            return "varint_truncated" if is_begun else "truncated", token, start
        announces = token.kind in ("length", "count", "size")
        if announces and token.number > size - end:
            return "length_exceeds_input", token, start
        start = end
    raise AssertionError("nothing is cut off")


def _cut(tokens: Sequence[Token], data: bytes, size: int) -> Fault:
    error_class, token, offset = cut_error(tokens, size)
    return Fault(error_class, "", token.path, data[:size], offset, kind=f"cut {token.kind}")


def _cuts(tokens: Sequence[Token]) -> Iterator[Fault]:
    data = joined(tokens)
    if len(data) <= SMALL_BYTES_MAX:
        for size in range(len(data)):
            yield _cut(tokens, data, size)


def _populated_cuts(plan: MessagePlan) -> Iterator[Fault]:
    """Truncate a message with all fields: before and in the middle of each primitive."""
    tokens = annotate(plan.struct, populated_value(plan.struct))
    data, start = joined(tokens), 0
    for token in tokens:
        if token.raw:
            yield _cut(tokens, data, start)
            if len(token.raw) > 1:
                yield _cut(tokens, data, start + len(token.raw) // 2)
        start += len(token.raw)


def _trailing(base: Base) -> Iterator[Fault]:
    data = joined(base.tokens)
    for more in (b"\x00", b"\xff\xff\xff\xff"):
        yield Fault("trailing", f"{len(more)} bytes too many", "", data + more, len(data))


# ------------------------------------------------------------------------------- one field broken


def _broken(base: Base) -> Iterator[Fault]:
    tokens = base.tokens
    for at, token in enumerate(tokens):
        if base.entry is None:
            is_own = at == len(tokens) - 1 and token.kind == "tags"
        else:
            is_own = token.path in (base.path, f"{base.path}[0]")
            is_own |= token.kind in ("tag", "size") and _is_about(tokens, at, base.path)
        if is_own:
            for fault in _of_token(tokens, at):
                if not _is_hidden(tokens, at, fault):
                    yield fault


def _is_about(tokens: Sequence[Token], at: int, path: str) -> bool:
    """Whether a tag, or its size, belongs to the field ``path``."""
    return tokens[at + (tokens[at].kind == "tag")].field == path


def _is_hidden(tokens: Sequence[Token], at: int, fault: Fault) -> bool:
    """Whether an earlier count now exceeds the remaining bytes, and is rejected first."""
    end = 0
    for token in tokens[:at]:
        end += len(token.raw)
        if token.kind == "count" and token.number > len(fault.data) - end:
            return True
    return False


def _fault(
    tokens: Sequence[Token],
    at: int,
    edits: dict[int, bytes],
    error_class: str,
    comment: str,
    path: str | None = None,
) -> Fault:
    """Make the fault of the token ``at`` by ``edits``."""
    out = edited(tokens, edits)
    token = tokens[at]
    where = token.path if path is None else path
    kind = f"{token.kind} {token.wire}: {comment}"
    return Fault(error_class, comment, where, joined(out), start_of(out, at), kind=kind)


def _of_token(tokens: Sequence[Token], at: int) -> Iterator[Fault]:
    token = tokens[at]
    if token.is_uvarint and token.kind != "content":
        yield from _varints(tokens, at)
    match token.kind:
        case "fixed" if token.wire == "bool":
            for raw in (b"\x02", b"\xff"):
                yield _fault(
                    tokens, at, {at: raw}, "invalid_boolean", f"a boolean of {raw[0]}"
                )  # fmt: skip
        case "marker":
            for raw in BAD_MARKERS[token.wire]:
                # Kafka reads a negative one as null: then no struct follows.
                gone = _gone(tokens, at) if raw[0] > 0x7F else {}  # noqa: PLR2004 - int8
                comment = f"a marker of {raw.hex()}"
                yield _fault(tokens, at, {**gone, at: raw}, "invalid_struct_marker", comment)
        case "length" | "count":
            yield from _lengths(tokens, at)
            if token.wire.endswith("string") and token.number > 0:
                yield from _texts(tokens, at)
        case "size" if token.field:
            yield from _sizes(tokens, at)


def _gone(tokens: Sequence[Token], at: int) -> dict[int, bytes]:
    """Return the edits that remove the content of a prefix."""
    return dict.fromkeys(range(at + 1, tokens[at].until), b"")


def _lengths(tokens: Sequence[Token], at: int) -> Iterator[Fault]:
    token = tokens[at]
    gone = _gone(tokens, at)
    if not token.nullable:
        null = {**gone, at: length_prefix(token.wire, -1)}
        yield _fault(tokens, at, null, "null_for_non_nullable", "null, but not nullable")
    is_compact = token.wire.startswith("compact_")
    width = 2 if token.wire == "string" else 4
    if not is_compact:
        for negative in (-2, -(1 << (8 * width - 1))):
            raw = length_prefix(token.wire, negative)
            comment = f"a length of {negative}"
            yield _fault(tokens, at, {**gone, at: raw}, "negative_length", comment)
    is_text = token.wire.endswith("string")
    left = len(joined(tokens)) - start_of(tokens, at) - len(token.raw)
    if not is_text or left < STRING_BYTES_MAX:
        raw = length_prefix(token.wire, left + 1)
        comment = "a byte more than is left"
        yield _fault(tokens, at, {at: raw}, "length_exceeds_input", comment)
    greatest = STRING_BYTES_MAX if is_text else INT32_MAX - is_compact
    raw = length_prefix(token.wire, greatest)
    yield _fault(tokens, at, {at: raw}, "length_exceeds_input", f"the greatest, {greatest}")
    if is_text and is_compact:
        for length in (STRING_BYTES_MAX + 1, INT32_MAX - 1):
            raw = length_prefix(token.wire, length)
            comment = f"a string of {length} bytes"
            yield _fault(tokens, at, {at: raw}, "length_too_long", comment)


def _texts(tokens: Sequence[Token], at: int) -> Iterator[Fault]:
    for what, bad in BAD_UTF8.items():
        text = b"a" + bad
        edits = {at: length_prefix(tokens[at].wire, len(text)), at + 1: text}
        yield _fault(tokens, at, edits, "invalid_utf8", what)


def _varints(tokens: Sequence[Token], at: int) -> Iterator[Fault]:
    raw = tokens[at].raw
    padded = bytes([*raw[:-1], raw[-1] | 0x80, 0])
    yield _fault(tokens, at, {at: padded}, "non_minimal_varint", "a byte more than needed")
    longest = b"".join(bytes([byte | 0x80]) for byte in raw.ljust(UVARINT_BYTES_MAX, b"\0"))
    comment = "in six bytes"
    yield _fault(tokens, at, {at: longest + b"\0"}, "varint_overflow", comment)
    # The first of the bits that a Java int drops.
    wrapped = longest[:-1] + bytes([longest[-1] & 0x7F | 0x10])
    yield _fault(tokens, at, {at: wrapped}, "varint_overflow", "with a bit beyond the 32nd")
    above = uvarint(UVARINT_MAX + 1)
    yield _fault(tokens, at, {at: above}, "varint_overflow", "2^31, which no int holds")
    ended = {**dict.fromkeys(range(at + 1, len(tokens)), b""), at: b"\x80"}
    # The enclosing sizes are corrected, so that this is the first error.
    yield _fault(tokens, at, ended, "varint_truncated", "the input ends inside")


def _sizes(tokens: Sequence[Token], at: int) -> Iterator[Fault]:
    token = tokens[at]
    last = token.until - 1
    for more, edits in {
        "a byte more than the field, which is there": {last: tokens[last].raw + b"\x00"},
        "a byte more than the field": {},
    }.items():
        data = joined(edited(tokens, {**edits, at: uvarint(token.number + 1)}))
        is_there = token.number < len(data) - start_of(tokens, at) - len(token.raw)
        if is_there:
            sizes = {**edits, at: uvarint(token.number + 1)}
            yield _fault(tokens, at, sizes, "tagged_size_mismatch", more, token.field)
    if token.number > 0:
        for size in {0, token.number - 1}:
            sizes = {at: uvarint(size)}
            comment = f"{token.number - size} bytes less than the field"
            yield _fault(tokens, at, sizes, "tagged_size_mismatch", comment, token.field)
    left = len(joined(tokens)) - start_of(tokens, at) - len(token.raw)
    yield _fault(
        tokens, at, {at: uvarint(left + 1)}, "length_exceeds_input", "a byte more than is left"
    )


# ---------------------------------------------------------------------------------- tags in order


def _tags(plan: MessagePlan) -> Iterator[Fault]:
    for path, struct_plan in structs_of(plan.struct, ()):
        if struct_plan.flexible:
            yield from _tags_of(plan.struct, path, struct_plan)


def _tags_of(top: StructPlan, path: Path, plan: StructPlan) -> Iterator[Fault]:
    where = place(path)

    def fault(
        error_class: str, comment: str, unknown: list[tuple[int, str]], **known: Any
    ) -> Fault:
        """Make the last of the unknown tags out of order."""
        shown = [{"tag": tag, "hex": payload} for tag, payload in unknown]
        value = value_with(top, path, {**known, UNKNOWN_TAGS: shown})
        tokens = annotate(top, value, is_sorted=False)
        at = max(
            at
            for at, token in enumerate(tokens)
            if (token.kind, token.path, token.number) == ("tag", where, unknown[-1][0])
        )
        return _fault(tokens, at, {}, error_class, comment)

    yield fault("tag_out_of_order", "10008 after 10009", [(UNKNOWN_TAG, "01"), (10_008, "")])
    yield fault("tag_duplicate", "10009 twice", [(UNKNOWN_TAG, "01"), (UNKNOWN_TAG, "01")])
    for entry in plan.tagged:
        tag, known = entry.tag or 0, {entry.name: populated_value(entry)}
        alone = annotate(top, value_with(top, path, known))
        field = place(path, entry.name)
        at = next(at for at, token in enumerate(alone) if token.field == field)
        content = joined(alone[at + 1 : alone[at].until]).hex()
        yield fault("tag_duplicate", f"tag {tag} twice", [(tag, content)], **known)
        if tag:
            comment = f"{tag - 1} after {tag}"
            yield fault("tag_out_of_order", comment, [(tag - 1, "00")], **known)
    for tag in plan.later_tags:
        comment = f"tag {tag} is of other versions"
        yield fault("tag_below_version", comment, [(tag, "00")])

"""Where two answers part, and whether that is news.

Some bytes are refused by one decoder and read by another by choice: trailing bytes, varints longer
than needed, text that is not UTF-8. What the strict decoder of this project refuses and the lenient
one reads, as Kafka's own does, is such a policy, and is told apart by the class of the refusal.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from kraftspec.conformance.adapter import message_class
from kraftspec.conformance.fuzz.ask import Question
from kraftspec.conformance.harness import Reply
from kraftspec.conformance.judge import field_at, first_difference, value_difference
from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.interpret import Decoder, Span

Kind = Literal["bytes", "value", "refused", "ended"]


@dataclass(frozen=True, slots=True)
class Difference:
    """How two answers to a question part.

    Attributes:
        kind: other ``bytes``, another ``value``, one ``refused``, the process ``ended``.
        who: the side that refused or ended; empty where both answered.
        path: the field, without indices: of what differs, or of what is wrong with the bytes.
        reason: why this project's decoders refuse the bytes; for ``ended``, how.
        policy: whether the bytes are a matter of policy.
    """

    kind: Kind
    who: str = ""
    path: str = ""
    reason: str = ""
    policy: bool = False


def compare(question: Question, names: tuple[str, str], answers: tuple[Reply, Reply]) -> (
    Difference | None
):  # fmt: skip
    """Return how two answers part; None where they do not, or a side skipped the question."""
    for name, answer in zip(names, answers, strict=True):
        if "ended" in answer:
            return Difference("ended", name, "", answer["ended"])
    if any("skipped" in answer for answer in answers):
        return None
    refused = ["error" in answer for answer in answers]
    if all(refused):
        return None
    view = View() if isinstance(question.asked, dict) else view_of(question)
    if any(refused):
        who = names[refused.index(True)]
        return Difference("refused", who, view.path, view.reason, view.policy)
    if isinstance(question.asked, dict):
        first, second = (str(answer.get("hex")).lower() for answer in answers)
        if first == second:
            return None
        at = first_difference(first, second)
        where = field_at(question.spec, question.message, question.version, second, at)
        return Difference("bytes", "", normal(where))
    found = value_difference(answers[0].get("value"), answers[1].get("value"))
    if not found:
        return None
    path = normal(found.split(": ")[0])
    return Difference("value", "", view.path or path, view.reason, view.policy)


def normal(path: str) -> str:
    """Return a path without its indices."""
    return re.sub(r"\[\d+\]", "[]", path)


@dataclass(frozen=True, slots=True)
class View:
    """What this project makes of some bytes: why they are refused, and where."""

    reason: str = ""
    path: str = ""
    policy: bool = False  # Refused by strict decode, read by lenient decode.


def view_of(question: Question) -> View:
    """Judge bytes by this project's own decoders."""
    cls = message_class(question.spec, question.message)
    assert isinstance(question.asked, bytes)
    try:
        cls.decode(question.asked, question.version)
    except CodecError as strict:
        try:
            cls.decode(question.asked, question.version, lenient=True)
        except CodecError as lenient:  # Wrong beyond policy: that is what it is about.
            return View(str(lenient.error_class), normal(lenient.path))
        return View(str(strict.error_class), normal(strict.path), policy=True)
    return View()


def claimed(question: Question) -> int:
    """Return the largest number of elements or tags that bytes say they hold; 0 for a value."""
    if isinstance(question.asked, dict):
        return 0
    codec = message_class(question.spec, question.message).CODEC
    spans: list[Span] = []
    with suppress(CodecError):
        decoder = Decoder(question.asked, 0, codec.layouts, codec.make, lenient=True, trace=spans)
        decoder.struct(codec.layout(question.version))
    counts = (span.value for span in spans if span.wire in ("count", "tag count"))
    return max((count for count in counts if count is not None), default=0)

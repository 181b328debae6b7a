"""Compare two answers, and decide whether a difference is a matter of policy.

A decoder may reject or accept some bytes: trailing bytes, varints that are longer than necessary,
text that is not UTF-8. Bytes that this project's strict decoder rejects and its lenient decoder
accepts (as Kafka's decoder does) are such a policy. The error class identifies the policy.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from kraftspec.conformance.adapters.harness import Reply
from kraftspec.conformance.adapters.ours import message_class
from kraftspec.conformance.fuzz.side import Question
from kraftspec.conformance.runner.judge import field_at, first_difference, value_difference
from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.interpret import Decoder, Span

Kind = Literal["bytes", "value", "refused", "ended"]


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between two answers to a question.

    Attributes:
        kind: the ``bytes`` or the ``value`` differ, one side ``refused``, a process ``ended``.
        side: the side that refused or ended; empty if both answered.
        path: the field that differs or that is invalid in the bytes, without indices.
        reason: why this project's decoders reject the bytes; for ``ended``, the kind of ending.
        policy: whether the bytes are a matter of policy.
    """

    kind: Kind
    side: str = ""
    path: str = ""
    reason: str = ""
    policy: bool = False


def compare(question: Question, names: tuple[str, str], answers: tuple[Reply, Reply]) -> (
    Difference | None
):  # fmt: skip
    """Return the difference of two answers; None if they agree or a side skipped the question."""
    for name, answer in zip(names, answers, strict=True):
        if "ended" in answer:
            return Difference("ended", name, "", answer["ended"])
    if any("skipped" in answer for answer in answers):
        return None
    refused = ["error" in answer for answer in answers]
    if all(refused):
        return None
    view = View() if isinstance(question.payload, dict) else view_of(question)
    if any(refused):
        side = names[refused.index(True)]
        return Difference("refused", side, view.path, view.reason, view.policy)
    if isinstance(question.payload, dict):
        first, second = (str(answer.get("hex")).lower() for answer in answers)
        if first == second:
            return None
        at = first_difference(first, second)
        where = field_at(question.spec, question.message, question.version, second, at)
        return Difference("bytes", "", normal(where))
    difference = value_difference(answers[0].get("value"), answers[1].get("value"))
    if not difference:
        return None
    path = normal(difference.split(": ")[0])
    return Difference("value", "", view.path or path, view.reason, view.policy)


def normal(path: str) -> str:
    """Return a path without its indices."""
    return re.sub(r"\[\d+\]", "[]", path)


@dataclass(frozen=True, slots=True)
class View:
    """Why, and at which field, this project's decoders reject some bytes."""

    reason: str = ""
    path: str = ""
    policy: bool = False  # Rejected by strict decode, accepted by lenient decode.


def view_of(question: Question) -> View:
    """Decode the bytes of a question by this project's own decoders."""
    cls = message_class(question.spec, question.message)
    assert isinstance(question.payload, bytes)
    try:
        cls.decode(question.payload, question.version)
    except CodecError as strict:
        try:
            cls.decode(question.payload, question.version, lenient=True)
        except CodecError as lenient:  # Invalid beyond any policy.
            return View(str(lenient.error_class), normal(lenient.path))
        return View(str(strict.error_class), normal(strict.path), policy=True)
    return View()


def claimed(question: Question) -> int:
    """Return the largest count of elements or tags in the bytes; 0 for a value."""
    if isinstance(question.payload, dict):
        return 0
    codec = message_class(question.spec, question.message).CODEC
    spans: list[Span] = []
    with suppress(CodecError):
        decoder = Decoder(question.payload, 0, codec.layouts, codec.make, lenient=True, trace=spans)
        decoder.struct(codec.layout(question.version))
    counts = (span.value for span in spans if span.wire in ("count", "tag count"))
    return max((count for count in counts if count is not None), default=0)

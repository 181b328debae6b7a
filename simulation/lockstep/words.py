"""A step that differs, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from kraftspec.reference.profiles import profile_named
from kraftspec.reference.profiles.kafka.profile import KafkaProfile
from kraftspec.simulation.initial_quorum import PORT_BASE
from kraftspec.simulation.lockstep.step import Sent, Step

TEXT_MAX = 1_000
SHOWN = ("epoch", "leader_id", "voted_id", "high_watermark", "log_start", "log_end")


@cache
def _profile() -> KafkaProfile:
    profile = profile_named("kafka")
    assert isinstance(profile, KafkaProfile)
    return profile


def told_in_words(
    step: Step,
    differences: Mapping[str, tuple[Any, Any]],
    driver: str,
    earlier: Iterable[Step] = (),
) -> Iterator[str]:
    """Yield what a node was given, and what the two made of it; ``driver`` is who was the node."""
    for one in earlier:
        yield f"  {one.now_us / 1e6:.3f} s: {_brief(one)}"
    yield (
        f"At {step.now_us / 1e6:.3f} s node {step.node}, driven by {driver}, "
        f"{step.role_before or 'down'}, gets {_command(step)}"
    )
    before = {name: step.before[name] for name in SHOWN} if step.before else {}
    yield f"  before it: {', '.join(f'{name} {value}' for name, value in before.items()) or '-'}"
    for name, (ours, kafkas) in differences.items():
        yield f"  {name}"
        yield f"    ours:  {_value(step, name, ours)}"
        yield f"    other: {_value(step, name, kafkas)}"
    for text in step.kafkas.texts():
        yield f"  it says: {text}"
    for text in step.ours.texts():
        yield f"  ours says: {text}"


def _brief(step: Step) -> str:
    """Return a step that came before: both did the same, or what is explained."""
    told = {**step.kafkas.told, **step.ours.told}
    requests = [f"API {sent.api_key} to {sent.port - PORT_BASE}" for sent in told.pop("sent", ())]
    number = f" {step.values[1]}" if step.command in ("request", "reply", "fail") else ""
    did = ", ".join([*requests, *told]) or "nothing"
    return f"{step.role_before or 'down'}, {step.command}{number}: {did}"


def _command(step: Step) -> str:
    values = step.values[1:]
    if step.command == "request":
        token, api_key, version, body = values
        return f"request {token}: {_clip(_profile().decode_request(api_key, version, body))}"
    return _clip(f"{step.command} {values}")


def _value(step: Step, name: str, value: Any) -> str:
    if value is None:
        return "nothing"
    if name == "sent":
        return "; ".join(map(_sent, value))
    if name == "answered":
        return "; ".join(_answer(step, token, body) for token, body in value)
    return _clip(value)


def _sent(sent: Sent) -> str:
    request = (
        _profile().decode_request(sent.api_key, sent.version, sent.body)
        if sent.body and sent.version >= 0
        else f"API {sent.api_key}"
    )
    return f"to {sent.port - PORT_BASE}: {_clip(request)}"


def _answer(step: Step, token: int, body: bytes) -> str:
    if token not in step.unanswered:
        return f"{token}: {_clip(body)}"
    request, message = step.unanswered[token]
    return f"{token}: {_clip(_profile().decode_reply(request, message.version, body))}"


def _clip(value: Any) -> str:
    text = str(value)
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…"

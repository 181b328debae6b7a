"""Rules: which frames they match, when they act, and what they do.

A rule is one object, in YAML, in JSON and in Python: fields that match, fields that count, and
fields that act. docs/proxy.md explains each with an example.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from kraftspec.generated.errors import ErrorCode
from kraftspec.proxy.error_answers import Level
from kraftspec.proxy.frame import Api, Direction
from kraftspec.proxy.paths import (
    HEADER,
    REQUEST,
    PathError,
    misfit,
    parse,
    problem_of,
    versions_with,
)
from kraftspec.words import alike

Count = Annotated[int, Meta(ge=1)]
Milliseconds = Annotated[float, Meta(ge=0, le=86_400_000)]
Condition = Any  # A value, a list of alternatives, or {"min": …, "max": …}.

_VERSIONS = re.compile(r"(\d+)(?:(\+)|-(\d+))?")
_HEADER_FIELDS: Final = {
    "request": {"requestApiKey", "requestApiVersion", "correlationId", "clientId"},
    "response": {"correlationId"},
}


class RuleError(ValueError):
    """A rule that cannot be; ``field`` is the one that is wrong, None for the rule as a whole."""

    def __init__(self, field: str | None, text: str) -> None:
        super().__init__(text)
        self.field = field


class Corruption(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which bytes of a frame to change; offsets count from the byte after the frame's size."""

    at: Annotated[
        int | None, Meta(description="Offset of the first byte; negative from the end.")
    ] = None
    xor: Annotated[
        str,
        Meta(
            pattern="^([0-9a-fA-F]{2})+$",
            description="Hex bytes that are combined with those of the frame by exclusive or.",
        ),
    ] = "ff"
    bytes: Annotated[
        Count | None, Meta(description="Flip a bit in so many bytes at random, instead of at/xor.")
    ] = None


class Rule(
    msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A rule. What is left out of the first block matches everything."""

    name: Annotated[str, Meta(min_length=1, description="For stats, releases and removal.")] = ""

    # ---- what it matches -----------------------------------------------------------------------
    api: Annotated[
        str | list[str] | int | None,
        Meta(description="The API by name or key, or a list of names: Produce, [Fetch, Vote]."),
    ] = None
    versions: Annotated[str | int | None, Meta(description="Of the API: 9, 3-8 or 9+.")] = None
    direction: Annotated[
        Direction | None,
        Meta(
            description="request: on the way to the node (the default). response: on the way back."
        ),
    ] = None
    client_id: Annotated[
        str | None, Meta(description="The client id; * and ? stand for any characters.")
    ] = None
    node: Annotated[
        str | int | None, Meta(description="The node that is asked: its id, or HOST:PORT.")
    ] = None
    where: Annotated[
        dict[str, Condition],
        Meta(
            description="Field path to a value, a list of alternatives, or {min, max}. "
            "header.clientId is of the header; request.… in a rule for responses is of the request."
        ),
    ] = {}

    # ---- when it acts --------------------------------------------------------------------------
    nth: Annotated[Count | None, Meta(description="Act on this one of the matches alone.")] = None
    after: Annotated[
        Annotated[int, Meta(ge=0)], Meta(description="Let so many matches pass first.")
    ] = 0
    every: Annotated[
        Count | None, Meta(description="Act on every such match: 3 is every third.")
    ] = None
    times: Annotated[Count | None, Meta(description="Act so many times at most.")] = None
    probability: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None, Meta(description="Act with this probability.")
    ] = None
    seed: Annotated[int, Meta(description="Of the random numbers of this rule.")] = 0

    # ---- what it does --------------------------------------------------------------------------
    pass_: Annotated[
        Literal[True] | UnsetType,
        Meta(description="Let it pass as it is: rules after this one do not see it."),
    ] = msgspec.field(name="pass", default=UNSET)
    error: Annotated[
        str | int | None,
        Meta(
            description="An error by name or code. A request is answered with it, not forwarded; "
            "in a response it replaces the codes that the node gave."
        ),
    ] = None
    error_at: Annotated[
        Level | None,
        Meta(description="top, or items: each topic, partition, … By default where it belongs."),
    ] = None
    set: Annotated[
        dict[str, Any],
        Meta(description="Field path to its new value, as in Kafka's JSON, or to {add: number}."),
    ] = {}
    throttle_time_ms: Annotated[
        Annotated[int, Meta(ge=0, le=0x7FFFFFFF)] | None,
        Meta(description="Set throttleTimeMs of the response."),
    ] = None
    delay_ms: Annotated[
        Milliseconds | None, Meta(description="Deliver it so much later; what follows waits.")
    ] = None
    hold: Annotated[
        bool, Meta(description="Keep it until the rule is released; what follows waits.")
    ] = False
    reorder_ms: Annotated[
        Milliseconds | None,
        Meta(description="Deliver it after the frame that follows, or after so much time."),
    ] = None
    bytes_per_second: Annotated[
        Count | None, Meta(description="Deliver it, and what follows, no faster.")
    ] = None
    drop: Annotated[bool, Meta(description="Do not deliver it.")] = False
    duplicate: Annotated[Count | None, Meta(description="Deliver so many copies more.")] = None
    truncate_bytes: Annotated[
        int | None,
        Meta(
            description="Keep the first bytes of the frame (negative: all but), its size corrected."
        ),
    ] = None
    corrupt: Annotated[Corruption | None, Meta(description="Change bytes.")] = None
    cut_bytes: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(description="Deliver only the first bytes, size included, and close the connection."),
    ] = None
    close: Annotated[
        Literal["before", "after", "reset"] | None,
        Meta(
            description="Close both connections instead of delivering it, after delivering it, or "
            "instead and with a TCP reset."
        ),
    ] = None

    @property
    def effective_direction(self) -> Direction:
        """Which direction it matches."""
        if self.direction is not None:
            return self.direction
        return "request" if self.throttle_time_ms is None else "response"


_ACTIONS: Final = (
    "pass_", "error", "set", "throttle_time_ms", "delay_ms", "hold", "reorder_ms",
    "bytes_per_second", "drop", "duplicate", "truncate_bytes", "corrupt", "cut_bytes", "close",
)  # fmt: skip
# Of these, one at the most: each says by itself what is delivered.
_ALONE: Final = ("pass_", "error", "drop", "cut_bytes", "close")


def actions_of(rule: Rule) -> list[str]:
    """Return the names of the fields by which a rule acts."""
    default = Rule()
    return [name for name in _ACTIONS if getattr(rule, name) != getattr(default, name)]


def versions_of(text: str | int | None) -> range | None:
    """Return the versions that a rule names; None for all. RuleError where they are none."""
    if text is None:
        return None
    match = _VERSIONS.fullmatch(str(text).replace(" ", ""))
    if match is None:
        raise RuleError("versions", f"{text!r} is not versions: 9, 3-8 or 9+")
    first = int(match[1])
    last = 0x7FFF if match[2] else int(match[3] or first)
    if last < first:
        raise RuleError("versions", f"{text!r} ends before it begins")
    return range(first, last + 1)


def code_of(error: str | int) -> int:
    """Return the code of an error. RuleError where there is no such error."""
    if isinstance(error, int):
        if not -(1 << 15) <= error < 1 << 15:
            raise RuleError("error", f"{error} is not an int16")
        return error
    try:
        return ErrorCode[error].value
    except KeyError:
        meant = alike(error, ErrorCode.__members__)
        raise RuleError("error", f"there is no error {error!r}{meant}") from None


def apis_named(rule: Rule, apis: dict[int, Api]) -> list[Api]:
    """Return the APIs that a rule names; all that there are where it names none."""
    if rule.api is None:
        return list(apis.values())
    by_name = {api.name: api for api in apis.values()}
    named = rule.api if isinstance(rule.api, list) else [rule.api]
    if not named:
        raise RuleError("api", "the list is empty")
    chosen = []
    for name in named:
        api = apis.get(name) if isinstance(name, int) else by_name.get(name)
        if api is None:
            raise RuleError("api", f"there is no API {name!r}{alike(str(name), by_name)}")
        chosen.append(api)
    return chosen


def check_rule(rule: Rule, apis: dict[int, Api]) -> None:
    """Raise RuleError for what the types of the fields do not say."""
    named = apis_named(rule, apis)
    versions = versions_of(rule.versions)
    if versions is not None and rule.api is not None:
        for api in named:
            known = api.request.VALID_VERSIONS
            if versions.stop <= known.start or versions.start >= known.stop:
                text = f"{api.name} has versions {known.start} to {known.stop - 1}"
                raise RuleError("versions", f"{text}, none of {rule.versions}")
    actions = actions_of(rule)
    if not actions:
        raise RuleError(None, f"it does nothing: give it one of {_listed(_ACTIONS)}")
    alone = [name for name in _ALONE if name in actions]
    if len(alone) > 1 or ("pass_" in actions and len(actions) > 1):
        raise RuleError(actions[-1].rstrip("_"), f"{_listed(actions)} do not go together")
    if rule.error is not None:
        code_of(rule.error)
    elif rule.error_at is not None:
        raise RuleError("error_at", "there is no error")
    if rule.throttle_time_ms is not None and rule.effective_direction == "request":
        raise RuleError("throttle_time_ms", "requests have no throttle time")
    if rule.corrupt is not None and (rule.corrupt.at is None) == (rule.corrupt.bytes is None):
        raise RuleError("corrupt", "give it either at or bytes")
    for field in ("where", "set"):
        for path in getattr(rule, field):
            _check_path(rule, field, path, named)
    for path, wanted in rule.where.items():
        for one in wanted if isinstance(wanted, list) else [wanted]:
            if isinstance(one, dict) and not (one and _are_numbers(one, {"min", "max"})):
                raise RuleError(f"where.{path}", "give it a value, a list of them, or min and max")
    for path, value in rule.set.items():
        if isinstance(value, dict) and not (value and _are_numbers(value, {"add"})):
            raise RuleError(f"set.{path}", "give it a value, or {add: number}")


def notes(rule: Rule, apis: dict[int, Api]) -> list[str]:
    """Return which versions of the API that a rule names cannot meet its conditions."""
    lines = []
    named = [] if rule.api is None else apis_named(rule, apis)
    for path in rule.where if len(named) == 1 else ():
        direction, steps = rule.effective_direction, parse(path)
        if steps[0].name == HEADER:
            continue
        if direction == "response" and steps[0].name == REQUEST:
            direction, steps = "request", steps[1:]
        kind = named[0].message(direction)
        lacking = set(versions_of(rule.versions) or kind.VALID_VERSIONS) & {*kind.VALID_VERSIONS}
        lacking -= {*versions_with(kind, steps, by_id=True)}
        if lacking:
            shown = ", ".join(map(str, sorted(lacking)))
            lines.append(f"{kind.__name__} has no {path} in versions {shown}: they do not match")
    return lines


def _are_numbers(values: dict[str, Any], names: set[str]) -> bool:
    numbers = (
        isinstance(one, int | float) and not isinstance(one, bool) for one in values.values()
    )
    return set(values) <= names and all(numbers)


def _check_path(rule: Rule, field: str, path: str, named: list[Api]) -> None:
    direction = rule.effective_direction
    try:
        steps = parse(path)
        if steps[0].name == HEADER:
            names = _HEADER_FIELDS[direction]
            if [step.name for step in steps[1:]] not in [[name] for name in names]:
                raise PathError(f"the header of a {direction} has {_listed(sorted(names))}")
            return
        if field == "where" and direction == "response" and steps[0].name == REQUEST:
            direction, steps = "request", steps[1:]
            if not steps:
                raise PathError(f"{path!r} names no field of the request")
        versions = versions_of(rule.versions)
        kinds = [api.message(direction) for api in named]
        by_id = field == "where"
        problems = [problem_of(kind, path, steps, versions, by_id=by_id) for kind in kinds]
        if field == "set" and not isinstance(value := rule.set[path], dict):
            misfits = [misfit(kind, steps, value) for kind in kinds]
            if all(misfits):
                raise PathError(f"the field is {misfits[0]}, and {value!r} is not")
        if all(problems):
            text = problems[0] if rule.api is not None else f"no {direction} has a field {path!r}"
            raise PathError(text)
    except PathError as error:
        raise RuleError(f"{field}.{path}", str(error)) from None


def _listed(names: Any) -> str:
    shown = [name.rstrip("_") for name in names]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"

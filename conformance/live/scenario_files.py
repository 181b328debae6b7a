"""Files of scenarios: given, when, then; every mistake is named by ``path:line:column``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from kraftspec.conformance.live.messages import (
    REQUESTS,
    MessageError,
    check_condition,
    check_duration,
    check_header,
    check_value,
    resolve,
)
from kraftspec.words import alike
from kraftspec.yaml_files import Steps, YamlFile

DIRECTORY = Path(__file__).resolve().parent / "scenarios"
NEVER_MS = 3_600_000  # A time-out that does not end.
ROLES_NAME = "roles.yaml"
Fields = dict[str, Any]
Peer = Literal[2, 3, 4]
VOTERS = (1, 2, 3)  # At the start; 1 is the node itself, 4 an observer.
Role = Literal[
    "unattached", "prospective", "candidate", "leader", "follower", "fetching", "voted", "resigned"
]
Name = Annotated[str, Meta(pattern="^[a-z0-9]+(-[a-z0-9]+)*$")]
Duration = Annotated[
    str, Meta(description="Of the node's time-outs: 2*election, fetch, 2*election + fetch.")
]


class _Strict(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """What has no fields but its own."""


class Habits(_Strict, frozen=True, kw_only=True):
    """What the peers do by themselves."""

    votes: Annotated[
        Literal["grant", "reject", "ignore"] | None, Meta(description="At pre-votes and votes.")
    ] = None
    fetches: Annotated[
        Literal["empty", "no-leader", "ignore"] | None,
        Meta(
            description="At Fetch: no records; that the peer does not lead and knows no leader, "
            "unless the node follows it; or nothing."
        ),
    ] = None


class Given(_Strict, frozen=True, kw_only=True):
    """The quorum, and the state of the node before the first step."""

    role: Annotated[
        Role, Meta(description="The runner brings it about as scenarios/roles.yaml has it.")
    ] = "unattached"
    quorum: Annotated[
        Literal["dynamic", "static", "alone", "observer"],
        Meta(
            description="Voters of the log (kraft.version 1), or of controller.quorum.voters; the "
            "node is the only voter; it is none."
        ),
    ] = "dynamic"
    properties: Annotated[
        dict[str, str | int], Meta(description="Beside those that the role has.")
    ] = {}
    habits: Habits = Habits()


class Send(_Strict, frozen=True, kw_only=True):
    """A peer sends a request to the node."""

    api: Annotated[str, Meta(description="Vote, Fetch, …")]
    sender: Annotated[Peer, Meta(description="The peer; its messages share a connection.")] = 2
    version: Annotated[int | None, Meta(description="The newest by default.")] = None
    fields: Annotated[Fields, Meta(description="What differs from a valid request.")] = {}
    header: Annotated[Fields, Meta(description="What differs in the header.")] = {}
    frame: Annotated[
        Annotated[str, Meta(pattern="^([0-9a-f]{2})*$")],
        Meta(
            description="A whole request in hex, its size left out, in place of a valid one; the "
            "ports 14091 to 14094 in it are those of the nodes."
        ),
    ] = ""
    copies: Annotated[
        Annotated[int, Meta(ge=1, le=100)], Meta(description="So many, in one write.")
    ] = 1
    pieces: Annotated[
        list[Annotated[int, Meta(ge=1)]],
        Meta(description="Bytes of each write but the last, size included."),
    ] = []
    size: Annotated[int | None, Meta(description="A size that is a lie.")] = None
    cut: Annotated[
        Annotated[int, Meta(ge=0)], Meta(description="Leave out so many bytes at the end.")
    ] = 0
    extra: Annotated[
        Annotated[str, Meta(pattern="^([0-9a-f]{2})*$")],
        Meta(description="Hex bytes after the message."),
    ] = ""
    half_close: Annotated[bool, Meta(description="Then send no more.")] = False
    until: Annotated[
        Fields, Meta(description="Send it again until the answer is so: field path to a condition.")
    ] = {}
    hold: Annotated[
        Name | None, Meta(description="Go on; a later `collect` of this name gets the answer.")
    ] = None


class Raw(_Strict, frozen=True, kw_only=True):
    """A peer sends bytes to the node, on a new connection."""

    hex: Annotated[str, Meta(pattern="^([0-9a-f]{2}| )*$", description="Sizes included.")]
    sender: Peer = 2
    half_close: bool = False


class Reply(_Strict, frozen=True, kw_only=True):
    """A peer waits for a request of the node, and answers it."""

    api: str
    at: Annotated[Peer, Meta(description="The peer.")] = 2
    where: Annotated[Fields, Meta(description="Which one: field path to a condition.")] = {}
    fields: Annotated[Fields, Meta(description="What differs from a plain answer.")] = {}
    records: Annotated[
        Literal["opening"] | list[Annotated[str, Meta(pattern="^([0-9a-f]{2})*$")]] | None,
        Meta(
            description="Of Fetch: the first batch of the epoch of the peer, which leads; or "
            "batches in hex, with ports as in `frame`."
        ),
    ] = None
    body: Annotated[
        str, Meta(description="A whole answer in hex, without its header, in place of a plain one.")
    ] = ""
    version: Annotated[int | None, Meta(description="Of `body`; the newest by default.")] = None
    repeat: Annotated[
        bool, Meta(description="Each such request until the next step, as a leader does.")
    ] = False


class Restart(_Strict, frozen=True, kw_only=True):
    """The node ends and starts again."""

    by: Annotated[Literal["kill", "stop"], Meta(description="kill -9, or a clean stop.")]
    properties: Annotated[dict[str, str | int], Meta(description="That it then has.")] = {}


class When(_Strict, frozen=True, kw_only=True):
    """One thing that happens."""

    send: Send | None = None
    raw: Raw | None = None
    reply: Reply | None = None
    collect: Annotated[Name | None, Meta(description="The answer to a request on hold.")] = None
    replicate: Annotated[
        Peer | None, Meta(description="The peer fetches until it has the node's whole log.")
    ] = None
    restart: Restart | None = None
    habits: Habits | None = None


class Arrival(_Strict, frozen=True, kw_only=True):
    """A request of the node arrives at a peer."""

    api: str
    at: Annotated[Peer | None, Meta(description="The peer; any by default.")] = None
    where: Annotated[Fields, Meta(description="Field path to a condition.")] = {}
    within: Annotated[Duration, Meta(description="A minute is added for a busy machine.")] = ""
    not_before: Annotated[Duration, Meta(description="Since what happened last.")] = ""
    open: Annotated[
        bool, Meta(description="It may have come before, and waits for its answer.")
    ] = False


class Silence(_Strict, frozen=True, kw_only=True):
    """No request of that kind arrives."""

    api: str
    at: Annotated[Peer | None, Meta(description="At this peer; at all by default.")] = None
    during: Duration
    where: Fields = {}


class Outcome(_Strict, frozen=True, kw_only=True):
    """One of the ways in which the node may go on."""

    answer: Annotated[Fields | None, Meta(description="It answers; field path to a condition.")] = (
        None
    )
    closed: Annotated[Literal[True] | None, Meta(description="It closes the connection.")] = None
    request: Arrival | None = None
    no_request: Silence | None = None


Outcomes = Outcome | list[Outcome]


class Then(_Strict, frozen=True, kw_only=True):
    """What has to follow. A list has alternatives."""

    must: Outcomes | None = None
    should: Outcomes | None = None
    cites: Annotated[str, Meta(min_length=1, description="Section of a KIP, or of the protocol.")]

    @property
    def outcomes(self) -> list[Outcome]:
        """The alternatives."""
        one = self.should if self.must is None else self.must
        return one if isinstance(one, list) else [] if one is None else [one]


class Step(_Strict, frozen=True, kw_only=True):
    """What happens, and what has to follow."""

    when: When = When()
    then: list[Then] = []


class Scenario(_Strict, frozen=True, kw_only=True):
    """A scenario."""

    name: Name
    about: Annotated[str, Meta(min_length=10)]
    given: Given = Given()
    steps: Annotated[list[Step], Meta(min_length=1)]


class ScenarioFile(_Strict, frozen=True, kw_only=True):
    """Scenarios for `kraftspec conform live`."""

    scenarios: list[Scenario]


class RoleSetup(_Strict, frozen=True, kw_only=True):
    """How a node gets into a role."""

    properties: dict[str, str | int] = {}
    habits: Habits = Habits()
    steps: list[Step] = []


class RoleFile(_Strict, frozen=True, kw_only=True):
    """How a node gets into each role."""

    roles: dict[str, RoleSetup]


def read_scenarios(paths: list[Path]) -> list[Scenario]:
    """Read files of scenarios. Raises YamlFileError with all mistakes, OSError."""
    return [one for path in paths for one in parse_scenarios(path.read_text("utf-8"), str(path))]


def own_files() -> list[Path]:
    """Return the files of the project's own scenarios."""
    return [path for path in sorted(DIRECTORY.glob("*.yaml")) if path.name != ROLES_NAME]


def parse_scenarios(text: str, name: str) -> list[Scenario]:
    """Read and check the text of a file of scenarios. Raises YamlFileError with all mistakes."""
    file = YamlFile(text, name)
    scenarios = file.items("scenarios", Scenario)
    if not scenarios:
        file.convert(file.values or {}, ScenarioFile, [])
    names: set[str] = set()
    for number, scenario in enumerate(scenarios):
        if scenario is None:
            continue
        where: Steps = ["scenarios", number]
        if scenario.name in names:
            file.problem([*where, "name"], f"there is a scenario {scenario.name!r} already")
        names.add(scenario.name)
        for at, step in enumerate(scenario.steps):
            for below, problem in problems_of(step):
                file.problem([*where, "steps", at, *below], problem)
        if not any(step.then for step in scenario.steps):
            file.problem(where, "nothing has to follow")
    file.finish()
    return [scenario for scenario in scenarios if scenario is not None]


def step_places(paths: list[Path]) -> dict[tuple[str, int], str]:
    """Return ``path:line`` of each step in files that are right, by scenario; the first is 1."""
    places = {}
    for path in paths:
        file = YamlFile(path.read_text("utf-8"), str(path))
        for number, scenario in enumerate(file.values["scenarios"]):
            for at in range(len(scenario["steps"])):
                place = file.place(["scenarios", number, "steps", at])
                places[scenario["name"], at + 1] = place
    return places


def read_roles() -> dict[str, RoleSetup]:
    """Read how a node gets into each role. Raises YamlFileError with all mistakes."""
    path = DIRECTORY / ROLES_NAME
    file = YamlFile(path.read_text("utf-8"), str(path))
    read = file.convert(file.values, RoleFile, [])
    for name, setup in (read.roles if read else {}).items():
        for at, step in enumerate(setup.steps):
            for below, problem in problems_of(step):
                file.problem(["roles", name, "steps", at, *below], problem)
    file.finish()
    assert read is not None
    return read.roles


def problems_of(step: Step) -> Iterator[tuple[Steps, str]]:
    """Yield the mistakes that types do not show, each with where it stands in a step."""
    when = step.when
    actions = [name for name in when.__struct_fields__ if getattr(when, name) is not None]
    if len(actions) > 1:
        yield ["when", actions[1]], f"beside {actions[0]}: a step has one"
    api = None
    at: Steps
    if when.send:
        api = when.send.api
        yield from _api_problems(["when", "send", "api"], api)
        yield from _field_problems(["when", "send", "fields"], api, "request", when.send.fields)
        at = ["when", "send", "until"]
        yield from _field_problems(at, api, "response", when.send.until, is_then=True)
        for name, value in when.send.header.items():
            if problem := check_header(name, value):
                yield ["when", "send", "header", name], problem
    if when.reply:
        at = ["when", "reply", "where"]
        yield from _field_problems(at, when.reply.api, "request", when.reply.where, is_then=True)
        yield from _api_problems(["when", "reply", "api"], when.reply.api)
        at = ["when", "reply", "fields"]
        yield from _field_problems(at, when.reply.api, "response", when.reply.fields)
    for number, then in enumerate(step.then):
        if (then.must is None) == (then.should is None):
            yield ["then", number], "either must or should"
        kind = "must" if then.must is not None else "should"
        alone = not isinstance(getattr(then, kind), list)
        for index, outcome in enumerate(then.outcomes):
            below: Steps = ["then", number, kind, *([] if alone else [index])]
            yield from _outcome_problems(below, outcome, api)


def _outcome_problems(
    where: Steps, outcome: Outcome, api: str | None
) -> Iterator[tuple[Steps, str]]:
    given = [name for name in outcome.__struct_fields__ if getattr(outcome, name) is not None]
    if len(given) != 1:
        yield where, "one of answer, closed, request and no_request"
    if outcome.answer and api:
        yield from _field_problems(
            [*where, "answer"], api, "response", outcome.answer, is_then=True
        )
    for name in ("request", "no_request"):
        if one := getattr(outcome, name):
            yield from _api_problems([*where, name, "api"], one.api)
            at = [*where, name, "where"]
            yield from _field_problems(at, one.api, "request", one.where, is_then=True)
            for field in ("within", "not_before", "during"):
                if text := getattr(one, field, ""):
                    try:
                        check_duration(text)
                    except MessageError as error:
                        yield [*where, name, field], str(error)


def _api_problems(where: Steps, api: str) -> Iterator[tuple[Steps, str]]:
    if api not in REQUESTS:
        yield where, f"there is no API {api!r}{alike(api, REQUESTS)}"


def _field_problems(
    where: Steps, api: str, direction: str, fields: Fields, *, is_then: bool = False
) -> Iterator[tuple[Steps, str]]:
    if api not in REQUESTS:
        return
    for path, value in fields.items():
        try:
            name = resolve(api, direction, path)
            (check_condition if is_then else check_value)(api, direction, name, value)
        except MessageError as error:
            yield [*where, path], str(error)


def schema_text() -> str:
    """Return the JSON Schema of files of scenarios, for editors."""
    schema: dict[str, Any] = msgspec.json.schema(ScenarioFile)
    for kind in ("Send", "Reply", "Arrival", "Silence"):
        schema["$defs"][kind]["properties"]["api"] |= {"enum": sorted(REQUESTS)}
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Scenarios of kraftspec conform live",
        **schema,
    }
    return json.dumps(document, indent=2) + "\n"

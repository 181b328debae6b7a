"""What becomes of a frame: the rules that it meets, one after the other.

Rules act in their order, each on what those before it have left. The result is a ``Fate``: what is
delivered, and when. A frame that nobody wants is never put together: ``wants`` says so from
its API key and version alone.
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.message import API_VERSIONS_KEY
from kraftspec.generated import kafka
from kraftspec.generated.kafka import ApiVersionsResponse, ResponseHeader
from kraftspec.proxy.addresses import StandIn, Way, rewrite, way_to_addresses
from kraftspec.proxy.error_answers import error_answer, mark
from kraftspec.proxy.frame import METADATA, Api, Direction, Exchange, Fate, Frame, apis_of, encoded
from kraftspec.proxy.paths import (
    HEADER,
    NAME_BY_ID,
    REQUEST,
    TOPIC_NAMES,
    PathError,
    Place,
    Step,
    has,
    parse,
    places,
)
from kraftspec.proxy.rules import Rule, RuleError, apis_named, check_rule, code_of, versions_of
from kraftspec.reference.wire.frames import UNSUPPORTED_VERSION

if TYPE_CHECKING:
    from kraftspec.fastpath.message import Message
    from kraftspec.fastpath.types import Uuid
    from kraftspec.proxy.frame import Part
    from kraftspec.proxy.recorder import Recorder

REPORTS_MAX: Final = 1_000  # Of each kind; what comes more often is counted only.
TOPIC_IDS_FROM: Final = 10  # The first version of answers to Metadata that has them.

log = logging.getLogger("kraftspec.proxy")


class ActiveRule:
    """A rule of a running proxy: ready to match, with its counts."""

    def __init__(self, rule: Rule, apis: dict[int, Api], topics: Mapping[Uuid, str]) -> None:
        """Check the rule. Raises RuleError. ``topics`` are names by ids."""
        check_rule(rule, apis)
        self.rule = rule
        self.name = rule.name
        self.direction = rule.effective_direction
        self.keys = None if rule.api is None else {api.key for api in apis_named(rule, apis)}
        self.versions = versions_of(rule.versions)
        self.matched = 0
        self.acted = 0
        self.release_hooks: list[Callable[[], None]] = []
        self._topics = topics
        self._random = random.Random(rule.seed)
        self._where = [(parse(path), wanted) for path, wanted in rule.where.items()]
        self._set = [(parse(path), value) for path, value in rule.set.items()]
        of_request = any(steps[0].name == REQUEST for steps, _ in self._where)
        self.names_topics = any(steps[-1].name in TOPIC_NAMES for steps, _ in self._where)
        self.keeps_request = self.direction == "response" and (
            of_request or rule.client_id is not None
        )

    def covers(self, api_key: int, version: int) -> bool:
        """Whether it may match frames of that API and version."""
        if self.keys is not None and api_key not in self.keys:
            return False
        return self.versions is None or version in self.versions

    def takes(self, frame: Frame, node: frozenset[str]) -> bool:
        """Whether it matches a frame of an API that it covers, and it is this frame's turn.

        Raises CodecError, and PathError where that cannot be said.
        """
        rule = self.rule
        if rule.node is not None and str(rule.node) not in node:
            return False
        if rule.client_id is not None and not self._is_client(frame):
            return False
        for steps, wanted in self._where:
            if not self._meets(frame, steps, wanted):
                return False
        self.matched += 1
        return self._is_turn()

    def _meets(self, frame: Frame, steps: tuple[Step, ...], wanted: Any) -> bool:
        nameless = None
        for place in _find(frame, steps, by_id=True):
            value = place.value
            if place.wire == NAME_BY_ID:
                topic_id, value = value, self._topics.get(value)
                if value is None:
                    nameless = topic_id
                    continue
            if _agrees(value, wanted):
                return True
        if nameless is not None:
            raise PathError(f"no answer to Metadata has named the topic {nameless} yet")
        return False

    def _is_client(self, frame: Frame) -> bool:
        request = frame if frame.direction == "request" else frame.exchange.request
        client_id = None if request is None else request.client_id
        assert self.rule.client_id is not None
        return client_id is not None and fnmatchcase(client_id, self.rule.client_id)

    def _is_turn(self) -> bool:
        rule = self.rule
        number = self.matched - rule.after
        is_turn = (
            number > 0
            and (rule.nth is None or number == rule.nth)
            and (rule.every is None or number % rule.every == 0)
            and (rule.times is None or self.acted < rule.times)
            and (rule.probability is None or self._random.random() < rule.probability)
        )
        self.acted += is_turn
        return is_turn

    @property
    def is_spent(self) -> bool:
        """Whether it will never act again."""
        rule = self.rule
        if rule.nth is not None and self.matched - rule.after >= rule.nth:
            return True
        return rule.times is not None and self.acted >= rule.times

    @property
    def held(self) -> int:
        """How many messages it holds."""
        return len(self.release_hooks)

    # ---- acting --------------------------------------------------------------------------------

    def change(self, frame: Frame) -> None:
        """Set fields of a frame. Where one cannot be set, none is; raises what is wrong."""
        was_changed = frame.changed
        before: list[tuple[Place, Any]] = []
        try:
            for steps, value in self._set:
                if steps[0].name != HEADER and not has(frame.message_class, frame.version, steps):
                    raise PathError(f"this version has no {'.'.join(step.name for step in steps)}")
                for place in list(_find(frame, steps)):
                    before.append((place, getattr(place.owner, place.attr)))
                    place.put(value)
                    frame.changed = True
            frame.parts()  # What does not fit is seen when it is encoded.
        except Exception:
            for place, value in reversed(before):
                setattr(place.owner, place.attr, value)
            frame.changed = was_changed
            raise

    def spoil(self, fate: Fate) -> None:
        """Corrupt or truncate what is delivered."""
        rule = self.rule
        if rule.corrupt is not None:
            body = fate.body()
            if rule.corrupt.bytes is not None:
                for _ in range(rule.corrupt.bytes if body else 0):
                    body[self._random.randrange(len(body))] ^= 1 << self._random.randrange(8)
            else:
                at = rule.corrupt.at or 0
                at += len(body) if at < 0 else 0
                for offset, bits in enumerate(bytes.fromhex(rule.corrupt.xor), at):
                    if 0 <= offset < len(body):
                        body[offset] ^= bits
            fate.replace(body)
        if rule.truncate_bytes is not None:
            fate.replace(fate.body()[: rule.truncate_bytes])


class Engine:
    """The rules of a proxy, in their order, and what they and others want to see."""

    def __init__(self, rules: Iterable[Rule] = (), package: ModuleType = kafka) -> None:
        """Check the rules. Raises RuleError."""
        self.apis = apis_of(package)
        self.topics: dict[Uuid, str] = {}  # Names by ids, as answers to Metadata have them.
        self.rules: list[ActiveRule] = []
        self.reports: Counter[str] = Counter()
        self.on_report: Callable[[str], None] | None = None
        self.stand_in: StandIn | None = None  # Gets the addresses that are rewritten.
        self._recorder: Recorder | None = None
        self._wants: dict[tuple[str, int, int], bool] = {}
        self._number = 0
        for rule in rules:
            self.add(rule)

    # ---- rules at run time ---------------------------------------------------------------------

    def add(self, rule: Rule) -> ActiveRule:
        """Add a rule after those that there are. Raises RuleError; a name is there once."""
        active = ActiveRule(rule, self.apis, self.topics)
        self._number += 1
        active.name = rule.name or f"rule-{self._number}"
        if any(known.name == active.name for known in self.rules):
            raise RuleError("name", f"there is a rule {active.name!r} already")
        self.rules.append(active)
        self._wants.clear()
        return active

    def remove(self, name: str) -> ActiveRule:
        """Remove a rule, and release what it holds. Raises KeyError where there is none."""
        active = self.rule(name)
        self.rules.remove(active)
        self._wants.clear()
        self.release(active)
        return active

    def rule(self, name: str) -> ActiveRule:
        """Return a rule by its name. Raises KeyError where there is none."""
        for active in self.rules:
            if active.name == name:
                return active
        raise KeyError(name)

    def release(self, active: ActiveRule) -> int:
        """Let go what a rule holds; return how many frames."""
        hooks, active.release_hooks = active.release_hooks, []
        for hook in hooks:
            hook()
        return len(hooks)

    def record_to(self, recorder: Recorder) -> None:
        """Record all messages from now on."""
        self._recorder = recorder
        self._wants.clear()

    # ---- frames --------------------------------------------------------------------------------

    def wants(self, direction: Direction, api_key: int, version: int) -> bool:
        """Whether a frame of that API and version has to be looked at as a whole."""
        key = (direction, api_key, version)
        wanted = self._wants.get(key)
        if wanted is None:
            is_seen = (
                self._recorder is not None
                or self._way(*key) is not None
                or self._names_topics(*key)
            )
            wanted = self._wants[key] = is_seen or any(
                rule.covers(api_key, version)
                and (rule.direction == direction or (direction == "request" and rule.keeps_request))
                for rule in self.rules
            )
        return wanted

    def _way(self, direction: Direction, api_key: int, version: int) -> Way | None:
        api = self.apis.get(api_key)
        if self.stand_in is None or api is None:
            return None
        return way_to_addresses(api.message(direction), version)

    def _names_topics(self, direction: Direction, api_key: int, version: int) -> bool:
        """Whether the names and ids of topics in such a message are looked at."""
        return (
            (direction, api_key) == ("response", METADATA)
            and version >= TOPIC_IDS_FROM
            and (self.stand_in is not None or any(rule.names_topics for rule in self.rules))
        )

    def keeps(self, exchange: Exchange) -> bool:
        """Whether a rule for responses asks about the request."""
        return any(
            rule.keeps_request and rule.covers(exchange.api_key, exchange.version)
            for rule in self.rules
        )

    def judge(self, frame: Frame, node: frozenset[str]) -> Fate | None:
        """Return what becomes of a frame; None where it passes as it came.

        What cannot be decoded for a rule passes unchanged, and is reported.
        """
        fate: Fate | None = None
        exchange = frame.exchange
        if self._recorder is not None:
            self._recorder.write(frame, max(node, key=len))  # Its address, not its id.
        self._look(frame)
        for active in list(self.rules):
            if active.direction != frame.direction:
                continue
            if active.is_spent or not active.covers(exchange.api_key, exchange.version):
                continue
            is_turn = False
            try:
                is_turn = active.takes(frame, node)
                if not is_turn:
                    continue
                if active.rule.pass_ is True:
                    break
                fate = fate or Fate([])
                self._act(active, frame, fate)
            except (CodecError, ValueError, TypeError, KeyError) as error:
                active.acted -= is_turn
                self.report(f"{self.named(frame)}, rule {active.name}: {error}")
        if fate is None and not frame.changed:
            return None
        fate = fate or Fate([])
        if not fate.parts:
            fate.parts = self._parts(frame)
        return fate

    def _look(self, frame: Frame) -> None:
        """Note the names of topics, and put our listeners in the place of the nodes' addresses."""
        key = frame.direction, frame.exchange.api_key, frame.exchange.version
        way = self._way(*key)
        try:
            if self._names_topics(*key):
                self.topics |= {one.topic_id: one.name for one in frame.message.topics if one.name}
            if way is not None and self.stand_in is not None:
                frame.changed |= rewrite(frame.message, way, self.stand_in) > 0
        except CodecError as error:
            self.report(f"{self.named(frame)}, addresses: {error}")

    def _act(self, active: ActiveRule, frame: Frame, fate: Fate) -> None:
        rule = active.rule
        if rule.set:
            active.change(frame)
        if rule.throttle_time_ms is not None:
            self._throttle(frame, rule.throttle_time_ms)
        if rule.error is not None and not fate.is_answer:
            self._answer(rule, frame, fate)
        if rule.corrupt is not None or rule.truncate_bytes is not None:
            fate.parts = fate.parts or self._parts(frame)
            active.spoil(fate)
        fate.delay_s += (rule.delay_ms or 0) / 1000
        if rule.hold:
            fate.hold = active.release_hooks.append
        if rule.reorder_ms is not None:
            fate.reorder_s = rule.reorder_ms / 1000
        fate.bytes_per_second = rule.bytes_per_second or fate.bytes_per_second
        fate.copies += rule.duplicate or 0
        if rule.cut_bytes is not None:
            fate.cut_bytes = rule.cut_bytes
        fate.close = rule.close or fate.close
        fate.is_dropped |= rule.drop

    def _parts(self, frame: Frame) -> list[Part]:
        try:
            return frame.parts()
        except CodecError as error:
            self.report(f"{self.named(frame)}: {error}")
            return [frame.data]

    def _throttle(self, frame: Frame, throttle_time_ms: int) -> None:
        message = frame.message
        if not has(type(message), frame.version, (Step("throttleTimeMs", None),)):
            raise PathError("this version has no throttleTimeMs")
        message.throttle_time_ms = throttle_time_ms
        frame.changed = True

    def _answer(self, rule: Rule, frame: Frame, fate: Fate) -> None:
        exchange = frame.exchange
        code = code_of(rule.error or 0)
        if frame.direction == "response":
            if not mark(frame.message, frame.version, code, rule.error_at):
                raise PathError(f"no place for the error {rule.error}")
            frame.changed = True
            return
        assert exchange.api is not None
        version, response = exchange.version, exchange.api.response
        answer: Message | None
        if exchange.api_key == API_VERSIONS_KEY and code == UNSUPPORTED_VERSION:
            version = 0  # The client does not know the version of the answer yet (KIP-511).
            answer = _refused_versions(exchange.api)
        else:
            answer = error_answer(frame.message, response, version, code, rule.error_at)
        if answer is None:
            raise PathError(f"no place for the error {rule.error}")
        header = ResponseHeader(correlation_id=exchange.correlation_id)
        fate.parts = encoded(header, response.header_version(version), answer, version)
        fate.is_answer = True

    def named(self, frame: Frame) -> str:
        """Return what a frame is, for people."""
        return f"{frame.exchange.name} {frame.direction} {frame.exchange.version}"

    def report(self, text: str) -> None:
        """Tell of bytes that could not be understood, or of a rule that could not act."""
        self.reports[text] += 1
        if len(self.reports) > REPORTS_MAX:
            self.reports.pop(next(iter(self.reports)))
        if self.reports[text] == 1:
            log.warning("%s", text)
        if self.on_report is not None:
            self.on_report(text)


def _refused_versions(api: Api) -> Message:
    """Return the answer to an ApiVersions request of a version that a node does not know."""
    versions = api.request.VALID_VERSIONS
    known = ApiVersionsResponse.ApiVersion(
        api_key=api.key, min_version=versions.start, max_version=versions.stop - 1
    )
    return ApiVersionsResponse(error_code=UNSUPPORTED_VERSION, api_keys=[known])


def _find(frame: Frame, steps: tuple[Step, ...], *, by_id: bool = False) -> Iterable[Place]:
    if steps[0].name == HEADER:
        return places(frame.header, frame.header_version, steps[1:])
    if frame.direction == "response" and steps[0].name == REQUEST:
        request = frame.exchange.request
        return () if request is None else _find(request, steps[1:], by_id=by_id)
    return places(frame.message, frame.version, steps, by_id=by_id)


def _agrees(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, list):
        return any(_agrees(value, one) for one in wanted)
    if isinstance(wanted, dict):
        low, high = wanted.get("min"), wanted.get("max")
        return (low is None or value >= low) and (high is None or value <= high)
    if isinstance(value, bool) or isinstance(wanted, bool) or value is None or wanted is None:
        return value is wanted or (value == wanted and isinstance(value, bool))
    if isinstance(wanted, str):
        return fnmatchcase(str(value), wanted)
    return bool(value == wanted)

"""Node vectors made of what a real Kafka controller answers.

``kraftspec conform record-node`` runs it. A scenario is a state and what happens in it; what the
controller answers is recorded, and recorded answers are then asked for again, of a new process, and
of other releases.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from kraftspec.conformance.making.exchanges import requests as rq
from kraftspec.conformance.making.exchanges.kafka import KafkaNode
from kraftspec.conformance.making.exchanges.peers import KRAFT_APIS
from kraftspec.conformance.raw.node import (
    NodeAnswer,
    NodeAppend,
    NodeExpectation,
    NodeOther,
    NodeRequest,
    NodeSource,
    NodeState,
    NodeStep,
    NodeVector,
)
from kraftspec.conformance.runner.metadata_batches import has_sets, written_from
from kraftspec.conformance.runner.node import NodeFailure, answered_fields, check, replay
from kraftspec.conformance.vectors import dumps
from kraftspec.fastpath.batch_reader import decode_batch, read_header
from kraftspec.fastpath.message import Message
from kraftspec.reference.profiles.kafka.membership import FEATURES_FROM

STEP_US = 1_000
_TIMES = "times at which replicas fetched, by the clock of the node"
_TEXT = "text for people, of which each implementation has its own"
_SERVED = (
    "a controller serves more APIs and features than a quorum needs, and what its state machine "
    "has loaded is no part of the quorum"
)
_VOTERS = "voters are listed in the order of a Java set"
_ORDER = "observers are listed in no order"
_OBSERVER = re.compile(r"(observers)\[\d+\]")
_MESSAGES = ("errorMessage", "lastFetchTimestamp", "lastCaughtUpTimestamp")
_KRAFT_KEYS = {api.key for api in KRAFT_APIS}


class Recording:
    """A controller in a state, and the steps that were taken with it."""

    def __init__(self, name: str, state: NodeState, node: KafkaNode) -> None:
        self.name = name
        self.state = state
        self.node = node
        self.steps: list[NodeStep] = []
        self._late: list[tuple[int, int]] = []  # (step, token) of what is not answered yet.
        node.restore(state)
        self._at()
        node.settle(state.role)
        if state.role == "leader":
            self._wait_for_batch(written_from(state) - 1)
            state.clock_ms = self._newest_ms()

    # ---- what a scenario says ------------------------------------------------------------------

    def ask(
        self,
        message: Message,
        version: int,
        *,
        note: str = "",
        role: Any = None,
        writes: bool = False,
        late: bool = False,
    ) -> Any:
        """Put a request, and record the answer, which is returned. ``late``: ``collect`` does."""
        number = len(self.steps)
        data = rq.frame_of(message, version, number + 1)
        name = type(message).__name__.removesuffix("Request")
        return self.put(name, version, data, note=note, role=role, writes=writes, late=late)

    def put(
        self,
        api: str,
        version: int,
        data: bytes,
        *,
        note: str = "",
        role: Any = None,
        writes: bool = False,
        late: bool = False,
    ) -> Any:
        """Put bytes."""
        self._at()
        token = self.node.request(data)
        step = NodeStep(
            at_us=self._at_us(), request=NodeRequest(api=api, version=version, hex=data.hex())
        )
        self._finish(step, note, role, writes)
        if late:
            self._late.append((len(self.steps) - 1, token))
            return None
        step.expect = self._expectation(step, token)
        return self.fields(-1)

    def collect(self) -> Any:
        """Record the answer to the oldest request that waits for one: it comes now."""
        number, token = self._late.pop(0)
        step = self.steps[number]
        step.expect = self._expectation(step, token)
        step.expect.after = len(self.steps) - 1 - number
        return self.fields(number)

    def fields(self, number: int) -> Any:
        """Return the body of a recorded answer; empty where there was none."""
        return answered_fields(self.steps[number])

    def answer(
        self, node_id: int, message: Message, version: int, *, note: str = "", role: Any = None,
        writes: bool = False,
    ) -> None:  # fmt: skip
        """Let another node answer what the controller asks it."""
        answer = NodeAnswer(
            port=rq.port_of(node_id),
            api=type(message).__name__.removesuffix("Response"),
            version=version,
            hex=message.encode(version).hex(),
        )
        self._at()
        self.node.answer(answer)
        self._finish(NodeStep(at_us=self._at_us(), answer=answer), note, role, writes)

    def appended(self) -> None:
        """Record what the state machine appends: at least a batch, and all that follow it."""
        self._wait_for_batch(self._end - 1)
        self.node.quiet()
        for batch in self.node.log():
            header = read_header(batch)
            if header.base_offset < self._end or header.is_control:
                continue
            values = [bytes(record.value or b"").hex() for record in decode_batch(batch)]
            step = NodeStep(
                at_us=self._at_us(),
                append=NodeAppend(base_offset=header.base_offset, records=values),
                clock_ms=header.base_timestamp,
            )
            self.steps.append(step)

    @property
    def end(self) -> int:
        """Where the log of the controller ends."""
        return self.node.end_offset()

    def vector(self) -> NodeVector:
        """Return what was recorded; ``ValueError`` where it does not hold together."""
        if self._late:
            raise ValueError(f"{self.name}: nobody collected the answer to {self._late}")
        vector = NodeVector(
            id=self.name,
            source=NodeSource(kafka=self.node.release),
            state=self.state,
            steps=self.steps,
        )
        check(vector)
        return vector

    # ---- inside --------------------------------------------------------------------------------

    def _at_us(self) -> int:
        return len(self.steps) * STEP_US

    def _at(self) -> None:
        self._end = self.node.end_offset()

    def _finish(self, step: NodeStep, note: str, role: Any, writes: bool) -> None:
        if note:
            step.note = note
        if role is not None:
            step.role = role
        self.steps.append(step)
        self.node.settle(role)
        if writes:
            self._wait_for_batch(self._end - 1)
            headers = map(read_header, self.node.log())
            written = next(one for one in headers if one.base_offset >= self._end)
            step.clock_ms = written.base_timestamp  # Its state machine may have written more.

    def _wait_for_batch(self, last_offset: int) -> None:
        self.node.until(lambda: self.node.end_offset() > last_offset + 1, "wrote nothing")

    def _newest_ms(self) -> int:
        return read_header(self.node.log()[-1]).base_timestamp

    def _expectation(self, step: NodeStep, token: int) -> NodeExpectation:
        data = self.node.reply(token)
        if data is None:
            self.node.check_lives()
        return expectation(step, data, written_from(self.state))


def expectation(step: NodeStep, data: bytes | None, written: int) -> NodeExpectation:
    """Return what is expected where this was answered; None: the node hung up.

    ``written``: the offset from which on the node wrote the log by itself.
    """
    if data is None:
        return NodeExpectation(closed=True)
    whole = NodeExpectation(hex=data.hex())
    fields = answered_fields(msgspec.structs.replace(step, expect=whole))
    paths, why = undetermined(step, fields, written)
    if not paths:
        return whole
    return NodeExpectation(fields=fields, undetermined=paths, why=why)


def undetermined(step: NodeStep, fields: dict[str, Any], written: int) -> tuple[list[str], str]:
    """Return the fields of an answer that another node may answer otherwise, and why.

    Of ApiVersions the rows that concern a quorum are kept, and those that do not are taken out.
    """
    assert step.request is not UNSET
    if step.request.api == "ApiVersions":
        return _of_api_versions(fields, step.request.version)
    paths = list(_paths(fields, ""))
    if step.request.api == "Fetch":
        records = [
            base64.b64decode(partition.get("records") or "")
            for topic in fields["responses"]
            for partition in topic["partitions"]
        ]
        if any(has_sets(data, written) for data in records):
            return ["responses[*].partitions[*].records[~]"], _VOTERS
    if step.request.api == "DescribeQuorum":
        paths = _of_observers(fields, paths)
    reasons = [_TEXT] if any(path.endswith("errorMessage") for path in paths) else []
    reasons += [_TIMES] if any(path.endswith("Timestamp") for path in paths) else []
    reasons += [_ORDER] if any("[~]" in path for path in paths) else []
    return paths, "; ".join(reasons)


def _of_observers(fields: dict[str, Any], paths: list[str]) -> list[str]:
    """Return the paths where several observers are listed in any order."""
    for topic in fields["topics"]:
        for partition in topic["partitions"]:
            if len(partition["observers"]) > 1:
                paths = [_OBSERVER.sub(r"\1[*]", path) for path in paths]
                about = "topics[*].partitions[*].observers[~]"
                return [*dict.fromkeys(paths), about]
    return paths


def _of_api_versions(fields: dict[str, Any], version: int) -> tuple[list[str], str]:
    keys = fields["apiKeys"]
    fields["apiKeys"] = [row for row in keys if row["apiKey"] in _KRAFT_KEYS]
    if len(keys) == len(fields["apiKeys"]):
        return [], ""
    paths = ["apiKeys[+]"]
    if version >= FEATURES_FROM:
        features = fields.get("supportedFeatures", [])
        fields["supportedFeatures"] = [row for row in features if row["name"] == "kraft.version"]
        for name in ("finalizedFeatures", "finalizedFeaturesEpoch"):
            fields.pop(name, None)
        paths += ["supportedFeatures[+]", "finalizedFeatures", "finalizedFeaturesEpoch"]
    return paths, _SERVED


def _paths(value: Any, path: str) -> Any:
    """Yield the paths of messages and times that are there; where there is none, that is so."""
    if isinstance(value, dict):
        for name, item in value.items():
            below = f"{path}.{name}" if path else name
            if name in _MESSAGES:
                if item not in (None, rq.NONE):
                    yield below
            else:
                yield from _paths(item, below)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _paths(item, f"{path}[{number}]")


# ---- files -------------------------------------------------------------------------------------

Scenario = Callable[[Recording], None]


def record(name: str, state: NodeState, scenario: Scenario, release: str) -> NodeVector:
    """Record a scenario with a new controller of a release."""
    node = KafkaNode(release)
    try:
        recording = Recording(name, state, node)
        scenario(recording)
        return recording.vector()
    except Exception as error:
        error.add_note(f"in scenario {name}; the controller's log:\n{node.log_tail()}")
        raise
    finally:
        node.close()


def repeat(vector: NodeVector) -> list[NodeFailure]:
    """Ask a new controller of the same release the same; return what it answers otherwise."""
    return replay(vector, KafkaNode(vector.source.kafka))


def ask_also(vector: NodeVector, release: str) -> NodeFailure | None:
    """Ask a controller of another release the same, and add what it answers otherwise.

    Returns why it could not be asked all, and adds nothing then: it is not in the state that the
    vector supposes, say.
    """
    heard: dict[int, bytes | None] = {}
    failures = replay(vector, KafkaNode(release), heard.__setitem__)
    ended = next((one for one in failures if one.ended), None)
    if ended is not None:
        return ended
    written = written_from(vector.state)
    for failure in failures:
        step = vector.steps[failure.step]
        assert step.expect is not UNSET
        answer = expectation(step, heard[failure.step], written)
        answer.after = step.expect.after
        _add_other(step, release, answer)
    vector.source.also = [*(vector.source.also or ()), release]
    check(vector)
    return None


def _add_other(step: NodeStep, release: str, answer: NodeExpectation) -> None:
    others = step.others or []
    same = next((one for one in others if one.expect == answer), None)
    if same is None:
        step.others = [*others, NodeOther(kafka=[release], expect=answer)]
    else:
        same.kafka.append(release)


def write(vector: NodeVector, directory: Path) -> bool:
    """Write a vector, a step a line; return whether the file changed."""
    value = msgspec.to_builtins(vector)
    steps = ",\n".join(dumps(step) for step in value.pop("steps"))
    text = f'{dumps(value)[:-1]},"steps":[\n{steps}\n]}}\n'
    path = directory / f"{vector.id}.json"
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    directory.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return True

"""A node of the simulated quorum that is two.

The driver is the node for the world; the shadow gets the same inputs at the same time. A request of
the shadow is the driver's that has the same peer, version and bytes, and gets its reply.

After a difference that is explained, and after which the two are in different states, the pair is
*apart*: the shadow gets what fits it, and nothing is counted. It is joined again when both say the
same, have the same log and voters, and wait for the same replies, or when the node starts: then the
shadow gets a disk with what the driver's has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from kraftspec.fastpath import crc32c
from kraftspec.generated.kafka import UpdateRaftVoterRequest
from kraftspec.reference.raft import Config
from kraftspec.reference.raft.messages import Fetch, FetchSnapshot, Request
from kraftspec.reference.raft.types import NEVER_US
from kraftspec.simulation.harness.hosted import OwnProcess
from kraftspec.simulation.harness.node import FAILED_DISK, FULL_DISK, NO_POWER, UP
from kraftspec.simulation.harness.process import Hosts
from kraftspec.simulation.harness.protocol import ENCODERS, PROTOCOL, Event
from kraftspec.simulation.harness.replica import HarnessReplica
from kraftspec.simulation.lockstep.same_batches import SameBatches
from kraftspec.simulation.lockstep.step import Judge, Side, Step
from kraftspec.simulation.log_model import LogModel
from kraftspec.simulation.network import Message
from kraftspec.simulation.replica import Surroundings

DEADLINE = 10  # Its place in a state.
RUN = slice(1, 5)  # Of the bytes of a command.
# The commands with a time: the inputs of a node that is up. The shadow gets them as the driver.
STEPS: Final = frozenset(
    layout.name
    for layout in PROTOCOL.commands
    if layout.fields and layout.fields[0][0] == "now_us" and layout.name != "start"
)
# In these roles nothing is hidden that the state, the log and the requests do not show.
PLAIN_ROLES: Final = (0, 4)  # Unattached, follower.
ALIKE_STEPS = 3  # In a row, before a pair that was apart counts as joined.
LONG_AGO_US = 1 << 50
APART = "step apart"


class Place(NamedTuple):
    """A process, and a run of it."""

    process: Hosts
    run: int


class PairReplica(HarnessReplica):
    """A driver, which is the node for the world, and a shadow that is compared with it.

    ``judge`` is told of each step, and whether the driver is ours; it says whether both are still
    in the same state. ``on_apart`` is called when they are not.
    """

    def __init__(
        self,
        world: Surroundings,
        config: Config,
        first_files: Mapping[str, bytes] | None,
        driver: Place,
        shadow: Place,
        judge: Judge,
        on_apart: Callable[[PairReplica], None],
    ) -> None:
        self._last_us = 0
        # With a linger Kafka puts several appends into one batch, and ours makes one of each.
        config = msgspec.structs.replace(config, append_linger_us=0)
        super().__init__(world, config, first_files, driver.process, driver.run)
        self._define = self._queued[0]
        self._shadow = shadow
        self._judge = judge
        self._on_apart = on_apart
        self._is_ours = isinstance(driver.process, OwnProcess)
        self.is_joined = False
        self._has_shadow = False
        self._alike = 0
        self._requests: dict[int, tuple[int, int, int]] = {}  # Number → the shadow's, API, time.
        self._only_drivers: set[int] = set()  # Its requests that the shadow did not make.
        self._alone_us = -LONG_AGO_US  # When a request that one of the two had made ended.
        self._voters: tuple[Any, Any] = (None, None)  # As both told last.
        self._same = SameBatches()
        self._before: dict[str, Any] = {}
        self._shadow_before: dict[str, Any] = {}
        self._start: tuple[Any, ...] = ()
        self._rejected_us = -LONG_AGO_US
        self._heard_us = 0  # When the leader answered last, or was found.

    def clock_us(self) -> int:
        """Return whole milliseconds, which is what Kafka counts; they never go back."""
        self._last_us = max(self._last_us, super().clock_us() // 1000 * 1000)
        return self._last_us

    def take_reply(self, request: Request, message: Message) -> None:
        """Note an answer that is of no use, before both take it."""
        reply = self.profile.decode_reply(request, message.version, message.body)
        if _is_rejection(reply):
            self._rejected_us = self.clock_us()
        elif request.__class__ in (Fetch, FetchSnapshot) and not self._is_overdue(
            self._requests.get(message.correlation)
        ):
            self._heard_us = self.clock_us()
        super().take_reply(request, message)

    # ---- the start ---------------------------------------------------------------------------

    def recover(self, seed: int) -> LogModel:
        """Start the driver, and then the shadow on the same disk."""
        self.is_joined = self._has_shadow = False
        log_model = super().recover(seed)
        if self._begun[-1][1][0] == UP:
            self._start_shadow(log_model)
        return log_model

    def _start_shadow(self, log_model: LogModel) -> None:
        run = self._shadow.run.to_bytes(4, "big")
        define = self._define[: RUN.start] + run + self._define[RUN.stop :]
        state = self.core_start
        voted = (-1, bytes(16)) if state.voted is None else state.voted
        disk = log_model.start_offset, b"".join(self._batches), state.epoch, state.leader_id
        stored = [values for name, values in self._begun if name == "snapshot_stored"]
        commands = [
            define,
            *(self._encode("install", *id, content) for id, content in self._snapshots.items()),
            *(self._encode("install", end, epoch, content) for end, epoch, _, content in stored),
            self._encode("restore", *disk, voted[0], bytes(voted[1])),
            *self._shadow_caps(),
            self._encode("start", *self._start),
        ]
        self._requests.clear()
        self._only_drivers.clear()
        self._same.clear()
        self._before = self._shadow_before = {}
        self._voters = (None, None)
        self._rejected_us = self._alone_us = -LONG_AGO_US
        self.is_joined = self._has_shadow = True
        self._compare("start", self._start, self._begun, self._exchange(commands))

    def _cap_versions(self) -> None:
        """Let both speak what both can speak."""
        for api_key, newest in self._shadow.process.api_max.items():
            self.api_max[api_key] = min(self.api_max.get(api_key, newest), newest)
        super()._cap_versions()

    def _shadow_caps(self) -> Iterator[bytes]:
        for peer in self.world.replicas.values():
            for api_key, newest in self._shadow.process.api_max.items():
                known = min(self.api_max[api_key], peer.api_max.get(api_key, newest))
                if known < newest:
                    yield self._encode("cap", peer.id, api_key, known)

    def _encode(self, command: str, *values: Any) -> bytes:
        return ENCODERS[command](self._shadow.run, self.id, *values)

    def _exchange(self, commands: list[bytes]) -> list[Event]:
        process, run = self._shadow
        return self._same.translated(process.exchange(run, self.id, commands)[-1])

    # ---- a step ------------------------------------------------------------------------------

    def _do(self, command: str, *values: Any) -> list[Event]:
        if command == "start":
            now_us, seed = values
            values = self._start = (now_us, -1 - seed)  # Draws that depend on the time alone.
        events = super()._do(command, *values)
        if self._has_shadow and command in STEPS:
            if events[-1][1][0] in (NO_POWER, FAILED_DISK, FULL_DISK):
                self.is_joined = self._has_shadow = False  # It ends with the disk, not by itself.
            else:
                self._shadow_step(command, values, events)
        elif command in STEPS:
            self.world.met[APART] += 1
        return events

    def _shadow_step(self, command: str, values: tuple[Any, ...], events: list[Event]) -> None:
        is_overdue = False
        if command in ("reply", "fail"):
            same = self._requests.pop(values[1], None)
            if same is None:  # The shadow did not ask. Time passes for it, too.
                self._only_drivers.discard(values[1])
                self._alone_us = self._last_us
                command, values = "tick", values[:1]
            else:
                # One asked the leader at once, the other a server that has its address.
                is_of_rejection = same[2] == self._rejected_us
                if command == "fail" and (
                    is_of_rejection or same[1] == UpdateRaftVoterRequest.API_KEY
                ):
                    self._rejected_us = self._last_us
                values = (values[0], same[0], *values[2:])
                is_overdue = self._is_overdue(same)
        shadows = self._exchange([self._encode(command, *values)])
        self._compare(command, values, events, shadows, is_overdue=is_overdue)

    def _is_overdue(self, request: tuple[int, int, int] | None) -> bool:
        sent_us = -LONG_AGO_US if request is None else request[2]
        return self._last_us - sent_us >= self.config.request_timeout_us

    def _compare(
        self,
        command: str,
        values: tuple[Any, ...],
        events: list[Event],
        shadows: list[Event],
        *,
        is_overdue: bool = False,
    ) -> None:
        if self._same.learn(events, shadows):
            shadows = self._same.translated(shadows)
        driver, shadow = Side(events), Side(shadows)
        ours, kafkas = (driver, shadow) if self._is_ours else (shadow, driver)
        rejected_ms = (self._last_us - self._rejected_us) // 1000
        step = Step(
            self.id, self._last_us, command, values, self._before, ours, kafkas, rejected_ms,
            len(ours.told["voters"][1] if "voters" in ours.told else self.core.log.voters.last),
            self.answering, is_overdue,
            self._last_us - self._heard_us >= self.config.fetch_timeout_us,
            self.core.shutdown_deadline_us != NEVER_US, self.config.request_timeout_us // 1000,
        )  # fmt: skip
        shadow_before, self._shadow_before = self._shadow_before, shadow.state
        if _begins_anew(self._before, driver.state) and _begins_anew(shadow_before, shadow.state):
            self._only_drivers.clear()  # A new role expects no answers to what an old one asked.
            self._alone_us = -LONG_AGO_US
        if _begins_anew(self._before, driver.state):
            self._heard_us = self._last_us
        told, shadow_told = self._voters
        self._voters = driver.told.get("voters", told), shadow.told.get("voters", shadow_told)
        self._before = driver.state
        lonely = self._match(driver, shadow)
        if self.is_joined:
            self.is_joined = self._judge(step, self._is_ours)
            if not self.is_joined:
                self._alike = 0
                self._on_apart(self)
        elif not shadow.is_up:
            self._has_shadow = False
            self.world.met[APART] += 1
        elif not step.is_empty:
            self.world.met[APART] += 1
            self._alike = 0 if step.differences() or lonely else self._alike + 1
            self.is_joined = self._alike >= ALIKE_STEPS and self._is_alike(step)
        deadline_us = min(driver.state["deadline_us"], shadow.state["deadline_us"])
        state = events[-1][1]
        events[-1] = ("state", (*state[:DEADLINE], deadline_us, *state[DEADLINE + 1 :]))
        for number in lonely:  # Nobody answers what the shadow alone asks.
            self._alone_us = self._last_us
            self._exchange([self._encode("fail", self._last_us, number, False)])

    def _match(self, driver: Side, shadow: Side) -> list[int]:
        """Find the requests that both made; return those that the shadow alone made."""
        theirs: dict[Any, list[int]] = {}
        for sent, number in shadow.sent:
            theirs.setdefault(sent, []).append(number)
        for sent, number in driver.sent:
            same = theirs.get(sent)
            if same:
                self._requests[number] = same.pop(0), sent.api_key, self._last_us
            else:
                self._only_drivers.add(number)
        return [number for numbers in theirs.values() for number in numbers]

    def _is_alike(self, step: Step) -> bool:
        """Whether a pair that was apart is in one state again, as far as can be seen."""
        ours, kafkas = step.ours.state, step.kafkas.state
        if self._only_drivers or ours["role"] not in PLAIN_ROLES:
            return False
        if self._last_us - self._alone_us <= self.config.retry_backoff_us:
            return False  # One of the two leaves a server alone, and the other does not.
        if self._voters[0] != self._voters[1]:
            return False
        if ours["deadline_us"] != kafkas["deadline_us"]:
            return False
        events = self._exchange([self._encode("read")])
        log = next(values for name, values in events if name == "log")
        return log[0] == self.log_model.start_offset and crc32c(log[1]) == crc32c(
            b"".join(self._batches)
        )


def _begins_anew(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether a node has another role, epoch or leader than before."""
    return any(before.get(name) != after[name] for name in ("role", "epoch", "leader_id"))


def _is_rejection(reply: Any) -> bool:
    """Whether an answer tells of an error, or of no leader."""
    return bool(reply.error or reply.top_error) or getattr(reply, "leader_id", 0) < 0

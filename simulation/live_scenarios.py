"""Scenarios for the live suite, made of simulated runs of Apache Kafka's own core.

A run is a quorum of three voters, all of them Kafka's core, with leaders that resign, partitions
and kill -9. At each start of a voter a scenario may begin: its peers bring a live node to the same
log, batch by batch, epoch and vote, and it is killed and started. Then they send what the voter was
sent, until it campaigned, which a clock decides: votes, news of leaders, answers to its fetches.
What Kafka's core answered is what must come. What a voter learned from an answer, its leader sends
it as BeginQuorumEpoch. Of all that is matches, those are chosen that have most successions of three
events that the others do not have.

``python -m kraftspec.simulation.live_scenarios`` writes them; it needs a JDK and Maven.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from kraftspec.conformance.live.recorded import CITES
from kraftspec.conformance.live.scenario_files import DIRECTORY
from kraftspec.conformance.making.exchanges import requests as rq
from kraftspec.fastpath import encode_batch
from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.profiles import profile_named
from kraftspec.reference.raft.messages import (
    BeginEpoch,
    EndEpoch,
    Fetch,
    FetchReply,
    Reply,
    Request,
    Vote,
)
from kraftspec.reference.raft.types import ElectionState
from kraftspec.simulation.harness.cores import Core
from kraftspec.simulation.network import Message
from kraftspec.simulation.replica import Replica
from kraftspec.simulation.schedule import Schedule
from kraftspec.simulation.swarm import MS, S, Swarm

CORE = "kafka:4.4.0"
FILE: Final = DIRECTORY / "simulated.yaml"
SEEDS, CHOSEN = 60, 12
EVENTS = 2_500
STEPS_MIN, STEPS_MAX = 3, 16
RECORDS_MAX = 60
NO_OP = b"\x01\x14\x00\x00"  # NoOpRecord: metadata that says nothing.
VOTERS = 3
FIRST_PEER = 2  # In the live suite, where 1 is the node itself.
_JUDGED: Final = {Vote: "Vote", BeginEpoch: "BeginQuorumEpoch", EndEpoch: "EndQuorumEpoch"}
_HEAD = """\
# Written by python -m kraftspec.simulation.live_scenarios: what Apache Kafka's own core was sent in
# simulated runs, and what it answered.
scenarios:
"""


class Happened(msgspec.Struct):
    """One thing that happened to a voter; ``answer`` is what it answered."""

    request: Request | None = None  # None: killed, and started again, or news.
    version: int = -1
    peer: int = -1
    reply: FetchReply | None = None  # Of the peer, to ``request``, which is then the voter's.
    answer: Reply | None = None
    news: tuple[int, int] | None = None  # Epoch and leader that it learned from an answer.


class Incarnation(msgspec.Struct):
    """What happened to a voter from a start on; ``log`` has the epoch and end of each batch."""

    node: int
    election: ElectionState = ElectionState()
    log: list[tuple[int, int]] = []
    happened: list[Happened] = []
    is_over: bool = False


class Recorder:
    """Notes what happens to each voter, from a start until it campaigns or cannot be followed."""

    def __init__(self, schedule: Schedule) -> None:
        self.incarnations: list[Incarnation] = []
        self._requested: dict[tuple[int, int, int, int], Happened] = {}
        self._profile = schedule.world.profile
        self._replicas = schedule.world.replicas
        world = schedule.world
        deliver, sent, start = world.deliver, schedule.sent, world.start

        def on_deliver(message: Message) -> None:
            core = self._replicas[message.target].core
            known = (core.epoch, core.leader_id)
            happened = self._before(message)
            deliver(message)
            knows = (core.epoch, core.leader_id)
            if message.is_reply and knows != known:
                self._note(message.target, Happened(news=knows))
            if happened is not None and self._is_taken(message.target, happened):
                self._note(message.target, happened)

        def on_sent(message: Message) -> None:
            self._sent(message)
            sent(message)

        def on_start(replica: Replica, seed: int) -> None:
            self._note(replica.id, Happened())
            self.incarnations.append(_incarnation(replica))
            start(replica, seed)

        world.deliver = on_deliver  # type: ignore[method-assign] # Looked at before and after.
        schedule.sent = on_sent  # type: ignore[method-assign] # The same.
        world.start = on_start  # type: ignore[method-assign] # The same.

    def _going(self, node: int) -> list[Incarnation]:
        return [one for one in self.incarnations if one.node == node and not one.is_over]

    def _note(self, node: int, happened: Happened) -> None:
        for one in self._going(node):
            one.happened.append(happened)

    def _end(self, node: int) -> None:
        for one in self._going(node):
            one.is_over = True

    def _before(self, message: Message) -> Happened | None:
        """Note a request that a voter is about to take; return an answer that may be of use."""
        node = message.target
        if not self._going(node) or not self._replicas[node].is_up:
            return None
        replica = self._replicas[node]
        if message.is_reply:
            sent = replica.sent_requests.get(message.correlation)
            if message.incarnation == replica.incarnation and sent is not None:
                reply = self._profile.decode_reply(sent[0], message.version, message.body)
                return self._answered(node, message.source, sent[0], reply)
            return None
        request = self._profile.decode_request(message.api_key, message.version, message.body)
        if type(request) in _JUDGED:
            happened = Happened(request=request, version=message.version, peer=message.source)
            self._note(node, happened)
            key = (node, message.source, message.correlation, message.api_key)
            self._requested[key] = happened
        return None

    def _is_taken(self, node: int, happened: Happened) -> bool:
        """Whether the log of a voter is as after an answer that it used."""
        reply, end = happened.reply, self._replicas[node].log_model.end_offset
        assert reply is not None
        if reply.diverging_epoch >= 0:
            return end <= reply.diverging_end_offset
        return not reply.batches or end == reply.batches[-1].last_offset + 1

    def _answered(self, node: int, peer: int, request: Request, reply: Reply) -> Happened | None:
        if isinstance(request, Fetch) and isinstance(reply, FetchReply):
            if reply.snapshot_end_offset >= 0:
                self._end(node)  # Peers play no snapshots.
            elif (
                not (reply.error or reply.top_error)
                and reply.leader_id == peer
                and request.fetch_offset == self._replicas[node].log_model.end_offset
            ):
                return Happened(request=request, peer=peer, reply=reply)
        return None

    def _sent(self, message: Message) -> None:
        node = message.source
        if not self._going(node):
            return
        if not message.is_reply:
            request = self._profile.decode_request(message.api_key, message.version, message.body)
            if isinstance(request, Vote):
                self._end(node)
            return
        key = (node, message.target, message.correlation, message.api_key)
        happened = self._requested.get(key)
        if happened is not None and happened.request is not None:
            happened.answer = self._profile.decode_reply(
                happened.request, message.version, message.body
            )


def _incarnation(replica: Replica) -> Incarnation:
    """Return that of a voter that is about to start, with what its disk has."""
    log = replica.log_model
    batches = list(zip(log.epochs, log.ends, strict=True))
    is_there = replica.incarnation > 0
    election = replica.stored if is_there else ElectionState()
    return Incarnation(replica.id, election, batches, [], log.start_offset > 0)


def run(seed: int) -> list[Incarnation]:
    """Return what happened to the voters of a run."""
    swarm = Swarm(
        voters=VOTERS, observers=0, isolation_period_us=2 * S, partition_period_us=3 * S,
        kill_period_us=3 * S, resign_period_us=2 * S, append_period_us=400 * MS,
    )  # fmt: skip
    schedule = Schedule(seed, swarm, profile_named("kafka"), cores=[Core(CORE)], is_judged=False)
    recorder = Recorder(schedule)
    schedule.run(EVENTS)
    return recorder.incarnations


# ---- scenarios ---------------------------------------------------------------------------------


class Script:
    """Turns what happened to a voter into steps. ``kinds`` has a kind for each."""

    def __init__(self, node: int) -> None:
        others = [one for one in range(VOTERS) if one != node]
        self.number = {node: 1, others[0]: 2, others[1]: 3}  # Its number in the live suite.
        self.steps: list[dict[str, Any]] = []
        self.kinds: list[str] = []
        self.begun = 0  # How many steps bring it to where the voter's disk was.
        self._epoch = 0
        self._leader = 0

    def begin(self, incarnation: Incarnation) -> bool:
        """Bring a node to what the voter's disk had; False where peers cannot."""
        election = incarnation.election
        epoch, leader, voted = election.epoch, election.leader_id, election.voted
        end, last_epoch = 0, 0
        if incarnation.node in (leader, None if voted is None else voted.id):
            return False  # It elected itself.
        if incarnation.log:
            (last_epoch, end) = incarnation.log[-1]
            sender = self.number.get(leader, 2) if last_epoch == epoch else 2
            if end > RECORDS_MAX or last_epoch > epoch:
                return False
            self._setup(
                "BeginQuorumEpoch", sender, {"leaderEpoch": last_epoch}, {"leaderId": sender}
            )
            starts = [0, *(end for _, end in incarnation.log)]
            batches = [
                _batch(start, stop - 1, of)
                for start, (of, stop) in zip(starts, incarnation.log, strict=False)
            ]
            where = {"currentLeaderEpoch": last_epoch, "fetchOffset": 0}
            reply = {"api": "Fetch", "at": sender, "where": where, "records": batches}
            reply |= {"fields": {"highWatermark": 0}, "repeat": True}
            after = {"fetchOffset": end, "lastFetchedEpoch": last_epoch}
            arrival = {"api": "Fetch", "at": sender, "where": after}
            then = [{"must": {"request": arrival}, "cites": CITES["Fetch"]}]
            self.steps.append({"when": {"reply": reply}, "then": then})
        if epoch > last_epoch:
            if leader in self.number:
                sender = self.number[leader]
                expected = {"leaderId": sender}
                self._setup("BeginQuorumEpoch", sender, {"leaderEpoch": epoch}, expected)
            else:
                # Whoever lacks records gets no vote, and its epoch is adopted.
                has_vote = voted is not None
                if end == 0 and not has_vote:
                    return False
                sender = 3 if voted is None else self.number[voted.id]
                fields = {"replicaEpoch": epoch, "lastOffset": end, "lastOffsetEpoch": last_epoch}
                if not has_vote:
                    fields |= {"lastOffset": 0, "lastOffsetEpoch": 0}
                self._setup("Vote", sender, fields, {"voteGranted": has_vote})
        self._epoch = epoch
        if self.steps:
            self.steps.append({"when": {"restart": {"by": "kill"}}})
            self.kinds.append(f"{leader >= 0} {voted is not None} {end > 0} {epoch - last_epoch}")
        self.begun = len(self.steps)
        return True

    def _setup(
        self, api: str, sender: int, fields: dict[str, Any], expected: dict[str, Any]
    ) -> None:
        then = [{"must": {"answer": expected}, "cites": CITES[api]}]
        send = {"api": api, "sender": sender, "fields": fields}
        self.steps.append({"when": {"send": send}, "then": then})

    def add(self, happened: Happened) -> bool:
        """Add a step; False where the scenario ends before it."""
        if happened.news is not None:
            return self._learned(*happened.news)
        if happened.request is None:
            if not self.steps or "restart" not in self.steps[-1]["when"]:
                self._step({"restart": {"by": "kill"}}, [], "kill")
            self._leader = 0
            return True
        if happened.reply is not None:
            assert isinstance(happened.request, Fetch)
            return self._fetched(happened, happened.request, happened.reply)
        if happened.answer is None:
            return False
        self._requested(happened, happened.request, happened.answer)
        # It may campaign then, by a clock.
        return not (isinstance(happened.request, EndEpoch) and not happened.answer.error)

    def _step(self, when: dict[str, Any], then: list[dict[str, Any]], kind: str) -> None:
        self.steps.append({"when": when, "then": then} if then else {"when": when})
        self.kinds.append(kind)

    def _requested(self, happened: Happened, request: Request, answer: Reply) -> None:
        api, peer = _JUDGED[type(request)], self.number[happened.peer]
        expected: dict[str, Any] = {
            "partitions.errorCode": ErrorCode(answer.error).name,
            "leaderId": self.number.get(answer.leader_id, -1),
            "leaderEpoch": answer.leader_epoch,
        }
        if isinstance(request, Vote):
            fields: dict[str, Any] = {
                "replicaEpoch": request.epoch,
                "lastOffset": request.end_offset,
                "lastOffsetEpoch": request.last_epoch,
                "preVote": request.pre_vote,
            }
            expected["voteGranted"] = getattr(answer, "vote_granted", False)
            kind = f"{request.pre_vote} {expected['voteGranted']} {request.epoch - self._epoch:+d}"
        else:
            assert isinstance(request, BeginEpoch | EndEpoch)
            fields = {"leaderEpoch": request.leader_epoch}
            kind = f"{answer.error} {request.leader_epoch - self._epoch:+d}"
        cites = CITES[api]
        send = {"api": api, "sender": peer, "version": happened.version, "fields": fields}
        then = [{"must": {"answer": expected}, "cites": cites}]
        self._step({"send": send}, then, f"{api} {kind} {expected['partitions.errorCode']}")
        self._epoch = answer.leader_epoch
        self._leader = self.number.get(answer.leader_id, 0)

    def _learned(self, epoch: int, leader: int) -> bool:
        """Add what an answer said, if that is who leads; the leader sends it to the live node."""
        sender = self.number.get(leader, 0)
        if sender < FIRST_PEER:
            return False
        self._epoch, self._leader = epoch, sender
        send = {"api": "BeginQuorumEpoch", "sender": sender, "fields": {"leaderEpoch": epoch}}
        expected = {"partitions.errorCode": "NONE", "leaderId": sender, "leaderEpoch": epoch}
        then = [{"must": {"answer": expected}, "cites": CITES["BeginQuorumEpoch"]}]
        self._step({"send": send}, then, "news")
        return True

    def _fetched(self, happened: Happened, request: Fetch, reply: FetchReply) -> bool:
        peer = self.number[happened.peer]
        is_cut = reply.diverging_epoch >= 0
        if (peer, request.leader_epoch) != (self._leader, self._epoch):
            return False  # Of a leader that it does not follow any more.
        if not reply.batches and not is_cut:
            return True
        where = {"currentLeaderEpoch": request.leader_epoch, "fetchOffset": request.fetch_offset}
        answer: dict[str, Any] = {"api": "Fetch", "at": peer, "where": where}
        after: dict[str, Any]
        answer |= {"fields": {"highWatermark": 0}, "repeat": True}
        if is_cut:
            end = reply.diverging_end_offset
            answer["fields"] |= {
                "divergingEpoch.epoch": reply.diverging_epoch, "divergingEpoch.endOffset": end,
            }  # fmt: skip
            after = {"fetchOffset": {"max": end}}
        else:
            answer["records"] = [_batch(one.base_offset, one.last_offset, one.epoch)
                                 for one in reply.batches]  # fmt: skip
            last = reply.batches[-1]
            after = {"fetchOffset": last.last_offset + 1, "lastFetchedEpoch": last.epoch}
        arrival = {"api": "Fetch", "at": peer, "where": after}
        then = [{"must": {"request": arrival}, "cites": CITES["Fetch"]}]
        self._step({"reply": answer}, then, "cut" if is_cut else "records")
        return True


def _batch(base_offset: int, last_offset: int, epoch: int) -> str:
    """Return a batch with these offsets whose records say nothing, in hex."""
    values = [NO_OP] * (last_offset - base_offset + 1)
    batch = encode_batch(
        values, base_offset=base_offset, partition_leader_epoch=epoch, timestamps=rq.OPENED_MS
    )
    return bytes(batch).hex()


def scripts(seeds: Iterable[int]) -> Iterator[tuple[int, int, Script]]:
    """Yield (seed, voter, script) of each start of a voter that was asked enough then."""
    for seed in seeds:
        for incarnation in run(seed):
            script = Script(incarnation.node)
            if not script.begin(incarnation):
                continue
            for one in incarnation.happened:
                if len(script.steps) - script.begun >= STEPS_MAX or not script.add(one):
                    break
            while len(script.steps) > script.begun and "then" not in script.steps[-1]:
                script.steps.pop()
                script.kinds.pop()
            if len(script.steps) - script.begun >= STEPS_MIN:
                yield seed, incarnation.node, script


def choose(matches: Sequence[tuple[int, int, Script]], count: int) -> list[tuple[int, int, Script]]:
    """Return those that together have most successions of three events."""
    seen: set[tuple[str, ...]] = set()
    left = list(matches)
    chosen: list[tuple[int, int, Script]] = []
    while left and len(chosen) < count:
        best = max(left, key=lambda one: len(_successions(one[2]) - seen))
        if not _successions(best[2]) - seen:
            break
        left.remove(best)
        chosen.append(best)
        seen |= _successions(best[2])
    return chosen


def _successions(script: Script) -> set[tuple[str, ...]]:
    return set(zip(script.kinds, script.kinds[1:], script.kinds[2:], strict=False))


def render(chosen: Iterable[tuple[int, int, Script]]) -> str:
    """Return the file of scenarios."""
    lines = [_HEAD]
    names: Counter[str] = Counter()
    for seed, node, script in chosen:
        name = f"simulated-{seed}-{node}"
        names[name] += 1
        if names[name] > 1:
            name = f"{name}-{names[name]}"
        about = f"What voter {node} of the simulated run {seed} was sent, and what {CORE} answered."
        lines.append(f'  - name: {name}\n    about: "{about}"\n')
        lines.append("    given: {habits: {fetches: no-leader}}\n    steps:\n")
        lines += [f"      - {json.dumps(step)}\n" for step in script.steps]
    return "".join(lines)


def make(seeds: int = SEEDS, count: int = CHOSEN) -> str:
    """Return the file of scenarios, made of that many runs."""
    return render(choose(list(scripts(range(seeds))), count))


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="from 0 on")
    parser.add_argument("--count", type=int, default=CHOSEN, help="scenarios at the most")
    parser.add_argument("--file", type=Path, default=FILE)
    options = parser.parse_args()
    options.file.write_text(make(options.seeds, options.count), "utf-8")


if __name__ == "__main__":
    main()

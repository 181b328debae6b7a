"""What a leader commits, against a count of who said that they have what (Raft §5.3, §5.4.2).

Node 1 leads, with real requests for events. The model knows what each replica's last fetch said,
who votes, and where the epoch began; it counts anew each time.
"""

from __future__ import annotations

import random

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from tests.reference.raft.network import CLUSTER, config, directory, voter

from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft import messages as ms
from kraftspec.reference.raft.core import Core
from kraftspec.reference.raft.log_state import LogState
from kraftspec.reference.raft.policy import Policy
from kraftspec.reference.raft.types import RoleName, VersionRange
from kraftspec.reference.raft.voters import VoterSet

LEADER = 1
NODES = (2, 3, 4, 5)
others = st.sampled_from(NODES)
OLD_RECORDS = 4  # Of the epoch before, which nobody may count as committed by themselves.


class LeaderMachine(RuleBasedStateMachine):
    """``acknowledged`` is by node id, voters and observers; the leader's is what it synced."""

    @initialize(count=st.integers(2, 4))
    def elect(self, count: int) -> None:
        ids = range(1, count + 1)
        self.voters = set(ids)
        voters = VoterSet(voter(id) for id in ids)
        log = LogState(
            end_offset=OLD_RECORDS, epochs=[(1, 0)], voters=[(0, voters)], kraft_versions=[(0, 1)]
        )
        self.now_us = 1_000_000
        self.core = Core(config(LEADER, VoterSet()), Policy(), log, None, random.Random(1))
        self.token = 0
        self.flushes: list[fx.FlushLog] = []
        self.acknowledged: dict[int, int] = {}
        self.high_watermark = -1
        self.committed: list[int] = []
        self.changed_at = 0  # Where the last voter set stands.
        self.epoch_start = OLD_RECORDS
        effects = self.step(ev.Start())
        while self.core.role.name is not RoleName.LEADER:
            if not effects:
                self.now_us = max(self.now_us, self.core.next_deadline_us())
                effects = self.step(ev.Tick())
                continue
            ask = effects.pop()
            reply: ms.Reply = ms.FetchReply(leader_epoch=self.core.epoch)
            if isinstance(ask.request, ms.Vote):
                reply = ms.VoteReply(leader_epoch=ask.request.epoch, vote_granted=True)
            effects += self.step(ev.ReplyReceived(ask.request_id, reply))
        self.end = self.core.log.end_offset

    def step(self, event: ev.Event) -> list[fx.Ask]:
        """Take a step; return the requests to other nodes."""
        effects = self.core.step(event, self.now_us)
        self.flushes += [effect for effect in effects if isinstance(effect, fx.FlushLog)]
        self.committed += [e.high_watermark for e in effects if isinstance(e, fx.Commit)]
        self.replies = {e.token: e.reply for e in effects if isinstance(e, fx.Answer)}
        return [effect for effect in effects if isinstance(effect, fx.Ask)]

    def request(self, request: ms.Request) -> ms.Reply | None:
        """Ask the leader; return its answer if it comes at once."""
        self.token += 1
        self.effects_of_request = self.step(ev.RequestReceived(self.token, request))
        return self.replies.get(self.token)

    def count(self) -> None:
        """Commit as much as a majority of the voters has, if it reaches into this epoch."""
        held = [self.acknowledged.get(id, -1) for id in self.voters]
        majority = len(held) // 2 + 1
        offset = max(at for at in held if sum(1 for other in held if other >= at) >= majority)
        if offset > max(self.epoch_start, self.high_watermark):
            self.high_watermark = offset

    @property
    def leads(self) -> bool:
        return self.core.role.name is RoleName.LEADER

    @property
    def may_change(self) -> bool:
        return self.leads and self.high_watermark > self.changed_at

    # ---- what may happen -----------------------------------------------------------------------

    @precondition(lambda self: self.leads)
    @rule(count=st.integers(1, 3))
    def append(self, count: int) -> None:
        self.token += 1
        self.step(ev.AppendRequested(self.token, self.core.epoch, (b"value",) * count))
        self.end += count

    @precondition(lambda self: self.leads and self.flushes)
    @rule(data=st.data())
    def sync(self, data: st.DataObject) -> None:
        """One of the flushes is done, and all that came before it."""
        index = data.draw(st.integers(0, len(self.flushes) - 1))
        flush = self.flushes[index]
        del self.flushes[: index + 1]
        self.step(ev.LogFlushed(flush.end_offset, flush.generation))
        self.acknowledged[LEADER] = max(self.acknowledged.get(LEADER, 0), flush.end_offset)
        self.count()

    @precondition(lambda self: self.leads)
    @rule(node=others, data=st.data(), disk=st.sampled_from((0, 0, 0, 1)))
    def fetch(self, node: int, data: st.DataObject, disk: int) -> None:
        """A replica fetches from anywhere, as after a cut; another disk of its is an observer."""
        self._fetch(node, data.draw(st.integers(0, self.end)), disk)

    def _fetch(self, node: int, offset: int, disk: int) -> None:
        epoch = 0 if offset == 0 else 1 if offset <= OLD_RECORDS else self.core.epoch
        fetch = ms.Fetch(
            cluster_id=CLUSTER,
            replica_id=node,
            replica_directory_id=directory(node, disk),
            leader_epoch=self.core.epoch,
            fetch_offset=offset,
            last_fetched_epoch=epoch,
            high_watermark=-1,
            max_wait_us=0,
            max_bytes=100,
        )
        if not disk:
            self.acknowledged[node] = offset
            self.count()
        reply = self.request(fetch)
        assert isinstance(reply, ms.FetchReply)
        assert (reply.error, reply.diverging_epoch) == (0, -1)
        assert reply.high_watermark == self.high_watermark
        assert reply.read_offset == (offset if offset < self.end else -1)

    @precondition(lambda self: self.may_change and len(self.voters) > 1)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        node = data.draw(st.sampled_from(sorted(self.voters)))
        self.request(
            ms.RemoveVoter(cluster_id=CLUSTER, voter_id=node, voter_directory_id=directory(node))
        )
        self._changed(self.voters - {node})

    @precondition(lambda self: self.may_change and {*NODES} - self.voters)
    @rule(data=st.data())
    def add(self, data: st.DataObject) -> None:
        """Who fetches at the end of the log has caught up."""
        node = data.draw(st.sampled_from(sorted({*NODES} - self.voters)))
        self._fetch(node, self.end, 0)
        self.request(
            ms.AddVoter(
                cluster_id=CLUSTER,
                voter_id=node,
                voter_directory_id=directory(node),
                endpoints=voter(node).endpoints,
            )
        )
        (ask,) = [one for one in self.effects_of_request if isinstance(one.request, ms.ApiVersions)]
        reply = ms.ApiVersionsReply(kraft_versions=VersionRange(0, 1))
        self.step(ev.ReplyReceived(ask.request_id, reply))
        self._changed(self.voters | {node})

    def _changed(self, voters: set[int]) -> None:
        self.voters = voters
        self.changed_at, self.end = self.end, self.end + 1
        self.count()

    @precondition(lambda self: self.leads and not self.may_change)
    @rule(node=others)
    def is_refused(self, node: int) -> None:
        """A second change at a time, or one before anything is committed."""
        reply = self.request(
            ms.RemoveVoter(cluster_id=CLUSTER, voter_id=node, voter_directory_id=directory(node))
        )
        assert reply is not None
        assert reply.error

    @precondition(lambda self: not self.leads)
    @rule()
    def has_resigned(self) -> None:
        """Nothing more happens here; an append is refused."""
        effects = self.core.step(ev.AppendRequested(0, self.core.epoch, (b"value",)), self.now_us)
        assert any(isinstance(effect, fx.AppendRefused) for effect in effects)

    # ---- what must be so -----------------------------------------------------------------------

    @invariant()
    def commits_what_a_majority_has(self) -> None:
        core = self.core
        assert core.log.end_offset == self.end
        assert core.log.voters.last.ids == tuple(sorted(self.voters))
        assert core.high_watermark == self.high_watermark
        assert self.committed == sorted(set(self.committed))
        assert (self.committed[-1] if self.committed else -1) == self.high_watermark

    @invariant()
    def leaves_when_it_is_removed(self) -> None:
        is_removed = LEADER not in self.voters and self.high_watermark > self.changed_at
        assert self.leads != is_removed


TestLeader = LeaderMachine.TestCase

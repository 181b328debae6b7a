"""Mistakes in replication: what counts as held, as committed, as the same log."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from kraftspec.reference.raft import connections as links
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import follower, leader, role
from kraftspec.reference.raft.messages import Fetch, FetchReply
from kraftspec.reference.raft.types import NONE, RoleName
from kraftspec.simulation.catalogue.bug import Planter


def counts_old_epochs(plant: Planter) -> None:
    """A leader commits records of earlier epochs once a majority has them (Raft, figure 8)."""

    def advance(self: Any) -> None:
        node = self.core
        offsets = sorted([p.end_offset for p in self.voters.values()], reverse=True)
        offset = offsets[len(offsets) // 2]
        if offset > node.high_watermark:
            node.raise_high_watermark(offset)

    plant(leader.Leader, "advance", advance)


def half_is_a_majority(plant: Planter) -> None:
    """What half of the voters have is committed."""

    def advance(self: Any) -> None:
        node = self.core
        offsets = sorted([p.end_offset for p in self.voters.values()], reverse=True)
        offset = offsets[(len(offsets) - 1) // 2]
        if offset > max(self.epoch_start_offset, node.high_watermark):
            node.raise_high_watermark(offset)

    plant(leader.Leader, "advance", advance)


def one_follower_is_enough(plant: Planter) -> None:
    """What the leader and one follower have is committed, however many voters there are."""

    def advance(self: Any) -> None:
        node = self.core
        offsets = sorted([p.end_offset for p in self.voters.values()], reverse=True)
        offset = offsets[min(1, len(offsets) - 1)]
        if offset > max(self.epoch_start_offset, node.high_watermark):
            node.raise_high_watermark(offset)

    plant(leader.Leader, "advance", advance)


def leader_counts_itself_at_once(plant: Planter) -> None:
    """A leader counts its own log before it is synced."""
    appended = leader.Leader._appended

    def eager(self: Any) -> None:
        appended(self)
        own = self.voters.get(self.core.config.node_id)
        if own is not None:
            own.end_offset = self.core.log.end_offset
            self.advance()

    plant(leader.Leader, "_appended", eager)


def acknowledges_at_once(plant: Planter) -> None:
    """A leader tells its state machine that an append is committed when it is written."""
    drain = leader.Leader.drain

    def eager(self: Any) -> None:
        is_news = bool(self.undrained)
        drain(self)
        if is_news:
            self.core.emit(fx.Commit(self.core.log.end_offset))

    plant(leader.Leader, "drain", eager)


def fetches_before_it_syncs(plant: Planter) -> None:
    """A voter fetches on, which acknowledges, while what it appended is being synced."""
    plant(role.QuorumState, "may_fetch", lambda self: True)


def never_syncs_as_follower(plant: Planter) -> None:
    """A follower calls durable what it has only written."""
    flush = role.QuorumState.flush

    def careless(self: Any) -> None:
        if self.role.name is RoleName.FOLLOWER:
            self.log.flushed_offset = self.log.end_offset
        else:
            flush(self)

    plant(role.QuorumState, "flush", careless)


def ignores_diverging_epochs(plant: Planter) -> None:
    """A follower whose log parts from its leader's does not cut it."""
    plant(follower.Follower, "_truncate", lambda self, epoch, end_offset: None)


def leader_does_not_compare(plant: Planter) -> None:
    """A leader serves any offset that it has, whatever epoch the follower fetched last."""
    reply_to = leader.Leader.fetch_reply

    def lenient(self: Any, request: Fetch) -> FetchReply:
        log = self.core.log
        if log.start_offset <= request.fetch_offset <= log.end_offset:
            end = log.end_offset_for_epoch(request.last_fetched_epoch)
            if end.epoch != request.last_fetched_epoch or end.end_offset < request.fetch_offset:
                request.last_fetched_epoch = _epoch_before(log, request.fetch_offset)
        return reply_to(self, request)

    plant(leader.Leader, "fetch_reply", lenient)


def _epoch_before(log: Any, offset: int) -> int:
    epochs = [epoch for epoch, start in log.epochs if start < offset]
    return epochs[-1] if epochs else 0


def compares_offsets_alone(plant: Planter) -> None:
    """A leader looks for divergence only where the follower's log is longer than its own."""
    reply_to = leader.Leader.fetch_reply

    def lenient(self: Any, request: Fetch) -> FetchReply:
        if request.fetch_offset <= self.core.log.end_offset:
            request.last_fetched_epoch = _epoch_before(self.core.log, request.fetch_offset)
        return reply_to(self, request)

    plant(leader.Leader, "fetch_reply", lenient)


def truncates_too_much(plant: Planter) -> None:
    """A follower that must cut its log cuts it at the start of the epoch before."""

    def greedy(self: Any, epoch: int, end_offset: int) -> None:
        log = self.core.log
        starts = [start for _, start in log.epochs if start < end_offset]
        self.core.truncate(max(starts[-1] if starts else 0, log.start_offset))

    plant(follower.Follower, "_truncate", greedy)


def truncates_what_is_committed(plant: Planter) -> None:
    """A follower starts over whenever its log parts from its leader's."""
    plant(
        follower.Follower,
        "_truncate",
        lambda self, epoch, end_offset: self.core.truncate(self.core.log.start_offset),
    )


def commits_while_it_truncates(plant: Planter) -> None:
    """A follower takes over the high watermark from the answer by which it cuts its log, too."""
    take = follower.Follower.on_fetch_reply

    def on_fetch_reply(self: Any, reply: FetchReply) -> bool:
        is_good = take(self, reply)
        if reply.diverging_epoch >= 0:
            self._follow_high_watermark(reply.high_watermark)
        return is_good

    plant(follower.Follower, "on_fetch_reply", on_fetch_reply)


def names_a_wrong_end(plant: Planter) -> None:
    """A leader names the start of the diverging epoch in place of its end."""
    reply_to = leader.Leader.fetch_reply

    def wrong(self: Any, request: Fetch) -> FetchReply:
        reply = reply_to(self, request)
        if reply.diverging_epoch >= 0:
            starts = dict(self.core.log.epochs)
            reply.diverging_end_offset = starts.get(reply.diverging_epoch, 0)
        return reply

    plant(leader.Leader, "fetch_reply", wrong)


def high_watermark_beyond_the_log(plant: Planter) -> None:
    """A follower takes over its leader's high watermark, whatever it has itself."""

    def follow(self: Any, offset: int) -> None:
        if offset > self.core.high_watermark:
            self.core.raise_high_watermark(offset)

    plant(follower.Follower, "_follow_high_watermark", follow)


def high_watermark_falls(plant: Planter) -> None:
    """A follower takes over a lower high watermark, too."""

    def follow(self: Any, offset: int) -> None:
        offset = min(offset, self.core.log.end_offset)
        if offset != self.core.high_watermark:
            self.core.raise_high_watermark(offset)

    plant(follower.Follower, "_follow_high_watermark", follow)


def all_that_is_fetched_is_committed(plant: Planter) -> None:
    """A follower takes what it fetched for committed."""

    def follow(self: Any, offset: int) -> None:
        if self.core.log.end_offset > self.core.high_watermark:
            self.core.raise_high_watermark(self.core.log.end_offset)

    plant(follower.Follower, "_follow_high_watermark", follow)


def appends_what_it_has(plant: Planter) -> None:
    """A follower takes answers that it had given up, and appends them wherever its log ends."""

    def append(self: Any, batches: Any) -> None:
        node = self.core
        for batch in batches:
            is_next = batch.base_offset == node.log.end_offset
            node.log.append(batch.epoch, batch.last_offset + 1 - batch.base_offset)
            if is_next:
                node.apply_control(batch)
        node.emit(fx.AppendBatches(batches))
        node.flush()

    def take(self: Any, request_id: int) -> Any:
        connection = self._pending.pop(request_id, None)
        if connection is not None:
            connection.request_id = connection.until_us = 0
        return connection or next(iter(self._by_node.values()), None)

    plant(follower.Follower, "_append", append)
    plant(links.Connections, "take", take)


def counts_other_disks(plant: Planter) -> None:
    """A leader counts the fetches of a voter's id, whichever disk it has now."""
    acknowledged = leader.Leader._acknowledged

    def lenient(self: Any, request: Fetch, offset: int) -> None:
        progress = self.voters.get(request.replica_id)
        if progress is not None:
            progress.directory_id = None
        acknowledged(self, request, offset)

    plant(leader.Leader, "_acknowledged", lenient)


def counts_observers(plant: Planter) -> None:
    """A leader counts an observer that fetches as one of the voters that have it."""

    def advance(self: Any) -> None:
        node = self.core
        everybody = [*self.voters.values(), *self.observers.values()]
        offsets = sorted([p.end_offset for p in everybody], reverse=True)
        offset = offsets[len(self.voters) // 2]
        if offset > max(self.epoch_start_offset, node.high_watermark):
            node.raise_high_watermark(offset)

    plant(leader.Leader, "advance", advance)


def counts_what_it_sent(plant: Planter) -> None:
    """A leader counts what it sends a follower as held by it."""
    reply_to = leader.Leader.fetch_reply

    def eager(self: Any, request: Fetch) -> FetchReply:
        reply = reply_to(self, request)
        progress = self.voters.get(request.replica_id)
        if progress is not None and reply.read_offset >= 0:
            progress.end_offset = self.core.log.end_offset
            self.advance()
        return reply

    plant(leader.Leader, "fetch_reply", eager)


def tells_wrong_offsets(plant: Planter) -> None:
    """Two appends that linger together are told the same offsets."""
    on_append = leader.Leader.on_append

    def forgetful(self: Any, event: Any) -> None:
        records, self.undrained_records = self.undrained_records, 0
        on_append(self, event)
        self.undrained_records += records

    plant(leader.Leader, "on_append", forgetful)


def does_not_open_its_epoch(plant: Planter) -> None:
    """A new leader writes no record of its own: what was left commits with the first append."""
    plant(leader.Leader, "begin", lambda self: None)


def tells_of_its_leadership_at_once(plant: Planter) -> None:
    """A state machine is told that it leads when the election is won, before anything commits."""
    begin = leader.Leader.begin

    def proud(self: Any) -> None:
        begin(self)
        self.core.report_leader(self.core.leader_id)

    plant(leader.Leader, "begin", proud)


def takes_appends_of_earlier_epochs(plant: Planter) -> None:
    """A leader takes what its state machine appends in an epoch that it led before."""
    error = leader.Leader._append_error

    def lenient(self: Any, event: Any, size_bytes: int) -> int:
        event.epoch = max(event.epoch, self.core.epoch)
        return int(error(self, event, size_bytes))

    plant(leader.Leader, "_append_error", lenient)


def stands_still_without_answers(plant: Planter) -> None:
    """A request that is not answered is awaited for ever."""
    init = links.Connections.__init__

    def patient(self: Any, request_timeout_us: int, retry_us: int) -> None:
        init(self, 1 << 60, retry_us)

    plant(links.Connections, "__init__", patient)


def never_tells_the_high_watermark(plant: Planter) -> None:
    """A leader's answers leave out how much is committed."""
    reply_to = leader.Leader.fetch_reply

    def silent(self: Any, request: Fetch) -> FetchReply:
        reply = reply_to(self, request)
        reply.high_watermark = NONE
        return reply

    plant(leader.Leader, "fetch_reply", silent)


def asks_again_at_once(plant: Planter) -> None:
    """A node that answered that it cannot help is asked again at once."""
    plant(links.Connections, "back_off", lambda *_: None)


def does_not_let_its_leader_wait(plant: Planter) -> None:
    """A follower's Fetch is to be answered at once, also where there is nothing new for it."""
    fetch_request = role.Decisions.fetch_request

    def hasty(self: Any, node: Any) -> Fetch:
        return replace(fetch_request(self, node), max_wait_us=0)

    plant(role.Decisions, "fetch_request", hasty)


def begins_no_new_period(plant: Planter) -> None:
    """A follower's clock strikes for its endpoints, which are known, and is not set again."""
    begin = follower.Follower.begin_update_period

    def forgetful(self: Any) -> None:
        if not self.has_updated_leader:
            begin(self)

    plant(follower.Follower, "begin_update_period", forgetful)

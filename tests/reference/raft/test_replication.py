"""Fetching, truncating, committing, and the order of effects that makes it durable."""

from __future__ import annotations

from typing import Any

import pytest
from tests.reference.raft.network import CLUSTER, Network, Replica, joiner, quorum

from kraftspec.fastpath import encode_batch
from kraftspec.fastpath.types import Uuid
from kraftspec.generated.errors import ErrorCode
from kraftspec.reference.raft import FatalError, RoleName
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft import messages as ms
from kraftspec.reference.raft.config import (
    BATCH_BYTES_MAX,
    BATCH_OVERHEAD_BYTES,
    MS,
    OBSERVERS_MAX,
    RECORD_OVERHEAD_BYTES_MAX,
    S,
)
from kraftspec.reference.raft.types import (
    UNSUPPORTED_HIGH_WATERMARK,
    ElectionState,
    ReplicaKey,
    SnapshotId,
)

LARGEST_VALUE_BYTES = BATCH_BYTES_MAX - BATCH_OVERHEAD_BYTES - RECORD_OVERHEAD_BYTES_MAX


def led(count: int = 3, **changes: Any) -> tuple[Network, Replica, list[Replica]]:
    """Return a quorum with its leader and the others, some way into its life."""
    net = quorum(count, **changes)
    leader = net.elect()
    net.run(100 * MS)
    return net, leader, [r for r in net.replicas.values() if r is not leader]


def append(leader: Replica, *values: bytes) -> list[fx.Effect]:
    return leader.step(ev.AppendRequested(7, leader.core.epoch, values or (b"value",)))


def fetch(leader: Replica, **changes: Any) -> ms.Fetch:
    core = leader.core
    values: dict[str, Any] = {
        "cluster_id": CLUSTER,
        "replica_id": 77,
        "leader_epoch": core.epoch,
        "fetch_offset": core.log.end_offset,
        "last_fetched_epoch": core.log.last_epoch,
        "high_watermark": core.high_watermark,
        "max_wait_us": 500 * MS,
        "max_bytes": 1 << 20,
    }
    return ms.Fetch(**{**values, **changes})


def ask(net: Network, leader: Replica, request: ms.Fetch) -> ms.FetchReply:
    reply = net.ask(leader.config.node_id, request)
    assert isinstance(reply, ms.FetchReply)
    return reply


# ---- commit ----------------------------------------------------------------------------------


def test_records_reach_everybody_and_are_committed() -> None:
    net, leader, others = led()
    for number in range(10):
        append(leader, b"a%d" % number, b"b%d" % number)
    net.run(S)
    for replica in (leader, *others):
        assert replica.core.committed_offset == 21
        assert replica.disk.values() == leader.disk.values()
    assert len(leader.disk.values()) == 20


def test_a_leader_counts_itself_after_its_own_sync_only() -> None:
    """Two of three must have it on disk: one follower and an unsynced leader are not enough."""
    net, leader, others = led()
    net.isolate(others[0].config.node_id)
    leader.auto_flush = False
    append(leader)
    net.run(500 * MS)
    assert others[1].core.log.flushed_offset == leader.core.log.end_offset
    assert leader.core.high_watermark == leader.core.log.end_offset - 1
    leader.flush()
    assert leader.core.high_watermark == leader.core.log.end_offset


def test_a_sync_counts_for_what_it_covered_and_no_more() -> None:
    net, leader, others = led()
    net.isolate(others[0].config.node_id)
    leader.auto_flush = False
    append(leader, b"synced")
    flush = leader.flush_wanted
    assert flush is not None
    append(leader, b"appended during the sync")
    net.run(500 * MS)
    assert others[1].core.log.flushed_offset == leader.core.log.end_offset == flush.end_offset + 1
    leader.step(ev.LogFlushed(flush.end_offset, flush.generation))
    assert leader.core.high_watermark == flush.end_offset


def test_a_majority_without_the_leader_commits() -> None:
    net, leader, _ = led()
    leader.auto_flush = False
    append(leader)
    net.run(500 * MS)
    assert leader.core.high_watermark == leader.core.log.end_offset


def test_a_leaders_records_are_served_before_its_own_sync() -> None:
    net, leader, others = led()
    leader.auto_flush = False
    append(leader, b"early")
    net.run(500 * MS)
    assert all(other.disk.values()[-1] == b"early" for other in others)


def test_a_follower_fetches_on_only_from_what_is_durable() -> None:
    net, leader, others = led()
    slow = others[0]
    slow.auto_flush = False
    append(leader)
    net.run(10 * MS)
    assert slow.core.log.end_offset == leader.core.log.end_offset
    before = len(net.sent)
    net.run(900 * MS)
    assert not [1 for source, _, _ in net.sent[before:] if source == slow.config.node_id]
    slow.auto_flush = True
    slow.flush()
    net.run(10 * MS)
    assert [1 for source, _, _ in net.sent[before:] if source == slow.config.node_id]


def test_an_observer_on_a_broker_need_not_sync() -> None:
    net, leader, _ = led()
    broker = net.add(joiner(9, can_become_voter=False))
    net.run(S)
    append(leader)
    net.run(S)
    assert broker.core.log.end_offset == leader.core.log.end_offset
    assert not [e for e in broker.effects if isinstance(e, fx.FlushLog)]


def test_a_sync_that_began_before_a_truncation_proves_nothing() -> None:
    """What was cut and written anew since is not what the sync wrote."""
    net, leader, others = led()
    node = others[0]
    node.auto_flush = False
    append(leader)
    net.run(10 * MS)
    old = node.flush_wanted
    assert old is not None
    end = node.core.log.end_offset
    node.core.truncate(end - 1)
    node.core.log.append(leader.core.epoch, 1)
    node.core.step(ev.LogFlushed(old.end_offset, old.generation), net.now_us)
    assert node.core.log.flushed_offset == end - 1
    node.core.step(ev.LogFlushed(end, node.core.log_generation), net.now_us)
    assert node.core.log.flushed_offset == end


def test_an_old_epoch_is_committed_only_with_the_new_one() -> None:
    """Raft §5.4.2 (figure 8): a record of an earlier epoch on a majority is not committed yet."""
    net, leader, others = led()
    survivor, third = others
    net.isolate(third.config.node_id)
    leader.auto_flush = False
    append(leader, b"from the old epoch")
    net.run(100 * MS)
    assert survivor.disk.values() == [b"from the old epoch"]
    leader.crash()
    net.heal()
    committed = survivor.core.committed_offset
    survivor.auto_flush = third.auto_flush = False
    for _ in range(400):
        net.run(10 * MS)
        if survivor.role is RoleName.LEADER:
            break
    assert survivor.role is RoleName.LEADER
    start = survivor.leading.epoch_start_offset
    survivor.core.step(ev.LogFlushed(start, survivor.core.log_generation), net.now_us)
    request = fetch(survivor, replica_id=third.config.node_id, fetch_offset=start)
    request.last_fetched_epoch = 1
    survivor.core.step(ev.RequestReceived(-1, request), net.now_us)
    # Both have everything of the old epoch on disk, and it is not committed.
    assert survivor.core.high_watermark == -1
    survivor.core.step(ev.LogFlushed(start + 1, survivor.core.log_generation), net.now_us)
    request.fetch_offset = start + 1
    request.last_fetched_epoch = survivor.core.epoch
    survivor.core.step(ev.RequestReceived(-2, request), net.now_us)
    assert survivor.core.high_watermark == start + 1 > committed


def test_a_followers_high_watermark_stops_at_its_own_end_and_never_falls() -> None:
    net, leader, others = led()
    node = others[0]
    net.isolate(node.config.node_id)
    role = node.following
    epoch, leader_id = node.core.epoch, leader.config.node_id
    reply = ms.FetchReply(leader_id=leader_id, leader_epoch=epoch, high_watermark=1000)
    role.on_fetch_reply(reply)
    assert node.core.high_watermark == node.core.log.end_offset == 1
    for lower in (0, -1):
        reply.high_watermark = lower
        role.on_fetch_reply(reply)
        assert node.core.high_watermark == 1


def test_commits_are_told_once_and_ascend() -> None:
    net, leader, others = led()
    for _ in range(5):
        append(leader)
        net.run(10 * MS)
    for replica in (leader, *others):
        assert replica.commits == sorted(set(replica.commits))
        assert replica.commits[-1] == 6


# ---- appends ---------------------------------------------------------------------------------


def test_an_append_is_one_batch_and_its_effects_come_in_order() -> None:
    _, leader, _ = led()
    base = leader.core.log.end_offset
    effects = append(leader, b"1", b"2", b"3")
    kinds = [type(effect) for effect in effects]
    assert kinds[:3] == [fx.Appended, fx.AppendRecords, fx.FlushLog]
    assert set(kinds[3:]) <= {fx.Answer}  # fetches that waited
    assert effects[0] == fx.Appended(7, leader.core.epoch, base, base + 2)
    assert isinstance(effects[1], fx.AppendRecords)
    assert effects[1].records == (b"1", b"2", b"3")
    assert effects[2] == fx.FlushLog(base + 3, 0)


@pytest.mark.parametrize(
    ("role", "epoch", "values", "error"),
    [
        ("leader", 0, (b"x",), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ("leader", 2, (b"x",), ErrorCode.INVALID_REQUEST),
        ("leader", 1, (), ErrorCode.INVALID_REQUEST),
        ("leader", 1, (bytes(LARGEST_VALUE_BYTES + 1),), ErrorCode.RECORD_LIST_TOO_LARGE),
        ("follower", 1, (b"x",), ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_appends_that_are_refused(
    role: str, epoch: int, values: tuple[bytes, ...], error: ErrorCode
) -> None:
    _, leader, others = led()
    node = leader if role == "leader" else others[0]
    end = node.core.log.end_offset
    effects = node.step(ev.AppendRequested(3, epoch, values))
    assert effects == [fx.AppendRefused(3, error)]
    assert node.core.log.end_offset == end


def test_appends_linger_and_share_a_flush() -> None:
    net, leader, _ = led(append_linger_us=25 * MS)
    base = leader.core.log.end_offset
    first, second = append(leader, b"1", b"2"), append(leader, b"3")
    assert first == [fx.Appended(7, 1, base, base + 1)]
    assert second == [fx.Appended(7, 1, base + 2, base + 2)]
    assert leader.core.log.end_offset == base
    before = len(leader.effects)
    net.run(25 * MS)
    kinds = [type(e) for e in leader.effects[before:] if not isinstance(e, fx.Answer)]
    assert kinds[:3] == [fx.AppendRecords, fx.AppendRecords, fx.FlushLog]
    net.run(100 * MS)
    assert leader.core.high_watermark == base + 3


def test_bytes_alone_end_a_linger() -> None:
    """Any number of appends lingers, and 8 MiB of them do not, as in Kafka 4.4.0's harness."""
    net, leader, _ = led(append_linger_us=S)
    base = leader.core.log.end_offset
    append(leader, bytes(LARGEST_VALUE_BYTES))
    assert leader.core.log.end_offset == base + 1
    for number in range(100):
        assert append(leader, b"x") == [fx.Appended(7, 1, base + 1 + number, base + 1 + number)]
    assert leader.core.log.end_offset == base + 1
    net.run(S)
    assert leader.core.log.end_offset == base + 101


# ---- Fetch: refusals in their order, waiting -------------------------------------------------

REFUSALS: dict[str, tuple[dict[str, Any], int, bool]] = {
    "another cluster": ({"cluster_id": "x"}, 104, True),
    "another topic": ({"refused": 42}, 42, True),
    "another cluster first": ({"cluster_id": "x", "refused": 42}, 104, True),
    "negative wait": ({"max_wait_us": -1}, 42, False),
    "negative offset": ({"fetch_offset": -1}, 42, False),
    "negative last epoch": ({"last_fetched_epoch": -1}, 42, False),
    "last epoch above the leader's": ({"last_fetched_epoch": 2}, 42, False),
    "epoch -1": ({"leader_epoch": -1}, 42, False),
    "lower epoch": ({"leader_epoch": 0, "last_fetched_epoch": 0}, 74, False),
    "higher epoch": ({"leader_epoch": 2}, 75, False),
    "its own id": ({"replica_id": 0}, -1, False),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_fetches_that_are_refused(name: str) -> None:
    changes, error, whole = REFUSALS[name]
    net, leader, _ = led()
    if name == "its own id":
        changes = {"replica_id": leader.config.node_id}
    reply = ask(net, leader, fetch(leader, **changes))
    assert (reply.error, reply.top_error) == ((0, error) if whole else (error, 0))
    assert reply.read_offset == -1
    if not whole:
        assert (reply.leader_id, reply.leader_epoch) == (leader.config.node_id, 1)


def test_only_the_leader_serves() -> None:
    net, leader, others = led()
    reply = ask(net, others[0], fetch(leader))
    assert reply.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert reply.leader_id == leader.config.node_id
    assert reply.leader_endpoints == leader.config.endpoints


def test_a_fetch_at_the_end_waits_for_an_append() -> None:
    net, leader, _ = led()
    request = fetch(leader)
    assert net.ask(leader.config.node_id, request) is None
    token = net.last_token
    append(leader)
    reply = net.answers.pop(token)
    assert isinstance(reply, ms.FetchReply)
    assert (reply.read_offset, reply.error) == (request.fetch_offset, 0)


def test_a_fetch_at_the_end_is_answered_empty_after_its_time() -> None:
    net, leader, _ = led()
    net.ask(leader.config.node_id, fetch(leader, max_wait_us=300 * MS))
    token = net.last_token
    net.run(299 * MS)
    assert token not in net.answers
    net.run(1 * MS)
    reply = net.answers[token]
    assert isinstance(reply, ms.FetchReply)
    assert (reply.read_offset, reply.error) == (-1, 0)


@pytest.mark.parametrize("changes", [{"max_wait_us": 0}, {"high_watermark": -1}])
def test_a_fetch_that_does_not_wait_or_whose_high_watermark_is_old(changes: dict[str, int]) -> None:
    net, leader, _ = led()
    reply = ask(net, leader, fetch(leader, **changes))
    assert (reply.read_offset, reply.error) == (-1, 0)
    assert reply.high_watermark == leader.core.high_watermark


def test_a_version_without_high_watermarks_waits() -> None:
    net, leader, _ = led()
    request = fetch(leader, high_watermark=UNSUPPORTED_HIGH_WATERMARK)
    assert net.ask(leader.config.node_id, request) is None


def test_a_new_high_watermark_answers_all_that_wait() -> None:
    net, leader, _ = led()
    leader.auto_flush = False
    for other in net.replicas.values():
        other.auto_flush = False
    append(leader)
    net.settle()
    net.ask(leader.config.node_id, fetch(leader))
    token = net.last_token
    for other in net.replicas.values():
        other.auto_flush = True
        other.flush()
    net.settle()
    reply = net.answers.pop(token)
    assert isinstance(reply, ms.FetchReply)
    assert (reply.read_offset, reply.high_watermark) == (-1, leader.core.log.end_offset)


def test_who_waits_is_told_when_the_leader_stops_leading() -> None:
    net, leader, _ = led()
    net.ask(leader.config.node_id, fetch(leader))
    token = net.last_token
    leader.step(ev.ResignRequested(leader.core.epoch))
    assert net.answers[token].error == ErrorCode.NOT_LEADER_OR_FOLLOWER


# ---- logs that part --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "epoch", "diverging"),
    [
        (12, 5, None),  # a prefix
        (30, 9, None),  # the end
        (10, 2, None),  # the end of epoch 2 is 10
        (11, 2, (2, 10)),  # beyond the end of its epoch
        (20, 4, (2, 10)),  # an epoch that the leader lacks: the largest below it
        (31, 9, (9, 30)),  # beyond the end
        (5, 1, (1, 0)),  # an epoch below the first: itself, ended where the log begins
        (0, 0, None),  # nothing is a prefix of everything
    ],
)
def test_where_two_logs_part(offset: int, epoch: int, diverging: tuple[int, int] | None) -> None:
    """KIP-101, KIP-595. The leader's epochs: 2 from 0, 5 from 10, 7 from 20, 9 from 25 to 30."""
    net, leader, _ = led()
    log = leader.core.log
    log._epochs[:], log._epoch_starts[:] = [2, 5, 7, 9], [0, 10, 20, 25]
    log.end_offset, log.last_epoch, leader.core.epoch = 30, 9, 9
    end = log.end_offset_for_epoch(epoch)
    assert log.is_valid(offset, epoch) is (diverging is None)
    if diverging is not None:
        assert end == diverging
        reply = ask(net, leader, fetch(leader, fetch_offset=offset, last_fetched_epoch=epoch))
        assert (reply.diverging_epoch, reply.diverging_end_offset) == diverging
        assert (reply.error, reply.read_offset) == (0, -1)


@pytest.mark.parametrize(
    ("epoch", "end_offset", "expected"),
    [
        (5, 15, 15),  # the epoch is here too: the shorter of both ends
        (5, 18, 18),
        (7, 40, 30),
        (4, 12, 10),  # the leader's largest is not here: the end of the largest below it
        (9, 40, 30),  # above all: nothing to cut yet
        (0, 7, 7),  # epoch 0 is compared by offset alone
    ],
)
def test_how_much_a_follower_truncates(epoch: int, end_offset: int, expected: int) -> None:
    """Its epochs: 2 from 0, 5 from 10, 7 from 20 to 30."""
    _, _, others = led()
    node = others[0]
    core, log = node.core, node.core.log
    log._epochs[:], log._epoch_starts[:] = [2, 5, 7], [0, 10, 20]
    log.end_offset, log.last_epoch = 30, 7
    core.effects = []
    node.following.on_fetch_reply(
        ms.FetchReply(diverging_epoch=epoch, diverging_end_offset=end_offset)
    )
    assert log.end_offset == expected
    cuts = [e.end_offset for e in core.effects if isinstance(e, fx.TruncateLog)]
    assert cuts == ([expected] if expected < 30 else [])


def test_truncating_what_is_committed_is_fatal() -> None:
    _, _, others = led()
    with pytest.raises(FatalError, match="below the high watermark"):
        others[0].following.on_fetch_reply(ms.FetchReply(diverging_epoch=1, diverging_end_offset=0))


def test_truncating_what_is_committed_by_the_own_epochs_is_fatal_too() -> None:
    """The leader's offset is high enough, but its epoch is not here, and the one below ends low."""
    _, _, others = led()
    node = others[0]
    log = node.core.log
    log._epochs[:], log._epoch_starts[:] = [2, 5], [0, 10]
    log.end_offset, log.last_epoch = 30, 5
    node.core.committed_offset = node.core.high_watermark = 20
    with pytest.raises(FatalError, match="truncated to 10"):
        node.following.on_fetch_reply(ms.FetchReply(diverging_epoch=4, diverging_end_offset=25))
    assert log.end_offset == 30


def test_a_leader_remembers_so_many_observers_and_no_more() -> None:
    net, leader, _ = led()
    role = leader.leading
    for number in range(OBSERVERS_MAX + 10):
        role._observer(ReplicaKey(5, Uuid(number.to_bytes(16, "big"))))
    assert len(role.observers) == OBSERVERS_MAX
    assert net.leader is leader


@pytest.mark.parametrize("max_bytes", [-1, -(1 << 31)])
def test_a_negative_limit_of_bytes_is_none_at_all(max_bytes: int) -> None:
    net, leader, _ = led()
    reply = ask(
        net, leader, fetch(leader, fetch_offset=0, last_fetched_epoch=0, max_bytes=max_bytes)
    )
    assert (reply.read_offset, reply.read_max_bytes) == (0, 0)


def test_a_deposed_leader_loses_what_nobody_else_had() -> None:
    net, leader, others = led()
    net.isolate(leader.config.node_id)
    append(leader, b"lost")
    append(leader, b"lost too")
    net.run(10 * S)
    new = next(r for r in others if r.role is RoleName.LEADER)
    append(new, b"kept")
    net.run(S)
    net.heal()
    net.run(5 * S)
    assert leader.role is RoleName.FOLLOWER
    for replica in net.replicas.values():
        assert replica.disk.values() == [b"kept"]
    assert [e for e in leader.effects if isinstance(e, fx.TruncateLog)]


# ---- what a follower takes -------------------------------------------------------------------


def batch(base_offset: int, epoch: int, *values: bytes) -> ms.Batch:
    values = values or (b"v",)
    data = encode_batch(
        list(values), timestamps=0, base_offset=base_offset, partition_leader_epoch=epoch
    )
    return ms.Batch(base_offset, base_offset + len(values) - 1, epoch, data)


@pytest.mark.parametrize(
    ("batches", "taken"),
    [
        ([(1, 1), (2, 1)], 2),
        ([(0, 1), (1, 1)], 0),  # not where this log ends
        ([(2, 1)], 0),
        ([(1, 1), (3, 1)], 1),  # a gap
        ([(1, 1), (2, 2)], 1),  # of an epoch that the leader itself has not reached (KAFKA-18723)
        ([(1, 0)], 0),  # epochs do not fall
    ],
)
def test_only_batches_that_continue_the_log_are_taken(
    batches: list[tuple[int, int]], taken: int
) -> None:
    _, leader, others = led()
    node = others[0]
    core = node.core
    assert (core.log.end_offset, core.epoch) == (1, 1)
    core.effects = []
    node.following.on_fetch_reply(ms.FetchReply(batches=tuple(batch(*which) for which in batches)))
    assert core.log.end_offset == 1 + taken
    appended = [e for e in core.effects if isinstance(e, fx.AppendBatches)]
    assert [len(e.batches) for e in appended] == ([taken] if taken else [])
    assert leader.core.epoch == 1


def test_a_damaged_batch_is_fetched_again() -> None:
    net, leader, others = led()
    node = others[0]
    net.isolate(node.config.node_id)
    for number in range(3):
        append(leader, b"value %d" % number)
    net.run(100 * MS)
    records = bytearray(leader.disk.read(1))
    records[-1] ^= 1
    profile = net.profile
    request = node.core.fetch_request()
    reply = ms.FetchReply(leader_id=leader.config.node_id, leader_epoch=1, records=bytes(records))
    decoded = profile.decode_reply(
        request, 18, profile.encode_reply(request, reply, 18, "CONTROLLER")
    )
    assert isinstance(decoded, ms.FetchReply)
    assert [b.base_offset for b in decoded.batches] == [1, 2]
    net.heal()
    net.run(5 * S)
    assert node.disk.values() == leader.disk.values()


def test_a_follower_whose_leader_is_gone_asks_around() -> None:
    """A request that is not answered, or fails, sends the next one to a bootstrap server."""
    net, leader, others = led()
    observer = net.add(joiner(9))
    net.run(S)
    net.cut = {(9, leader.config.node_id), (leader.config.node_id, 9)}
    before = len(net.sent)
    net.run(30 * S)  # One in three servers is the leader again, and each silence takes two seconds.
    targets = {target for source, target, _ in net.sent[before:] if source == 9}
    assert targets & {other.config.node_id for other in others}
    dropped = [e.node for e in observer.effects if isinstance(e, fx.DropConnection)]
    assert dropped


def test_a_request_that_times_out_is_given_up() -> None:
    net, leader, others = led()
    node = others[0]
    ask = [e for e in node.effects if isinstance(e, fx.Ask)][-1]
    net.isolate(node.config.node_id)
    net.run(1900 * MS)
    late = ms.FetchReply(leader_id=leader.config.node_id, leader_epoch=1, batches=(batch(1, 1),))
    end = node.core.log.end_offset
    net.run(2 * S)
    node.step(ev.ReplyReceived(ask.request_id, late))
    assert node.core.log.end_offset == end


# ---- replies that every role treats alike ----------------------------------------------------


def stray(leader_id: int, epoch: int, error: int = 0) -> tuple[Replica, bool]:
    """Give an unattached node 1 in epoch 5 this answer to its Fetch."""
    net = quorum(3)
    for node_id in (2, 3):
        net.replicas[node_id].crash()
    node = net.replicas[1]
    node.crash()
    node.disk.election = ElectionState(5)
    node.restart()
    ask = [e for e in node.effects if isinstance(e, fx.Ask)][-1]
    reply = ms.FetchReply(error=error, leader_id=leader_id, leader_epoch=epoch)
    node.step(ev.ReplyReceived(ask.request_id, reply))
    return node, node.core.connections.backing_off(ask.node.id, net.now_us)


@pytest.mark.parametrize(
    ("leader_id", "epoch", "error", "role", "expected_epoch"),
    [
        (2, 4, 74, RoleName.UNATTACHED, 5),  # a lower epoch: old news
        (2, 5, 75, RoleName.UNATTACHED, 5),  # it has not heard of this epoch: nothing to learn
        (2, 5, 6, RoleName.FOLLOWER, 5),  # not the leader, but it knows who is
        (2, 7, 74, RoleName.FOLLOWER, 7),
        (-1, 7, 74, RoleName.UNATTACHED, 7),
        (-1, 5, 6, RoleName.UNATTACHED, 5),
        (2, 5, 0, RoleName.FOLLOWER, 5),
        (9, 7, 74, RoleName.UNATTACHED, 7),  # a leader of which nobody says where it is
        (1, 7, 74, RoleName.UNATTACHED, 7),  # this very node, which does not lead
    ],
)
def test_what_a_reply_teaches(
    leader_id: int, epoch: int, error: int, role: RoleName, expected_epoch: int
) -> None:
    node, _ = stray(leader_id, epoch, error)
    assert (node.role, node.core.epoch) == (role, expected_epoch)
    assert node.disk.election is not None
    assert node.disk.election.epoch == expected_epoch


def test_a_server_that_is_not_available_is_left_alone_for_a_while() -> None:
    assert stray(-1, 5, int(ErrorCode.BROKER_NOT_AVAILABLE))[1]


def test_an_invalid_request_is_this_nodes_own_mistake() -> None:
    with pytest.raises(FatalError, match="invalid"):
        stray(-1, 5, int(ErrorCode.INVALID_REQUEST))


def test_not_being_authorized_is_fatal() -> None:
    net, _, others = led()
    ask = [e for e in others[0].effects if isinstance(e, fx.Ask)][-1]
    with pytest.raises(FatalError, match="authorized"):
        others[0].step(ev.ReplyReceived(ask.request_id, ms.FetchReply(top_error=31)))
    assert net.leader is not None


def test_other_errors_of_a_whole_request_are_a_reason_to_wait() -> None:
    net, _, others = led()
    node = others[0]
    ask = [e for e in node.effects if isinstance(e, fx.Ask)][-1]
    node.step(ev.ReplyReceived(ask.request_id, ms.FetchReply(top_error=104)))
    assert node.role is RoleName.FOLLOWER
    assert node.core.connections.backing_off(ask.node.id, net.now_us)


def test_snapshot_ids_are_ordered_by_epoch_first() -> None:
    log = led()[1].core.log
    assert log.latest_snapshot is None
    assert not log.is_before_snapshots(0, 0)
    assert SnapshotId(1, 2) != SnapshotId(2, 1)

"""The profile ``kip-595`` without a shell: what its bytes say, how it draws, and a quorum of it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.reference.raft.network import LISTENER, Network, Replica, config

from kraftspec.fastpath.types import ZERO_UUID
from kraftspec.generated.errors import DraftErrorCode, ErrorCode
from kraftspec.generated.kip_595 import (
    FetchQuorumRecordsResponse,
    LeaderChangeMessage,
    QuorumStateMessage,
    VoterAssignmentMessage,
    VoteResponse,
)
from kraftspec.reference.log import LogDirectory, MetaProperties
from kraftspec.reference.log.directory import NotFormattedError
from kraftspec.reference.log.quorum_state import QuorumStateFile, render
from kraftspec.reference.profiles import parts_of, profile_named
from kraftspec.reference.profiles.kip_595.assignment import Assignment
from kraftspec.reference.profiles.kip_595.memory import CALLERS_MAX, Memory, Stored
from kraftspec.reference.profiles.kip_595.messages import (
    AlterQuorum,
    AlterQuorumReply,
    Connection,
    FindQuorum,
)
from kraftspec.reference.profiles.kip_595.policy import FIXES
from kraftspec.reference.profiles.kip_595.profile import KipProfile
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft import messages as ms
from kraftspec.reference.raft.config import MS, S
from kraftspec.reference.raft.control import KRaftVersion, LeaderChange, Voters
from kraftspec.reference.raft.transitions import FatalError
from kraftspec.reference.raft.types import (
    ElectionState,
    Endpoint,
    Node,
    ReplicaKey,
    RoleName,
    Voter,
)
from kraftspec.reference.raft.voters import VoterSet
from kraftspec.reference.storage import Storage


def draft(ids: tuple[int, ...] = (1, 2, 3), nodes: tuple[int, ...] = (), **changes: Any) -> Network:
    """Return nodes that were told these first voters, and know nothing else."""
    without = changes.pop("without", ())
    net = Network(profile_named("kip-595", without=without))
    voters = VoterSet(Voter(ReplicaKey(node_id)) for node_id in ids)
    for node_id in nodes or ids:
        net.add(configured(node_id, voters, servers=ids, **changes))
    return net


def configured(node_id: int, voters: VoterSet, servers: tuple[int, ...], **changes: Any) -> Any:
    contacts = tuple(Node(-2 - one, f"node{one}", 9000 + one) for one in servers)
    values: dict[str, Any] = {
        "cluster_id": "",
        "directory_id": ZERO_UUID,
        "bootstrap_servers": contacts,
        "endpoints": (Endpoint(LISTENER, f"node{node_id}", 9000 + node_id),),
        "retry_backoff_max_us": S,
    }
    return config(node_id, voters, **{**values, **changes})


def alter(net: Network, *targets: int) -> ms.Reply | None:
    leader = net.leader
    assert leader is not None
    cluster_id = leader.core.config.cluster_id
    request = AlterQuorum(cluster_id=cluster_id, targets=targets, timeout_us=5 * S)
    return net.ask(leader.config.node_id, request)


def leading(net: Network) -> Replica:
    leader = net.leader
    assert leader is not None
    return leader


# ---- bytes -------------------------------------------------------------------------------------


def test_its_keys_are_private_but_for_api_versions() -> None:
    profile = profile_named("kip-595")
    assert {key: api.name for key, api in profile.apis.items()} == {
        10050: "Vote",
        10051: "BeginQuorumEpoch",
        10052: "EndQuorumEpoch",
        10053: "FetchQuorumRecords",
        10054: "AlterQuorum",
        10055: "FindQuorum",
        10056: "DescribeQuorum",
        18: "ApiVersions",
    }


def test_control_records_have_the_drafts_types() -> None:
    profile = KipProfile()
    change = LeaderChange(2, (), (1, 2))
    kind, value = profile.encode_control(change)
    assert kind == 3
    assert LeaderChangeMessage.decode(value, 0) == LeaderChangeMessage(
        leader_id=2, voted_ids=(1, 2)
    )
    assert profile.decode_control(kind, value) == change
    record = Voters(Assignment("c", (3, 1), (2, 1)))
    kind, value = profile.encode_control(record)
    assert kind == 2
    message = VoterAssignmentMessage.decode(value, 0)
    assert message.cluster_id == "c"
    assert [voter.voter_id for voter in message.current_voters] == [1, 3]
    assert [voter.voter_id for voter in message.target_voters or ()] == [1, 2]
    assert profile.decode_control(kind, value) == record
    assert profile.decode_control(4, b"") is None
    with pytest.raises(TypeError, match="no control record"):
        profile.encode_control(KRaftVersion(1))


def test_assignments_differ_by_their_targets_and_by_their_cluster() -> None:
    one = Assignment("c", (1, 2))
    assert one != Assignment("c", (1, 2), ())
    assert one != Assignment("d", (1, 2))
    assert one != VoterSet(one)
    assert one == Assignment("c", (2, 1), None)
    assert hash(one) == hash(Assignment("c", (2, 1)))


def test_a_response_has_one_error_and_always_the_leader() -> None:
    profile = KipProfile()
    request = ms.Vote(epoch=3, replica_id=1, last_epoch=1, end_offset=4)
    refused = ms.VoteReply(top_error=ErrorCode.INCONSISTENT_CLUSTER_ID, leader_id=2, leader_epoch=7)
    body = profile.encode_reply(request, refused, 0, LISTENER)
    message = VoteResponse.decode(body, 0)
    assert (message.error_code, message.leader_id, message.leader_epoch) == (104, 2, 7)
    reply = profile.decode_reply(request, 0, body)
    assert (reply.error, reply.top_error) == (0, 104)


def test_where_logs_part_is_an_error_with_a_hint() -> None:
    profile = KipProfile()
    request = ms.Fetch(replica_id=1, leader_epoch=3, fetch_offset=9, last_fetched_epoch=2)
    reply = ms.FetchReply(
        leader_id=2, leader_epoch=3, diverging_epoch=0, diverging_end_offset=0, high_watermark=5
    )
    body = profile.encode_reply(request, reply, 0, LISTENER)
    message = FetchQuorumRecordsResponse.decode(body, 0)
    assert message.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (message.next_fetch_offset, message.next_fetch_offset_epoch) == (0, 0)
    read = profile.decode_reply(request, 0, body)
    assert isinstance(read, ms.FetchReply)
    assert (read.error, read.diverging_epoch, read.diverging_end_offset) == (0, 0, 0)


@pytest.mark.parametrize("hint", [(-1, -1), (-5, 2), (3, -1)])
def test_an_error_without_a_hint_stays_an_error(hint: tuple[int, int]) -> None:
    """Its sender is left alone for a while, and not asked the same again at once."""
    request = ms.Fetch(replica_id=1, leader_epoch=3, fetch_offset=9, last_fetched_epoch=2)
    message = FetchQuorumRecordsResponse(
        error_code=ErrorCode.OFFSET_OUT_OF_RANGE, next_fetch_offset=hint[0]
    )
    message.next_fetch_offset_epoch = hint[1]
    read = KipProfile().decode_reply(request, 0, message.encode(0))
    assert isinstance(read, ms.FetchReply)
    assert (read.error, read.diverging_epoch) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


def test_an_endpoint_may_say_its_security_protocol() -> None:
    profile = KipProfile()
    request = FindQuorum(sender=Connection(4, 9, "h", 1, 3))
    again = profile.decode_request(10055, 0, profile.encode_request(request, 0))
    assert isinstance(again, FindQuorum)
    assert again.sender == request.sender


# ---- quorum-state --------------------------------------------------------------------------------


def put(state: ElectionState, rest: Stored | None) -> tuple[KipProfile, Any]:
    profile = KipProfile()
    message, version = profile.put_state(fx.PersistElection(state, 0, (1, 2), rest))
    assert version == 0
    return profile, message


def test_quorum_state_says_what_the_draft_says_that_it_does() -> None:
    applied = Assignment("c", (1, 2), (2, 3))
    state = ElectionState(5, -1, ReplicaKey(2))
    profile, message = put(state, Stored("c", 17, applied))
    assert json.loads(render(message, 0)) == {
        "clusterId": "c",
        "leaderId": -1,
        "leaderEpoch": 5,
        "votedId": 2,
        "appliedOffset": 17,
        "currentVoters": [{"voterId": 1}, {"voterId": 2}],
        "targetVoters": [{"voterId": 2}, {"voterId": 3}],
        "data_version": 0,
    }
    read, version = QuorumStateFile.parse(render(message, 0), "f", QuorumStateMessage)
    stored = profile.get_state(read, version)
    assert stored.election == state
    assert stored.voters == applied
    assert stored.applied_offset == 17
    assert stored.rest == Stored("c", 17, applied)


def test_quorum_state_before_the_first_assignment_names_no_voters() -> None:
    profile, message = put(ElectionState(1, 3), None)
    stored = profile.get_state(message, 0)
    assert stored.voters is None
    assert stored.election == ElectionState(1, 3)


@pytest.mark.parametrize("field", ["leader_epoch", "applied_offset"])
def test_quorum_state_with_a_negative_number_is_refused(field: str) -> None:
    profile, message = put(ElectionState(1, 3), None)
    setattr(message, field, -1)
    with pytest.raises(ValueError, match="-1"):
        profile.get_state(message, 0)


def test_a_cluster_id_that_differs_between_files_is_refused() -> None:
    net = draft((1,))
    node = net.replicas[1]
    node.crash()
    node.disk.rest = Stored("another", 0, None)
    node.config = configured(1, node.config.voters, (1,), cluster_id="cached")
    with pytest.raises(ValueError, match="of the cluster another, and this node of cached"):
        node.restart()


def test_meta_properties_has_the_brokers_id_and_its_cluster_once_that_is_known(
    tmp_path: Path,
) -> None:
    path = str(tmp_path)
    own_property = parts_of("kip-595").id_property
    LogDirectory.format(
        path, MetaProperties(profile="kip-595", node_id=4, id_property=own_property)
    )
    meta = tmp_path / "meta.properties"
    assert meta.read_text() == "version=kip-595\nbroker.id=4\n"
    with pytest.raises(NotFormattedError, match=r"node 4, and this is node 5: broker\.id"):
        LogDirectory.open(path, profile="kip-595", node_id=5)
    for profile in ("kafka", "kip-853", "kip-996"):
        with pytest.raises(NotFormattedError, match=f"profile kip-595, .* opened as {profile}"):
            LogDirectory.open(path, profile=profile, node_id=4)
    own = configured(4, VoterSet(), (1,))
    storage = Storage.open(path, KipProfile(), own)
    storage.name_cluster("c")
    storage.close()
    assert meta.read_text() == "version=kip-595\ncluster.id=c\nbroker.id=4\n"
    storage = Storage.open(path, KipProfile(), own)
    assert storage.make_core(own, random.Random(1)).config.cluster_id == "c"
    storage.close()


# ---- time ----------------------------------------------------------------------------------------


class Fraction:
    """Always the same fraction."""

    def __init__(self, fraction: float) -> None:
        self.fraction = fraction

    def getrandbits(self, k: int, /) -> int:
        return min(int(self.fraction * (1 << k)), (1 << k) - 1)


@pytest.mark.parametrize(
    ("campaigns", "longest_ms"), [(0, 50), (1, 100), (2, 200), (3, 400), (4, 500), (60, 500)]
)
def test_the_delay_before_an_election_doubles_below_its_cap(
    campaigns: int, longest_ms: int
) -> None:
    net = draft((1,), election_backoff_max_us=500 * MS)
    core = net.replicas[1].core
    core.campaigns = campaigns
    core.random = Fraction(1)
    assert core.policy.election_backoff_us(core) == longest_ms * MS
    core.random = Fraction(0)
    assert core.policy.election_backoff_us(core) == 0
    core.random = random.Random(campaigns)
    drawn = [core.policy.election_backoff_us(core) for _ in range(2_000)]
    assert 0 <= min(drawn) < longest_ms * MS // 100
    assert sum(drawn) / len(drawn) == pytest.approx(longest_ms * MS / 2, rel=0.05)


@pytest.mark.parametrize(
    ("failures", "doubled_ms"), [(1, 20), (2, 40), (3, 80), (6, 640), (7, 1280), (99, 20 << 20)]
)
def test_requests_are_tried_again_as_kip_580_says(failures: int, doubled_ms: int) -> None:
    """MIN(max, initial * 2^(failures - 1) * random(0.8, 1.2)): the maximum is one."""
    net = draft((1,))
    core = net.replicas[1].core
    for fraction, permille in ((0, 800), (0.5, 1000), (1, 1200)):
        core.random = Fraction(fraction)
        drawn_us = core.policy.retry_backoff_us(core, failures)
        assert drawn_us == pytest.approx(min(doubled_ms * permille, S), rel=0.002)
        assert drawn_us <= S


# ---- elections -----------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_it_bootstraps_elects_and_replicates(count: int) -> None:
    net = draft(tuple(range(1, count + 1)))
    leader = net.elect()
    for number in range(10):
        leader.step(ev.AppendRequested(number, leader.core.epoch, (b"%d" % number,)))
    net.run(3 * S)
    ids = {r.core.config.cluster_id for r in net.replicas.values()}
    assert len(ids) == 1
    assert ids != {""}
    for replica in net.replicas.values():
        assert replica.disk.values() == [b"%d" % number for number in range(10)]
        assert replica.core.committed_offset == leader.core.log.end_offset
        assert replica.disk.rest.applied == Assignment(ids.copy().pop(), range(1, count + 1))
        assert RoleName.PROSPECTIVE not in [to for *_, to in replica.moves]


def gridlock_of_two(backoff_max_us: int) -> Network:
    """Return two voters of three, both candidates of one epoch; the third is down."""
    net = draft((1, 2, 3), election_backoff_max_us=backoff_max_us)
    net.elect()
    net.run(S)
    leading(net).crash()
    up = [replica for replica in net.replicas.values() if replica.up]
    for replica in up:
        replica.core.random = Fraction(0)
        replica.following.hurry()
    for replica in up:
        replica.step(ev.Tick())
    net.settle()
    assert [replica.role for replica in up] == [RoleName.CANDIDATE] * 2
    assert up[0].core.epoch == up[1].core.epoch
    return net


def split_vote_of_four(backoff_max_us: int) -> Network:
    """Return four voters, two of them candidates of one epoch with two votes each."""
    net = draft((1, 2, 3, 4), election_backoff_max_us=backoff_max_us)
    net.elect()
    net.run(S)
    cluster_id = leading(net).core.config.cluster_id
    for node_id, replica in net.replicas.items():
        replica.core.random = Fraction(0)
        stale = ms.Vote(
            cluster_id=cluster_id, epoch=9, replica_id=1 + node_id % 4, last_epoch=0, end_offset=0
        )
        replica.step(ev.RequestReceived(-node_id, stale))
    net.queue.clear()  # Nobody leads, and nobody has voted.
    net.cut |= {(1, 4), (2, 3)}
    for node_id in (1, 2):
        net.replicas[node_id].core.role.hurry()
        net.replicas[node_id].step(ev.Tick())
    net.settle()
    voted = {node_id: r.core.voted for node_id, r in net.replicas.items()}
    assert {node_id: key and key.id for node_id, key in voted.items()} == {1: 1, 2: 2, 3: 1, 4: 2}
    assert {replica.core.epoch for replica in net.replicas.values()} == {10}
    return net


@pytest.mark.parametrize("stuck", [gridlock_of_two, split_vote_of_four])
@pytest.mark.parametrize("seed", range(10))
def test_delays_break_a_gridlock(stuck: Callable[[int], Network], seed: int) -> None:
    net = stuck(500 * MS)
    for node_id, replica in net.replicas.items():
        if replica.up:
            replica.core.random = random.Random(seed * 10 + node_id)
    before = max(replica.core.epoch for replica in net.replicas.values())
    assert before < net.elect().core.epoch < before + 10


def test_a_gridlock_without_delays_does_not_end() -> None:
    """What the delays are for: of equal clocks neither is ever first."""
    net = gridlock_of_two(0)
    before = max(replica.core.epoch for replica in net.replicas.values())
    net.run(5 * S)
    assert net.leader is None
    assert max(replica.core.epoch for replica in net.replicas.values()) > before + 3


# ---- voters --------------------------------------------------------------------------------------


def test_three_to_five_to_three_under_load() -> None:
    net = draft((1, 2, 3), nodes=(1, 2, 3, 4, 5))
    net.elect()
    net.run(3 * S)
    number = 0
    for targets in ((1, 2, 3, 4, 5), (3, 4, 5), (1, 2, 3)):
        reply = alter(net, *targets)
        for step in range(600):
            leader = net.leader
            if leader is not None:
                number += 1
                event = ev.AppendRequested(number, leader.core.epoch, (b"%d" % number,))
                leader.step(event)
                last = leader.core.log.voters.last
                is_there = last == Assignment(leader.core.config.cluster_id, targets)
                if is_there and step >= 10:
                    break
            net.run(20 * MS)
        else:
            raise AssertionError((targets, reply))
    net.run(3 * S)
    values = [replica.disk.values() for replica in net.replicas.values()]
    assert len(values[0]) > 20
    assert all(value == values[0] for value in values)
    assert {r.core.is_voter for i, r in net.replicas.items() if i <= 3} == {True}
    assert {r.core.is_voter for i, r in net.replicas.items() if i > 3} == {False}


def test_who_never_fetched_is_unknown() -> None:
    net = draft((1,))
    net.elect()
    reply = alter(net, 1, 2)
    assert isinstance(reply, AlterQuorumReply)
    assert reply.error == DraftErrorCode.UNKNOWN_VOTER_ID
    assert reply.message is not None
    assert "[2]" in reply.message


# ---- what is remembered of non-voters ------------------------------------------------------------


def test_memory_does_not_grow_by_non_voters() -> None:
    memory = Memory("", Stored())
    for number in range(3 * CALLERS_MAX):
        memory.called(Connection(number, 1, "h", 1))
        memory.heeds(number, number, 10)
    assert list(memory.callers) == list(range(2 * CALLERS_MAX, 3 * CALLERS_MAX))
    assert len(memory.heeded) == CALLERS_MAX
    memory.called(Connection(-1, 1, "h", 1))
    memory.called(Connection(5, 1, "", 1))
    assert not {-1, 5} & set(memory.callers)


def test_a_late_answer_of_other_times_does_not_end_a_node() -> None:
    """A request that named no cluster may be refused after this node has learned of it."""
    net = draft((1, 2, 3))
    net.elect()
    net.run(3 * S)
    node = next(r for r in net.replicas.values() if r is not net.leader)
    request = node.core.fetch_request()
    for earlier in (None, "", "another"):
        request.cluster_id = earlier
        node.core.policy.met_other_cluster(node.core, request)
    request.cluster_id = node.core.memory.cluster_id
    with pytest.raises(FatalError, match="asked a node of another"):
        node.core.policy.met_other_cluster(node.core, request)


def test_fixes_describe_their_flaws() -> None:
    assert set(FIXES) == {
        "own-epoch-commit",
        "one-first-quorum",
        "deaf-to-strangers",
        "strangers-in-need",
        "caught-up-first",
        "settled-cluster-id",
        "check-quorum",
        "ask-back",
        "bump-when-lost",
        "leader-stays",
    }
    with pytest.raises(ValueError, match="has no fix 'none'"):
        profile_named("kip-595", without=("none",))

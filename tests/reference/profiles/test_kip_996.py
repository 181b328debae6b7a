"""The profile kip-996: bytes, as Apache Kafka has them where versions are shared, and decisions."""

from __future__ import annotations

import pytest
from tests.reference.raft.network import Network, Replica, config, quorum, voter

from kraftspec.fastpath.errors import CodecError
from kraftspec.fastpath.types import ZERO_UUID
from kraftspec.generated.errors import ErrorCode
from kraftspec.generated.kip_996 import QuorumStateData, VoteRequest, VoteResponse
from kraftspec.reference.log import LogDirectory, MetaProperties
from kraftspec.reference.log.memory_files import MemoryFiles
from kraftspec.reference.profiles import profile_named
from kraftspec.reference.profiles.kafka.profile import KafkaProfile
from kraftspec.reference.profiles.kip_996.profile import Kip996Profile
from kraftspec.reference.raft import RoleName
from kraftspec.reference.raft import messages as ms
from kraftspec.reference.raft.control import LeaderChange, Voters
from kraftspec.reference.raft.effects import PersistElection
from kraftspec.reference.raft.types import ElectionState, ReplicaKey
from kraftspec.reference.raft.voters import VoterSet

DRAFT = Kip996Profile()
KAFKA = KafkaProfile()
CLUSTER = "a2lwLTk5Ni1kcmFmdC1xdQ"
VOTE = ms.Vote(cluster_id=CLUSTER, epoch=5, replica_id=2, last_epoch=4, end_offset=17)

# Requests with answers, and the versions that Apache Kafka 4.3.1 and the draft share.
SHARED: list[tuple[ms.Request, ms.Reply, range]] = [
    (
        VOTE,
        ms.VoteReply(leader_id=-1, leader_epoch=5, vote_granted=True),
        range(1),
    ),
    (
        ms.BeginEpoch(cluster_id=CLUSTER, leader_id=3, leader_epoch=7),
        ms.BeginEpochReply(leader_id=3, leader_epoch=7),
        range(1),
    ),
    (
        ms.EndEpoch(
            cluster_id=None,
            leader_id=3,
            leader_epoch=7,
            preferred_successors=(ReplicaKey(2), ReplicaKey(1)),
        ),
        ms.EndEpochReply(error=ErrorCode.FENCED_LEADER_EPOCH, leader_id=1, leader_epoch=8),
        range(1),
    ),
    (
        ms.Fetch(
            cluster_id=CLUSTER,
            replica_id=2,
            leader_epoch=7,
            fetch_offset=30,
            last_fetched_epoch=6,
            max_wait_us=500_000,
            max_bytes=1 << 20,
        ),
        ms.FetchReply(
            leader_id=3,
            leader_epoch=7,
            high_watermark=29,
            log_start_offset=0,
            diverging_epoch=5,
            diverging_end_offset=21,
        ),
        range(13, 16),
    ),
    (
        ms.FetchSnapshot(
            cluster_id=CLUSTER,
            replica_id=2,
            leader_epoch=7,
            snapshot_end_offset=20,
            snapshot_epoch=4,
            position=100,
            max_bytes=512,
        ),
        ms.FetchSnapshotReply(
            leader_id=3,
            leader_epoch=7,
            snapshot_end_offset=20,
            snapshot_epoch=4,
            size=612,
            position=100,
            data=b"x" * 512,
        ),
        range(1),
    ),
    (
        ms.DescribeQuorum(),
        ms.DescribeQuorumReply(
            leader_id=3,
            leader_epoch=7,
            high_watermark=29,
            voters=(ms.ReplicaDescription(ReplicaKey(3), 30),),
            observers=(ms.ReplicaDescription(ReplicaKey(9), 12),),
        ),
        range(2),
    ),
]


@pytest.mark.parametrize(
    ("request_", "reply", "version"),
    [(request, reply, version) for request, reply, versions in SHARED for version in versions],
    ids=lambda value: type(value).__name__ if isinstance(value, ms.Request) else "",
)
def test_shared_versions_have_kafkas_bytes(
    request_: ms.Request, reply: ms.Reply, version: int
) -> None:
    body = DRAFT.encode_request(request_, version)
    assert body == KAFKA.encode_request(request_, version)
    key = KAFKA.api_of(request_).key
    assert DRAFT.decode_request(key, version, body) == request_
    answer = DRAFT.encode_reply(request_, reply, version, "CONTROLLER")
    assert answer == KAFKA.encode_reply(request_, reply, version, "CONTROLLER")
    assert DRAFT.decode_reply(request_, version, answer) == reply


def test_the_apis_are_those_of_the_release() -> None:
    served = {api.name: (api.key, api.min_version, api.max_version) for api in DRAFT.apis.values()}
    assert served == {
        "Vote": (52, 0, 1),
        "BeginQuorumEpoch": (53, 0, 0),
        "EndQuorumEpoch": (54, 0, 0),
        "Fetch": (1, 0, 15),
        "FetchSnapshot": (59, 0, 0),
        "DescribeQuorum": (55, 0, 1),
        "ApiVersions": (18, 0, 5),
    }


# ---- Vote version 1 ------------------------------------------------------------------------------


def test_pre_vote_is_the_last_byte_before_the_tags() -> None:
    """The draft prints PreVote last in the partition, in the request and in the response."""
    pre_vote = ms.Vote(
        cluster_id=CLUSTER, epoch=5, replica_id=2, last_epoch=4, end_offset=17, pre_vote=True
    )
    standard, encoded = DRAFT.encode_request(VOTE, 1), DRAFT.encode_request(pre_vote, 1)
    of_0 = DRAFT.encode_request(VOTE, 0)
    # Behind the partition's fields: its tags, the topic's and the message's, none of each.
    assert standard == of_0[:-3] + b"\0" + of_0[-3:]
    assert encoded == of_0[:-3] + b"\1" + of_0[-3:]
    reply = ms.VoteReply(leader_id=1, leader_epoch=5, vote_granted=True)
    answer_of_0 = DRAFT.encode_reply(VOTE, reply, 0, "CONTROLLER")
    answer = DRAFT.encode_reply(pre_vote, reply, 1, "CONTROLLER")
    assert answer == answer_of_0[:-3] + b"\1" + answer_of_0[-3:]
    assert DRAFT.decode_request(52, 1, encoded) == pre_vote
    assert DRAFT.decode_reply(pre_vote, 1, answer) == reply


def test_version_0_cannot_say_pre_vote() -> None:
    pre_vote = ms.Vote(epoch=5, replica_id=2, last_epoch=4, end_offset=17, pre_vote=True)
    assert DRAFT.min_version(pre_vote) == 1
    assert DRAFT.min_version(VOTE) == 0
    with pytest.raises(CodecError):
        DRAFT.encode_request(pre_vote, 0)


@pytest.mark.parametrize("pre_vote", [False, True])
def test_an_answer_to_the_other_kind_of_vote_grants_nothing(pre_vote: bool) -> None:
    """What was granted to a pre-vote is no vote, and a vote no pre-vote."""
    request = ms.Vote(epoch=5, replica_id=2, last_epoch=4, end_offset=17, pre_vote=pre_vote)
    granted = ms.VoteReply(leader_epoch=5, vote_granted=True)
    body = DRAFT.encode_reply(request, granted, 1, "CONTROLLER")
    response = VoteResponse.decode(body, 1)
    assert response.topics[0].partitions[0].pre_vote is pre_vote
    assert DRAFT.decode_reply(request, 1, body) == granted
    response.topics[0].partitions[0].pre_vote = not pre_vote
    reply = DRAFT.decode_reply(request, 1, response.encode(1))
    assert isinstance(reply, ms.VoteReply)
    assert reply.top_error
    assert not reply.vote_granted


@pytest.mark.parametrize(
    "message",
    [
        VoteRequest(cluster_id=CLUSTER),
        VoteRequest(
            topics=[
                VoteRequest.TopicData(topic_name="other", partitions=[VoteRequest.PartitionData()])
            ]
        ),
    ],
)
def test_a_vote_about_another_log_is_refused(message: VoteRequest) -> None:
    request = DRAFT.decode_request(52, 1, message.encode(1))
    assert request.refused == ErrorCode.INVALID_REQUEST


# ---- state and records -----------------------------------------------------------------------


def test_quorum_state_is_version_0() -> None:
    election = ElectionState(7, 3, ReplicaKey(2))
    data, version = DRAFT.put_state(PersistElection(election, 0, (1, 2, 3)))
    assert isinstance(data, QuorumStateData)
    assert version == 0
    assert data.to_json(version) == {
        "clusterId": "",
        "leaderId": 3,
        "leaderEpoch": 7,
        "votedId": 2,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": 1}, {"voterId": 2}, {"voterId": 3}],
    }
    assert DRAFT.get_state(data, version).election == election
    data.leader_epoch = -1
    with pytest.raises(ValueError, match="epoch -1"):
        DRAFT.get_state(data, version)


def test_it_has_one_control_record() -> None:
    change = LeaderChange(3, (1, 2, 3), (1, 3))
    control_type, value = DRAFT.encode_control(change)
    assert (control_type, value) == KAFKA.encode_control(change)
    assert DRAFT.decode_control(control_type, value) == change
    assert DRAFT.decode_control(*KAFKA.encode_control(Voters(VoterSet()))) is None
    with pytest.raises(TypeError, match="kip-996 has no control record"):
        DRAFT.encode_control(Voters(VoterSet()))


@pytest.mark.parametrize(("one", "other"), [("kafka", "kip-996"), ("kip-996", "kafka")])
def test_a_directory_of_another_profile_is_not_opened(one: str, other: str) -> None:
    files = MemoryFiles()
    meta = MetaProperties(profile=one, cluster_id=CLUSTER, node_id=1, directory_id=ZERO_UUID)
    LogDirectory.format("/log", meta, None, files)
    LogDirectory.open("/log", files, profile=one, node_id=1, cluster_id=CLUSTER).close()
    with pytest.raises(ValueError, match=one):
        LogDirectory.open("/log", files, profile=other, node_id=1, cluster_id=CLUSTER)


# ---- elections among cores -------------------------------------------------------------------


def net_of(count: int, *without: str) -> Network:
    return quorum(count, profile=profile_named("kip-996", without=without), directory_id=ZERO_UUID)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_it_elects_by_way_of_pre_votes(count: int) -> None:
    net = net_of(count)
    leader = net.elect()
    assert leader.core.epoch == 1
    moves = [(before, to) for before, *_, to in leader.moves]
    assert (RoleName.PROSPECTIVE, RoleName.CANDIDATE) in moves
    for replica in net.replicas.values():
        for before, *_, to in replica.moves:
            assert to is not RoleName.CANDIDATE or before is RoleName.PROSPECTIVE


def test_without_pre_votes_nobody_is_prospective() -> None:
    net = net_of(3, "pre-vote")
    net.elect()
    for replica in net.replicas.values():
        assert RoleName.PROSPECTIVE not in [to for *_, to in replica.moves]
    votes = [request for _, _, request in net.sent if isinstance(request, ms.Vote)]
    assert votes
    assert not any(vote.pre_vote for vote in votes)


@pytest.mark.parametrize(("without", "bumps"), [((), False), (("pre-votes-alone",), True)])
def test_who_is_cut_off_raises_its_epoch_only_by_the_rejected_alternative(
    without: tuple[str, ...], bumps: bool
) -> None:
    net = net_of(3, *without)
    leader = net.elect()
    lonely = next(r for r in net.replicas.values() if r is not leader)
    epoch = leader.core.epoch
    net.isolate(lonely.config.node_id)
    net.run(30_000_000)
    assert leader.role is RoleName.LEADER
    assert (lonely.core.epoch > epoch) is bumps
    net.heal()
    net.run(10_000_000)
    deposed = [before for before, *_, to in leader.moves if before is RoleName.LEADER]
    assert bool(deposed) is bumps


# ---- scenario B: a server of an old configuration ------------------------------------------------


def after_a_change(seed: int, *without: str) -> tuple[Network, Replica]:
    """Servers 2, 3 and 4 vote, and have a leader; 1, which 4 replaced, still counts itself.

    It has no 4, and its log is as up to date as theirs.
    """
    net = Network(profile_named("kip-996", without=without))
    now, then = (
        VoterSet(voter(node_id, named=False) for node_id in ids) for ids in ((2, 3, 4), (1, 2, 3))
    )
    for node_id, voters in ((2, now), (3, now), (4, now)):
        net.add(config(node_id, voters, directory_id=ZERO_UUID), 10 * seed + node_id)
    leader = net.elect()
    old = net.add(config(1, then, directory_id=ZERO_UUID), 10 * seed + 1)
    net.run(1_000_000)
    assert old.core.log.end_offset == leader.core.log.end_offset
    return net, leader


def cut(net: Network, one: int, other: int) -> None:
    net.cut |= {(one, other), (other, one)}


SEEDS = (3, 4, 5)  # In which the first leader is one that server 1 knows, and so fetches from.


@pytest.mark.parametrize("seed", SEEDS)
def test_scenario_b(seed: int) -> None:
    """It is refused as long as the others follow; and elected when one of them misses its leader.

    That is what the draft leaves open: nobody asks whether it is a voter.
    """
    net, leader = after_a_change(seed)
    led, leader_id = leader.core.epoch, leader.config.node_id
    old = net.replicas[1]
    cut(net, 1, leader_id)
    net.run(10_000_000)
    assert [replica.core.epoch for replica in net.replicas.values()] == [led] * 4
    assert leader.role is RoleName.LEADER
    requests = [request for source, _, request in net.sent if source == 1]
    assert any(isinstance(one, ms.Vote) and one.pre_vote for one in requests)
    assert not any(isinstance(one, ms.Vote) and not one.pre_vote for one in requests)

    friend = net.replicas[2 if leader_id == 3 else 3]
    cut(net, leader_id, friend.config.node_id)
    net.run(10_000_000)
    assert 1 not in friend.core.log.voters.last
    assert RoleName.LEADER in [to for *_, to in old.moves]
    assert friend.core.epoch > led


@pytest.mark.parametrize("seed", SEEDS)
def test_scenario_b_without_pre_votes(seed: int) -> None:
    """The leader that all others follow is deposed, again and again."""
    net, leader = after_a_change(seed, "pre-vote")
    led = leader.core.epoch
    cut(net, 1, leader.config.node_id)
    net.run(10_000_000)
    epochs = {replica.core.epoch for id, replica in net.replicas.items() if id != 1}
    assert min(epochs) > led + 1

"""Who a replica is, where it looks for the leader, and what its files say (KIP-853's draft)."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.reference.profiles.kip_853 import add, append, begun, endpoints, static
from tests.reference.raft.network import LISTENER, Network, Replica, directory, joiner, voter

from kraftspec.fastpath import decode_batch
from kraftspec.fastpath.types import ZERO_UUID, Uuid
from kraftspec.generated import kip_853 as generated
from kraftspec.generated.kafka import SnapshotHeaderRecord
from kraftspec.reference.log import LogDirectory, MetaProperties
from kraftspec.reference.log.control import control_value
from kraftspec.reference.log.directory import METADATA_NAME
from kraftspec.reference.log.memory_files import MemoryFiles
from kraftspec.reference.log.quorum_state import QuorumStateFile, render
from kraftspec.reference.log.snapshots import checkpoint_bytes, snapshot_name
from kraftspec.reference.profiles.common.translation import TOPIC_ID
from kraftspec.reference.profiles.kip_853 import PARTS
from kraftspec.reference.profiles.kip_853.bootstrap import bootstrap_files
from kraftspec.reference.profiles.kip_853.policy import Kept, make_uuid
from kraftspec.reference.profiles.kip_853.profile import KipProfile, VoterAdded, VoterRemoved
from kraftspec.reference.raft import Config, RoleName
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft import messages as ms
from kraftspec.reference.raft.config import MS, S
from kraftspec.reference.raft.types import (
    DraftEndpoint,
    ElectionState,
    Endpoint,
    Node,
    ReplicaKey,
    SnapshotId,
    Voter,
)
from kraftspec.reference.raft.voters import VoterSet
from kraftspec.reference.storage import Storage

PROFILE = KipProfile(LISTENER)
PATH = "/data"


class Ones:
    """Random numbers that are all ones, or all zeros."""

    def __init__(self, bit: int) -> None:
        self.bit = bit

    def getrandbits(self, k: int, /) -> int:
        return ((1 << k) - 1) * self.bit


# ---- uuids ---------------------------------------------------------------------------------------


def test_uuids_are_random_ones_and_begin_with_no_dash() -> None:
    uuids = [make_uuid(random.Random(seed)) for seed in range(2000)]
    uuids += [make_uuid(Ones(0)), make_uuid(Ones(1))]
    assert len({*uuids}) == len(uuids)
    for uuid in uuids:
        assert uuid.to_uuid().version == 4
        assert uuid != ZERO_UUID
        assert str(uuid)[0] not in "-_"


def test_a_replica_makes_a_uuid_before_it_says_anything_and_keeps_it() -> None:
    net = static()
    node = net.replicas[2]
    first = next(e for e in node.effects if isinstance(e, fx.PersistElection | fx.Ask))
    assert isinstance(first, fx.PersistElection)
    uuid = node.core.config.directory_id
    assert first.rest == Kept(uuid, (1, 2, 3))
    assert uuid != ZERO_UUID
    node.crash()
    node.restart()
    assert node.core.config.directory_id == uuid
    assert len({r.core.config.directory_id for r in net.replicas.values()}) == 3


def test_a_broker_fetches_without_a_uuid_and_should_not_become_a_voter() -> None:
    net = begun(1)
    leader = net.elect()
    add(net, 7, can_become_voter=False)
    add(net, 8)
    net.run(S)
    reply = net.ask(leader.config.node_id, ms.DescribeQuorum())
    assert isinstance(reply, ms.DescribeQuorumReply)
    observers: Any = reply.observers  # The draft's, which say one thing more.
    flags = {observer.key: observer.should_become_voter for observer in observers}
    assert flags == {ReplicaKey(7): False, voter(8).key: True}
    assert net.replicas[7].disk.rest.uuid != ZERO_UUID  # It has one all the same.
    assert net.replicas[7].disk.synced == net.replicas[7].disk.end  # Every role syncs.


def test_static_voters_alone_should_become_voters_and_the_gauge_says_so_too() -> None:
    net = static(2)
    leader = net.elect()
    add(net, 9)
    net.run(S)
    reply = net.ask(leader.config.node_id, ms.DescribeQuorum())
    assert isinstance(reply, ms.DescribeQuorumReply)
    observers: Any = reply.observers
    assert {one.key: one.should_become_voter for one in observers} == {voter(9).key: False}
    gauges = {name: value for name, value, _ in PARTS.node.gauges(leader.core)}
    assert gauges["number-of-eligible-observers"] == 0


# ---- quorum-state --------------------------------------------------------------------------------


def state(rest: Any, **fields: Any) -> tuple[Any, int]:
    return PROFILE.put_state(fx.PersistElection(ElectionState(**fields), 0, (1, 2), rest))


def test_quorum_state_is_read_as_it_was_written() -> None:
    voted = ReplicaKey(2, directory(2))
    for ids in (None, (1, 2)):
        kept = Kept(directory(1), ids)
        data, version = state(kept, epoch=4, voted=voted)
        assert version == 1
        written = render(data, version)
        read = PROFILE.get_state(*QuorumStateFile.parse(written, "f", PROFILE.state_message))
        assert read.election == ElectionState(4, -1, voted)
        assert read.rest == kept


def test_quorum_state_of_version_0_has_no_uuid() -> None:
    data, version = state(None, epoch=4, voted=ReplicaKey(2))
    assert version == 0
    read = PROFILE.get_state(data, version)
    assert read.rest is None
    assert read.election == ElectionState(4, -1, ReplicaKey(2))


def test_a_negative_epoch_is_refused() -> None:
    with pytest.raises(ValueError, match="epoch -1"):
        PROFILE.get_state(generated.QuorumStateData(), 1)


# ---- the leader ----------------------------------------------------------------------------------


def test_who_looks_for_the_leader_asks_all_servers_but_itself() -> None:
    net = Network(PROFILE)
    node = Replica(net, joiner(2, 3), PROFILE.policy, 1)
    net.replicas[2] = node
    node.start()
    targets = [target for source, target, request in net.sent if isinstance(request, ms.Fetch)]
    assert targets == [1, 3]


def test_an_observer_finds_a_leader_that_is_a_bootstrap_server_and_no_other() -> None:
    """The draft's answers do not say where the leader is: a gap that it leaves to the operator."""
    net = begun(3)
    leader = net.elect()
    leader_id = leader.config.node_id
    add(net, 5, servers=3)
    net.run(S)
    assert net.replicas[5].core.leader_id == leader_id
    others = [joiner(6).bootstrap_servers[id - 1] for id in (1, 2, 3) if id != leader_id]
    add(net, 6, bootstrap_servers=tuple(others))
    net.run(10 * S)
    lost = net.replicas[6]
    assert lost.core.epoch == leader.core.epoch
    assert lost.core.leader_id == -1
    assert lost.core.log.end_offset == 0
    net.cut |= {(id, leader_id) for id in net.replicas} | {(leader_id, id) for id in net.replicas}
    net.run(10 * S)  # Another leads.
    assert lost.role is RoleName.FOLLOWER
    assert lost.core.log.end_offset > 0


def test_a_leader_that_moved_is_found_where_it_answers() -> None:
    """Its old address stays in the log: no request of the draft tells of a new one."""
    net = Network(PROFILE)
    for node_id in (1, 2, 3):
        timeout_us = (200 if node_id == 1 else 3000) * MS
        add(
            net,
            node_id,
            first=range(1, 4),
            old_ports={1: 9099},
            election_timeout_us=timeout_us,
            fetch_timeout_us=6 * S,
        )
    leader = net.elect()
    assert leader.config.node_id == 1
    net.run(5 * S)
    append(leader, 1)
    net.run(S)
    for node_id in (2, 3):
        follower = net.replicas[node_id]
        assert follower.core.log.voters.last.endpoints(1)[0].port == 9099
        assert follower.following.leader == Node(1, "node1", 9001)
        assert follower.disk.values() == [b"1"]
    assert net.leader is leader


# ---- voters in the log and in snapshots ----------------------------------------------------------


def test_other_security_protocols_are_kept() -> None:
    secure = (DraftEndpoint(LISTENER, "node4", 9004, 3), Endpoint("OTHER", "node4", 19004))
    record = VoterAdded(Voter(voter(4).key, secure))
    control_type, value = PROFILE.encode_control(record)
    assert control_type == 100
    assert PROFILE.decode_control(control_type, value) == record
    message = generated.AddVoterRecord.decode(value, 0)
    assert [e.security_protocol for e in message.end_points] == [3, 0]


def test_a_removal_of_another_uuid_removes_nobody() -> None:
    policy = PROFILE.policy
    voters = VoterSet([voter(1), voter(2)])
    assert policy.folded(VoterRemoved(ReplicaKey(2, directory(2, 1))), voters) == voters
    left = policy.folded(VoterRemoved(voter(2).key), voters)
    assert left is not None
    assert left.ids == (1,)


def open_storage(files: MemoryFiles) -> Storage:
    config = Config(cluster_id="a-cluster", node_id=1, endpoints=endpoints(1))
    return Storage.open(PATH, PROFILE, config, files=files)


def formatted(files: MemoryFiles, more: dict[str, bytes] | None = None) -> Storage:
    meta = MetaProperties(profile=PROFILE.name, cluster_id="a-cluster", node_id=1)
    first = bootstrap_files(directory(1), [Voter(voter(1).key, endpoints(1))])
    LogDirectory.format(PATH, meta, {**first, **(more or {})}, files)
    files.sync_directory("/")
    return open_storage(files)


def test_a_first_node_knows_its_uuid_and_that_it_votes() -> None:
    storage = formatted(MemoryFiles())
    config = Config(cluster_id="a-cluster", node_id=1, endpoints=endpoints(1))
    core = storage.make_core(config, random.Random(1))
    assert core.config.directory_id == directory(1)
    assert core.is_voter
    core.step(ev.Start(), 0)
    assert core.role.name is RoleName.LEADER
    storage.close()


def snapshot(*records: Any) -> bytes:
    header = [control_value(SnapshotHeaderRecord())]
    header += [PROFILE.encode_control(record) for record in records]
    return checkpoint_bytes(header, [b"state"], timestamp_ms=0)


def test_a_snapshot_with_a_removal_is_refused_at_start() -> None:
    name = f"{METADATA_NAME}/{snapshot_name(SnapshotId(1, 0))}"
    removal = VoterRemoved(voter(2).key)
    storage = formatted(MemoryFiles(), {name: snapshot(VoterAdded(voter(1)), removal)})
    with pytest.raises(ValueError, match="RemoveVoterRecord, of voter 2"):
        storage.make_core(Config(cluster_id="a-cluster", node_id=1), random.Random(1))
    storage.close()


@pytest.mark.parametrize("removes", [False, True])
def test_a_fetched_snapshot_with_a_removal_is_none(removes: bool) -> None:
    storage = formatted(MemoryFiles())
    records = [VoterAdded(voter(3)), VoterAdded(voter(4))]
    data = snapshot(*records, *([VoterRemoved(voter(3).key)] if removes else []))
    id = SnapshotId(9, 2)
    storage.begin_snapshot(id)
    storage.extend_snapshot(fx.ExtendSnapshot(id, 0, data))
    stored = storage.finish_snapshot(id)
    if removes:
        assert isinstance(stored, ev.SnapshotDamaged)
        assert "RemoveVoterRecord" in stored.reason
        assert not storage.log.snapshots
    else:
        assert isinstance(stored, ev.SnapshotStored)
        assert stored.voters is not None
        assert stored.voters.ids == (3, 4)
    storage.close()


def test_a_snapshot_of_static_voters_that_were_removed_for_a_while_has_no_more() -> None:
    """What stands in a snapshot does not build on what stands in the properties."""
    name = f"{METADATA_NAME}/{snapshot_name(SnapshotId(1, 0))}"
    files = MemoryFiles()
    storage = formatted(files, {name: snapshot(VoterAdded(voter(1)), VoterAdded(voter(2)))})
    three = VoterSet(voter(id, named=False) for id in (1, 2, 3))
    assert storage.log_state(three).voters.last.ids == (1, 2)
    storage.close()


def test_snapshots_of_a_live_quorum_hold_a_record_for_each_voter() -> None:
    net = begun(3)
    leader = net.elect()
    append(leader, 1)
    net.run(S)
    policy = PROFILE.policy
    voters = policy.snapshot_voters(leader.core, leader.core.committed_offset - 1)
    controls = PROFILE.snapshot_controls(0, voters)
    assert [c.voter.key.id for c in controls if isinstance(c, VoterAdded)] == [1, 2, 3]
    pure = static().replicas[1].core
    assert policy.snapshot_voters(pure, 0) is None
    assert PROFILE.snapshot_controls(0, None) == ()


# ---- messages, as the generated classes see them -------------------------------------------------


def test_a_vote_has_its_ids_at_the_top_and_its_uuids_in_the_partition() -> None:
    vote = ms.Vote(
        epoch=5,
        replica_id=1,
        replica_directory_id=directory(1),
        voter_id=2,
        voter_directory_id=directory(2),
        last_epoch=4,
        end_offset=9,
    )
    body = PROFILE.encode_request(vote, 1)
    message = generated.VoteRequest.decode(body, 1)
    (partition,) = message.topics[0].partitions
    assert (message.candidate_id, message.voter_id) == (1, 2)
    assert (partition.candidate_uuid, partition.voter_uuid) == (directory(1), directory(2))
    assert PROFILE.decode_request(52, 1, body) == vote
    old = generated.VoteRequest.decode(PROFILE.encode_request(vote, 0), 0)
    assert old.topics[0].partitions[0].candidate_id == 1


@pytest.mark.parametrize("version", [12, 13, 14])
def test_a_fetch_has_its_uuid_from_version_14_on(version: int) -> None:
    fetch = ms.Fetch(
        replica_id=3,
        replica_directory_id=directory(3),
        leader_epoch=2,
        fetch_offset=7,
        last_fetched_epoch=1,
        max_wait_us=500_000,
        max_bytes=10,
    )
    body = PROFILE.encode_request(fetch, version)
    read = PROFILE.decode_request(1, version, body)
    assert isinstance(read, ms.Fetch)
    assert read.replica_directory_id == (directory(3) if version == 14 else ZERO_UUID)
    assert (read.replica_id, read.fetch_offset, read.max_wait_us) == (3, 7, 500_000)
    message = generated.FetchRequest.decode(body, version)
    assert (message.topics[0].topic == "__cluster_metadata") is (version < 13)


def test_where_a_replica_listens_is_read_up_to_a_bound() -> None:
    """Whoever sends it decides how much memory a leader needs, of that many observers."""
    kind = generated.FetchRequest
    names = ["CONTROLLER", "N" * 256, *(f"L{number}" for number in range(100))]
    partition = kind.FetchPartition(partition=0, fetch_offset=0, last_fetched_epoch=0)
    message = kind(
        replica_id=3,
        replica_uuid=directory(3),
        topics=[kind.FetchTopic(topic_id=TOPIC_ID, partitions=[partition])],
        replica_end_points=[kind.ReplicaEndpoint(name=name, host="h", port=1) for name in names],
    )
    fetch = PROFILE.decode_request(1, 14, message.encode(14))
    assert isinstance(fetch, ms.Fetch)
    told = [endpoint.name for endpoint in fetch.replica_endpoints]
    assert told == ["CONTROLLER", *(f"L{number}" for number in range(14))]


def test_a_fetch_response_of_version_14_has_the_bytes_of_13() -> None:
    """Source: 001, Fetch 1: "The fetch response version is bump"."""
    reply = ms.FetchReply(
        leader_id=2,
        leader_epoch=5,
        high_watermark=7,
        log_start_offset=1,
        diverging_epoch=4,
        diverging_end_offset=6,
        records=b"records",
    )
    fetch = ms.Fetch(replica_id=3, leader_epoch=5, fetch_offset=9, last_fetched_epoch=5)
    bodies = [PROFILE.encode_reply(fetch, reply, v, "CONTROLLER") for v in (12, 13, 14)]
    assert bodies[1] == bodies[2] != bodies[0]
    message = generated.FetchResponse.decode(bodies[2], 14)
    assert bytes(message.responses[0].partitions[0].records or b"") == b"records"


def test_a_log_of_the_draft_is_read_by_its_own_records() -> None:
    net = begun(2)
    leader = net.elect()
    net.run(S)
    batches = leader.disk.batches
    assert [record.__class__ for _, record in batches[0].control] == [VoterAdded, VoterAdded]
    (record,) = decode_batch(batches[1].data)
    change = generated.LeaderChangeMessage.decode(record.value or b"", 1)
    assert change.version == 1
    assert [Uuid(v.voter_uuid) for v in change.voters] == [directory(1), directory(2)]


def test_a_voter_that_loads_a_snapshot_is_heard_though_it_says_no_uuid() -> None:
    net = begun(3)
    leader = net.elect()
    append(leader, 1)
    net.run(100 * MS)
    others = [r for r in net.replicas.values() if r is not leader]
    for replica in others:
        replica.crash()
    deadline_us = leader.leading.check_quorum_deadline_us
    net.run(S)
    leader.step(ev.SnapshotRequested(SnapshotId(4, 1)))
    net.settle()
    request = ms.FetchSnapshot(
        replica_id=others[0].config.node_id,
        leader_epoch=leader.core.epoch,
        snapshot_end_offset=4,
        snapshot_epoch=1,
        position=0,
        max_bytes=9,
    )
    reply = net.ask(leader.config.node_id, request)
    assert reply is not None
    assert not reply.error
    assert leader.leading.check_quorum_deadline_us > deadline_us

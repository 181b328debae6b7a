"""How a quorum begins: formatted disks and configurations, by what a run's swarm says."""

from __future__ import annotations

from kraftspec.fastpath.types import ZERO_UUID, Uuid
from kraftspec.generated.kafka import SnapshotFooterRecord, SnapshotHeaderRecord
from kraftspec.reference.log.control import control_value, encode_control_values
from kraftspec.reference.raft import Config, ReplicaKey, Voter, VoterSet
from kraftspec.reference.raft.control import KRaftVersion, Voters
from kraftspec.reference.raft.profile import Profile
from kraftspec.reference.raft.types import Endpoint, Node, VersionRange
from kraftspec.simulation.rng import Rng
from kraftspec.simulation.swarm import Swarm

PORT_BASE = 9000  # Where its id says a node is always reached, as by a name that stays.
PORT_SPAN = 100  # Between its addresses, of which it has another after each move.
OTHER_LISTENER = "CLIENTS"  # Nobody answers there to what nodes ask one another.
LISTENER = "CONTROLLER"
VOTE_API_KEY = 52
CLUSTER_ID = "c2ltdWxhdGlvbnMtY2x1cw"


def endpoints_of(node_id: int) -> tuple[Endpoint, ...]:
    """Return where a node listens that never moves."""
    return (Endpoint(LISTENER, "localhost", PORT_BASE + node_id),)


def endpoints_after(moves: int, node_id: int, listeners: int) -> tuple[Endpoint, ...]:
    """Return where a node listens after so many moves: where the others reach it is the last."""
    first = PORT_BASE + node_id + PORT_SPAN * (1 + 2 * moves)
    own = Endpoint(LISTENER, "localhost", first)
    other = Endpoint(OTHER_LISTENER, "localhost", first + PORT_SPAN)
    return (other, own)[-listeners:]


def directory_id_of(rng: Rng) -> Uuid:
    """Draw the id of a log directory."""
    return Uuid(b"".join(rng.bits(32).to_bytes(4, "big") for _ in range(4)))


def configurations(swarm: Swarm, rng: Rng) -> list[Config]:
    """Return one configuration a node: voters, then joiners, then observers. Ids are from 0 on."""
    count = swarm.voters + swarm.joiners + swarm.observers
    is_dynamic = swarm.kraft_version > 0
    directories = [directory_id_of(rng) for _ in range(count)]
    voters = VoterSet(
        Voter(ReplicaKey(id, ZERO_UUID), endpoints_of(id)) for id in range(swarm.voters)
    )
    servers = tuple(
        Node(-2 - id, "localhost", PORT_BASE + id) for id in range(swarm.voters + swarm.joiners)
    )
    return [
        Config(
            cluster_id=CLUSTER_ID,
            node_id=id,
            directory_id=directories[id],
            endpoints=endpoints_after(0, id, swarm.listeners)
            if swarm.move_period_us
            else endpoints_of(id),
            voters=VoterSet() if is_dynamic else voters,
            bootstrap_servers=_known(servers, id, swarm) if is_dynamic else (),
            can_become_voter=id < swarm.voters + swarm.joiners,
            auto_join=is_dynamic and swarm.auto_join and id < swarm.voters + swarm.joiners,
            request_timeout_us=swarm.request_timeout_us,
            fetch_max_bytes=swarm.fetch_max_bytes,
            fetch_snapshot_max_bytes=swarm.fetch_snapshot_max_bytes,
            retention_bytes=0,
        )
        for id in range(count)
    ]


def _known(servers: tuple[Node, ...], node_id: int, swarm: Swarm) -> tuple[Node, ...]:
    """Return which of the servers a node is told: some voters other than itself, or all."""
    if not swarm.servers:
        return servers
    first = node_id + 1
    return tuple(servers[(first + step) % swarm.voters] for step in range(swarm.servers))


def bootstrap_checkpoint(configs: list[Config], profile: Profile) -> bytes:
    """Return the checkpoint 0-0 that makes these the first voters (KIP-853)."""
    voters = VoterSet(Voter(config.key, config.endpoints, VersionRange(0, 1)) for config in configs)
    head = [
        control_value(SnapshotHeaderRecord()),
        profile.encode_control(KRaftVersion(1)),
        profile.encode_control(Voters(voters)),
    ]
    foot = [control_value(SnapshotFooterRecord())]
    return encode_control_values(
        head, base_offset=0, epoch=0, timestamp_ms=0
    ) + encode_control_values(foot, base_offset=len(head), epoch=0, timestamp_ms=0)

"""A few hundred short lives of a quorum with crashes, cuts, appends, snapshots, and new voters.

The simulator in ``conformance.simulation`` does this with every fault there is. Here it is a quick
net under the core alone: two leaders in an epoch, two votes in an epoch, a committed record that is
lost or differs, and a quorum that does not recover.
"""

from __future__ import annotations

import random

import pytest
from tests.reference.raft.network import Network, Replica, directory, formatted, joiner, voter

from kraftspec.reference.raft import RoleName
from kraftspec.reference.raft import effects as fx
from kraftspec.reference.raft import events as ev
from kraftspec.reference.raft import messages as ms
from kraftspec.reference.raft.config import MS, S
from kraftspec.reference.raft.types import ReplicaKey, SnapshotId


class Witness:
    """Remembers what must not change, and looks at every effect."""

    def __init__(self) -> None:
        self.leaders: dict[int, int] = {}
        self.votes: dict[tuple[int, int], ReplicaKey] = {}
        self.committed: dict[int, bytes] = {}

    def look(self, net: Network) -> None:
        for node_id, replica in net.replicas.items():
            self._elections(node_id, replica)
            if replica.up:
                self._committed(replica)

    def _elections(self, node_id: int, replica: Replica) -> None:
        for effect in replica.effects:
            if not isinstance(effect, fx.PersistElection):
                continue
            state = effect.state
            if state.leader_id >= 0:
                assert self.leaders.setdefault(state.epoch, state.leader_id) == state.leader_id
            if state.voted is not None:
                key = (node_id, state.epoch)
                assert self.votes.setdefault(key, state.voted) == state.voted
        replica.effects.clear()

    def _committed(self, replica: Replica) -> None:
        for batch in replica.disk.batches:
            if batch.last_offset < replica.core.committed_offset:
                data = bytes(batch.data)
                assert self.committed.setdefault(batch.base_offset, data) == data


def live(seed: int, steps: int) -> Network:
    dice = random.Random(seed)
    net = formatted(3, auto_join=seed % 2 == 0)
    witness = Witness()
    for step in range(steps):
        act(net, dice, step)
        net.run(dice.randrange(400) * MS)
        witness.look(net)
    net.heal()
    for replica in net.replicas.values():
        replica.auto_flush = True
        if not replica.up:
            replica.restart()
        replica.flush()
    net.run(30 * S)
    leader = net.elect()
    leader.step(ev.AppendRequested(1, leader.core.epoch, (b"at last",)))
    net.run(5 * S)
    witness.look(net)
    for replica in net.replicas.values():
        assert replica.core.committed_offset == leader.core.log.end_offset
        assert replica.core.epoch == leader.core.epoch
    return net


def act(net: Network, dice: random.Random, step: int) -> None:
    replica = dice.choice(list(net.replicas.values()))
    kind = dice.randrange(12)
    leader = net.leader
    if kind <= 3 and leader is not None:
        for _ in range(dice.randrange(1, 4)):
            values = tuple(b"%d" % step for _ in range(dice.randrange(1, 4)))
            leader.step(ev.AppendRequested(step, leader.core.epoch, values))
    elif kind == 4:
        if replica.up:
            replica.crash()
        else:
            replica.restart()
    elif kind == 5:
        net.isolate(replica.config.node_id)
    elif kind == 6:
        others = [r.config.node_id for r in net.replicas.values()]
        net.cut.add((replica.config.node_id, dice.choice(others)))
    elif kind in (7, 8):
        net.heal()
    elif kind == 9 and replica.up:
        replica.auto_flush = not replica.auto_flush
        replica.flush()
    elif kind == 10 and replica.up:
        snapshot(replica, dice)
    elif kind == 11 and leader is not None:
        change_voters(net, dice, leader)


def snapshot(replica: Replica, dice: random.Random) -> None:
    """Write a snapshot up to the start of a committed batch, and let the log go that far."""
    committed = replica.core.committed_offset
    found = [b for b in replica.disk.batches if b.last_offset < committed]
    if found:
        last = dice.choice(found)
        replica.step(ev.SnapshotRequested(SnapshotId(last.last_offset + 1, last.epoch)))
        replica.net.settle()
    if dice.randrange(2):
        replica.step(ev.CleanRequested(1 << 40))


def change_voters(net: Network, dice: random.Random, leader: Replica) -> None:
    ids = leader.core.log.voters.last.ids
    request: ms.Request
    if len(net.replicas) < 5:
        net.add(joiner(len(net.replicas) + 1))
    if dice.randrange(2) and len(ids) > 2:
        gone = dice.choice(ids)
        request = ms.RemoveVoter(voter_id=gone, voter_directory_id=directory(gone))
    else:
        new = dice.choice(list(net.replicas))
        request = ms.AddVoter(
            voter_id=new, voter_directory_id=directory(new), endpoints=voter(new).endpoints
        )
    net.ask(leader.config.node_id, request)


@pytest.mark.parametrize("seed", range(40))
def test_a_life(seed: int) -> None:
    net = live(seed, 60)
    assert net.leader is not None
    assert net.leader.role is RoleName.LEADER

"""The operator: adds voters, removes them, raises kraft.version, and waits for an answer."""

from __future__ import annotations

from kraftspec.generated.errors import ErrorCode
from kraftspec.generated.kafka import AddRaftVoterRequest
from kraftspec.reference.raft import ReplicaKey
from kraftspec.reference.raft.messages import AddVoter, DescribeQuorum, RemoveVoter, Reply, Request
from kraftspec.simulation.replica import Replica
from kraftspec.simulation.swarm import S
from kraftspec.simulation.timeline import Timeline

VOTERS_MAX = 7
CHANGE_US = 10 * S  # After this a change that was asked for has happened, or never will.
# Answers after which a record that was written may be committed all the same.
_MAY_STILL_HAPPEN = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_LEADER_OR_FOLLOWER)
_ADDS = 3  # Of 0 to 6: one describes, three add, three remove.


class Operator:
    """Changes the quorum from time to time, if the run's swarm says so."""

    def __init__(self, schedule: Timeline) -> None:
        self.schedule = schedule
        self.done: dict[str, int] = {}  # What was answered, by kind and error.
        self.period_us = schedule.swarm.reconfigure_period_us
        self._removing: list[tuple[int, ReplicaKey]] = []  # Until when it may yet happen, and who.
        self._adding: list[tuple[int, ReplicaKey]] = []
        self._asked: list[AddVoter | RemoveVoter] = []

    def plan(self) -> None:
        """Plan the first change."""
        if self.period_us:
            self._plan_change()
        if self.schedule.swarm.upgrade_period_us:
            self._plan_upgrade()
        if self.schedule.swarm.repeat_period_us:
            self._plan_repeat()

    def _plan_change(self) -> None:
        delay_us = self.schedule.rng.between(1, 2 * self.period_us)
        self.schedule.after(delay_us, self._change)

    def _plan_repeat(self) -> None:
        period_us = self.schedule.swarm.repeat_period_us
        self.schedule.after(self.schedule.rng.between(1, 2 * period_us), self._repeat)

    def _plan_upgrade(self) -> None:
        period_us = self.schedule.swarm.upgrade_period_us
        self.schedule.after(self.schedule.rng.between(1, 2 * period_us), self._upgrade)

    def _upgrade(self) -> None:
        """Ask whoever leads to raise kraft.version, until it did; a paused one hears nothing."""
        world = self.schedule.world
        leader = world.leader()
        if leader is not None and leader.paused_until_us <= world.now_us:
            if leader.core.log.kraft_versions.last >= 1:
                self.schedule.met["upgrade"] += 1
                return
            self.schedule.met["upgrade requested"] += 1
            world.upgrade(leader, 1)
        if self.schedule.has_faults:
            self._plan_upgrade()

    def answered(self, request: Request, reply: Reply) -> None:
        """Take note."""
        error = reply.error or reply.top_error
        kind = f"{type(request).__name__} {error}"
        self.done[kind] = self.done.get(kind, 0) + 1
        is_over = self._is_restless and error not in _MAY_STILL_HAPPEN
        if is_over and isinstance(request, RemoveVoter):
            key = ReplicaKey(request.voter_id, request.voter_directory_id)
            self._removing = [(until, one) for until, one in self._removing if one != key]

    @property
    def _is_restless(self) -> bool:
        return self.schedule.swarm.repeat_period_us > 0

    def _change(self) -> None:
        if not self.period_us:
            return
        self._plan_change()
        leader = self.schedule.world.leader()
        if leader is None:
            return
        rng = self.schedule.rng
        kind = rng.below(7)
        if kind == 0:
            self.schedule.world.ask(leader.id, DescribeQuorum())
        elif kind <= _ADDS:
            self.add(leader, self.to_add(leader))
        else:
            self.remove(leader, self._to_remove(leader))

    def to_add(self, leader: Replica) -> Replica | None:
        """Draw who is no voter, and may be one."""
        voters = leader.core.log.voters.last
        others = [
            replica
            for replica in self.schedule.world.replicas.values()
            if replica.config.can_become_voter and not voters.is_voter(replica.key)
        ]
        return self.schedule.rng.pick(others) if others and len(voters) < VOTERS_MAX else None

    def _to_remove(self, leader: Replica) -> ReplicaKey | None:
        """Draw a voter, one whose disk was wiped rather than another."""
        voters = list(leader.core.log.voters.last)
        gone = [v.key for v in voters if v.key not in self.schedule.world.by_key_now()]
        if gone:
            return self.schedule.rng.pick(gone)
        if len(voters) <= 1 or not self._may_shrink(leader):
            return None
        key = self.schedule.rng.pick(voters).key
        return key if self._may_go(leader, key) else None

    def may_remove(self, leader: Replica, key: ReplicaKey) -> bool:
        """Whether a voter whose disk is there may be removed: the quorum outlives it."""
        is_voter = leader.core.log.voters.last.is_voter(key)
        return is_voter and self._may_shrink(leader) and self._may_go(leader, key)

    def _may_go(self, leader: Replica, key: ReplicaKey) -> bool:
        """Whether a voter may be removed: the others elect without it, whoever has the record.

        One at a time, where there are many to remove.
        """
        if self._is_restless and self.removing:
            return False
        keeps = key != leader.key and not self.schedule.swarm.forgets
        return keeps or self.others_elect(leader, key)

    def others_elect(self, leader: Replica, removed: ReplicaKey) -> bool:
        """Whether the other voters elect a leader without any vote of this one.

        Whoever has alone the record that removes it is no voter by its own log, which is longer
        than the others': it neither campaigns nor votes for them. That is a leader that goes down
        before another has the record; and a follower that fetched it, where the leader loses it,
        not synced. See docs/findings/kraft-gridlock.md. With the rule against it, any may go; and
        a careless operator does not look.
        """
        replicas = self.schedule.world.replicas.values()
        if self.schedule.swarm.is_careless or all(one.campaigns_when_removed for one in replicas):
            return True
        alive = self.schedule.whole_disks()
        voters = leader.core.log.voters.last
        others = [v for v in voters if v.key in alive and v.key != removed]
        return len(others) >= voters.majority

    def _may_shrink(self, leader: Replica) -> bool:
        """Whether the quorum outlives a voter less: of those left a majority has its disk."""
        alive = self.schedule.whole_disks()
        voters = list(leader.core.log.voters.last)
        return all(
            sum(1 for v in voters if v.key in alive and v is not gone) >= (len(voters) - 1) // 2 + 1
            for gone in voters
        )

    @property
    def removing(self) -> list[ReplicaKey]:
        """The voters whose removal was asked for, and may be on its way."""
        now_us = self.schedule.world.now_us
        self._removing = [(until, key) for until, key in self._removing if until > now_us]
        return [key for _, key in self._removing]

    @property
    def adding(self) -> list[ReplicaKey]:
        """The replicas whose addition was asked for, and may be on its way."""
        now_us = self.schedule.world.now_us
        self._adding = [(until, key) for until, key in self._adding if until > now_us]
        return [key for _, key in self._adding]

    def _repeat(self) -> None:
        """Send a request of before once more, to whoever leads or to any node."""
        if not self.period_us:
            return
        self._plan_repeat()
        world, rng = self.schedule.world, self.schedule.rng
        leader = world.leader()
        if leader is None or not self._asked:
            return
        request = rng.pick(self._asked)
        if self._may_repeat(leader, request):
            self.schedule.met[f"repeated {type(request).__name__}"] += 1
            self.ask(rng.pick(list(world.replicas)) if rng.below(4) == 0 else leader.id, request)

    def _may_repeat(self, leader: Replica, request: AddVoter | RemoveVoter) -> bool:
        """Whether the quorum outlives it, though what it says may be long out of date."""
        voters = leader.core.log.voters.last
        whole = self.schedule.whole_disks()
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        if isinstance(request, RemoveVoter):
            if voters.is_voter(key):
                return key not in whole or self.may_remove(leader, key)
            return key not in self.adding  # Nobody is removed.
        # A leader may add a disk that is gone, and that it remembers: it counts for nothing.
        left = sum(1 for voter in voters if voter.key in whole)
        is_enough = key in whole or left >= (len(voters) + 1) // 2 + 1
        return is_enough and len(voters) < VOTERS_MAX and key not in self.removing

    def ask(self, node_id: int, request: AddVoter | RemoveVoter) -> None:
        """Ask a node for other voters."""
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        on_its_way = self._removing if isinstance(request, RemoveVoter) else self._adding
        on_its_way.append((self.schedule.world.now_us + CHANGE_US, key))
        if request not in self._asked:
            self._asked.append(request)
        self.schedule.world.ask(node_id, request)

    def add(self, leader: Replica, replica: Replica | None) -> None:
        """Ask for a replica to become a voter."""
        if replica is not None:
            self.schedule.met["AddRaftVoter"] += 1
            # Drawn for all; the first version of the request always waits.
            waits = self.schedule.rng.below(4) > 0
            api = AddRaftVoterRequest
            request = AddVoter(
                voter_id=replica.id,
                voter_directory_id=replica.key.directory_id,
                endpoints=replica.endpoints,
                ack_when_committed=waits or leader.api_max.get(api.API_KEY, 1) < 1,
                timeout_us=5 * S,
            )
            self.ask(leader.id, request)

    def remove(self, leader: Replica, key: ReplicaKey | None) -> None:
        """Ask for a voter to be one no longer."""
        if key is not None:
            self.schedule.met["RemoveRaftVoter"] += 1
            self.ask(leader.id, RemoveVoter(voter_id=key.id, voter_directory_id=key.directory_id))

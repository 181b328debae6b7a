"""A simulated quorum that lost its majority, gets the cure of `reference.recovery`, and goes on.

A run is stopped at a moment that its seed draws, and all nodes go down, some with their power. The
disks of a majority of the voters are lost. ``quorum recover`` gets the others; its power may fail
before any write, and then it is called again. What it refuses must be unchanged. Else the nodes to
keep start in a world of their own, under all invariants, and with the faults of the seed: they
elect a leader, which has every record that the cure kept, and commit more. Nodes with new disks
take the places of the lost ones, and an operator adds and removes voters.

Some seeds have another wreck: all voters listen elsewhere; a longer log cannot be given; or the
leader of two voters removes itself, and all go down as soon as it has written that::

    python -m kraftspec.simulation.recovered 0..9999
"""

from __future__ import annotations

import sys
from collections import Counter
from random import Random
from typing import Final

import msgspec

from kraftspec.reference.host import PowerLostError
from kraftspec.reference.log.memory_files import MemoryFiles, MemoryLock
from kraftspec.reference.profiles import KAFKA, profile_named
from kraftspec.reference.profiles.kafka.profile import AS_KAFKA
from kraftspec.reference.raft import Config
from kraftspec.reference.raft.profile import Profile
from kraftspec.reference.raft.types import Endpoints, Node
from kraftspec.reference.raft.voters import VoterSet
from kraftspec.reference.recovery import Severity, verify
from kraftspec.reference.recovery.cure import recover
from kraftspec.reference.recovery.plan import Plan, Request
from kraftspec.simulation.committed_log import Violation
from kraftspec.simulation.initial_quorum import PORT_BASE, directory_id_of
from kraftspec.simulation.invariants import all_invariants
from kraftspec.simulation.offline import (
    ELECTED_WITHIN_US,
    EXPECTED,
    Disks,
    Truth,
    all_down,
    chain_of,
    first_leader,
    run_seeds,
)
from kraftspec.simulation.own import CHANGES, DIRECTORY, OwnReplica
from kraftspec.simulation.rng import Rng
from kraftspec.simulation.run import swarm_of
from kraftspec.simulation.schedule import Schedule
from kraftspec.simulation.swarm import S, Swarm
from kraftspec.simulation.world import World, add_node

EVENTS_MAX: Final = 3_000
REMOVED_WITHIN: Final = 300  # Events until a leader has written that it is removed.
MORE_REMOVED: Final = 30  # Events at the most until all go down then.
MORE_EVENTS: Final = 3_000  # Of the life after the cure.
COMMITTED_WITHIN_US: Final = 60 * S
OPERATOR_PERIOD_US: Final = 3 * S
MOVES: Final = 50  # More than in any run: an address that no log has.
PAD_MAX: Final = 200
# Each of these is the wreck of one seed in so many; of the others, a majority of disks is lost.
_OTHER_WRECKS: Final = ("moved", "padded", "gridlock")
_ONE_IN: Final = 8
CUT_WITHIN: Final = 60  # Operations of the disks; a cure has 20 to 60 of them.
BACKUP: Final = "/beside/copy"


class Machines(Disks):
    """The disks, as the command writes to them; copies go to a disk beside theirs.

    ``operations_left`` is how many changes are made before the power goes; below 0: it stays.
    """

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._beside = MemoryFiles()
        self.operations_left = -1

    def files_of(self, node: str) -> MemoryFiles:
        """Return the disk that a path begins with the name of."""
        files = super().files_of(node) if node.isdecimal() else self._beside
        files.hook = self._changes
        return files

    def _changes(self, operation: str, path: str, size: int) -> None:
        if operation in CHANGES and self.operations_left >= 0:
            if self.operations_left == 0:
                raise PowerLostError
            self.operations_left -= 1

    def make_directory(self, path: str) -> None:
        """Make a directory."""
        files, rest = self._find(path)
        files.make_directory(rest)

    def rename(self, source: str, target: str) -> None:
        """Give a file another name."""
        files, rest = self._find(source)
        files.rename(rest, self._find(target)[1])

    def remove(self, path: str) -> None:
        """Remove a name."""
        files, rest = self._find(path)
        files.remove(rest)

    def make_read_only(self, path: str) -> None:
        """Do nothing: nobody else is there."""

    def sync_directory(self, path: str) -> None:
        """Bring names to the disk."""
        files, rest = self._find(path)
        files.sync_directory(rest)

    def lock(self, path: str) -> MemoryLock:
        """Lock a file."""
        files, rest = self._find(path)
        return files.lock(rest)


def check(seed: int) -> Counter[str]:
    """Run a seed; raise Violation where the cure is none. Return what happened, counted."""
    profile = profile_named(KAFKA, without=AS_KAFKA)
    profile.policy.seeks_when_unanswered = False  # As Kafka's nodes.
    drawn = Rng(seed ^ 0x0CBEE).below(_ONE_IN)
    wreck = _OTHER_WRECKS[drawn] if drawn < len(_OTHER_WRECKS) else "lost"
    swarm = swarm_of(seed, profile) if wreck != "gridlock" else _two_voters(seed, profile)
    schedule = Schedule(seed, swarm, profile)
    rng = Rng(seed ^ 0x0CBED)
    truth = Truth(schedule.world)
    truth.run(schedule, rng.between(100, EVENTS_MAX))
    case = _Case(schedule, rng, truth)
    return case.check_gridlock() if wreck == "gridlock" else case.check(wreck)


def _two_voters(seed: int, profile: Profile) -> Swarm:
    """Return conditions in which two voters, of the log, stay what they are."""
    return msgspec.structs.replace(
        swarm_of(seed, profile),
        voters=2,
        kraft_version=1,
        old_nodes=0,
        absent=0,
        auto_join=False,
        mixed_voters=False,
        upgrade_period_us=0,
        reconfigure_period_us=0,
        partitioned_removal_period_us=0,
        leader_removal_period_us=0,
        wipe_period_us=0,
        corruption_period_us=0,
    )


class _Case:
    """One lost quorum: the run that it was lost in, and what is left of it."""

    def __init__(self, schedule: Schedule, rng: Rng, truth: Truth) -> None:
        self.schedule = schedule
        self.world = schedule.world
        self.rng = rng
        self.truth = truth
        self.done: Counter[str] = Counter()
        self.machines = Machines(schedule.world)

    @property
    def swarm(self) -> Swarm:
        """The conditions of the run."""
        return self.schedule.swarm

    def check(self, wreck: str) -> Counter[str]:
        """Lose a majority, or let all voters move; cure, and go on."""
        schedule, world, rng = self.schedule, self.world, self.rng
        all_down(schedule, rng)
        healthy = [one for one in sorted(world.replicas) if one not in schedule.corrupted]
        judgement = verify([_path(one) for one in healthy], self.machines)
        voters = max(judgement.directories, key=lambda one: one.log.position).in_force.voters
        present = [one for one in voters.ids if one in healthy]
        is_static = all(one.kraft_version == 0 for one in judgement.directories)
        if wreck == "moved" and not is_static and len(present) == len(voters):
            endpoints = {id_: self._moved(id_) for id_ in present}
            request = Request(keep=tuple(present), endpoints=endpoints)
            return self._go_on(healthy, request)
        left = sorted(sorted(present, key=lambda _: rng.bits(32))[: max(1, len(voters) // 2)])
        observers = [one for one in healthy if one not in voters]
        given = sorted(left + observers[: rng.below(len(observers) + 1)])
        keep = tuple(left[: rng.between(1, len(left))]) if left else ()
        if not keep:
            self.done["no voter is left"] += 1
            return self.done
        ends = {one.node_id: one.log.end_offset for one in judgement.directories}
        shortest = min(given, key=lambda id_: (ends[id_], id_))
        request = Request(
            keep=keep,
            accepts_loss=rng.pick((True, False)),
            source=_path(shortest) if rng.below(3) == 0 else "",
        )
        if wreck == "padded" and not is_static:
            request = msgspec.structs.replace(
                request, pad_to=max(ends.values()) + rng.between(1, PAD_MAX)
            )
        # Nodes of before Kafka 3.9 cannot follow voters of the log, as the page says.
        if is_static and not self.swarm.old_nodes and rng.pick((True, False)):
            endpoints = {id_: world.replicas[id_].config.endpoints for id_ in keep}
            request = msgspec.structs.replace(request, to_dynamic=True, endpoints=endpoints)
        return self._go_on(given, request)

    def _moved(self, node_id: int) -> Endpoints:
        replica = self.world.replicas[node_id]
        self.world.move(replica, MOVES)
        return replica.config.endpoints

    def check_gridlock(self) -> Counter[str]:
        """Let the leader of two voters remove itself and stop; cure that in one of three ways."""
        schedule, world, rng = self.schedule, self.world, self.rng
        leader = first_leader(schedule, ELECTED_WITHIN_US)
        if leader is None:
            self.done["nobody leads two voters"] += 1
            return self.done
        schedule.operator.remove(leader, leader.key)
        for _ in range(REMOVED_WITHIN):
            self.truth.run(schedule, world.events + 1)
            if not leader.is_up or not leader.core.log.voters.last.is_voter(leader.key):
                break
        self.truth.run(schedule, world.events + rng.below(MORE_REMOVED))
        all_down(schedule, rng)
        both = [0, 1]
        electable = [one for one in Disks(world).read(both).candidates if one.is_electable]
        self.done["two voters, in gridlock" if not electable else "two voters, electable"] += 1
        cure = rng.below(3)
        if cure == 0:
            return self._go_on(both, Request(keep=(0, 1), withdraws_voters=True))
        keep = leader.id if cure == 1 else 1 - leader.id
        return self._go_on([keep] if rng.pick((True, False)) else both, Request(keep=(keep,)))

    def _go_on(self, given: list[int], request: Request) -> Counter[str]:
        """Cure, and let those live who may."""
        plan = self._recover([_path(one) for one in given], request)
        if plan is not None:
            away = _moved_away(plan)
            self._start(plan, list(request.keep), [one for one in given if one not in away])
        return self.done

    # ---- the cure ------------------------------------------------------------------------------

    def _recover(self, paths: list[str], request: Request) -> Plan | None:
        """Plan, write, and write again if the power fails; return the plan, None if refused."""
        machines, rng = self.machines, self.rng
        plan = recover(paths, request, machines)
        if plan.refusals:
            for refusal in plan.refusals:
                self.done[f"refused: {refusal.code}"] += 1
            before = [one.log.position for one in plan.directories]
            recover(paths, request, machines, backup=f"{BACKUP}-0")
            after = [one.log.position for one in verify(paths, machines).directories]
            if before != after:
                raise Violation("refused_is_unchanged", f"{before} became {after}")
            return None
        self._check_losses(plan)
        if 0 <= plan.withdrawn_at < self.truth.end_offset:
            text = f"{plan.withdrawn_at} is withdrawn, {self.truth.end_offset} is committed"
            raise Violation("withdrawn_is_uncommitted", text)
        self.done["records were told as lost"] += bool(plan.losses)
        machines.operations_left = rng.below(CUT_WITHIN)
        try:
            recover(paths, request, machines, backup=f"{BACKUP}-1")
        except PowerLostError:
            has_failed = True
        else:
            has_failed = False
        machines.operations_left = -1
        if has_failed:
            self.done["the power failed in the cure"] += 1
            for id_ in request.keep:  # What the others have was synced long ago.
                machines.files_of(str(id_)).power_loss(Random(rng.bits(32)))
            again = self._again(plan, paths, f"{BACKUP}-2")
            if again.refusals and not _elects(plan, again):
                raise Violation("recover_goes_on", f"after a power failure: {again.refusals}")
            plan = again if again.changes else plan
            self._check_losses(plan)
        again = self._again(plan, paths, "")
        if not (again.is_done or _elects(plan, again)):
            raise Violation("recovered_once", f"{again.refusals} {again.changes}")
        kinds = {
            "forced": bool(plan.batch),
            "made dynamic": request.to_dynamic,
            "static": plan.is_static,
            "begun": plan.is_begun,
            "withdrawn": plan.withdrawn_at >= 0,
            "padded": request.pad_to > 0,
            "moved": bool(request.endpoints) and not request.to_dynamic,
        }
        names = [name for name, is_so in kinds.items() if is_so] or ["graft"]
        self.done[f"recovered: {' '.join(names)}"] += 1
        return plan

    def _again(self, plan: Plan, paths: list[str], backup: str) -> Plan:
        """Call it again; committed records that were let go on purpose are on no disk any more."""
        again = recover(paths, plan.request, self.machines, backup=backup)
        if {one.code for one in again.refusals} == {"two-committed-branches"}:
            gone = {one.number for one in plan.losses if one.number not in plan.keepers}
            left = [path for number, path in enumerate(paths) if number not in gone]
            again = recover(left, plan.request, self.machines, backup=backup)
        return again

    def _check_losses(self, plan: Plan) -> None:
        """What was committed is kept, told as lost, or was on no disk that was given."""
        source, machines = plan.log_source, self.machines
        for offset, chain in self.truth.chains.items():
            if offset <= plan.end_offset and chain_of(source, machines, offset) in (chain, None):
                continue
            for number, one in enumerate(plan.directories):
                has = offset <= one.log.end_offset and chain_of(one, machines, offset) == chain
                told = any(
                    loss.number == number and loss.start < offset <= loss.end
                    for loss in plan.losses
                )
                if has and not told:
                    text = f"node {one.node_id} has {offset}, which is committed and goes untold"
                    raise Violation("loss_is_told", text)

    # ---- the life after it -----------------------------------------------------------------------

    def _start(self, plan: Plan, keep: list[int], given: list[int]) -> None:
        """Let the nodes to keep start in a new world, and look whether they elect and commit."""
        schedule, before, rng = self.schedule, self.world, self.rng
        kept_chain = chain_of(plan.log_source, self.machines, plan.end_offset)
        protocol = before.protocol
        world = World(protocol, all_invariants(protocol.invariants), schedule, before.log_config)
        world.now_us = before.now_us
        for id_ in given:
            old = before.replicas[id_]
            assert isinstance(old, OwnReplica)
            replica = add_node(world, self.swarm, rng, _as_told(old.config, plan))
            assert isinstance(replica, OwnReplica)
            replica.files, replica.incarnation = old.files, old.incarnation
            old.files.hook = None
        schedule.take_over(world, {})
        schedule.corrupted.clear()
        for id_ in keep:
            world.start(world.replicas[id_], rng.bits(32))
        leader = first_leader(schedule, ELECTED_WITHIN_US)
        if leader is None:
            raise Violation("recovered_quorum_elects", f"none of {keep} leads after {plan.epoch}")
        if plan.epoch >= 0 and leader.epoch < plan.epoch:
            raise Violation("recovered_quorum_elects", f"{leader.epoch} is below {plan.epoch}")
        if leader.log_model.chain_at(plan.end_offset) not in (kept_chain, None):
            raise Violation("kept_log_is_led", f"leader {leader.id} has others at the end")
        limit_us = world.now_us + COMMITTED_WITHIN_US
        schedule.run(world.events + MORE_EVENTS, limit_us)
        if world.committed_log.high_watermark <= plan.end_offset:
            text = f"{world.committed_log.high_watermark} is committed, {plan.end_offset} was kept"
            raise Violation("recovered_quorum_commits", text)
        self.done["elected, and committed more"] += 1
        self._grow(plan, given)

    def _grow(self, plan: Plan, given: list[int]) -> None:
        """Nodes with new disks come, voters change, and the seed's faults are back."""
        schedule, world, rng = self.schedule, self.schedule.world, self.rng
        for id_, old in sorted(self.world.replicas.items()):
            if id_ not in given:
                config = world.protocol.with_new_disk(old.config, directory_id_of(rng))
                add_node(world, self.swarm, rng, _as_told(config, plan))
        for replica in list(world.replicas.values()):
            if not replica.is_up:
                world.start(replica, rng.bits(32))
        voters = self._voters()
        if not plan.is_static:
            schedule.operator.period_us = OPERATOR_PERIOD_US
        # Two voters of which one has moved find each other through no third.
        schedule.swarm = msgspec.structs.replace(self.swarm, move_period_us=0)
        schedule.has_faults = True
        schedule.operator.plan()
        schedule.faults.plan()
        schedule.run(world.events + MORE_EVENTS)
        schedule.faults.stop()
        schedule.operator.period_us = 0
        if first_leader(schedule, ELECTED_WITHIN_US) is None:
            raise Violation("recovered_quorum_lives", "nobody leads after the faults")
        self.done["the voters changed" if self._voters() != voters else "the voters stayed"] += 1
        for replica in list(world.running()):
            world.crash(replica, None)
        judgement = verify([_path(one) for one in sorted(world.replicas)], Disks(world))
        for verdict in judgement.verdicts:
            self.done[f"afterwards: {verdict.severity} {verdict.code}"] += 1
            if verdict.severity is Severity.ERROR and verdict.code not in EXPECTED:
                raise Violation("verified_afterwards", f"{verdict.code}: {verdict.text}")

    def _voters(self) -> VoterSet | None:
        leader = self.schedule.world.leader()
        return None if leader is None else leader.core.log.voters.last


def _moved_away(plan: Plan) -> set[int]:
    """Return the nodes whose directories the command says to move away."""
    told = [loss.number for loss in plan.losses if loss.number not in plan.keepers]
    return {plan.directories[number].node_id for number in told} | {
        one.node_id for one in plan.left_out()
    }


def _elects(plan: Plan, again: Plan) -> bool:
    """Whether a cure that made nothing up is refused because the nodes elect by now."""
    makes_nothing_up = not plan.batch and not plan.is_static
    return makes_nothing_up and {one.code for one in again.refusals} == {"could-elect"}


def _path(node_id: int) -> str:
    return f"/{node_id}{DIRECTORY}"


def _as_told(config: Config, plan: Plan) -> Config:
    """Return the properties as the command says to write them."""
    if plan.is_static:
        voters = VoterSet(voter for voter in config.voters if voter.key.id in plan.voters)
        return msgspec.structs.replace(config, voters=voters)
    servers = tuple(Node(-2 - id_, "localhost", PORT_BASE + id_) for id_ in plan.voters.ids)
    return msgspec.structs.replace(config, voters=VoterSet(), bootstrap_servers=servers)


if __name__ == "__main__":
    sys.exit(run_seeds(check))

"""What a protocol says of a simulated run: what must hold, who is there, how it begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import msgspec

from kraftspec.fastpath.types import Uuid
from kraftspec.reference.log import MetaProperties
from kraftspec.reference.profiles import parts_of
from kraftspec.reference.raft import Config, ReplicaKey, VoterSet
from kraftspec.reference.raft.messages import AddVoter, RemoveVoter, Request, UpdateVoter
from kraftspec.reference.raft.profile import Profile
from kraftspec.simulation.initial_quorum import VOTE_API_KEY, configurations
from kraftspec.simulation.rng import Rng
from kraftspec.simulation.swarm import Swarm

# Modules of ``invariants``, in the order in which they are asked.
INVARIANTS: Final = (
    "legal_transitions",
    "monotonic_epoch",
    "single_leader",
    "one_vote",
    "voter_is_who_was_asked",
    "pre_vote_changes_nothing",
    "pre_votes_come_first",
    "no_vote_against_live_leader",
    "higher_epoch_is_adopted",
    "log_matching",
    "leader_append_only",
    "durable_survives",
    "synced_before_fetch",
    "synced_before_vote",
    "no_truncation_of_committed",
    "no_commit_while_truncating",
    "majority_holds_high_watermark",
    "monotonic_high_watermark",
    "committed_bytes",
    "leader_completeness",
    "leader_hears_majority",
    "resigned_goes_on",
    "one_voter_change",
    "change_was_asked_for",
    "answered_change_is_committed",
    "snapshot_at_log_start",
    "voters_follow_log",
    "new_voter_is_caught_up",
    "snapshot_is_prefix",
    "leader_loads_no_snapshot",
    "log_is_whole",
    "takes_no_for_an_answer",
    "idle_node_waits",
    "no_spin",
    "requests_arrive_whole",
    "description_is_true",
    "told_to_lead_after_commit",
    "append_is_of_its_epoch",
    "acknowledged_stays",
    "linearizable_appends",
)
# Modules of ``liveness``, in the order in which they must come true.
LIVENESS: Final = (
    "leader_elected",
    "appends_acknowledged",
    "replicas_catch_up",
    "reconfiguration_finishes",
    "leadership_stays",
    "successor_leads",
)

# Written from the KIPs, not taken from the core: that is what it is held against.
LEGAL: Final = {
    "unattached": {"unattached", "prospective", "follower"},
    "prospective": {"candidate", "follower", "unattached", "prospective"},
    "candidate": {"leader", "prospective", "unattached", "follower"},
    "leader": {"resigned", "unattached", "follower"},
    "follower": {"prospective", "follower", "unattached"},
    "resigned": {"unattached", "follower"},
}
# One step may go two arrows: a sole voter is elected at once.
ALONE: Final = {
    "unattached": {"leader", "candidate"},
    "follower": {"leader", "candidate"},
    "prospective": {"leader"},
    "resigned": {"candidate", "leader"},
    "candidate": set[str](),
    "leader": set[str](),
}
# Who has resigned may campaign when its timer strikes: by way of Unattached, an epoch on. Who is
# elected while it leaves the quorum resigns at once. A leader that hears from one of a later epoch
# that it resigns is its follower, and campaigns at once.
TWICE: Final = {
    ("resigned", "prospective"),
    ("candidate", "resigned"),
    ("leader", "prospective"),
}


class Rules:
    """Base of all. What stands here is a quorum of static voters that nobody asks for anything.

    A protocol overrides what differs. Where it leaves a property out, or allows more than another
    protocol does, it says why beside it.
    """

    # Which properties hold, by the modules of ``invariants`` and ``liveness``, in this order.
    invariants: tuple[str, ...] = INVARIANTS
    liveness: tuple[str, ...] = LIVENESS
    # The arrows between roles.
    legal: Mapping[str, AbstractSet[str]] = LEGAL
    alone: Mapping[str, AbstractSet[str]] = ALONE
    twice: AbstractSet[tuple[str, str]] = TWICE

    # Whether state machines write snapshots.
    has_snapshots = True
    # What changes the voters.
    changes: tuple[type[Request], ...] = (AddVoter, RemoveVoter, UpdateVoter)

    def __init__(self, profile: Profile) -> None:
        self.profile = profile

    def restrict(self, swarm: Swarm, rng: Rng) -> None:
        """Change the conditions that a seed drew into such as the protocol has.

        A field that is 0 switches its fault off. What is drawn here comes after all other draws.
        """

    def configurations(self, swarm: Swarm, rng: Rng) -> list[Config]:
        """Return one configuration a node; a node's id is its index."""
        return configurations(swarm, rng)

    def meta_properties(self, config: Config) -> MetaProperties:
        """Return what a disk is formatted with."""
        return MetaProperties(
            profile=self.profile.name,
            cluster_id=config.cluster_id,
            node_id=config.node_id,
            directory_id=config.directory_id,
            id_property=parts_of(self.profile.name).id_property,
        )

    def first_files(self, configs: list[Config], swarm: Swarm) -> Mapping[int, Mapping[str, bytes]]:
        """Return the files, by node and name, that first disks have beside their properties.

        Names are from the log directory on. A disk that is replaced later has none of them.
        """
        return {}

    def replica(self, world: Any, config: Config, first_files: Mapping[str, bytes] | None) -> Any:
        """Return a `replica.Replica` of a `world.World`, with a new disk."""
        raise NotImplementedError

    def with_new_disk(self, config: Config, directory_id: Uuid) -> Config:
        """Return the configuration of a node whose disk was replaced by an empty one."""
        return msgspec.structs.replace(config, directory_id=directory_id)

    def configuration_of(self, config: Config, incarnation: int, durable_end: int) -> Config:
        """Return the configuration that a node starts this incarnation with."""
        return config

    def is_voter(
        self, key: ReplicaKey, voters: VoterSet, earlier: Sequence[VoterSet]
    ) -> bool | None:
        """Whether a replica has to take itself for a voter, by its log; None: it may, or not.

        ``voters`` is the last set of its log, and ``earlier`` are those before.
        """
        if voters.is_voter(key):
            return True
        may = self.profile.policy.campaigns_when_removed
        return None if may and any(one.is_voter(key) for one in earlier) else False

    def unasked(
        self, before: VoterSet, after: VoterSet, requests: list[Request], own_id: int
    ) -> str:
        """Return which change of voters nobody asked for, if there is one; else "".

        ``requests`` are those for changes that the leader ``own_id`` has got in its epoch. One that
        led to a change is taken out.
        """
        changes: list[tuple[type[AddVoter | RemoveVoter], ReplicaKey]] = [
            *((RemoveVoter, key) for key in _lacking(after, before)),
            *((AddVoter, key) for key in _lacking(before, after)),
        ]
        for kind, key in changes:
            request = next((one for one in requests if self.asks_for(one, kind, key)), None)
            if request is None:
                return f"{kind.__name__} of {key}"
            if isinstance(request, kind):
                requests.remove(request)
        return ""

    def asks_for(
        self, request: Request, kind: type[AddVoter | RemoveVoter], key: ReplicaKey
    ) -> bool:
        """Whether a request is one to add, or to remove, this voter."""
        return isinstance(request, kind) and key == ReplicaKey(
            request.voter_id, request.voter_directory_id
        )

    def has_happened(self, request: Request, voters: VoterSet) -> bool:
        """Whether these voters are as a request among ``changes`` wants them to be."""
        if isinstance(request, AddVoter | RemoveVoter | UpdateVoter):
            voter = voters.get(request.voter_id)
            is_there = voter is not None and voter.key.directory_id == request.voter_directory_id
            if isinstance(request, UpdateVoter):
                return is_there and voter is not None and {*voter.endpoints} == {*request.endpoints}
            return is_there is isinstance(request, AddVoter)
        raise TypeError(f"{type(request).__name__} changes no voters")

    def older(self, vote_version: int) -> Mapping[int, int]:
        """Return the highest versions, by API key, of a release that speaks this one of Vote."""
        return {VOTE_API_KEY: vote_version}


def _lacking(voters: VoterSet, others: VoterSet) -> list[ReplicaKey]:
    """Return who of ``others`` is none of ``voters``; a directory that is not known is any."""
    keys = [voter.key for voter in others]
    return [
        key
        for key in keys
        if not any(one.key.matches(key) or key.matches(one.key) for one in voters)
    ]

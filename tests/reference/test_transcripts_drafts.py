"""Bugs planted in the drafts: which transcripts must notice each of them, by their expectations.

Those of the profile kafka are in ``test_transcripts``; their bugs are in the simulator's catalogue.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.reference.test_transcripts import DIRECTORY
from tests.reference.transcripts import script

from kraftspec.reference.profiles.kip_595 import handlers
from kraftspec.reference.profiles.kip_595 import policy as policy_595
from kraftspec.reference.profiles.kip_853 import membership
from kraftspec.reference.profiles.kip_853 import policy as policy_853
from kraftspec.reference.profiles.kip_853.quorum import DraftDescription
from kraftspec.reference.profiles.kip_996 import policy as policy_996
from kraftspec.reference.raft import requests
from kraftspec.reference.raft.campaign import Tally
from kraftspec.reference.raft.connections import Connections
from kraftspec.reference.raft.policy import Policy
from kraftspec.reference.raft.prospective import Prospective
from kraftspec.reference.raft.state import draw_below

Kip595, Kip853, Kip996 = policy_595.DraftPolicy, policy_853.KipPolicy, policy_996.DraftPolicy


def vote_not_kept_by_a_winning_leader(plant: pytest.MonkeyPatch) -> None:
    """As in Kafka."""
    for policy in (Kip595, Kip853, Kip996):
        plant.setattr(policy, "leader_keeps_vote", False)


# ---- KIP-595 -----------------------------------------------------------------------------------


def voters_not_applied_after_the_flush(plant: pytest.MonkeyPatch) -> None:
    """They are applied at their commit alone: never, where the disk is late."""
    committed, flushed = Kip595.committed, Kip595.flushed

    def both(policy: Any, core: Any) -> None:
        committed(policy, core)
        flushed(policy, core)

    plant.setattr(Kip595, "committed", both)
    plant.setattr(Kip595, "flushed", lambda policy, core: None)


def jitter_after_the_cap(plant: pytest.MonkeyPatch) -> None:
    """A backoff is above the maximum where its jitter is."""

    def backoff_us(policy: Any, core: Any, failures: int) -> int:
        config = core.config
        doublings = min(max(failures - 1, 0), policy_595.DOUBLINGS_MAX)
        capped_us: int = min(config.retry_backoff_max_us, config.retry_backoff_us << doublings)
        jitter = policy_595.JITTER_PERMILLE
        return capped_us * (1000 - jitter + draw_below(core.random, 2 * jitter + 1)) // 1000

    plant.setattr(Kip595, "retry_backoff_us", backoff_us)


def cluster_id_not_compared(plant: pytest.MonkeyPatch) -> None:
    """A request of another cluster is served."""
    plant.setattr(Kip595, "is_of_cluster", lambda policy, core, cluster_id: True)


def removed_voter_not_told(plant: pytest.MonkeyPatch) -> None:
    """Its fetches are answered like those of any observer."""
    plant.setattr(handlers, "on_fetch", requests.on_fetch)


# ---- KIP-853 -----------------------------------------------------------------------------------


def voter_compared_after_the_epoch_is_adopted(plant: pytest.MonkeyPatch) -> None:
    """As in Kafka: a request for another replica moves this one to a higher epoch."""
    plant.setattr(policy_853, "_is_meant", lambda config, request: True)


def endpoints_left_out_of_an_observers_fetch(plant: pytest.MonkeyPatch) -> None:
    """As in Kafka: the leader does not learn where an observer listens."""
    plant.setattr(Kip853, "fetch_request", lambda policy, core: core.fetch_request())


def endpoints_of_observers_not_described(plant: pytest.MonkeyPatch) -> None:
    """DescribeQuorum leaves them out."""
    kind: Any = DraftDescription
    plant.setattr(policy_853, "DraftDescription", lambda *args: kind(*args[:4], (), args[5]))


def new_voter_not_waited_for(plant: pytest.MonkeyPatch) -> None:
    """It is added however far it is behind."""
    plant.setattr(membership.DraftMembership, "_has_caught_up", lambda changes, key: True)


def removal_loaded_from_a_snapshot(plant: pytest.MonkeyPatch) -> None:
    """A RemoveVoterRecord counts there as in the log."""
    plant.setattr(Kip853, "folded_in_snapshot", Kip853.folded)


# ---- KIP-996 -----------------------------------------------------------------------------------


def pre_vote_granted_by_a_follower(plant: pytest.MonkeyPatch) -> None:
    """As in Kafka: until it has fetched from its leader."""
    grants = Policy.follower_grants_pre_vote
    plant.setattr(Kip996, "follower_grants_pre_vote", grants)


def pre_vote_lost_without_a_majority_of_rejections(plant: pytest.MonkeyPatch) -> None:
    """As in Kafka: of four voters, two rejections are enough."""
    plant.setattr(Kip996, "refusals_to_lose", Policy.refusals_to_lose)


def last_answer_counts(plant: pytest.MonkeyPatch) -> None:
    """A request is still awaited after its answer, and a voter may change its mind."""

    def record(tally: Any, voter_id: int, granted: bool) -> None:
        (tally.refused if granted else tally.granted).pop(voter_id, None)
        (tally.granted if granted else tally.refused)[voter_id] = None

    plant.setattr(Connections, "take", lambda them, request_id: them._pending.get(request_id))
    plant.setattr(Tally, "record", record)


def older_release_asked_for_pre_votes(plant: pytest.MonkeyPatch) -> None:
    """A voter that does not know pre-votes is taken for one that does not answer."""
    plant.setattr(Prospective, "on_failed", lambda *_: False)


BUGS: dict[str, dict[Callable[[pytest.MonkeyPatch], None], list[str]]] = {
    "kip-595": {
        vote_not_kept_by_a_winning_leader: ["vote-kept-by-leader", "voters-file-when-committed"],
        voters_not_applied_after_the_flush: ["voters-file-when-flushed"],
        jitter_after_the_cap: ["retry-backoff"],
        cluster_id_not_compared: ["cluster-id-strict", "settled-cluster-id"],
        removed_voter_not_told: ["not-follower", "not-follower-restarted"],
    },
    "kip-853": {
        vote_not_kept_by_a_winning_leader: ["vote-kept-by-leader"],
        voter_compared_after_the_epoch_is_adopted: ["vote-wrong-voter", "vote-null-uuid"],
        endpoints_left_out_of_an_observers_fetch: ["add-voter-by-id"],
        endpoints_of_observers_not_described: ["add-voter-by-id", "static-uuids"],
        new_voter_not_waited_for: ["add-voter", "add-voter-times-out"],
        removal_loaded_from_a_snapshot: ["snapshot-removal"],
    },
    "kip-996": {
        vote_not_kept_by_a_winning_leader: ["vote-kept-by-leader"],
        pre_vote_granted_by_a_follower: ["follower-refuses", "anothers-word"],
        pre_vote_lost_without_a_majority_of_rejections: ["prospective-even"],
        last_answer_counts: ["prospective-first-answer"],
        older_release_asked_for_pre_votes: ["unsupported"],
    },
}


@pytest.mark.parametrize(
    ("bug", "transcript"),
    [
        pytest.param(bug, f"{draft}/{name}", id=f"{bug.__name__}-{draft}/{name}")
        for draft, bugs in BUGS.items()
        for bug, names in bugs.items()
        for name in names
    ],
)
def test_expectations_notice_a_planted_bug(
    bug: Callable[[pytest.MonkeyPatch], None], transcript: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (DIRECTORY / f"{transcript}.txt").read_text("utf-8")
    bug(monkeypatch)
    with pytest.raises(script.UnexpectedError):
        script.play(text)

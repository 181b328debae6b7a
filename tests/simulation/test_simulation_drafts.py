"""Every draft simulated: its properties hold, and a rule switched off shows the flaw it is for."""

from __future__ import annotations

import pytest

from kraftspec.reference.profiles import PROFILE_NAMES, profile_named
from kraftspec.simulation.run import simulate

# Profile → events with faults, and properties that are its own.
DRAFTS = {
    "kip-595": (2_000, {"reassignment_finishes", "non_voters_rarely_disrupt"}),
    "kip-853": (1_500, {"removed_voter_stops"}),
    "kip-996": (1_500, {"majority_elects", "no_election_against_live_leader"}),
}
# Fix → the property that breaks without it, a seed that shows it, and its events with faults.
FLAWS = {
    ("kip-595", "own-epoch-commit"): ("one_voter_change", 3, 2_000),
    ("kip-595", "one-first-quorum"): ("single_leader", 557, 2_000),
    ("kip-595", "deaf-to-strangers"): ("non_voters_rarely_disrupt", 109, 2_000),
    ("kip-595", "strangers-in-need"): ("leader_elected", 133, 2_000),
    ("kip-595", "caught-up-first"): ("new_voter_is_caught_up", 4, 2_000),
    ("kip-595", "settled-cluster-id"): ("no_fatal_error", 96, 2_000),
    ("kip-595", "check-quorum"): ("leader_hears_majority", 65, 2_000),
    ("kip-595", "leader-stays"): ("leadership_stays", 40_367, 400),
    ("kip-853", "own-epoch-first"): ("one_voter_change", 36, 3_000),
    ("kip-853", "removed-before-replaced"): ("one_voter_change", 113, 2_000),
    ("kip-853", "removed-when-committed"): ("leader_elected", 16, 3_000),
    ("kip-853", "voter-uuid"): ("majority_holds_high_watermark", 107, 2_500),
    ("kip-853", "loser-steps-down"): ("removed_voter_stops", 23, 8_000),
    ("kip-853", "check-quorum"): ("leader_hears_majority", 27, 3_000),
    ("kip-996", "pre-vote"): ("leader_completeness", 87, 3_000),
    ("kip-996", "pre-votes-alone"): ("pre_votes_come_first", 15, 3_000),
    ("kip-996", "check-quorum"): ("leader_hears_majority", 27, 3_000),
    ("kip-996", "leader-refuses"): ("no_vote_against_live_leader", 11, 3_000),
    ("kip-996", "own-word"): ("majority_elects", 11, 200),
    ("kip-996", "epoch-first"): ("higher_epoch_is_adopted", 10, 1_500),
}
SLOW = {
    ("kip-595", "leader-stays"),
    ("kip-853", "removed-when-committed"),
    ("kip-853", "loser-steps-down"),
    ("kip-996", "own-word"),
}
# No seed shows these; of kip-595, `test_simulation_kip_595` has what there is to see of them.
WITHOUT_A_SEED = {
    ("kafka", "removed-when-committed"),  # `test_the_gridlock_of_two_voters`: a rash operator.
    ("kip-595", "ask-back"),
    ("kip-595", "bump-when-lost"),
}


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(first, marks=pytest.mark.soak) for first in range(5, 20, 5))]
)
@pytest.mark.parametrize("name", DRAFTS)
def test_every_property_holds(name: str, first: int) -> None:
    events, properties = DRAFTS[name]
    for seed in range(first, first + 5):
        result = simulate(seed, profile_named(name), events=events)
        assert result.violation is None, f"seed {seed}: {result.violation}"
        assert result.events >= events
        assert properties <= {*result.properties}
        assert result.acknowledged > 0


def test_every_fix_has_a_flaw_that_is_shown() -> None:
    fixes = {(name, fix) for name in PROFILE_NAMES for fix in profile_named(name).fixes}
    assert fixes == {*FLAWS} | WITHOUT_A_SEED


@pytest.mark.parametrize(
    ("name", "fix"),
    [pytest.param(*one, marks=[pytest.mark.soak] if one in SLOW else []) for one in FLAWS],
)
def test_a_flaw_shows_without_its_fix_and_not_with_it(name: str, fix: str) -> None:
    broken, seed, events = FLAWS[name, fix]
    result = simulate(seed, profile_named(name, without=(fix,)), events=events)
    assert result.violation is not None
    assert result.violation[0] == broken
    assert simulate(seed, profile_named(name), events=events).violation is None

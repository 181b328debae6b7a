"""Nodes of the drafts among peers that the test plays.

Every fix of a draft, switched off by ``--without``, changes what a live node does.

A scene returns whether the fix was seen to hold. Where a fix shows only under a fault, the peers of
the node, which are the test's, bring it about.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.reference.node import scenes_595, scenes_853, scenes_996
from tests.reference.node.scripted import LONG_MS, Stage, start_static

from kraftspec.reference.profiles import KAFKA, PROFILE_NAMES, parts_of

SCENES = {
    (profile, fix): scene
    for profile, module in (
        ("kip-595", scenes_595),
        ("kip-853", scenes_853),
        ("kip-996", scenes_996),
    )
    for fix, scene in module.SCENES.items()
}


def test_every_fix_has_a_scene() -> None:
    # Of Kafka's profile: `test_two_of_our_nodes_elect_a_leader_that_was_removed`.
    drafts = [(name, parts_of(name).profile) for name in PROFILE_NAMES if name != KAFKA]
    assert {*SCENES} == {(name, fix) for name, draft in drafts for fix in draft.fixes}


@pytest.mark.soak
@pytest.mark.parametrize("holds", [True, False], ids=["with", "without"])
@pytest.mark.parametrize(("profile", "fix"), SCENES)
def test_a_fix_that_is_off_changes_a_live_node(
    tmp_path: Path, profile: str, fix: str, holds: bool
) -> None:
    with Stage(tmp_path, profile, *(() if holds else ("--without", fix))) as stage:
        assert SCENES[profile, fix](stage) is holds


@pytest.mark.soak
def test_of_four_voters_three_rejections_are_a_majority(tmp_path: Path) -> None:
    """Two reject a pre-vote of kip-996, and one breaks off: it is asked for the whole time-out."""
    with Stage(tmp_path, "kip-996") as stage:
        stage.rules["Vote"] = lambda peer, body: (
            None if peer == 9 else stage.message("VoteResponse", leader_id=-1, pre_vote=True)
        )
        election = {
            "controller__quorum__election__timeout__ms": 3000,
            "controller__quorum__request__timeout__ms": LONG_MS,
        }
        start_static(stage, others=(2, 3, 9), **election)
        stage.wait("Vote", 2)
        votes = [one.to for one in list(stage.sent) if one.api == "Vote"]
    first, second = [at for at, peer in enumerate(votes) if peer == 2][:2]
    assert votes[first:second].count(9) >= 5

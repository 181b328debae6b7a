"""Golden transcripts: what the reference node does, as a person can read it.

``pytest tests/reference/test_transcripts.py --rewrite`` writes the outputs anew; the expectations
in a transcript are held all the same, so that a rewrite blesses nothing that they forbid.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.reference.transcripts import cluster, script

from kraftspec.simulation.catalogue import planted

ROOT = Path(__file__).resolve().parents[2]
DIRECTORY = ROOT / "tests" / "transcripts"
# Those of another profile than kafka are in a directory of its name.
TRANSCRIPTS = sorted(DIRECTORY.rglob("*.txt"))


def name_of(path: Path) -> str:
    """Return ``vote-once-an-epoch``, or ``kip-996/scenario-a``."""
    return path.relative_to(DIRECTORY).with_suffix("").as_posix()


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=name_of)
def test_transcript(path: Path, request: pytest.FixtureRequest) -> None:
    text = path.read_text("utf-8")
    assert not script.faults(text)
    try:
        now = script.play(text)
    except (script.UnexpectedError, cluster.ScriptError) as error:
        pytest.fail(f"{path.name}, {error}", pytrace=False)
    if now == text:
        return
    if request.config.getoption("--rewrite"):
        path.write_text(now, "utf-8")
        return
    pytest.fail(
        f"{path.name} no longer says what the node does:\n{script.difference(path, text, now)}\n"
        "If that is how it should be: pytest tests/reference/test_transcripts.py --rewrite",
        pytrace=False,
    )


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=name_of)
def test_a_transcript_is_where_its_profile_says(path: Path) -> None:
    commands = [line.split() for line in path.read_text("utf-8").splitlines() if line[:1].isalpha()]
    profile = commands[0][1] if commands[0][0] == "profile" else "kafka"
    assert profile == (path.parent.name if path.parent != DIRECTORY else "kafka")
    assert "profile" not in [words[0] for words in commands[1:]]


def test_there_are_transcripts() -> None:
    assert len(TRANSCRIPTS) >= 80


def test_what_must_not_come_out_is_something_that_can() -> None:
    """A ``not`` of a word that no transcript ever says would be met by a slip of the pen."""
    output = {
        word
        for path in TRANSCRIPTS
        for line in path.read_text("utf-8").splitlines()
        if line.startswith(script.INDENT)
        for word in line.split()
    }
    forbidden = {
        word
        for path in TRANSCRIPTS
        for line in path.read_text("utf-8").splitlines()
        if line.startswith(f"{script.EXPECT}not ")
        for word in line.removeprefix(f"{script.EXPECT}not ").split()
    }
    assert forbidden
    unheard = {w for w in forbidden if not any(script.is_word(w, other) for other in output)}
    assert not unheard


@pytest.mark.parametrize("command", ["quiet start", "brief start"])
def test_an_expectation_that_cannot_fail_is_refused(command: str) -> None:
    with pytest.raises(cluster.ScriptError, match="cannot fail"):
        script.play(f"quorum 1\n# expect: not Fetch\n{command}\n")


@pytest.mark.parametrize(
    ("bug", "transcript"),
    [
        ("compares_lengths_alone", "vote-log-not-up-to-date"),
        ("pre_vote_is_stored", "vote-log-not-up-to-date"),
        ("votes_for_old_disks", "vote-wrong-voter-key"),
        ("leads_again_after_a_restart", "start-led"),
        ("counts_old_epochs", "watermark-own-epoch-first"),
        ("counts_other_disks", "watermark-directory"),
        ("leader_counts_itself_at_once", "watermark-leader-not-flushed"),
        ("fetches_before_it_syncs", "follower-flushes-first"),
        ("truncates_what_is_committed", "truncate-below-watermark"),
    ],
)
def test_expectations_notice_a_planted_bug(bug: str, transcript: str) -> None:
    text = (DIRECTORY / f"{transcript}.txt").read_text("utf-8")
    with planted(bug), pytest.raises(script.UnexpectedError):
        script.play(text)


def test_an_expectation_that_is_not_met_stops_a_transcript() -> None:
    text = "quorum 1\n# expect: 1 role unattached -> leader\nstart\n"
    with pytest.raises(script.UnexpectedError, match="line 3: start"):
        script.play(text)


@pytest.mark.parametrize(
    ("expectation", "is_met"),
    [
        ("role follower", True),
        ("1 epoch=5", True),
        ("epoch=5 1", False),
        ("role lead", False),
        ("not role leader", True),
        ("not epoch=5", False),
        ("not epoch=", False),
        ("not epoch", True),
        ("nothing", False),
    ],
)
def test_expectations(expectation: str, is_met: bool) -> None:
    output = ["1 role follower epoch=5", "1 persist epoch=5"]
    assert (script.check([expectation], output) is None) == is_met


def test_expectations_are_met_in_order() -> None:
    output = ["1 persist epoch=5", "1->2 v2 Vote epoch=5"]
    assert script.check(["persist", "Vote"], output) is None
    assert script.check(["Vote", "persist"], output) == "persist"


def test_a_transcript_that_changed_is_shown_line_by_line() -> None:
    text = "quorum 1\nstart\n"
    now = script.play(text)
    changed = now.replace("leader-id=1", "leader-id=2")
    assert script.play(changed) == now != changed
    shown = script.difference(DIRECTORY / "some.txt", changed, now)
    assert "-  " in shown
    assert "+  " in shown


def test_each_command_is_described() -> None:
    page = (ROOT / "docs" / "transcripts.md").read_text("utf-8")
    for name, described in cluster.commands():
        assert described.startswith(f"{name}")
        assert f"`{name} " in page or f"`{name}`" in page, name

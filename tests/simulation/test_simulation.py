"""The simulator: runs that hold, bugs that it finds, traces made small, the same run every time."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from kraftspec.cli import main
from kraftspec.reference.log.epochs import EpochEntry
from kraftspec.reference.profiles.kafka.profile import AS_KAFKA, KafkaProfile
from kraftspec.reference.raft import requests
from kraftspec.simulation import operators
from kraftspec.simulation import world as kinds
from kraftspec.simulation.catalogue import all_bugs, planted
from kraftspec.simulation.catalogue.measure import search, shrink
from kraftspec.simulation.committed_log import Violation
from kraftspec.simulation.diagram import draw
from kraftspec.simulation.invariants import OTHERS, snapshot_at_log_start
from kraftspec.simulation.invariants.base import Invariant
from kraftspec.simulation.invariants.synced_before_vote import SyncedBeforeVote
from kraftspec.simulation.minimise import minimise, record
from kraftspec.simulation.replay import Replay
from kraftspec.simulation.rules import INVARIANTS, LIVENESS
from kraftspec.simulation.run import simulate, swarm_of
from kraftspec.simulation.schedule import Schedule
from kraftspec.simulation.trace_text import event_text, trace_events
from kraftspec.simulation.world import Decision

PROFILE = KafkaProfile()
SHORT = 1_500
MINIMISED_MAX = 50
RUNS_WITH_A_FAULT_MIN = 3  # Of 300: the rarest is met by as many, most by dozens.

# Seeds that once broke something in a node.
REGRESSIONS = {
    261: "a new voter that took itself for an observer refused pre-votes for ever",
    900: "who had stored its leader's id, and had no log that says where it is, never followed it",
    1804: "a leader that removed itself, and got a time-out, led on for good",
}


@pytest.mark.parametrize(
    "first", [0, 5, *(pytest.param(first, marks=pytest.mark.soak) for first in range(10, 30, 5))]
)
def test_every_property_holds(first: int) -> None:
    """Five seeds; `make simulate` runs thousands."""
    for seed in range(first, first + 5):
        result = simulate(seed, PROFILE, events=SHORT)
        assert result.violation is None, f"seed {seed}: {result.violation}"
        assert result.events >= SHORT


@pytest.mark.soak
def test_the_runs_are_worth_something() -> None:
    """Appends are acknowledged, leaders change, and most kinds of fault are met."""
    results = [simulate(seed, PROFILE, events=SHORT) for seed in range(100, 112)]
    faults = {name for result in results for name in result.faults}
    assert sum(result.acknowledged for result in results) > 500
    assert sum(result.epochs for result in results) > 25
    assert {
        "loss",
        "clog",
        "power loss",
        "kill",
        "AddRaftVoter",
        "duplicate",
        "bit corruption",
    } <= faults


def test_logs_write_zeros_ahead() -> None:
    """Three seeds in four, as their swarm says."""
    drawn = Counter(swarm_of(seed, PROFILE).zero_ahead_bytes for seed in range(100))
    assert set(drawn) == {0, 700, 1 << 12, 40_000}
    assert min(drawn.values()) > 10
    for seed in range(4):
        swarm = swarm_of(seed, PROFILE)
        world = Schedule(seed, swarm, PROFILE).world
        assert world.log_config.zero_ahead_bytes == swarm.zero_ahead_bytes


# What the network, the machines and the disks do to a quorum. Two thirds are drawn as such, the
# rest comes about by them: a reply is stale because a node restarted, a write torn by a power loss.
FAULTS = {
    *("loss", "duplicate", "straggler", "reorder", "late reply", "reply to an earlier incarnation"),
    *(
        "partition around a node",
        "partition around a node, one way",
        "partition of a link, one way",
    ),
    *(
        "partition in two parts",
        "partition in two parts, one way",
        "clog",
        "lost replies",
        "isolated node",
    ),
    *("kill", "power loss", "power loss between effects", "power loss in an election", "restart"),
    *("gridlock", "pause", "shutdown", "resignation", "clock jump", "clock drift", "older version"),
    *("slow disk", "stopped by a full disk", "stopped by its disk", "bit corruption", "wiped disk"),
    *(
        f"targeted power loss: {window}"
        for window in ("leader", "follower", "operation of a disk", "recovery", "blackout")
    ),
    *(
        "lost write",
        "torn write",
        "AddRaftVoter",
        "RemoveRaftVoter",
        "upgrade requested",
        *("repeated AddVoter", "repeated RemoveVoter", "leader removed"),
    ),
}


@pytest.mark.soak
def test_each_fault_is_met() -> None:
    met: Counter[str] = Counter()
    for seed in range(300):
        schedule = Schedule(seed, swarm_of(seed, PROFILE), PROFILE)
        schedule.run(1_000)
        met.update(schedule.met.keys())
    assert not {name for name in FAULTS if met[name] < RUNS_WITH_A_FAULT_MIN}


@pytest.mark.parametrize(
    ("seed", "window"), [(48, "voter"), (142, "voter"), (233, "voter set"), (756, "snapshot")]
)
def test_a_window_that_is_seldom_open_is_met(seed: int, window: str) -> None:
    """Not a candidate's: it is open only with ``asks_before_its_log_is_durable`` planted."""
    schedule = Schedule(seed, swarm_of(seed, PROFILE), PROFILE)
    schedule.run(700)
    assert schedule.met[f"targeted power loss: {window}"]


@pytest.mark.parametrize("seed", REGRESSIONS)
def test_what_was_broken_once(seed: int) -> None:
    assert simulate(seed, PROFILE, events=2_000).violation is None


@pytest.mark.soak
def test_a_node_whose_power_goes_late_is_started_again() -> None:
    """All were down for good, and the run did not end."""
    assert simulate(8515, PROFILE, events=8_000).violation is None


@pytest.mark.soak
def test_an_observer_may_grant_a_pre_vote_once_its_leader_resigns() -> None:
    """The property took the leader, which had said that it resigns, for a live one."""
    assert simulate(66, PROFILE, events=8_000).violation is None


def test_a_sole_voter_may_win_in_the_step_in_which_it_answers_a_pre_vote() -> None:
    """Its timer was due, too; the property took that for a consequence of the pre-vote."""
    assert simulate(77629, PROFILE, events=3_100).violation is None


def test_a_candidate_has_on_its_disk_what_it_was_voted_for() -> None:
    """One was voted for with a log that a power loss then took, and led without what it lacked."""
    assert simulate(9210, PROFILE, events=8_000).violation is None


def test_a_targeted_power_loss_finds_a_candidate_that_asks_too_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same mistake, planted again; random cuts took 74 million events to meet what it does."""
    assert swarm_of(1712, PROFILE).targeted_power_period_us
    monkeypatch.setattr(SyncedBeforeVote, "vote_requested", Invariant.vote_requested)
    with planted("asks_before_its_log_is_durable"):
        result = simulate(1712, PROFILE, events=2_000)
    assert result.violation is not None
    assert result.violation[0] == "leader_completeness"
    assert simulate(1712, PROFILE, events=2_000).violation is None


def test_a_cut_that_the_power_ends_may_have_cut_nothing() -> None:
    """A property took the voter set for gone when its record was about to be cut."""
    assert simulate(7230, PROFILE, events=8_000).violation is None


def test_the_gridlock_of_two_voters(monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/findings/kraft-gridlock.md: nobody can be elected, and nothing is broken."""
    monkeypatch.setattr(operators.Operator, "others_elect", lambda *_: True)
    schedule, violation = record(18_653, KafkaProfile(without=AS_KAFKA), events=1_500)
    assert violation is not None
    assert violation.name == "leader_elected"
    other, removed = schedule.world.replicas.values()
    assert other.is_up
    assert removed.is_up
    assert other.core.log.voters.last.ids == (0, 1)
    assert removed.core.log.voters.last.ids == (0,)
    assert removed.log_model.end_offset > other.log_model.end_offset
    assert record(18_653, PROFILE, events=1_500)[1] is None


# ---- the same seed, the same run ---------------------------------------------------------------

TRACES = """
from kraftspec.simulation.rules import INVARIANTS, LIVENESS
from kraftspec.simulation.run import simulate
from kraftspec.reference.profiles.kafka.profile import KafkaProfile
print(*(simulate(seed, KafkaProfile(), events=700).trace_hash for seed in (3, 20, 31)))
"""


def traces(**env: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", TRACES],
        capture_output=True, text=True, check=True, env={**os.environ, **env},
    )  # fmt: skip
    return done.stdout


@pytest.mark.soak
def test_a_seed_is_the_same_run_in_any_process_and_with_either_codec() -> None:
    here = [simulate(seed, PROFILE, events=700).trace_hash for seed in (3, 20, 31)]
    assert here == [simulate(seed, PROFILE, events=700).trace_hash for seed in (3, 20, 31)]
    assert len({*here}) == len(here)
    assert traces(PYTHONHASHSEED="1").split() == here
    assert traces(PYTHONHASHSEED="2", KRAFTSPEC_PURE="1").split() == here


def test_a_seed_is_the_same_run_on_any_machine(request: pytest.FixtureRequest) -> None:
    """As it was written down, whatever machine and version of Python that was.

    A core, a log or a simulator that does something else has other hashes: then ``--rewrite`` them,
    if it should.
    """
    path = Path(__file__).with_name("simulated-traces.json")
    kept = json.loads(path.read_text("utf-8"))
    now = {seed: simulate(int(seed), PROFILE, events=700).trace_hash for seed in kept}
    if now != kept and request.config.getoption("--rewrite"):
        path.write_text(json.dumps(now, indent=2) + "\n", "utf-8")
        return
    assert now == kept


@pytest.mark.parametrize("seed", [3, 4, 11, 27])
def test_a_recorded_run_can_be_run_again(seed: int) -> None:
    """Decision by decision, to the same logs and the same hash."""
    schedule, violation = record(seed, PROFILE, events=700)
    assert violation is None
    decisions = schedule.world.decisions
    assert decisions is not None
    replay = Replay(seed, schedule.swarm, PROFILE)
    assert replay.run(decisions) is None
    assert replay.applied == decisions
    for id, replica in schedule.world.replicas.items():
        assert replay.world.replicas[id].log_model.chains == replica.log_model.chains
        assert replay.world.replicas[id].epoch == replica.epoch


def test_a_decision_in_which_the_power_goes_has_been_carried_out() -> None:
    replay = Replay(3, swarm_of(3, PROFILE), PROFILE)
    decisions = [
        Decision(kinds.START, 0, 0, (1,)),
        Decision(kinds.BOUNDARY, 0, 0, (0, 1)),
        Decision(kinds.JUMP, 0, 0, (60_000_000,)),  # Its election time-out is over.
    ]
    assert replay.run(decisions) is None
    assert not replay.world.replicas[0].is_up
    assert replay.applied == decisions


# ---- seeded bugs -------------------------------------------------------------------------------

# What is found within a second or two; `make simulate-catalogue` looks for all of them.
QUICK = {
    "forgets_the_vote": "one_vote",
    "asks_before_it_stores": "one_vote",
    "pre_vote_is_stored": "pre_vote_changes_nothing",
    "votes_for_any_log": "leader_completeness",
    "high_watermark_beyond_the_log": "committed_bytes",
    "half_is_a_majority": "majority_holds_high_watermark",
    "acknowledges_at_once": "acknowledged_stays",
    "fetches_before_it_syncs": "synced_before_fetch",
    "tells_wrong_offsets": "log_matching",
    "truncates_too_much": "no_truncation_of_committed",
    "applies_voters_on_commit": "voters_follow_log",
    "leads_again_after_a_restart": "single_leader",
    "loads_its_own_snapshot": "leader_loads_no_snapshot",
    "names_snapshots_by_todays_epoch": "snapshot_at_log_start",
}


@pytest.mark.soak
@pytest.mark.parametrize("bug", QUICK)
def test_a_seeded_bug_is_found_and_made_small(bug: str) -> None:
    result = search(bug, PROFILE, seconds_max=60)
    assert result.violation is not None
    assert result.violation[0] == QUICK[bug]
    minimal = shrink(result, PROFILE)
    assert minimal is not None
    assert len(minimal.decisions) <= MINIMISED_MAX
    with planted(bug):
        violation = Replay(minimal.seed, minimal.swarm, PROFILE).run(minimal.decisions)
    assert violation is not None
    assert violation.name == QUICK[bug]


@pytest.mark.parametrize(
    "bug", ["asks_again_at_once", "does_not_let_its_leader_wait", "begins_no_new_period"]
)
def test_a_node_that_spins_is_found(bug: str) -> None:
    """Within the second in which it does, and not by the cap of a run's events."""
    result = search(bug, PROFILE, seconds_max=60)
    assert result.violation is not None
    assert result.violation[0] == "no_spin"


@pytest.mark.soak
def test_an_answer_to_an_old_tool_that_lacks_something_is_found() -> None:
    """DescribeQuorum is asked at all versions."""
    result = search("tells_old_tools_less", PROFILE, seconds_max=60)
    assert result.violation is not None
    assert result.violation[0] == "description_is_true"
    assert "asked at version 0" in result.violation[1]


def test_an_epoch_cache_that_is_wrong_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the batches and the names of snapshots agree, and the cache alone does not."""
    schedule = Schedule(39, swarm_of(39, PROFILE), PROFILE)
    schedule.run(SHORT)
    look = snapshot_at_log_start.INVARIANT().log_start_changed
    having = [
        replica
        for replica in schedule.world.running()
        if any(0 < one.end_offset > replica.log_model.start_offset for one in replica.snapshots[:1])
    ]
    assert having
    for replica in having:
        look(replica)
    later = [EpochEntry(entry.epoch + 1, entry.start_offset) for entry in having[0].cached_epochs]
    monkeypatch.setattr(type(having[0]), "cached_epochs", later)
    with pytest.raises(Violation, match="the cache has"):
        look(having[0])


def test_a_bug_is_gone_when_it_is_dug_out() -> None:
    before = requests._grant
    with planted("forgets_the_vote"):
        assert requests._grant is not before
        assert simulate(0, PROFILE, events=500).violation is not None
    assert requests._grant is before
    assert simulate(0, PROFILE, events=500).violation is None


@pytest.mark.parametrize("bug", all_bugs())
def test_every_bug_can_be_planted(bug: str) -> None:
    """And fits the core as it is: one that breaks it by its own signature would be found, too."""
    with planted(bug):
        result = simulate(0, PROFILE, events=700)
    assert result.events > 0
    assert "TypeError" not in str(result.violation)


def test_the_catalogue_is_as_large_as_it_says_and_in_the_docs() -> None:
    bugs = all_bugs()
    assert len(bugs) >= 50
    page = (Path(__file__).parents[2] / "docs" / "simulation.md").read_text("utf-8")
    for bug in bugs.values():
        assert bug.sentence.endswith((".", ")."))
        assert f"| `{bug.name}` | {bug.sentence} |" in page
    for name in (*INVARIANTS, *OTHERS, *LIVENESS):
        assert f"`{name}`" in page


def test_a_trace_in_words_and_as_a_picture() -> None:
    with planted("votes_twice"):
        minimal = minimise(28, PROFILE, events=2_000)
        assert minimal is not None
        events, violation = trace_events(minimal.seed, minimal.swarm, PROFILE, minimal.decisions)
    assert str(violation).startswith("one_vote: ")
    lines = [event_text(event) for event in events]
    assert len(lines) == len(minimal.decisions)
    assert any("receives Vote(" in line and "voted for" in line for line in lines)
    for event in events:
        assert event.sent_by < event.index
    root = ET.fromstring(draw(events, "a title & more", str(violation)))
    dots = root.findall("{http://www.w3.org/2000/svg}circle")
    assert len(dots) == len(events)


@pytest.mark.parametrize(
    ("seed", "told"),
    [
        (7, r"its disk fails, sync (of the directory )?\S+"),
        (5, r"goes down, without power → .*tears \d+\.log"),
        (48, r"loses its power before write of \d+ bytes to \S+"),
        (76, "loses its power before rename quorum-state.tmp"),
        (20, r"loses the names \d+\.index"),
    ],
)
def test_a_trace_tells_what_a_disk_did(seed: int, told: str) -> None:
    """Which file, in which operation, and what a power loss took."""
    schedule, _ = record(seed, PROFILE, events=1_200)
    events, _ = trace_events(seed, schedule.swarm, PROFILE, schedule.world.decisions or [])
    assert any(re.search(told, event_text(event)) for event in events)


# ---- the command -------------------------------------------------------------------------------


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, ["simulate", *arguments])
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.soak
def test_a_breach_of_liveness_has_a_small_trace() -> None:
    """What is left of the decisions, and after them nothing fails."""
    with planted("stands_still_without_answers"):
        minimal = minimise(0, PROFILE, events=2_000)
        assert minimal is not None
        assert minimal.is_liveness
        assert minimal.violation[0] == "replicas_catch_up"
        assert len(minimal.decisions) <= MINIMISED_MAX
        replay = Replay(minimal.seed, minimal.swarm, PROFILE)
        assert replay.run(minimal.decisions) is None
    code, out, _ = run(
        *("--seed", "0", "--events", "2000", "--bug", "stands_still_without_answers"),
        *("--svg", os.devnull),
    )
    assert code == 1
    assert "After this nothing fails." in out


def test_the_command_as_json() -> None:
    code, out, _ = run("--seed", "5", "--events", "500", "--json")
    value = json.loads(out)
    assert code == 0
    assert {"seed", "events", "eventsPerSecond", "traceHash", "invariants", "faults"} <= {*value}
    assert value["seed"] == 5
    assert set(value["invariants"].values()) == {"held"}
    code, out, _ = run("--seeds", "5..6", "--events", "500", "--json", "--nodes", "3")
    assert code == 0
    assert [one["seed"] for one in json.loads(out)] == [5, 6]


def test_a_failure_prints_its_seed_its_trace_and_its_diagram(tmp_path: Path) -> None:
    svg = tmp_path / "trace.svg"
    code, out, err = run(
        "--seeds", "0..9", "--events", "500", "--bug", "forgets_the_vote", "--svg", str(svg)
    )
    assert code == 1
    assert "Seed 0 breaks one_vote" in out
    assert "receives Vote(" in out
    assert str(svg) in err
    ET.parse(svg)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give one of --seed N and --seeds A..B"),
        (["--seed", "1", "--seeds", "1..2"], "give one of"),
        (["--seeds", "2..1"], "is not A..B"),
        (["--seeds", "x"], "is not A..B"),
        (["--seed", "1", "--bug", "none"], "there is no bug 'none'"),
        (["--seed", "1", "--nodes", "9"], "--nodes"),
        (["--seed", "1", "--profile", "zab"], "--profile"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str) -> None:
    code, _, err = run(*arguments)
    assert code == 2
    assert message in err

"""Runs held against the model: ours are explained, those with a seeded bug are not."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from kraftspec.cli.simulate import simulate
from kraftspec.model.traces import Batch, Trace, TracedStep, Verdict, check, words
from kraftspec.pipeline.campaign.model_check import ModelChecks
from kraftspec.reference.profiles import profile_named
from kraftspec.simulation.catalogue import planted
from kraftspec.simulation.harness.cores import Core
from kraftspec.simulation.model_trace import record

# Seeded bugs, and a seed each whose run the model does not explain. No property is judged.
BUGS = {
    "does_not_open_its_epoch": 1,
    "wins_with_half": 1,
}


# Rules of profile kip-853, and seeds whose runs the model does not explain without them.
LACKING = (
    ("removed-before-replaced", 232, 400),
    ("voter-uuid", 232, 320),
    ("loser-steps-down", 7, 520),
    ("own-epoch-first", 157, 1_290),
)

# Seeds that soon have a leader: changes of voters, static voters, a snapshot in place of a log.
SEEDS = (1, 3, 6, 8, 10)


def runs(
    seeds: Sequence[int],
    events: int,
    *cores: Core,
    profile_name: str = "kafka",
    without: Sequence[str] = (),
) -> list[Trace]:
    profile = profile_named(profile_name, without=without)
    return [record(seed, profile, events=events, cores=cores).trace for seed in seeds]


def has_all_that_is_told(traces: Sequence[Trace]) -> bool:
    """Whether elections, appends, new voters and snapshots are in these runs."""
    steps = [step for trace in traces for step in trace.steps]
    return (
        {trace.is_dynamic for trace in traces} == {True, False}
        and all(any(step.role == "leader" for step in trace.steps) for trace in traces)
        and any(len(step.new) and step.new[0].voters for step in steps if step.role == "leader")
        and any(step.snapshot for step in steps)
        and any(step.loads for step in steps)
    )


def trace(*steps: TracedStep) -> Trace:
    constants = {"PreVote": '"kafka"'}
    return Trace(voters=[0, 1, 2], observers=[], own=[], constants=constants, steps=[*steps])


@pytest.mark.kafka
@pytest.mark.soak
def test_runs_are_explained() -> None:
    traces = runs(SEEDS, 600)
    assert has_all_that_is_told(traces)
    assert [one.stuck_at for one in check(traces, heap_mib=1024)] == [None] * len(SEEDS)


@pytest.mark.kafka
@pytest.mark.soak
def test_runs_of_kafka_are_explained() -> None:
    traces = runs(SEEDS, 700, Core("kafka:4.4.0"))
    assert has_all_that_is_told(traces)
    assert [one.stuck_at for one in check(traces, heap_mib=1024)] == [None] * len(SEEDS)


@pytest.mark.kafka
@pytest.mark.soak
def test_where_our_nodes_and_kafkas_differ() -> None:
    """A rule that one of them has explains no run of the other."""
    # A node is an observer by its log, and its leader silent: it grants a pre-vote.
    (lax,) = runs([992], 800)
    # Node 3 of Kafka's leads no more, and lets a Fetch that waits time out.
    (late,) = runs([437], 240, Core("kafka:4.4.0"))
    as_kafkas, as_ours = replace(lax, own=[]), replace(late, own=range(5))
    ours, kafkas, strict, early = check([lax, late, as_kafkas, as_ours], heap_mib=512)
    assert (ours.stuck_at, kafkas.stuck_at) == (None, None)
    assert strict.stuck_at is not None
    assert early.stuck_at is not None
    (vote,) = strict.unexplained_sends
    assert as_kafkas.steps[strict.stuck_at].sends[vote]["kind"] == "granted"
    (answer,) = early.unexplained_sends
    assert as_ours.steps[early.stuck_at].sends[answer]["kind"] == "records"


@pytest.mark.kafka
@pytest.mark.soak
def test_runs_of_the_draft_of_pre_votes() -> None:
    """Its Prospective asks again when it has lost; Kafka's goes back to the leader that it knew."""
    (draft,) = runs([1], 600, profile_name="kip-996")
    (kafkas,) = runs([10], 400)
    assert any(step.loads for step in draft.steps)
    assert "prospective" in {step.role for step in draft.steps}
    as_drafts = replace(kafkas, constants=draft.constants)
    explained, other, lost = check([draft, kafkas, as_drafts], heap_mib=512)
    assert (explained.stuck_at, other.stuck_at) == (None, None)
    assert lost.stuck_at is not None
    assert lost.before["role"] == "prospective"
    assert as_drafts.steps[lost.stuck_at].role == "follower"


@pytest.mark.kafka
@pytest.mark.soak
def test_runs_of_the_draft_of_reassignment() -> None:
    """Nodes that were told other voters, or none; targets, and moves; a voter that is dismissed."""
    drafts = runs([23, 27, 53], 1_000, profile_name="kip-595")
    with planted("applies_voters_on_commit"):
        (bugged,) = runs([27], 150, profile_name="kip-595")
    steps = [step for trace in drafts for step in trace.steps]
    sent = {message["kind"] for step in steps for message in step.sends}
    assert {"find", "dismissal"} <= sent
    assert len({step.first for step in drafts[0].steps if step.is_shown}) > 2
    assert any(change[0] == "alter" for step in steps for change in step.confirms)
    moves = {batch.voters ^ batch.targets for step in steps for batch in step.new if batch.targets}
    assert len(moves) > 2
    assert any(not step.is_voter and step.node in {key[0] for key in step.voters} for step in steps
               if step.is_shown)  # fmt: skip
    *explained, acts_late = check([*drafts, bugged], heap_mib=1024)
    assert [one.stuck_at for one in explained] == [None] * len(drafts)
    assert acts_late.stuck_at is not None
    late = bugged.steps[acts_late.stuck_at]
    as_long = [one for one in acts_late.allowed if one["end"] == late.keep + len(late.new)]
    assert as_long
    assert late.voters not in [one["voters"] for one in as_long]


@pytest.mark.kafka
@pytest.mark.soak
def test_runs_of_the_draft_of_voter_records() -> None:
    """Its log names the first voters, static voters get names, and others come and go."""
    draft = [
        run
        for seed, events in ((11, 1_000), (232, 900))
        for run in runs([seed], events, profile_name="kip-853")
    ]
    changes = [{change[0] for step in trace.steps for change in step.confirms} for trace in draft]
    assert [trace.is_dynamic for trace in draft] == [False, True]
    assert changes == [{"add"}, {"add", "remove"}]
    assert [one.stuck_at for one in check(draft, heap_mib=512)] == [None, None]


@pytest.mark.kafka
@pytest.mark.soak
def test_flaws_of_the_draft_of_reassignment_are_not_explained() -> None:
    """The same seeds, with the fixes, are."""
    seeds = {
        "own-epoch-commit": (70, 300),
        "caught-up-first": (60, 350),
        "bump-when-lost": (0, 300),
    }
    flawed, fixed = (
        [
            run
            for fix, (seed, events) in seeds.items()
            for run in runs([seed], events, profile_name="kip-595", without=(fix,)[:count])
        ]
        for count in (1, 0)
    )
    verdicts = check([*flawed, *fixed], heap_mib=1024)
    assert [one.stuck_at for one in verdicts[3:]] == [None] * 3
    stuck = []
    for run, verdict in zip(flawed, verdicts[:3], strict=True):
        assert verdict.stuck_at is not None
        stuck.append((verdict.before, run.steps[verdict.stuck_at]))
    (candidate, moves), (leader, adds), (loser, stays) = stuck
    # It moves as it begins to lead.
    assert (candidate["role"], moves.role) == ("candidate", "leader")
    assert any(batch.targets for batch in moves.new)
    # One is added, and nothing but what it has of the log forbids it.
    assert leader["role"] == adds.role == "leader"
    assert len(adds.voters) == len(leader["voters"]) + 1
    # It stays in the epoch that it lost.
    assert (loser["role"], stays.role) == ("candidate", "unattached")
    assert stays.epoch == loser["epoch"]


@pytest.mark.kafka
@pytest.mark.soak
def test_a_draft_that_lacks_a_rule_is_not_explained() -> None:
    """Up to the same event, a run with the rule is."""
    traces = []
    for rule, seed, events in LACKING:
        for without in ((), (rule,)):
            traces += runs([seed], events, profile_name="kip-853", without=without)
    stuck = [one.stuck_at is not None for one in check(traces, heap_mib=512)]
    assert stuck == [False, True] * len(LACKING)


@pytest.mark.kafka
@pytest.mark.soak
def test_a_draft_that_lacks_what_lets_a_node_campaign_is_explained() -> None:
    """Unless the rule is demanded of what it takes itself for."""
    rule = "removed-when-committed"
    lacks, has = (
        run for without in ((rule,), ())
        for run in runs([59], 340, profile_name="kip-853", without=without)
    )  # fmt: skip
    assert [one.stuck_at for one in check([lacks, has], heap_mib=512)] == [None, None]
    replaces = {"MayBeNoVoter": "IsInNoSetInForce"}
    strict, explained = check([lacks, has], heap_mib=512, replaces=replaces)
    assert strict.stuck_at is not None
    step = lacks.steps[strict.stuck_at]
    assert (step.role, step.is_voter) == ("leader", False)
    assert explained.stuck_at is None


@pytest.mark.kafka
@pytest.mark.soak
def test_a_draft_that_lacks_what_needs_a_clock_is_explained() -> None:
    """Its leader goes on, as one whose time is not over."""
    lacks, has = (
        run for without in (("check-quorum",), ())
        for run in runs([27], 750, profile_name="kip-853", without=without)
    )  # fmt: skip
    pairs = zip(lacks.steps, has.steps, strict=False)
    goes_on, resigns = next(pair for pair in pairs if pair[0] != pair[1])
    assert (goes_on.role, resigns.role) == ("leader", "resigned")
    assert [one.stuck_at for one in check([lacks, has], heap_mib=512)] == [None, None]


@pytest.mark.kafka
@pytest.mark.soak
def test_a_removed_voter_of_ours_campaigns() -> None:
    """It does not know that its last voters, which leave it out, are committed."""
    (run,) = runs([86], 400)
    at = next(
        at for at, step in enumerate(run.steps)
        if step.role == "prospective" and step.node not in {key[0] for key in step.voters}
    )  # fmt: skip
    ours, kafkas = check([run, replace(run, own=[])], heap_mib=512)
    assert ours.stuck_at is None
    assert kafkas.stuck_at is not None
    assert kafkas.stuck_at <= at  # It took itself for a voter before.


@pytest.mark.kafka
@pytest.mark.soak
def test_a_leader_that_resigns_as_it_is_elected_forgets_what_is_committed() -> None:
    (run,) = runs([428], 800)
    step = run.steps[701]
    assert (step.what, step.role, step.is_forgotten) == ("receives", "resigned", True)
    (verdict,) = check([run], heap_mib=512)
    assert verdict.stuck_at is None


@pytest.mark.kafka
@pytest.mark.soak
def test_a_snapshot_whose_sync_failed() -> None:
    """A start may find it, if it ends at what was committed before."""
    (found,) = runs([915], 220)
    at = next(at for at, step in enumerate(found.steps) if step.snapshot)
    start = found.steps[at]
    assert start.what == "starts"
    longer = replace(start, snapshot=start.snapshot + 1)
    invented = replace(found, steps=[*found.steps[:at], longer])
    assert [one.stuck_at for one in check([found, invented], heap_mib=512)] == [None, at]


@pytest.mark.kafka
@pytest.mark.soak
@pytest.mark.parametrize("bug", BUGS)
def test_a_seeded_bug_is_not_explained(bug: str) -> None:
    with planted(bug):
        traces = runs([BUGS[bug]], 500)
    (verdict,) = check(traces, heap_mib=512)
    assert verdict.stuck_at is not None


@pytest.mark.kafka
@pytest.mark.soak
def test_written_traces() -> None:
    """What KIP-595 allows, and what it forbids, without any core."""
    voters = frozenset((node, 0) for node in range(3))
    starts = TracedStep(index=0, node=0, what="starts", voters=voters, is_voter=True)
    asks = {
        "id": 1, "re": 0, "to": 1, "dir": 1, "kind": "vote", "epoch": 0, "pre": True, "last": 0,
        "at": 0,
    }  # fmt: skip
    runs = replace(starts, index=1, what="runs")
    campaigns = replace(runs, role="prospective", sends=[asks], gone={1})
    leads = replace(runs, role="leader", epoch=1, leader=0, new=[Batch(1)])
    lies = replace(campaigns, sends=[asks | {"last": 3}])
    boasts = replace(campaigns, leads=1)
    ends = TracedStep(index=1, node=0, what="fails", is_shown=False)
    explained, alone, longer, proud, ended = check(
        [trace(starts, step) for step in (campaigns, leads, lies, boasts, ends)], heap_mib=512
    )
    assert explained == Verdict()
    assert alone.stuck_at == 1
    assert {one["role"] for one in alone.allowed} == {"unattached", "prospective"}
    assert words(leads, alone)[:2] == [
        "      the model's node before: unattached of epoch 0, no leader, no vote, log to 0 of "
        "epoch 0, durable to 0, high watermark 0, voters 0 1 2",
        "      it shows: leader of epoch 1, leader 0, no vote, log to 1, high watermark 0, "
        "voters 0 1 2",
    ]
    assert (longer.stuck_at, longer.unexplained_sends) == (1, [0])
    assert proud.stuck_at == 1
    assert words(boasts, proud)[2] == "      and leads: 1"
    assert ended.stuck_at == 1
    assert words(ends, ended)[1:] == ["      it ends by itself", "      allowed: nothing"]
    assert words(lies, longer)[-1] == (
        "      nothing explains what it sends: Vote to node 1 "
        "(epoch 0, pre-vote, last epoch 3, from offset 0)"
    )


@pytest.mark.kafka
@pytest.mark.soak
def test_the_command_explains_runs() -> None:
    done = CliRunner().invoke(simulate, ["--model-check", "--seeds", "0..1", "--events", "200"])
    assert done.exit_code == 0
    assert "The model explains 2 of 2 runs (" in done.output


@pytest.mark.kafka
@pytest.mark.soak
def test_the_command_tells_what_is_not_explained() -> None:
    bug, seed = next(iter(BUGS.items()))
    options = ["--model-check", "--seed", str(seed), "--events", "500", "--bug", bug]
    done = CliRunner().invoke(simulate, options)
    assert done.exit_code == 1
    assert f"Seed {seed}: nothing explains step" in done.output
    assert "the model's node before" in done.output


@pytest.mark.kafka
@pytest.mark.soak
@pytest.mark.parametrize(
    ("options", "code", "expected"),
    [
        (("--seed", "342", "--events", "640"), 0, ". Known, KS-2026-05: "),  # A property breaks.
        (("--seed", "505", "--events", "500"), 0, ". Known, KS-2026-06: "),  # The step's words.
        (("--seed", "1", "--events", "200", "--bug", "wins_with_half"), 1, "48\n"),
    ],
    ids=["by-a-property", "by-its-words", "not-known"],
)
def test_the_command_tells_known_faults_of_kafka(
    options: tuple[str, ...], code: int, expected: str
) -> None:
    """The last run has nodes of ours between Kafka's, with a bug."""
    core = "kafka:4.4.0,kraftspec" if "--bug" in options else "kafka:4.4.0"
    done = CliRunner().invoke(simulate, ["--model-check", "--core", core, *options])
    assert done.exit_code == code
    told = done.output.partition("nothing explains step ")[2]
    assert expected in told
    assert ("Known" in told) == (code == 0)


@pytest.mark.kafka
@pytest.mark.soak
def test_the_command_takes_runs_without_a_fix() -> None:
    options = ["--model-check", "--profile", "kip-595", "--without", "own-epoch-commit"]
    done = CliRunner().invoke(simulate, [*options, "--seed", "70", "--events", "300"])
    assert done.exit_code == 1
    assert "The model explains 0 of 1 run (" in done.output
    assert "Seed 70: nothing explains step" in done.output


def test_a_bug_of_ours_is_not_planted_in_nodes_of_kafka() -> None:
    options = ["--seed", "0", "--core", "kafka:4.3.1", "--bug", next(iter(BUGS))]
    done = CliRunner().invoke(simulate, options)
    assert done.exit_code == 2
    assert "no node is ours: add kraftspec to --core" in done.output


def test_the_command_without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    done = CliRunner().invoke(simulate, ["--model-check", "--seed", "0", "--events", "50"])
    assert done.exit_code == 3
    assert "apt-get install openjdk-17-jdk-headless maven" in done.output


@pytest.mark.parametrize(
    "options",
    [
        ["--model-check", "--minimise"],
        ["--model-check", "--lock-step", "kafka:4.4.0"],
        ["--lock-step", "kafka:4.4.0", "--profile", "kip-996", "--without", "check-quorum"],
    ],
    ids=["minimise", "lock-step", "lock-step-without"],
)
def test_what_the_command_does_not_do_together(options: list[str]) -> None:
    done = CliRunner().invoke(simulate, ["--seed", "0", *options])
    assert done.exit_code == 2
    assert "exclude each other and most other options" in " ".join(done.output.split())


@pytest.mark.kafka
@pytest.mark.soak
def test_the_model_is_of_releases_with_pre_votes() -> None:
    cores = "kafka:4.4.0,kafka:3.9.1"
    done = CliRunner().invoke(simulate, ["--model-check", "--seed", "2", "--core", cores])
    assert done.exit_code == 2
    assert "in Kafka since 4.0): kafka:3.9.1 has none" in " ".join(done.output.split())
    kind = ModelChecks(seeds=1, core=cores)
    with pytest.raises(ValueError, match=r"kafka:3\.9\.1 has none"):
        kind.run(kind.plan()[0])


def test_a_trace_of_a_run() -> None:
    """The same seed is the same trace, and it has an election and what was appended."""
    profile = profile_named("kafka", without=())
    first, second = (record(1, profile, events=300).trace for _ in range(2))
    assert first == second
    assert "leader" in {step.role for step in first.steps}
    sent = {message["kind"] for step in first.steps for message in step.sends}
    assert {"vote", "granted", "begin", "fetch", "records"} <= sent

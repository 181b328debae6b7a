"""The simulator's side of the protocols: found by profile, in the commands and in campaigns."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from kraftspec.cli import main
from kraftspec.pipeline.campaign.simulate import Simulations
from kraftspec.reference.profiles import PROFILE_NAMES, profile_named
from kraftspec.reference.profiles.kafka.profile import KafkaProfile
from kraftspec.reference.raft import RoleName
from kraftspec.simulation import invariants, liveness
from kraftspec.simulation.committed_log import Violation
from kraftspec.simulation.invariants.legal_transitions import LegalTransitions
from kraftspec.simulation.protocols import protocol_of


@pytest.mark.parametrize("name", PROFILE_NAMES)
def test_the_properties_of_a_protocol_are_modules(name: str) -> None:
    protocol = protocol_of(profile_named(name))
    modules = [type(one).__module__ for one in invariants.all_invariants(protocol.invariants)]
    assert [module.rpartition(".")[2] for module in modules] == list(protocol.invariants)
    assert len(liveness.all_liveness(protocol.liveness)) == len(protocol.liveness) >= 3


def test_a_node_without_pre_votes_leaves_the_table_of_others_as_it_is() -> None:
    """It may go from follower to candidate; no other node may after that, in the same process."""
    protocol = protocol_of(KafkaProfile())
    voters = SimpleNamespace(last=[1, 2, 3])

    def campaigns(has_pre_votes: bool) -> None:
        replica: Any = SimpleNamespace(
            id=1, has_pre_votes=has_pre_votes, world=SimpleNamespace(protocol=protocol),
            core=SimpleNamespace(log=SimpleNamespace(voters=voters)),
        )  # fmt: skip
        LegalTransitions().role_changed(replica, RoleName.FOLLOWER, RoleName.CANDIDATE)

    campaigns(has_pre_votes=False)
    with pytest.raises(Violation, match="node 1 went from follower to candidate"):
        campaigns(has_pre_votes=True)


def test_a_profile_that_the_simulator_does_not_know() -> None:
    profile = KafkaProfile()
    profile.name = "zab"
    with pytest.raises(LookupError, match="knows no profile 'zab'"):
        protocol_of(profile)


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, ["simulate", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_the_command_says_the_properties_of_the_profile() -> None:
    code, out, _ = run("--profile", "kip-996", "--seed", "5", "--events", "300", "--json")
    held = json.loads(out)["invariants"]
    assert code == 0
    assert held["no_election_against_live_leader"] == held["majority_elects"] == "held"
    assert "one_voter_change" not in held


def test_the_command_without_a_cure_finds_the_flaw() -> None:
    arguments = ("--profile", "kip-996", "--seed", "369", "--events", "300", "--json")
    code, out, _ = run(*arguments, "--without", "check-quorum")
    assert code == 1
    assert json.loads(out)["violation"][0] == "leader_hears_majority"
    assert run(*arguments)[0] == 0


def test_a_cure_that_there_is_not() -> None:
    code, _, err = run("--profile", "kip-996", "--seed", "1", "--without", "aspirin")
    assert code == 2
    assert "has no fix 'aspirin'" in " ".join(err.split())


def test_a_campaign_of_another_profile() -> None:
    kind = Simulations(
        seeds=1, first_seed=369, events=300, profile="kip-996", without=("check-quorum",)
    )
    (unit,) = kind.plan()
    result = kind.run(unit)
    (finding,) = result.findings
    assert finding.class_ == "leader_hears_majority"
    assert finding.reproduce == (
        "kraftspec simulate --seed 369 --events 300 --profile kip-996 --without check-quorum "
        "--minimise"
    )
    assert "seed 369" in finding.example
    clean = Simulations(seeds=1, first_seed=369, events=300, profile="kip-996").run(unit)
    assert not clean.findings
    with pytest.raises(ValueError, match="no fix"):
        Simulations(seeds=1, without=("check-quorum",)).plan()

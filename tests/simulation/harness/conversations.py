"""Conversations with a harness: whole stories of a quorum, from commands alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.simulation.harness.network import PORT_BASE, VirtualNetwork, directory_id
from tests.simulation.harness.process import Event, RawHarness

from kraftspec.conformance.adapters.registry import find
from kraftspec.fastpath.types import Uuid
from kraftspec.generated.kafka import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    ApiVersionsRequest,
    ApiVersionsResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    VotersRecord,
)
from kraftspec.reference.profiles import profile_named
from kraftspec.reference.raft import Config
from kraftspec.reference.raft.types import Endpoint
from kraftspec.simulation.initial_quorum import bootstrap_checkpoint

HARNESSES = Path(__file__).parents[3] / "simulation/harness"
UP = 1
RELEASES = find("kafka", HARNESSES).releases
OPERATOR = 1 << 40  # Tokens of requests that no node sent.


def harness(release: str = "", **environment: str) -> RawHarness:
    """A new process over a release of Kafka, by default that of the specs; built where needed."""
    spec = find(f"kafka@{release}" if release else "kafka", HARNESSES)
    return RawHarness(spec.command(), environment)


def static_quorum(network: VirtualNetwork, count: int = 3, **changed: Any) -> int:
    """Voters that the configuration names, with a leader whose epoch is committed."""
    voters = list(range(count))
    for node in voters:
        network.define(node, static_voters=voters, **changed)
    for node in voters:
        network.start(node)
    network.until(lambda: network.leader() is not None and network.agree())
    return leader_of(network)


def checkpoint(voters: list[int]) -> bytes:
    """The checkpoint 0-0 with which the first voters are formatted."""
    configs = [
        Config(
            cluster_id="c2ltdWxhdGVkLWNsdXN0ZQ",
            node_id=node,
            directory_id=Uuid(directory_id(node)),
            endpoints=(Endpoint("CONTROLLER", "localhost", PORT_BASE + node),),
        )
        for node in voters
    ]
    return bootstrap_checkpoint(configs, profile_named("kafka"))


def dynamic_quorum(network: VirtualNetwork, voters: list[int], joiners: list[int]) -> int:
    """Voters that the log names, and controllers that may become some."""
    for node in (*voters, *joiners):
        network.define(node, bootstrap_servers=voters)
    for node in voters:
        network.do("install", node, end_offset=0, epoch=0, content=checkpoint(voters))
    for node in (*voters, *joiners):
        network.start(node)
    network.until(lambda: network.leader() is not None and network.agree())
    return leader_of(network)


def leader_of(network: VirtualNetwork) -> int:
    leader = network.leader()
    assert leader is not None
    return leader


def append(network: VirtualNetwork, append_id: int, records: list[bytes]) -> list[Event]:
    """Lets the leader append, in its epoch."""
    leader = leader_of(network)
    epoch = network.states[leader]["epoch"]
    return network.act("append", leader, append_id=append_id, epoch=epoch, records=records)


def ask(network: VirtualNetwork, node: int, api_key: int, version: int, body: bytes) -> bytes:
    """Asks a node as an operator does, and waits for the answer."""
    token = OPERATOR + len(network.seen)
    network.act("request", node, token=token, api_key=api_key, version=version, body=body)

    def answer() -> Event | None:
        for event in reversed(network.seen):
            if event["name"] == "answered" and event["token"] == token:
                return event
        return None

    network.until(lambda: answer() is not None)
    answered = answer()
    assert answered is not None
    body_: bytes = answered["body"]
    return body_


def add_voter(network: VirtualNetwork, node: int) -> AddRaftVoterResponse:
    """Makes a controller a voter."""
    request = AddRaftVoterRequest(
        cluster_id="c2ltdWxhdGVkLWNsdXN0ZQ",
        timeout_ms=5_000,
        voter_id=node,
        voter_directory_id=Uuid(directory_id(node)),
        listeners=[
            AddRaftVoterRequest.Listener(name="CONTROLLER", host="localhost", port=PORT_BASE + node)
        ],
    )
    leader = leader_of(network)
    body = ask(network, leader, AddRaftVoterRequest.API_KEY, 0, request.encode(0))
    return AddRaftVoterResponse.decode(body, 0)


def remove_voter(network: VirtualNetwork, node: int) -> RemoveRaftVoterResponse:
    """Makes a voter an observer."""
    request = RemoveRaftVoterRequest(
        cluster_id="c2ltdWxhdGVkLWNsdXN0ZQ",
        voter_id=node,
        voter_directory_id=Uuid(directory_id(node)),
    )
    leader = leader_of(network)
    body = ask(network, leader, RemoveRaftVoterRequest.API_KEY, 0, request.encode(0))
    return RemoveRaftVoterResponse.decode(body, 0)


def api_versions(network: VirtualNetwork, node: int, version: int = 4) -> ApiVersionsResponse:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    body = ask(network, node, ApiVersionsRequest.API_KEY, version, request.encode(version))
    return ApiVersionsResponse.decode(body, version)


def voters_of(network: VirtualNetwork, node: int) -> tuple[int, set[int]]:
    """The offset and the ids of the voters that a node acts on."""
    for event in reversed(network.seen):
        if event["name"] == "voters" and event["node"] == node:
            record = VotersRecord.decode(event["value"], 0)
            return event["offset"], {voter.voter_id for voter in record.voters}
    raise AssertionError(f"node {node} told of no voters")


def static_story(network: VirtualNetwork) -> None:
    """Elections, appends, a snapshot that is fetched, a power loss in the middle, a fail-over."""
    leader = static_quorum(network, fetch_snapshot_max_bytes=200, retention_bytes=100)
    away = (leader + 1) % 3
    network.do("kill", away)
    for number in range(12):
        append(network, number, [b"record %d of %d" % (each, number) for each in range(4)])
        network.sleep(20_000)
        if number % 6 == 5:
            network.until(network.agree)
            state = network.states[leader]
            for node in network.up():
                network.act(
                    "snapshot",
                    node,
                    end_offset=state["high_watermark"],
                    epoch=state["epoch"],
                    values=[b"all of it %d" % each for each in range(30)],
                )
    for node in network.up():
        network.act("clean", node)  # The older one goes, and the log before the newer one.
    assert network.states[leader]["log_start"] == state["high_watermark"]
    network.start(away)
    network.until(network.agree)
    assert network.states[away]["log_start"] == state["high_watermark"]
    network.do("power_after", leader, effects=1)  # It appends, and does not flush.
    append(network, 100, [b"never durable"] * 3)
    network.until(lambda: network.states[leader]["status"] == 3)
    network.power_loss(leader, torn=17)
    network.until(lambda: network.leader() is not None and network.agree())
    network.start(leader)
    network.until(network.agree)
    append(network, 101, [b"after it"])
    network.until(network.agree)
    network.act("resign", leader_of(network), epoch=network.states[leader]["epoch"])
    network.sleep(5_000_000)
    network.until(network.agree)
    network.act("shutdown", leader_of(network), timeout_us=3_000_000)
    network.sleep(5_000_000)
    network.until(network.agree)


def dynamic_story(network: VirtualNetwork) -> None:
    """Voters come and go."""
    dynamic_quorum(network, [0, 1], [2, 3])
    append(network, 1, [b"before"])
    network.until(network.agree)
    assert add_voter(network, 2).error_code == 0
    append(network, 2, [b"between"])
    network.until(network.agree)
    assert add_voter(network, 3).error_code == 0
    network.until(network.agree)
    network.power_loss(3)
    network.start(3)
    network.until(network.agree)
    removed = leader_of(network)
    assert remove_voter(network, removed).error_code == 0
    network.sleep(10_000_000)
    network.until(lambda: network.leader() not in (None, removed) and network.agree())
    for node in range(4):
        assert voters_of(network, node)[1] == {0, 1, 2, 3} - {removed}

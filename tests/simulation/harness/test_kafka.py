"""The harness over Apache Kafka's raft clients: whole stories, the same in each process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest
from tests.simulation.harness.conversations import (
    RELEASES,
    add_voter,
    api_versions,
    append,
    checkpoint,
    dynamic_quorum,
    dynamic_story,
    harness,
    leader_of,
    static_quorum,
    static_story,
    voters_of,
)
from tests.simulation.harness.network import UP, VirtualNetwork
from tests.simulation.harness.process import RawHarness, command

from kraftspec.conformance.cluster import RELEASE
from kraftspec.generated.kafka import (
    AddRaftVoterRequest,
    BeginQuorumEpochRequest,
    FetchRequest,
    VoteRequest,
)

pytestmark = pytest.mark.kafka

SIBLINGS = ("3.9.0", "4.0.0", "4.1.0", "4.2.0", "4.3.0")
# What could change the order in which a process does things: another hash for each object, code
# that is not compiled, or compiled by another compiler. Each has a new number for its Set.of.
JAVA_OPTIONS = (
    "",
    "-XX:+UnlockExperimentalVMOptions -XX:hashCode=2",
    "-Xint",
    "-XX:-TieredCompilation",
)
RUNS = count(1)  # Each test of the shared process has its own.
Story = Callable[[VirtualNetwork], None]


def told(release: str = "", options: str = "", stories: tuple[Story, ...] = ()) -> bytes:
    """Every byte that a new process says in these stories, a run each."""
    with harness(release, JDK_JAVA_OPTIONS=options) as process:
        for run, story in enumerate(stories or (static_story, dynamic_story), start=1):
            story(VirtualNetwork(process, run=run, seed=run))
        return bytes(process.answered)


@pytest.mark.smoke
@pytest.mark.soak
def test_the_same_commands_give_the_same_bytes() -> None:
    assert len({told(options=options) for options in JAVA_OPTIONS}) == 1


@pytest.mark.soak
@pytest.mark.parametrize("release", RELEASES[:-1])
def test_each_release_gives_the_same_bytes(release: str) -> None:
    assert len({told(release, options) for options in JAVA_OPTIONS}) == 1


@pytest.mark.soak
@pytest.mark.parametrize("release", SIBLINGS)
def test_other_patch_releases(release: str) -> None:
    assert told(release)


def test_runs_beside_each_other_do_not_meet() -> None:
    """Two runs of one seed in one process, the second between the commands of the first."""
    with harness() as process:
        alone = VirtualNetwork(process, run=1, seed=5)
        static_quorum(alone)
        append(alone, 1, [b"one"])
        alone.until(alone.agree)
    with harness() as process:
        first = VirtualNetwork(process, run=1, seed=5)
        second = VirtualNetwork(process, run=2, seed=5)
        static_quorum(first)
        static_quorum(second)
        append(second, 1, [b"one"])
        append(first, 1, [b"one"])
        first.until(first.agree)
        second.until(second.agree)
        process.ask(command("forget", 1))
        wrong = process.ask(command("read", 1, 0))
        assert [event["name"] for event in wrong] == ["wrong"]
        assert process.ask(command("read", 2, 0))[-1]["log_end"] == second.states[0]["log_end"]

    def of_run(network: VirtualNetwork) -> list[dict[str, object]]:
        return [{**event, "run": 0} for event in network.seen]

    assert of_run(alone) == of_run(first) == of_run(second)


# ---- what clients of each release do -----------------------------------------------------------


@pytest.fixture(scope="module")
def process() -> Iterator[RawHarness]:
    with harness() as shared:
        yield shared


@pytest.fixture
def network(process: RawHarness) -> VirtualNetwork:
    return VirtualNetwork(process, run=next(RUNS))


def test_it_says_what_it_is(process: RawHarness) -> None:
    (welcome,) = process.ask(command("hello", version=7))
    assert welcome["version"] == 1
    assert welcome["implementation"] == "Apache Kafka"
    assert welcome["release"] == RELEASE
    assert set(welcome["capabilities"]) == {
        "pre_vote", "dynamic_voters", "snapshots", "upgrade", "auto_join", "disk_faults",
        "lock_step",
    }  # fmt: skip


@pytest.mark.soak
@pytest.mark.parametrize(
    ("release", "lacks"),
    [
        ("3.9.1", {"pre_vote", "upgrade", "auto_join"}),
        ("4.0.2", {"upgrade", "auto_join"}),
        ("4.1.2", {"auto_join"}),
        ("4.2.2", set()),
    ],
)
def test_what_older_releases_lack(release: str, lacks: set[str]) -> None:
    with harness(release) as process:
        (welcome,) = process.ask(command("hello", version=1))
        assert welcome["release"] == release
        every = {
            "pre_vote", "dynamic_voters", "snapshots", "upgrade", "auto_join", "disk_faults"
        }  # fmt: skip
        assert every - set(welcome["capabilities"]) == lacks
        network = VirtualNetwork(process)
        leader = static_quorum(network)
        epoch = network.states[leader]["epoch"]
        (upgraded, *_) = [
            event
            for event in network.act("upgrade", leader, level=1, epoch=epoch)
            if event["name"] == "upgraded"
        ]
        assert bool(upgraded["error"])  # Static voters cannot be upgraded at once in any release.


def test_it_answers_api_versions(network: VirtualNetwork) -> None:
    static_quorum(network, 1)
    response = api_versions(network, 0)
    versions = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
    for message in (VoteRequest, BeginQuorumEpochRequest, FetchRequest, AddRaftVoterRequest):
        assert versions[message.API_KEY][1] == message.VALID_VERSIONS[-1]
    for version, lowest in ((3, 1), (4, 0)):
        (feature,) = api_versions(network, 0, version).supported_features
        named = (feature.name, feature.min_version, feature.max_version)
        assert named == ("kraft.version", lowest, 1)


def test_an_append_is_told_its_offsets(network: VirtualNetwork) -> None:
    leader = static_quorum(network)
    end = network.states[leader]["log_end"]
    events = append(network, 7, [b"a", b"b", b"c"])
    (took,) = [event for event in events if event["name"] == "took"]
    assert (took["append_id"], took["base_offset"], took["last_offset"]) == (7, end, end + 2)
    network.until(
        lambda: {state["high_watermark"] for state in network.states.values()} == {end + 3}
    )
    follower = (leader + 1) % 3
    epoch = network.states[leader]["epoch"]
    for node, asked_epoch in ((follower, epoch), (leader, epoch - 1), (leader, epoch + 1)):
        events = network.act("append", node, append_id=8, epoch=asked_epoch, records=[b"x"])
        assert [event["append_id"] for event in events if event["name"] == "refused"] == [8]
    for records in ([], [b"a", b""], [bytes(9 << 20)]):
        events = network.act("append", leader, append_id=9, epoch=epoch, records=records)
        assert [event["append_id"] for event in events if event["name"] == "refused"] == [9]
        assert events[-1]["status"] == UP


def test_bytes_alone_end_a_linger(network: VirtualNetwork) -> None:
    """The same as of ours: tests/reference/raft/test_replication.py."""
    leader = static_quorum(network, 1, append_linger_us=25_000)
    end = network.states[leader]["log_end"]
    for number in range(100):
        (took, _) = append(network, number, [b"x"])
        assert (took["name"], took["base_offset"]) == ("took", end + number)
    assert network.states[leader]["log_end"] == end
    network.now_us += 25_000
    network.act("tick", leader)
    assert network.states[leader]["log_end"] == end + 100
    for number in (100, 101):  # Together more than 8 MiB.
        append(network, number, [bytes(5 << 20)])
    assert network.states[leader]["log_end"] == end + 102


def test_voters_are_told_of(network: VirtualNetwork) -> None:
    static_quorum(network)
    assert all(voters_of(network, node) == (-1, {0, 1, 2}) for node in range(3))


def test_voters_of_the_log_are_told_of(network: VirtualNetwork) -> None:
    dynamic_quorum(network, [0], [1])
    first = next(event for event in network.seen if event["name"] == "voters")
    assert (first["node"], first["offset"]) == (0, -1)  # Of the checkpoint that it was given.
    leader = leader_of(network)
    end = network.states[leader]["log_end"]
    assert add_voter(network, 1).error_code == 0
    network.until(network.agree)
    assert voters_of(network, 0) == voters_of(network, 1) == (end, {0, 1})
    assert network.states[1]["is_voter"]
    assert network.states[1]["kraft_version"] == 1


def test_a_start_deletes_the_checkpoints_before_the_log(network: VirtualNetwork) -> None:
    """An earlier process ended between the two: the log began anew, and they were there still."""
    network.define(0, static_voters=[0])
    for end_offset in (20, 50, 80):
        network.do("install", 0, end_offset=end_offset, epoch=3, content=checkpoint([0]))
    network.do(
        "restore", 0, log_start=80, data=b"", epoch=3, leader_id=-1, voted_id=-1,
        voted_directory=bytes(16),
    )  # fmt: skip
    events = network.start(0)
    deleted = [event["end_offset"] for event in events if event["name"] == "snapshot_deleted"]
    assert deleted == [20, 50]


def test_a_capped_version_is_not_passed(network: VirtualNetwork) -> None:
    voters = [0, 1, 2]
    for node in voters:
        network.define(node, static_voters=voters)
        network.do("cap", node, peer=-1, api_key=VoteRequest.API_KEY, max_version=0)
        network.do("cap", node, peer=2, api_key=VoteRequest.API_KEY, max_version=-1)
        network.start(node)
    network.until(lambda: network.leader() is not None and network.agree())
    votes = [
        (event["port"] - 9000, event["version"])
        for event in network.seen
        if event["name"] == "sent" and event["api_key"] == VoteRequest.API_KEY
    ]
    assert {version for peer, version in votes if peer == 2} == {-1}
    assert {version for peer, version in votes if peer != 2} == {-1, 0}  # 0 has no pre-votes.


def test_kraft_version_is_raised(network: VirtualNetwork) -> None:
    leader = static_quorum(network)
    epoch = network.states[leader]["epoch"]
    for _ in range(3):  # The leader must have heard of each voter's directory id before.
        network.sleep(3_000_000)
    events = network.act("upgrade", leader, level=1, epoch=epoch)
    assert [event["error"] for event in events if event["name"] == "upgraded"] == [""]
    network.until(lambda: all(state["kraft_version"] == 1 for state in network.states.values()))
    assert {len(voters_of(network, node)[1]) for node in range(3)} == {3}

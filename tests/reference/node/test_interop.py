"""Our node in a real quorum of Kafka 4.3.1 controllers, from joining to being removed.

After each scenario the logs hold the same bytes up to the high watermark, batch by batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.reference.node.mixed import assert_agrees, dump, set_configs

from kraftspec.conformance.cluster import Cluster
from kraftspec.conformance.cluster.cluster import quorum_at
from kraftspec.conformance.cluster.node import free_port
from kraftspec.interop.logs import compare_logs, leaders_of
from kraftspec.interop.ours import Ours, describe, wait_until

pytestmark = pytest.mark.kafka

SMALL = {
    "internal.metadata.log.segment.bytes": "4096",
    "metadata.log.segment.ms": "3000",
    # Not before the first scenario, which begins without one, is over.
    "metadata.log.max.record.bytes.between.snapshots": "20000",
}
BOOTSTRAP_CHECKPOINT = "00000000000000000000-0000000000.checkpoint"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two controllers: with one of ours the third voter, each of the three decides."""
    with Cluster(
        tmp_path_factory.mktemp("mixed"),
        controllers=2,
        brokers=0,
        controller_properties=SMALL,
    ) as cluster:
        yield cluster


def restore(cluster: Cluster) -> None:
    """Start the controllers that a scenario ended, and wait until they follow."""
    for node in cluster.controllers:
        if not node.running():
            node.start()
            node.wait_healthy()


@pytest.mark.smoke
def test_it_observes_is_added_votes_and_is_removed(cluster: Cluster, tmp_path: Path) -> None:
    ours = Ours(cluster, tmp_path / "ours", 101)
    ours.format()
    ours.start()
    ours.wait_caught_up()  # An observer, from empty.
    assert not ours.is_voter()
    assert_agrees(cluster, ours)

    ours.add()
    ours.wait_voter()
    assert_agrees(cluster, ours)

    old = cluster.leader()
    old.kill()
    other = next(node for node in cluster.controllers if node is not old)
    wait_until("the other controller leads", lambda: cluster.quorum_of(other) is not None)
    # Two of three voters live: without this node's votes nobody leads.
    led = leaders_of(other.metadata_log)
    assert led[max(led)] == other.id
    assert_agrees(cluster, ours)
    state = ours.quorum_state()
    assert (state["leaderId"], state["votedId"]) == (other.id, other.id)
    assert state["votedDirectoryId"] == other.directory_id
    restore(cluster)
    assert_agrees(cluster, ours)

    ours.remove()
    wait_until("it is no voter", lambda: not ours.is_voter())
    ours.wait_caught_up()  # It observes again.
    assert_agrees(cluster, ours)
    ours.stop()
    printed = dump(cluster, *sorted(ours.metadata_log.glob("*.log")))
    batches = printed.count("baseOffset: ")
    assert batches == printed.count("isvalid: true") > 0
    assert batches >= 4  # Two leader changes, a voter more, and one less.


def checkpoints(directory: Path) -> dict[str, Path]:
    """The snapshots in a metadata log's directory, the one of formatting left out."""
    snapshots = {path.name: path for path in directory.glob("*.checkpoint")}
    snapshots.pop(BOOTSTRAP_CHECKPOINT, None)
    return snapshots


def test_it_begins_with_a_snapshot_and_survives_its_ends(cluster: Cluster, tmp_path: Path) -> None:
    logs = [node.metadata_log for node in cluster.controllers]
    set_configs(cluster, 120)
    wait_until("Kafka wrote snapshots", lambda: all(map(checkpoints, logs)))

    ours = Ours(cluster, tmp_path / "ours", 102)
    ours.format()
    ours.start()
    ours.wait_caught_up()
    fetched = checkpoints(ours.metadata_log)
    assert fetched
    for name, path in fetched.items():
        theirs = [log / name for log in logs if (log / name).exists()]  # Of one that leads, or led.
        assert path.read_bytes() in [one.read_bytes() for one in theirs]
    assert not list(ours.metadata_log.glob("00000000000000000000.log"))
    assert_agrees(cluster, ours)

    ours.add()
    ours.wait_voter()
    ours.stop()
    set_configs(cluster, 3)
    ours.start()
    assert_agrees(cluster, ours)

    ours.kill()
    set_configs(cluster, 3)
    ours.start()
    assert_agrees(cluster, ours)

    # The disk is another one: Kafka's tool takes the old directory out and the new one in.
    old = ours.directory_id
    ours.kill()
    ours.wipe()
    ours.format()
    assert ours.directory_id != old
    ours.start()
    ours.wait_caught_up()
    assert not ours.is_voter()
    ours.remove(old)
    ours.add()
    ours.wait_voter()
    assert_agrees(cluster, ours)

    # Once more, and this time it does both by itself (KIP-1186).
    ours.kill()
    ours.wipe()
    ours.format()
    ours.write_properties(controller__quorum__auto__join__enable="true")
    ours.start()
    ours.wait_voter()
    assert_agrees(cluster, ours)
    quorum = describe(cluster)
    assert quorum is not None
    assert [voter.replica_id for voter in quorum.current_voters].count(ours.id) == 1

    ours.stop()
    ours.remove()
    dump(cluster, *checkpoints(ours.metadata_log).values(), *ours.metadata_log.glob("*.log"))


def test_it_leads_and_hands_back(cluster: Cluster, tmp_path: Path) -> None:
    ours = Ours(cluster, tmp_path / "ours", 103)
    ours.format()
    ours.start()
    ours.wait_caught_up()
    ours.add()
    ours.wait_voter()

    def has_led() -> bool:
        """Let the leader resign. Its lowest id makes ours the first successor among equal logs."""
        old = cluster.leader()
        old.stop()
        cluster.leader()
        restore(cluster)
        return ours.id in leaders_of(cluster.leader().metadata_log).values()

    wait_until("our node was elected", has_led, timeout_s=900)
    assert_agrees(cluster, ours)

    # And now it leads for longer, with both controllers as its followers.
    ours.stop()
    ours.options = ("--transfer-leadership", "never")
    ours.start()
    ours.wait_caught_up()

    def leads() -> bool:
        old = cluster.leader()
        old.stop()
        wait_until(
            "somebody leads", lambda: (describe(cluster) or quorum_at(ours.port)) is not None
        )
        restore(cluster)
        return quorum_at(ours.port) is not None

    wait_until("our node leads", leads, timeout_s=900)

    def all_have_all() -> bool:
        quorum = quorum_at(ours.port)
        assert quorum is not None
        ends = {voter.replica_id: voter.log_end_offset for voter in quorum.current_voters}
        return len(ends) == 3 and set(ends.values()) == {quorum.high_watermark}

    wait_until("both controllers have all that it has", all_have_all)
    quorum = quorum_at(ours.port)
    assert quorum is not None
    assert (quorum.leader_id, quorum.leader_epoch) == (ours.id, ours.quorum_state()["leaderEpoch"])
    for node in cluster.controllers:
        assert compare_logs(node.metadata_log, ours.metadata_log, quorum.high_watermark) > 0
    epoch = quorum.leader_epoch
    ours.stop()  # It resigns: a controller takes over at once.
    led = leaders_of(cluster.leader().metadata_log)
    assert led[epoch] == ours.id
    ours.start()
    assert_agrees(cluster, ours)
    ours.stop()
    ours.remove()


def test_a_static_voter_follows_votes_and_is_upgraded(tmp_path: Path) -> None:
    port = free_port(set())
    with Cluster(
        tmp_path / "static",
        controllers=2,
        brokers=0,
        quorum="static",
        other_voters={104: f"127.0.0.1:{port}"},
    ) as cluster:
        voters = {"controller.quorum.voters": cluster._static_voters()}
        ours = Ours(cluster, tmp_path / "ours", 104, port=port, properties=voters)
        ours.format()
        ours.start()
        ours.wait_caught_up()
        assert ours.quorum_state()["data_version"] == 0
        assert_agrees(cluster, ours)

        old = cluster.leader()
        old.kill()
        other = next(node for node in cluster.controllers if node is not old)
        wait_until("the other controller leads", lambda: cluster.quorum_of(other) is not None)
        assert_agrees(cluster, ours)
        restore(cluster)

        # A leader writes down the voters once each has told it who it is (UpdateRaftVoter).
        upgrade = ["--bootstrap-controller", cluster.controller_bootstrap(), "upgrade"]
        upgrade += ["--feature", "kraft.version=1"]

        def is_upgraded() -> bool:
            tool = "org.apache.kafka.tools.FeatureCommand"
            return cluster.tool(tool, *upgrade, check=False).returncode == 0

        wait_until("kraft.version is 1", is_upgraded)
        ours.wait_voter()  # Under its directory id, which a voter of before does not have.
        assert_agrees(cluster, ours)
        old = cluster.leader()
        old.kill()
        wait_until("a controller leads", lambda: describe(cluster) is not None)
        assert_agrees(cluster, ours)
        assert ours.quorum_state()["data_version"] == 1
        ours.stop()
        printed = dump(cluster, *ours.metadata_log.glob("*.log"))
        assert "KRaftVoters" in printed

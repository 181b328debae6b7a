"""fsync upon every append, in every role: what the drafts ask for, and no release does.

KIP-595: "we should always enforce fsync upon appending to local log". The disk here forgets in a
power loss whatever was not synced, so what is left says what was.
"""

from __future__ import annotations

import pytest
from tests.reference.transcripts.cluster import Cluster

LEADER, FOLLOWER, OBSERVER = 1, 2, 4
ROLES = {LEADER: "leader", FOLLOWER: "follower", OBSERVER: "follower"}
DRAFTS = ["kip-595", "kip-853", "kip-996"]


def begun(profile: str) -> Cluster:
    """Two voters, who both have to have a record before it is committed; and a broker."""
    cluster = Cluster()
    if profile != "kafka":
        cluster.run(f"profile {profile}")
    kraft = "kraft=1" if profile == "kip-853" else ""
    cluster.run(f"quorum 1,2 {kraft}")
    cluster.run(f"quorum 1,2 nodes=4 can-become-voter=false {kraft}")
    for command in ("start", "run 4s"):
        cluster.run(command)
    for node_id, role in ROLES.items():
        core = cluster.nodes[node_id].core
        assert (core.role.name, core.is_voter) == (role, node_id != OBSERVER)
        assert core.committed_offset == cluster.nodes[LEADER].core.log.end_offset
    return cluster


def left_after_power_loss(cluster: Cluster, node_id: int) -> int:
    """Cut a node's power; return where the log on its disk ends."""
    cluster.run(f"crash {node_id}")
    storage = cluster.nodes[node_id].open()
    try:
        return storage.log.end_offset
    finally:
        storage.close()


@pytest.mark.parametrize("node_id", ROLES)
@pytest.mark.parametrize("profile", DRAFTS)
def test_what_was_appended_survives_a_power_loss(profile: str, node_id: int) -> None:
    cluster = begun(profile)
    end_offset = cluster.nodes[LEADER].core.log.end_offset + 1
    cluster.run("append 1 a")
    cluster.run("run 1s")
    assert cluster.nodes[node_id].core.log.end_offset == end_offset
    assert left_after_power_loss(cluster, node_id) == end_offset


def test_a_broker_of_a_release_loses_it() -> None:
    """Kafka's observers do not sync, so the disk would show it."""
    cluster = begun("kafka")
    end_offset = cluster.nodes[LEADER].core.log.end_offset + 1
    cluster.run("append 1 a")
    cluster.run("run 1s")
    assert cluster.nodes[OBSERVER].core.log.end_offset == end_offset
    assert left_after_power_loss(cluster, OBSERVER) < end_offset


@pytest.mark.parametrize("node_id", ROLES)
@pytest.mark.parametrize("profile", DRAFTS)
def test_what_is_not_synced_yet_is_not_acknowledged(profile: str, node_id: int) -> None:
    """The disk takes its time: until it is done nobody is told, and nothing is committed by it."""
    cluster = begun(profile)
    end_offset = cluster.nodes[LEADER].core.log.end_offset + 1
    cluster.run(f"hold {node_id}")
    output = cluster.run("append 1 a") + cluster.run("run 300ms")
    assert f"{node_id} begins to flush end-offset={end_offset}" in output
    fetch = f"{node_id}->1 Fetch"
    acknowledgement = f" fetch-offset={end_offset} "
    assert not any(line.startswith(fetch) and acknowledgement in line for line in output)
    is_needed = node_id != OBSERVER
    commit = f"1 commit high-watermark={end_offset}"
    assert (commit in output) == (not is_needed)
    output = cluster.run(f"flush {node_id}") + cluster.run("run 1s")
    if node_id != LEADER:
        assert any(line.startswith(fetch) and acknowledgement in line for line in output)
    assert (commit in output) == is_needed
    assert left_after_power_loss(cluster, node_id) == end_offset

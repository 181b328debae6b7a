"""A candidate asks a voter that has a new disk again as soon as it has the answer.

The page is docs/findings/kraft-no-backoff.md.
"""

from __future__ import annotations

import shutil
import time

from kraftspec.conformance.cluster import Node
from kraftspec.interop.network import Network
from kraftspec.interop.ours import wait_until
from kraftspec.interop.reproduce.stage import Stage, directory_id, log_end

OBSERVED_S = 10.0
# With the default backoff of 20 ms it is at most 50, and as many Fetches to a bootstrap server.
REQUESTS_PER_S_MAX = 150
LOGGED = "Voter key for VOTE"


def new_disk(stage: Stage) -> bool:
    """Give a voter an empty directory, kill the leader, and count what the third one sends."""
    with Network() as network:
        cluster = stage.cluster(
            3, front=lambda name, port: network.open(int(name.split()[1]), port)
        )
        leader = cluster.leader()
        left, renewed = (node for node in cluster.controllers if node is not leader)
        pair = frozenset((left.id, renewed.id))
        stage.step(f"three voters: {leader.id} leads")
        renewed.kill()
        former = directory_id(renewed)
        shutil.rmtree(renewed.metadata_log.parent)
        renewed.directory_id = None  # So it is formatted as one that is no voter yet.
        cluster.format(renewed)
        stage.step(
            f"SIGKILL {renewed.id}; format an empty directory for it: {former} was its id, "
            f"{directory_id(renewed)} is"
        )
        stage.restart(cluster, [renewed])
        wait_until(f"{renewed.id} fetches", lambda: log_end(renewed) > 0)
        before = network.carried[pair]
        leader.kill()
        wait_until(f"{left.id} asks for votes", lambda: network.carried[pair] > before)
        stage.step(f"restart {renewed.id}; SIGKILL the leader: {left.id} asks for votes")
        observed_s = min(OBSERVED_S, stage.observe_s)
        before, lines, size = network.carried[pair], _lines(left), left.log_path.stat().st_size
        time.sleep(observed_s)
        requests_per_s = (network.carried[pair] - before) / 2 / observed_s
        stage.step(
            f"{requests_per_s:,.0f} requests a second between {left.id} and {renewed.id}; "
            f"{left.id} logs {(_lines(left) - lines) / observed_s:,.0f} lines a second on the "
            f"voter key, {(left.log_path.stat().st_size - size) / observed_s:,.0f} bytes in all"
        )
        return requests_per_s > REQUESTS_PER_S_MAX


def _lines(node: Node) -> int:
    return node.log_path.read_text(encoding="utf-8", errors="replace").count(LOGGED)

"""A candidate asks a voter that has a new disk again as soon as it has the answer.

The page is docs/findings/kraft-no-backoff.md.
"""

from __future__ import annotations

import shutil
import time

from kraftspec.conformance.cluster import Node
from kraftspec.interop.network import Network
from kraftspec.interop.ours import CheckFailedError, wait_until
from kraftspec.interop.reproduce.stage import Stage, directory_id, log_end

OBSERVED_S = 10.0
BACKOFF_MS = 500  # By default 20, which a busy machine takes by itself.
AT_ONCE_S = 0.4
LOGGED = "Voter key for VOTE"


def new_disk(stage: Stage) -> bool:
    """Give a voter an empty directory, kill the leader, and time what the third one sends it."""
    with Network() as network:
        cluster = stage.cluster(
            3,
            {"controller.quorum.retry.backoff.ms": str(BACKOFF_MS)},
            front=lambda name, port: network.open(int(name.split()[1]), port),
        )
        leader = cluster.leader()
        left, renewed = (node for node in cluster.controllers if node is not leader)
        gaps_s = network.gaps_s[left.id, renewed.id]
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
        gaps_s.clear()
        leader.kill()
        wait_until(f"{left.id} asks for votes", lambda: bool(gaps_s))
        stage.step(f"restart {renewed.id}; SIGKILL the leader: {left.id} asks for votes")
        observed_s = min(OBSERVED_S, stage.observe_s)
        gaps_s.clear()
        lines, size = _lines(left), left.log_path.stat().st_size
        time.sleep(observed_s)
        count, at_once = len(gaps_s), sum(gap_s < AT_ONCE_S for gap_s in gaps_s)
        if not count:
            raise CheckFailedError(f"{left.id} sends {renewed.id} nothing in {observed_s:g} s")
        lines, size = _lines(left) - lines, left.log_path.stat().st_size - size
        stage.step(
            f"{left.id} sends {renewed.id} {count / observed_s:,.0f} requests a second with a "
            f"backoff of {BACKOFF_MS} ms, {at_once:,} of {count:,} less than "
            f"{AT_ONCE_S * 1000:g} ms after an answer; "
            f"it logs {lines / observed_s:,.0f} lines a second on the voter key, "
            f"{size / observed_s:,.0f} bytes in all"
        )
        return at_once > count / 10  # A node that waits has none, whatever else runs.


def _lines(node: Node) -> int:
    return node.log_path.read_text(encoding="utf-8", errors="replace").count(LOGGED)

"""A leader that removes itself from two voters, and stops: no leader is elected any more.

The page is docs/findings/kraft-gridlock.md.
"""

from __future__ import annotations

from kraftspec.conformance.cluster import Node
from kraftspec.interop.logs import batches_of
from kraftspec.interop.ours import CheckFailedError
from kraftspec.interop.reproduce.stage import (
    Stage,
    log_end,
    remove_voter,
    voters_in,
    wait_voters,
)

# The leader must still lead when it is asked: without fetches it resigns after 1.5 of these.
PROPERTIES = {"controller.quorum.fetch.timeout.ms": "10000"}


def gridlock(stage: Stage) -> bool:
    """Bring it about, look for a leader, and mend it."""
    cluster = stage.cluster(2, PROPERTIES)
    leader = cluster.leader()
    (other,) = (node for node in cluster.controllers if node is not leader)
    stage.step(f"two voters: {leader.id} leads, {other.id} follows")
    other.pause()
    stage.step(f"SIGSTOP {other.id}, whose log ends at {log_end(other)}")
    remove_voter(leader, leader)
    appended = wait_voters(leader, [other.id])
    stage.step(f"RemoveRaftVoter({leader.id}): {leader.id} appends {appended}")
    for node in (leader, other):
        node.kill()
    ends = {node.id: log_end(node) for node in (leader, other)}
    stage.step("SIGKILL both; the logs end at " + ", ".join(f"{ends[i]} ({i})" for i in ends))
    if ends[other.id] > appended.offset:
        raise CheckFailedError(f"{other.id} has fetched the voters before it was stopped")
    stage.restart(cluster, [leader, other])
    elected = stage.leader_within(cluster, [leader, other])
    if elected is not None:
        stage.step(f"restart both: {elected.id} is elected")
        return False
    stage.step(
        f"restart both: no leader in {stage.observe_s:g} s"
        + "".join(f"; {node.id} rejected {_rejections(node)} votes" for node in (leader, other))
    )
    for node in (leader, other):
        node.kill()
    copied = copy_tail(leader, other)
    stage.step(f"SIGKILL both; copy the {copied} batches that {other.id} lacks to its log")
    stage.restart(cluster, [leader, other])
    elected = cluster.leader()
    stage.step(f"restart both: {elected.id} is elected; its log has {voters_in(elected)[-1]}")
    return True


def _rejections(node: Node) -> int:
    text = node.log_path.read_text(encoding="utf-8", errors="replace")
    return sum("is rejected" in line for line in text.splitlines())


def copy_tail(source: Node, to: Node) -> int:
    """Append the batches that a stopped node lacks, as they are in another log; return how many."""
    end = log_end(to)
    segment = max(to.metadata_log.glob("*.log"))
    missing = [batch.data for batch in batches_of(source.metadata_log) if batch.base_offset >= end]
    with segment.open("ab") as log:
        log.write(b"".join(missing))
    return len(missing)

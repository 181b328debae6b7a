"""python findings/embargoed/KS-2026-05/truncated_voters.py truncated-voters --release 4.4.0."""

from __future__ import annotations

from kraftspec.conformance.cluster import Cluster, Node
from kraftspec.fastpath.batch_reader import decode_batch
from kraftspec.generated.kafka import LeaderChangeMessage
from kraftspec.interop.logs import batches_of
from kraftspec.interop.ours import CheckFailedError, wait_until
from kraftspec.interop.reproduce.stage import (
    Stage,
    command,
    directory_id,
    log_end,
    remove_voter,
    wait_voters,
)
from kraftspec.interop.writer import set_config
from kraftspec.reference.admin.client import AdminClient, Endpoint
from kraftspec.reference.log.control import decode_control_records

# A leader without fetches resigns after 1.5 fetch time-outs, and appends two NoOps a second.
PROPERTIES = {
    "controller.quorum.fetch.timeout.ms": "15000",
    "controller.quorum.election.timeout.ms": "1500",
}
TAIL = (
    20  # Records that the first leader alone has: so many that the next voters are before its end.
)
FIRST, SECOND = "acknowledged-by-D-and-F", "acknowledged-by-A-and-E"


def truncated_voters(stage: Stage) -> bool:
    """Let a voter miss a voter set, and be elected by one that was removed."""
    cluster = stage.cluster(3, PROPERTIES)
    a = cluster.leader()
    stage.step(f"A = {a.id} leads three voters")
    d, e = _removal(stage, cluster, a)
    _wait_committed(cluster, d, log_end(d))
    voters = wait_voters(a, [a.id, d.id])
    f = cluster.add_node("controller")
    wait_until(f"{f.id} has caught up once", lambda: _has_caught_up(cluster, d, f))
    stage.step(f"F = {f.id} joins as an observer; {d.id} leads, all logs have {voters}")

    e.kill()
    wait_until("A has what E has", lambda: log_end(a) >= log_end(e))
    a.pause()
    stage.step(f"SIGKILL E, whose log ends at {log_end(e)}; SIGSTOP A, at {log_end(a)}")
    with AdminClient(f"127.0.0.1:{d.listener().port}", to_controllers=True) as admin:
        endpoint = Endpoint("CONTROLLER", "127.0.0.1", f.listener().port)
        admin.add_voter(f.id, directory_id(f), [endpoint])
    stage.step(f"AddRaftVoter(F): {wait_voters(f, [a.id, d.id, f.id])} is committed by D and F")
    _write(stage, cluster, [d], FIRST)

    for node in (d, f):
        node.kill()
    a.resume()
    stage.restart(cluster, [e])
    stage.step("SIGKILL D and F, SIGCONT A, start E: A alone is a voter, so nobody may lead")
    elected = stage.leader_within(cluster, [a, e])
    if elected is None:
        stage.step(f"no leader in {stage.observe_s:g} s, as it must be")
        return False
    stage.step(f"{elected.id} is elected; its LeaderChange names {_last_leader_change(elected)}")
    leader = _write(stage, cluster, [a, e], SECOND)
    return _aftermath(stage, cluster, leader, d, f)


def _removal(stage: Stage, cluster: Cluster, a: Node) -> tuple[Node, Node]:
    """Let A have a tail of its own, and another leader remove a voter; return that leader and E."""
    others = [node for node in cluster.controllers if node is not a]
    for node in others:
        node.pause()
    common = max(map(log_end, others))
    wait_until("A has a tail of its own", lambda: log_end(a) >= common + TAIL)
    a.pause()
    stage.step(f"SIGSTOP the others, whose logs end at {common}; SIGSTOP A, at {log_end(a)}")
    for node in others:
        node.resume()
    d = _leader_of(cluster, others)
    (e,) = (node for node in others if node is not d)
    wait_until("D has committed in its epoch", lambda: _committed(cluster, d) > common)
    remove_voter(d, e)
    voters = wait_voters(d, [a.id, d.id])
    stage.step(f"SIGCONT the others: D = {d.id} leads; RemoveRaftVoter(E = {e.id}): {voters}")
    if voters.offset >= log_end(a):
        raise CheckFailedError("the voters are behind the end of A's log: A will read them")
    a.resume()
    stage.step("SIGCONT A: it truncates its log, and fetches that of D")
    return d, e


def _leader_of(cluster: Cluster, nodes: list[Node]) -> Node:
    leaders: list[Node] = []

    def is_there() -> bool:
        leaders[:] = [node for node in nodes if cluster.quorum_of(node) is not None]
        return bool(leaders)

    wait_until("one of the two leads", is_there)
    return leaders[0]


def _committed(cluster: Cluster, leader: Node) -> int:
    quorum = cluster.quorum_of(leader)
    return -1 if quorum is None else quorum.high_watermark


def _has_caught_up(cluster: Cluster, leader: Node, observer: Node) -> bool:
    """Whether the leader has seen an observer at the end of its log: it refuses to add others."""
    quorum = cluster.quorum_of(leader)
    return quorum is not None and any(
        one.replica_id == observer.id and one.last_caught_up_timestamp >= 0
        for one in quorum.observers
    )


def _wait_committed(cluster: Cluster, leader: Node, end: int) -> None:
    wait_until(f"{leader.id} has committed {end}", lambda: _committed(cluster, leader) >= end)


def _write(stage: Stage, cluster: Cluster, nodes: list[Node], value: str) -> Node:
    """Change metadata at the leader, whichever of ``nodes`` that is then; return it.

    Our own node has no metadata to change, and commits its NoOps.
    """
    leaders: list[Node] = []

    def is_written() -> bool:
        leaders[:] = [node for node in nodes if cluster.quorum_of(node) is not None]
        try:  # A new leader refuses as long as its controller has not taken over.
            return bool(leaders) and (
                stage.is_ours or set_config(leaders[0].listener().port, "kraftspec.test", value)
            )
        except OSError:
            return False

    wait_until(f"a leader sets a configuration to {value}", is_written)
    (leader,) = leaders[:1]
    change = "" if stage.is_ours else f" sets a configuration to {value}, acknowledges it, and"
    end = log_end(leader)
    _wait_committed(cluster, leader, end)
    stage.step(f"{leader.id}{change} commits up to {end}")
    return leader


def _last_leader_change(leader: Node) -> str:
    election = ""
    for batch in batches_of(leader.metadata_log):
        if batch.is_control:
            for _, record in decode_control_records(decode_batch(batch.data, 0)):
                if isinstance(record, LeaderChangeMessage):
                    ids = sorted(voter.voter_id for voter in record.voters)
                    granting = sorted(voter.voter_id for voter in record.granting_voters)
                    election = f"the voters {ids}, by the votes of {granting}"
    return election


def _has(node: Node, value: str) -> bool:
    return any(value.encode() in batch.data for batch in batches_of(node.metadata_log))


def _aftermath(stage: Stage, cluster: Cluster, leader: Node, d: Node, f: Node) -> bool:
    """Let the committed voters come back, and tell what is left of what they acknowledged."""
    for node in (d, f):
        stage.restart(cluster, [node])
        wait_until(f"{node.id} has the log of {leader.id}", lambda node=node: _has(node, SECOND))
    for value in (FIRST, SECOND):
        holders = [node.id for node in cluster.controllers if _has(node, value)]
        stage.step(f"start D and F: {value} is in the logs of {holders or 'nobody'}")
    return True


SCENE = truncated_voters

if __name__ == "__main__":
    command({"truncated-voters": SCENE})()

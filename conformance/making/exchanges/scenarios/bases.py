"""The logs that scenarios begin with, each written by a real controller in several epochs."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import UNSET

from kraftspec.conformance.cluster.artifacts import RELEASES, ClusterError, java_command
from kraftspec.conformance.making.exchanges import requests as rq
from kraftspec.conformance.making.exchanges.disk import snapshots_of
from kraftspec.conformance.making.exchanges.kafka import KafkaNode
from kraftspec.conformance.raw.node import (
    NodeAnswer,
    NodeEndpoint,
    NodeIdentity,
    NodeSnapshot,
    NodeState,
    NodeVoter,
)
from kraftspec.fastpath.batch_reader import read_header
from kraftspec.generated.kafka import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kraftspec.reference.log.directory import BOOTSTRAP_NAME, METADATA_NAME
from kraftspec.reference.wire.blocking import ask

FORMAT_TIMEOUT_S = 60.0
ANSWER_S = 0.3
SNAPSHOT_BYTES = "metadata.log.max.record.bytes.between.snapshots"
NEVER_MS = "3600000"
VOTERS = (1, 2, 3)
BROKER = 4  # ConfigResource.Type
SET = 0  # AlterConfigOp.OpType
# Time-outs that never end; a scenario that needs an election shortens that of elections.
COMMON = {
    "process.roles": "controller",
    "node.id": str(rq.ME),
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
    "advertised.listeners": f"CONTROLLER://{rq.HOST}:{rq.port_of(rq.ME)}",
    "controller.quorum.election.timeout.ms": NEVER_MS,
    "controller.quorum.fetch.timeout.ms": NEVER_MS,
    "controller.quorum.request.timeout.ms": NEVER_MS,
    "metadata.max.idle.interval.ms": "0",
}


def _addresses(voters: tuple[int, ...]) -> list[str]:
    return [f"{rq.HOST}:{rq.port_of(one)}" for one in voters]


def properties_of(voters: tuple[int, ...], *, static: bool) -> dict[str, str]:
    """Return a configuration."""
    if static:
        pairs = zip(voters, _addresses(voters), strict=True)
        listed = ",".join(f"{one}@{address}" for one, address in pairs)
        return COMMON | {"controller.quorum.voters": listed}
    others = tuple(one for one in voters if one != rq.ME) or voters
    return COMMON | {"controller.quorum.bootstrap.servers": ",".join(_addresses(others))}


def empty(
    voters: tuple[int, ...] = VOTERS, *, static: bool = False, by: str = RELEASES[0]
) -> NodeState:
    """Return the state of a node that a release formatted, and that never ran.

    The features are those of the oldest release, and are in the file that every release reads
    unless the newest one formats.
    """
    snapshots, bootstrap = _formatted(voters, by, static=static) if rq.ME in voters else ([], None)
    return NodeState(
        log=[],
        quorum_state=None,
        snapshots=snapshots,
        bootstrap=UNSET if bootstrap is None else bootstrap,
        role="unattached",
        voters=[
            NodeVoter(
                id=one,
                directory_id=rq.text_of(rq.directory_id(0 if static else one)),
                endpoints=[NodeEndpoint(name="CONTROLLER", host=rq.HOST, port=rq.port_of(one))],
            )
            for one in voters
        ],
        identity=NodeIdentity(
            cluster_id=rq.CLUSTER_ID,
            node_id=rq.ME,
            directory_id=rq.text_of(rq.directory_id(rq.ME)),
        ),
        properties=properties_of(voters, static=static),
    )


def _formatted(
    voters: tuple[int, ...], by: str, *, static: bool
) -> tuple[list[NodeSnapshot], str | None]:
    """Let a release's own tool write the checkpoints: of the first voters, and of the features.

    Since 4.4 they are one, of which the second is None (KAFKA-19648).
    """
    with tempfile.TemporaryDirectory(prefix="kraftspec-format-") as directory:
        home = Path(directory)
        listener = f"CONTROLLER://{rq.HOST}:{rq.port_of(rq.ME)}"
        properties = properties_of(voters, static=static)
        properties |= {"listeners": listener, "log.dirs": str(home / "data")}
        path = home / "node.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        listed = ",".join(
            f"{one}@{address}:{rq.text_of(rq.directory_id(one))}"
            for one, address in zip(voters, _addresses(voters), strict=True)
        )
        command = ["format", "-t", rq.CLUSTER_ID, "-c", str(path), "--release-version", "4.0"]
        if not static:
            command += ["--initial-controllers", listed]
        done = subprocess.run(
            java_command("kafka.tools.StorageTool", *command, release=by),
            capture_output=True,
            text=True,
            timeout=FORMAT_TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            raise ClusterError(f"kafka-storage format failed:\n{done.stdout}{done.stderr}")
        of_features = home / "data" / BOOTSTRAP_NAME
        bootstrap = of_features.read_bytes().hex() if of_features.exists() else None
        return snapshots_of(home / "data" / METADATA_NAME), bootstrap


# ---- lives that write a log --------------------------------------------------------------------


def with_changes(state: NodeState, changes: dict[str, str]) -> NodeState:
    """Return a state with other properties."""
    return replaced(state, properties=(state.properties or {}) | changes)


def replaced(state: NodeState, **fields: Any) -> NodeState:
    """Return a state with other fields."""
    values = {name: getattr(state, name) for name in state.__struct_fields__}
    return NodeState(**(values | fields))


def candidate(state: NodeState, epoch: int) -> NodeState:
    """Return a state in which the node has voted for itself: it campaigns as soon as it starts."""
    static = "controller.quorum.voters" in (state.properties or {})
    return replaced(
        state, quorum_state=quorum_state(epoch, voted=rq.ME, static=static), role="candidate"
    )


def fetched(node: KafkaNode, epoch: int, last_epoch: int, voter: int = 2) -> None:
    """Let a voter have all there is, so that it is committed, and the state machine write on."""
    token = node.request(
        rq.frame_of(
            rq.fetch(17, epoch, node.end_offset(), last_epoch=last_epoch, sender=voter), 17, 1
        )
    )
    if node.reply(token) is None:
        raise ClusterError("the controller hung up on a fetch")
    node.quiet()


def configure(node: KafkaNode, value: int) -> None:
    """Let the state machine append a record: a default for brokers."""
    kind = IncrementalAlterConfigsRequest
    config = kind.AlterableConfig(name="background.threads", config_operation=SET, value=str(value))
    resource = kind.AlterConfigsResource(resource_type=BROKER, resource_name="", configs=[config])
    request = kind(resources=[resource], validate_only=False)
    end = node.end_offset()
    with suppress(TimeoutError):  # It answers once that is committed: a scripted voter's affair.
        ask(node.port, request, 1, IncrementalAlterConfigsResponse, timeout_s=ANSWER_S)
    node.until(lambda: node.end_offset() > end, "appended no config")


def after_lives(state: NodeState, lives: Mapping[int, int], voter: int | None = 2) -> NodeState:
    """Let a node lead in each epoch and be configured so many times; return what it leaves.

    ``voter`` elects it and fetches; None where it is alone.
    """
    node = KafkaNode()
    try:
        for epoch, configs in lives.items():
            node.restore(candidate(state, epoch))
            if voter is not None:
                body = rq.vote_answer(epoch, granted=True).encode(2)
                node.answer(
                    NodeAnswer(port=rq.port_of(voter), api="Vote", version=2, hex=body.hex())
                )
            node.settle("leader")
            node.quiet()
            for number in range(configs + 1):
                if number:
                    configure(node, number + 1)
                if voter is not None:
                    fetched(node, epoch, epoch)
                    fetched(node, epoch, epoch)
                node.quiet()
            state = node.state(state)
    finally:
        node.close()
    return replaced(state, quorum_state=None)


def end_of(state: NodeState) -> int:
    """Return where the log of a state ends."""
    if state.log:
        return read_header(bytes.fromhex(state.log[-1])).last_offset + 1
    return max((one.end_offset for one in state.snapshots), default=0)


def quorum_state(
    epoch: int, *, leader: int = rq.NONE, voted: int = rq.NONE, static: bool = False
) -> dict[str, Any]:
    """Return what a quorum-state file has."""
    fields: dict[str, Any] = {"leaderId": leader, "leaderEpoch": epoch, "votedId": voted}
    if static:
        voters = [{"voterId": one} for one in VOTERS]
        return {"clusterId": "", **fields, "appliedOffset": 0, "currentVoters": voters} | {
            "data_version": 0
        }
    return {**fields, "votedDirectoryId": rq.text_of(rq.directory_id(voted)), "data_version": 1}


def lives() -> NodeState:
    """Three voters of kraft.version 1; this node led epochs 1, 3 and 5."""
    return after_lives(empty(), {1: 0, 3: 1, 5: 2})


def static_lives() -> NodeState:
    """Three static voters, kraft.version 0; this node led epochs 1 and 3."""
    return after_lives(empty(static=True), {1: 1, 3: 1})


def alone() -> NodeState:
    """One voter of kraft.version 1, alone; it led epochs 1 and 3."""
    return after_lives(empty((rq.ME,)), {1: 1, 3: 1}, voter=None)


def alone_static() -> NodeState:
    """One static voter, alone, kraft.version 0; it led epochs 1 and 3."""
    return after_lives(empty((rq.ME,), static=True), {1: 1, 3: 1}, voter=None)


def with_snapshots() -> NodeState:
    """One voter alone, that took snapshots; it led epochs 1 and 3."""
    before = empty((rq.ME,))
    state = after_lives(with_changes(before, {SNAPSHOT_BYTES: "60"}), {1: 4, 3: 4}, voter=None)
    bootstrap, _, older, *_, newer, _, _ = state.snapshots
    return replaced(state, properties=before.properties, snapshots=[bootstrap, older, newer])


def observer() -> NodeState:
    """A node that is formatted without voters."""
    return replaced(empty((2, 3)), voters=[])


def empty_static() -> NodeState:
    """Three static voters; nothing was written yet."""
    return empty(static=True)


def empty_checkpoint() -> NodeState:
    """Three voters and the features in the checkpoint 0-0, as 4.4 formats; nothing was written."""
    return empty(by="4.4.0")


BASES: dict[str, Callable[[], NodeState]] = {
    "lives": lives,
    "static": static_lives,
    "alone": alone,
    "alone-static": alone_static,
    "snapshots": with_snapshots,
    "observer": observer,
    "empty": empty,
    "empty-static": empty_static,
    "empty-checkpoint": empty_checkpoint,
}

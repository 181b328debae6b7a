"""What scenes share: a quorum of a release or of our nodes, its logs, and the steps as text."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

import click

from kraftspec.conformance.cluster import RELEASE, RELEASES, Cluster, ClusterError, Node
from kraftspec.conformance.cluster.cluster import Front
from kraftspec.fastpath.batch_reader import decode_batch
from kraftspec.fastpath.types import Uuid
from kraftspec.generated.kafka import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    VotersRecord,
)
from kraftspec.interop.logs import batches_of
from kraftspec.interop.ours import CheckFailedError, Described, describe, wait_until
from kraftspec.reference.admin.errors import AdminError
from kraftspec.reference.log.control import decode_control_records
from kraftspec.reference.log.directory import META_NAME, MetaProperties
from kraftspec.reference.wire.blocking import ask

OURS = "kraftspec"
OUR_COMMAND = (sys.executable, "-m", "kraftspec.interop.reproduce.appending_node")
ANSWER_S = 1.0  # A request that only a commit answers is not waited for longer.
POLL_S = 0.25
ATTEMPTS = 3
FAULT, NO_FAULT, NOT_FOLLOWED = 1, 0, 3  # Exit codes.


class Voters(NamedTuple):
    """A voter set in a log."""

    offset: int
    ids: frozenset[int]

    def __str__(self) -> str:
        return f"Voters{{{', '.join(map(str, sorted(self.ids)))}}} at offset {self.offset}"


class Stage:
    """Where a scene is played: ``with Stage(directory, "4.3.1") as stage``."""

    def __init__(
        self,
        directory: Path,
        release: str,
        say: Callable[[str], None] = click.echo,
        observe_s: float = 60.0,
    ) -> None:
        """Take a release of Kafka, or ``OURS``, and what prints a step.

        ``observe_s`` is how long a scene waits for what must not come, such as a leader.
        """
        self.directory = directory
        self.release = release
        self.is_ours = release == OURS
        self.observe_s = observe_s
        self._say = say
        self._steps = 0
        self._clusters = ExitStack()

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *error: object) -> None:
        self._clusters.close()

    def step(self, text: str) -> None:
        """Print what was done, or seen, under the next number."""
        self._steps += 1
        self._say(f"{self._steps:2}. {text}")

    def cluster(
        self,
        controllers: int,
        properties: Mapping[str, str] | None = None,
        name: str = "quorum",
        front: Front | None = None,
    ) -> Cluster:
        """Start controllers that are all voters; return once all have the same log."""
        cluster = Cluster(
            self.directory / name,
            controllers=controllers,
            brokers=0,
            controller_properties=properties,
            controller_command=OUR_COMMAND if self.is_ours else (),
            front=front,
            release=RELEASE if self.is_ours else self.release,
        )
        cluster.start()
        self._clusters.callback(cluster.stop)
        if controllers > 1:  # One alone leads once it is healthy.
            wait_until("every voter follows the leader", lambda: _is_settled(describe(cluster)))
        return cluster

    def restart(self, cluster: Cluster, nodes: Iterable[Node]) -> None:
        """Start nodes that were killed; return once each answers, whatever it answers."""
        started = list(nodes)
        for node in started:
            node.start()
        for node in started:
            node.wait(partial(_answers, cluster, node), "answering")

    def leader_within(self, cluster: Cluster, nodes: Iterable[Node]) -> Node | None:
        """Return who of ``nodes`` leads within ``observe_s``; None if nobody does."""
        observed = list(nodes)
        deadline = time.monotonic() + self.observe_s
        while time.monotonic() < deadline:
            for node in observed:
                if not node.running():
                    raise CheckFailedError(f"node {node.id} ended:\n{node.log_tail()}")
                if cluster.quorum_of(node) is not None:
                    return node
            time.sleep(POLL_S)
        return None


Scene = Callable[[Stage], bool]  # Returns whether the fault is there.


def _is_settled(quorum: Described | None) -> bool:
    """Whether a leader has committed, and has heard from every voter in its epoch."""
    return (
        quorum is not None
        and quorum.high_watermark > 0
        and all(voter.log_end_offset > 0 for voter in quorum.current_voters)
    )


def _answers(cluster: Cluster, node: Node) -> bool:
    cluster.describe_quorum(node)  # Raises OSError as long as nobody listens.
    return True


# ---- what nodes are asked, and what is in their logs --------------------------------------------


def directory_id(node: Node) -> Uuid:
    """Return the id of a node's directory."""
    path = node.metadata_log.parent / META_NAME
    return MetaProperties.parse(path.read_bytes(), str(path)).directory_id


def remove_voter(leader: Node, voter: Node) -> None:
    """Ask the leader to remove a voter; do not wait for the commit.

    Raises CheckFailedError where the leader refuses.
    """
    request = RemoveRaftVoterRequest(
        cluster_id=None, voter_id=voter.id, voter_directory_id=directory_id(voter)
    )
    port = leader.listener().port
    try:
        answer = ask(port, request, 0, RemoveRaftVoterResponse, timeout_s=ANSWER_S)
    except TimeoutError:
        return
    if answer.error_code:
        raise CheckFailedError(
            f"{leader.id} does not remove {voter.id}: {answer.error_code} {answer.error_message}"
        )


def log_end(node: Node) -> int:
    """Return the offset after the last batch in a node's log, as its files have it."""
    return max((batch.last_offset + 1 for batch in batches_of(node.metadata_log)), default=0)


def voters_in(node: Node) -> list[Voters]:
    """Return the voter sets in a node's log, the oldest first."""
    voter_sets = []
    for batch in batches_of(node.metadata_log):
        if batch.is_control:
            for offset, record in decode_control_records(decode_batch(batch.data, 0)):
                if isinstance(record, VotersRecord):
                    ids = frozenset(voter.voter_id for voter in record.voters)
                    voter_sets.append(Voters(offset, ids))
    return voter_sets


def wait_voters(node: Node, ids: Iterable[int]) -> Voters:
    """Return the last voter set of a node's log, once that is ``ids``."""
    wanted = frozenset(ids)

    def is_there() -> bool:
        voter_sets = voters_in(node)
        return bool(voter_sets) and voter_sets[-1].ids == wanted

    wait_until(f"node {node.id} has the voters {sorted(wanted)} in its log", is_there)
    return voters_in(node)[-1]


# ---- the command --------------------------------------------------------------------------------


def play(scene: Scene, release: str, observe_s: float, say: Callable[[str], None]) -> int:
    """Play a scene in a temporary directory; return the exit code.

    What real processes do depends on their timing. A sequence that could not be followed says
    nothing about the fault, so it is played again.
    """
    for attempt in range(1, ATTEMPTS + 1):
        with tempfile.TemporaryDirectory(prefix="kraftspec-reproduce-") as directory:
            try:
                with Stage(Path(directory), release, say, observe_s) as stage:
                    is_there = scene(stage)
            except (CheckFailedError, ClusterError, AdminError) as error:
                say(f"The sequence could not be followed (try {attempt} of {ATTEMPTS}): {error}")
                continue
        say(f"{release}: the fault is {'there' if is_there else 'not there'}")
        return FAULT if is_there else NO_FAULT
    return NOT_FOLLOWED


def command(scenes: Mapping[str, Scene]) -> click.Command:
    """Return the command that plays one of these."""

    @click.command(help="Bring about a fault of Apache Kafka on real controllers.")
    @click.argument("name", type=click.Choice(sorted(scenes)))
    @click.option(
        "--release",
        type=click.Choice([*RELEASES, OURS]),
        default=RELEASE,
        show_default=True,
        help="Of Apache Kafka; kraftspec is our own node.",
    )
    @click.option(
        "--observe",
        default=60.0,
        show_default=True,
        type=click.FloatRange(1),
        metavar="SECONDS",
        help="How long to wait for what must not come, such as a leader.",
    )
    def reproduce(name: str, release: str, observe: float) -> None:
        raise SystemExit(play(scenes[name], release, observe, click.echo))

    return reproduce

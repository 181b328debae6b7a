"""Format the log directory of a node of a draft: what ``kafka-storage`` is to it.

What formatting makes::

    meta.properties                               version=<profile>, and whose directory it is
    __cluster_metadata-0/quorum-state             of the first node of KIP-853: its uuid
    __cluster_metadata-0/00000000000000000000.log …and the AddVoterRecord that makes it a voter

KIP-595 needs no cluster id, for its first leader makes one; one that is given is that of a cluster
that migrates. There the mark of the profile is all that formatting has to make.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from kraftspec.fastpath.types import ZERO_UUID, Uuid
from kraftspec.reference.log.directory import (
    META_NAME,
    LogDirectory,
    MetaProperties,
    NotFormattedError,
)
from kraftspec.reference.log.properties import parse_properties
from kraftspec.reference.node.config_drafts import KIP_595, KIP_853
from kraftspec.reference.profiles.kip_853.bootstrap import bootstrap_files
from kraftspec.reference.raft.types import ReplicaKey, Voter
from kraftspec.reference.tools.storage import StorageError, StorageInfo

if TYPE_CHECKING:
    from kraftspec.reference.node.settings import NodeConfig


class DraftFormat(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for. ``cluster_id`` is empty where none is given."""

    profile: str
    cluster_id: str = ""
    standalone: bool = False
    no_initial_controllers: bool = False
    ignore_formatted: bool = False


class DraftReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was done. ``uuid`` is that of KIP-853's first node, else zero."""

    profile: str
    cluster_id: str
    node_id: int
    directory: str
    is_new: bool
    uuid: Uuid = ZERO_UUID

    @property
    def lines(self) -> list[str]:
        """What there is to say to a person."""
        if not self.is_new:
            return [f"{self.directory} is formatted already, as {self.profile}."]
        said = [f"Formatting {self.directory} as {self.profile}, node {self.node_id}."]
        if self.uuid != ZERO_UUID:
            said.append(f"It is the first voter, with the uuid {self.uuid}.")
        return said


def draft_info(config: NodeConfig, profile: str) -> StorageInfo:
    """Look into a node's log directory, as ``storage_info`` does for Kafka's."""
    path = Path(config.log_dir)
    problems: list[str] = []
    metadata = None
    if not path.is_dir():
        missing = "is not a directory" if path.exists() else "does not exist"
        problems.append(f"{path} {missing}")
    elif not (path / META_NAME).exists():
        problems.append(f"{path} is not formatted.")
    else:
        try:
            data = (path / META_NAME).read_bytes()
            meta = MetaProperties.parse(data, f"{path}/{META_NAME}")
            metadata = dict(sorted(parse_properties(data.decode("latin-1")).items()))
        except (NotFormattedError, OSError) as error:
            problems.append(str(error))
        else:
            if meta.profile != profile:
                problems.append(f"{path} belongs to the profile {meta.profile}, not to {profile}.")
            if meta.node_id != config.node_id:
                problems.append(f"{path} is that of node {meta.node_id}, not {config.node_id}.")
    directories = (str(path),) if path.is_dir() else ()
    return StorageInfo(directories=directories, metadata=metadata, problems=tuple(problems))


def format_draft(config: NodeConfig, request: DraftFormat) -> DraftReport:
    """Format a node's log directory; durable on return.

    Raises StorageError (nothing was changed), or OSError as the disk does.
    """
    _check(config, request)
    report = DraftReport(
        profile=request.profile,
        cluster_id=request.cluster_id,
        node_id=config.node_id,
        directory=config.log_dir,
        is_new=not _is_formatted(config, request),
        uuid=Uuid.random() if request.standalone else ZERO_UUID,
    )
    if report.is_new:
        meta = MetaProperties(
            profile=request.profile, cluster_id=request.cluster_id, node_id=config.node_id
        )
        Path(config.log_dir).mkdir(parents=True, exist_ok=True)
        files = _first_node(config, report) if request.standalone else None
        LogDirectory.format(config.log_dir, meta, files)
    return report


def _check(config: NodeConfig, request: DraftFormat) -> None:
    profile = request.profile
    if request.cluster_id and not request.cluster_id.isprintable():
        raise StorageError(f"the cluster id {request.cluster_id!a} is not printable")
    if not request.cluster_id and profile != KIP_595:
        raise StorageError(
            f"{profile} needs --cluster-id, the same on every node; random-uuid prints one"
        )
    chosen = request.standalone or request.no_initial_controllers
    if profile != KIP_853 and chosen:
        raise StorageError(
            f"{profile} has no --standalone and no --no-initial-controllers: its first voters "
            f"stand in the properties"
        )
    if profile == KIP_853:
        if len(config.core.voters) and chosen:
            raise StorageError(
                "the voters are those of controller.quorum.voters: leave --standalone and "
                "--no-initial-controllers out, or write controller.quorum.bootstrap.servers instead"
            )
        if not len(config.core.voters) and not chosen:
            raise StorageError(
                "without controller.quorum.voters give --standalone for the first voter, or "
                "--no-initial-controllers for a node that add-voter will add"
            )


def _is_formatted(config: NodeConfig, request: DraftFormat) -> bool:
    path = Path(config.log_dir) / META_NAME
    try:
        meta = MetaProperties.parse(path.read_bytes(), config.log_dir)
    except FileNotFoundError:
        return False
    except NotFormattedError as error:
        raise StorageError(f"{path} is there, and is not to be read: {error}") from error
    if meta.profile != request.profile:
        raise StorageError(
            f"{config.log_dir} belongs to the profile {meta.profile}, and never to another: name a "
            f"directory of its own for {request.profile}"
        )
    if meta.node_id != config.node_id:
        raise StorageError(
            f"{config.log_dir} is that of node {meta.node_id}, and {config.path} is of node "
            f"{config.node_id}"
        )
    if not request.ignore_formatted:
        raise StorageError(
            f"{config.log_dir} is formatted already; --ignore-formatted passes over it"
        )
    return True


def _first_node(config: NodeConfig, report: DraftReport) -> dict[str, bytes]:
    """Return the files by which a node is the first voter: its uuid, and the record that says so.

    Source: KIP-853, "bootstrap the first quorum node by writing an AddVoter record to the cluster
    metadata log".
    """
    core = config.core
    voter = Voter(ReplicaKey(report.node_id, report.uuid), core.endpoints)
    return bootstrap_files(report.uuid, [voter], time.time_ns() // 1_000_000)

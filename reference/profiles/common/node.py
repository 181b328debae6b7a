"""What a node is beside the protocol that its core speaks, and how it is formatted and laid out.

Each profile has a `NodePart` of its own in its module ``node``. A node of the profile ``kafka`` may
be one of a quorum of Apache Kafka's own controllers. It registers with them, lets them lead,
answers what their tools and brokers send to any controller, and has the id of its log directory in
meta.properties. The drafts know none of that, which is what stands here.

An operator would make the same files as ``lay_out``. What formatting makes for a draft::

    meta.properties                               version=<profile>, the node, the cluster
    __cluster_metadata-0/quorum-state             of the first node of KIP-853: its uuid
    __cluster_metadata-0/00000000000000000000.log …and the AddVoterRecord that makes it a voter
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from kraftspec.fastpath.types import ZERO_UUID, Uuid
from kraftspec.reference.log.directory import (
    META_NAME,
    LogDirectory,
    MetaProperties,
    NotFormattedError,
)
from kraftspec.reference.log.properties import parse_properties, render_properties
from kraftspec.reference.raft.types import DraftEndpoint
from kraftspec.reference.tools.storage import FormatRequest, StorageError, StorageInfo

if TYPE_CHECKING:
    from kraftspec.reference.local.quorum import LocalQuorum
    from kraftspec.reference.node.apis import ShellApi
    from kraftspec.reference.node.reader import Reader
    from kraftspec.reference.node.runtime import Node
    from kraftspec.reference.node.settings import Listener, NodeConfig
    from kraftspec.reference.profiles.parts import Parts
    from kraftspec.reference.raft import Core
    from kraftspec.reference.raft.config import Config
    from kraftspec.reference.tools.storage import Say

AUTO_JOIN: Final = "controller.quorum.auto.join.enable"
LISTENER: Final = "CONTROLLER"
PROPERTIES_NAME: Final = "node.properties"
LOG_NAME: Final = "log"

Gauge = tuple[str, float, str]  # Its name, value, and what it says.


class Place(NamedTuple):
    """Where one node is to be: its id, ``host:port``, its directory, and whether it is a voter."""

    node_id: int
    address: str
    home: Path
    is_voter: bool


class Formatted(NamedTuple):
    """What was done, in the shape of its JSON, and warnings about the properties."""

    report: dict[str, Any]
    warnings: Sequence[object]


class NodePart:
    """Base of what stands beside a profile. A class of a profile overrides what differs."""

    # The APIs that the core has no part in, by key.
    shell_apis: Mapping[int, ShellApi] = {}
    # Whether it tells an active controller of Kafka's that it exists.
    registers = False
    # Whether to resign once it leads; None where that depends on who the others are.
    hands_back: bool | None = False
    # Whether it writes snapshots, of a log whose records are all Kafka's metadata.
    writes_snapshots = False
    # Whether a directory that has no id gets one, in meta.properties.
    names_directory = False
    # Whether a voter set says where its voters are.
    addresses_in_log = True
    # The property with the addresses to begin with.
    servers = "controller.quorum.bootstrap.servers"
    # What its documents call a replica's second id.
    id_word = "uuid"

    def __init__(self, profile: Parts) -> None:
        self.profile = profile

    def load_config(self, path: Path) -> NodeConfig:
        """Return the configuration in a properties file; ConfigError has all that is wrong."""
        raise NotImplementedError

    def gauges(self, core: Core) -> Iterable[Gauge]:
        """Return metrics beside Kafka's, or in the place of one of these."""
        return ()

    def awaits(self, core: Core) -> str:
        """Return whom a voter waits for before it may begin an election, or ""."""
        return ""

    # ---- formatting, and a quorum on loopback ------------------------------------------------

    def info(self, path: Path) -> StorageInfo:
        """Look into the log directories of the node of a properties file."""
        raise NotImplementedError

    def format(self, path: Path, request: FormatRequest, say: Say = lambda line: None) -> Formatted:
        """Format the log directories of the node of a properties file; durable on return.

        ``say`` is called with each line for a person. Raises StorageError and ValueError (nothing
        was changed), or OSError as the disk does.
        """
        raise NotImplementedError

    def lay_out(self, places: Sequence[Place], settings: Mapping[str, str]) -> list[Path]:
        """Write the properties of the nodes of a quorum, and format them; return the files.

        ``settings`` are properties beside those that make a node one of this quorum.
        """
        paths = []
        for place, request in zip(places, self.requests(places), strict=True):
            place.home.mkdir(parents=True, exist_ok=True)
            path = place.home / PROPERTIES_NAME
            log_dirs = {"log.dirs": str(place.home.resolve() / LOG_NAME)}
            own = self.properties(place, places)
            path.write_text(render_properties({**own, **log_dirs, **settings}), "latin-1")
            self.format(path, request)
            paths.append(path)
        return paths

    def requests(self, places: Sequence[Place]) -> list[FormatRequest]:
        """Return how each node is formatted."""
        return [FormatRequest(cluster_id=str(Uuid.random()))] * len(places)

    def properties(self, place: Place, places: Sequence[Place]) -> dict[str, str]:
        """Return what makes a node one of a quorum."""
        return {
            "process.roles": "controller",
            "node.id": str(place.node_id),
            "controller.listener.names": LISTENER,
            "listeners": f"{LISTENER}://{place.address}",
            "advertised.listeners": f"{LISTENER}://{place.address}",
            self.servers: ",".join(one.address for one in places if one.is_voter),
        }

    def bootstrap_of(self, path: Path) -> str:
        """Return the addresses that a node's properties begin with: ``host:port,…``."""
        text = parse_properties(path.read_text("latin-1"))[self.servers]
        return ",".join(word.rpartition("@")[2] for word in text.split(","))

    async def begin(self, quorum: LocalQuorum, leader: Node) -> None:
        """Do what comes first in a new quorum whose log has no data record.

        Raises NotAppendedError where the node leads no more, AdminError where a voter is not added.
        """


class DraftNode(NodePart):
    """Base of the drafts' nodes: one log directory, with the mark of its profile."""

    # Whether formatting is told the cluster id.
    needs_cluster_id = True

    def info(self, path: Path) -> StorageInfo:
        """Look into a node's log directory, as ``storage_info`` does for Kafka's."""
        config = self.load_config(path)
        path, name = Path(config.log_dir), self.profile.name
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
                if meta.profile != name:
                    problems.append(f"{path} belongs to the profile {meta.profile}, not to {name}.")
                if meta.node_id != config.node_id:
                    problems.append(f"{path} is that of node {meta.node_id}, not {config.node_id}.")
        directories = (str(path),) if path.is_dir() else ()
        return StorageInfo(directories=directories, metadata=metadata, problems=tuple(problems))

    def format(self, path: Path, request: FormatRequest, say: Say = lambda line: None) -> Formatted:
        """Format a node's log directory; durable on return."""
        config = self.load_config(path)
        name, directory = self.profile.name, config.log_dir
        self.check(config, request)
        is_new = not self._is_formatted(config, request)
        uuid = Uuid.random() if request.standalone else ZERO_UUID
        if is_new:
            meta = MetaProperties(
                profile=name,
                cluster_id=request.cluster_id,
                node_id=config.node_id,
                id_property=self.profile.id_property,
            )
            Path(directory).mkdir(parents=True, exist_ok=True)
            files = self.first_files(config, uuid) if request.standalone else None
            LogDirectory.format(directory, meta, files)
            say(f"Formatting {directory} as {name}, node {config.node_id}.")
            if uuid != ZERO_UUID:
                say(f"It is the first voter, with the uuid {uuid}.")
        else:
            say(f"{directory} is formatted already, as {name}.")
        report: dict[str, Any] = {
            "profile": name,
            "clusterId": request.cluster_id or None,
            "nodeId": config.node_id,
            "formatted": [directory] if is_new else [],
            "alreadyFormatted": [] if is_new else [directory],
        }
        if request.standalone:
            report["voterUuid"] = str(uuid)
        return Formatted(report, config.warnings)

    def check(self, config: NodeConfig, request: FormatRequest) -> None:
        """Raise StorageError for what is not to be done."""
        if request.cluster_id and not request.cluster_id.isprintable():
            raise StorageError(f"the cluster id {request.cluster_id!a} is not printable")
        if not request.cluster_id and self.needs_cluster_id:
            raise StorageError(
                f"{self.profile.name} needs --cluster-id, the same on every node; random-uuid "
                f"prints one"
            )
        self.check_voters(config, is_chosen=request.standalone or request.no_initial_controllers)

    def check_voters(self, config: NodeConfig, *, is_chosen: bool) -> None:
        """Raise StorageError where the first voters are to be chosen, and cannot, or not at all."""
        if is_chosen:
            raise StorageError(
                f"{self.profile.name} has no --standalone and no --no-initial-controllers: its "
                f"first voters stand in the properties"
            )

    def first_files(self, config: NodeConfig, uuid: Uuid) -> Mapping[str, bytes]:
        """Return the files by which a node with this uuid is the first voter."""
        raise NotImplementedError

    def _is_formatted(self, config: NodeConfig, request: FormatRequest) -> bool:
        path = Path(config.log_dir) / META_NAME
        try:
            meta = MetaProperties.parse(path.read_bytes(), config.log_dir)
        except FileNotFoundError:
            return False
        except NotFormattedError as error:
            raise StorageError(f"{path} is there, and is not to be read: {error}") from error
        if meta.profile != self.profile.name:
            raise StorageError(
                f"{config.log_dir} belongs to the profile {meta.profile}, and never to another: "
                f"name a directory of its own for {self.profile.name}"
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


def with_protocols(core: Config, listeners: Sequence[Listener]) -> Config:
    """Let endpoints that are not PLAINTEXT say so: the messages of KIP-595 and KIP-853 do."""
    numbers = {one.name: one.protocol.number for one in listeners}
    endpoints = tuple(
        DraftEndpoint(one.name, one.host, one.port, number)
        if (number := numbers.get(one.name, 0))
        else one
        for one in core.endpoints
    )
    return msgspec.structs.replace(core, endpoints=endpoints)


def refuse_auto_join(reader: Reader, profile: str) -> None:
    """Note a mistake where a node is to become a voter of itself, which a later KIP has."""
    if reader.flag(AUTO_JOIN):
        reader.mistake(AUTO_JOIN, f"{profile} has no such property: remove it")

"""A log directory: its lock, its meta.properties, and what is in it.

::

    .lock                    held while the directory is open (fcntl, as Java's FileLock)
    meta.properties          whose directory it is
    __cluster_metadata-0/    the metadata log, its snapshots, quorum-state
    bootstrap.checkpoint     the records that a first leader writes, as Kafka formatted before 4.4

A directory belongs to one profile. Apache Kafka's own (``kafka``) has ``version=1``, and no mark
that Kafka does not know. The others have ``version=<profile>``, which Kafka refuses to open, as
they refuse one another's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

import msgspec

from kraftspec.fastpath.types import ZERO_UUID, Uuid
from kraftspec.reference.log.files import LocalFiles, ensure_directory, read_whole, replace_whole
from kraftspec.reference.log.metadata_log import LogConfig, MetadataLog
from kraftspec.reference.log.properties import parse_properties, render_properties
from kraftspec.reference.log.quorum_state import QuorumStateFile
from kraftspec.reference.log.snapshots import data_values, snapshot_name
from kraftspec.reference.raft.types import BOOTSTRAP_SNAPSHOT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from kraftspec.reference.log.files import Files, Lock

LOCK_NAME: Final = ".lock"
META_NAME: Final = "meta.properties"
METADATA_NAME: Final = "__cluster_metadata-0"
FIRST_CHECKPOINT: Final = f"{METADATA_NAME}/{snapshot_name(BOOTSTRAP_SNAPSHOT)}"
BOOTSTRAP_NAME: Final = "bootstrap.checkpoint"
KAFKA: Final = "kafka"  # The profile of a directory whose meta.properties names none.
_VERSIONS: Final = {KAFKA: "1"}  # Of meta.properties; that of any other profile is its name.
NODE_ID: Final = "node.id"
BROKER_ID: Final = "broker.id"
_INT32_MAX: Final = (1 << 31) - 1


class NotFormattedError(ValueError):
    """A directory is not opened: it is not formatted, or is another node's or profile's."""


class MetaProperties(msgspec.Struct, frozen=True, kw_only=True):
    """What meta.properties says.

    ``id_property`` has the node's id. ``others`` are properties that this profile does not use;
    they are kept.
    """

    profile: str = KAFKA
    cluster_id: str = ""
    node_id: int = -1
    directory_id: Uuid = ZERO_UUID
    id_property: str = NODE_ID
    others: dict[str, str] = {}

    def render(self) -> bytes:
        """Return the file."""
        properties = {"version": _VERSIONS.get(self.profile, self.profile)}
        if self.cluster_id:
            properties["cluster.id"] = self.cluster_id
        if self.node_id >= 0:
            properties[self.id_property] = str(self.node_id)
        if self.directory_id != ZERO_UUID:
            properties["directory.id"] = str(self.directory_id)
        return render_properties(properties | self.others).encode()

    @classmethod
    def parse(cls, data: bytes, path: str) -> Self:
        """Read the file; NotFormattedError says what is wrong with it."""
        try:
            properties = parse_properties(data.decode("latin-1"))
            version = properties.pop("version", "0")
            if version == "0":
                raise ValueError(
                    "version 0 is that of a ZooKeeper broker; Kafka's kafka-storage format "
                    "makes version 1"
                )
            is_kafka = version == _VERSIONS[KAFKA]
            if not is_kafka and version.isdigit():
                raise ValueError(f"version {version}, and {_VERSIONS[KAFKA]} is known")
            has_broker_id = BROKER_ID in properties and NODE_ID not in properties
            id_property = BROKER_ID if has_broker_id and not is_kafka else NODE_ID
            meta = cls(
                profile=KAFKA if is_kafka else version,
                cluster_id=properties.pop("cluster.id", ""),
                node_id=_node_id(properties.pop(id_property, "-1")),
                id_property=id_property,
                directory_id=Uuid.parse(properties.pop("directory.id", str(ZERO_UUID))),
                others=properties,
            )
            if is_kafka and (meta.node_id < 0 or not meta.cluster_id):
                missing = id_property if meta.node_id < 0 else "cluster.id"
                raise ValueError(f"{missing} is missing")
        except ValueError as error:
            raise NotFormattedError(f"{path}: {error}") from error
        return meta


def _node_id(text: str) -> int:
    if not text.lstrip("-").isdigit() or not -1 <= int(text) <= _INT32_MAX:
        raise ValueError(f"node.id {text!r} is no id")
    return int(text)


class LogDirectory:
    """A log directory that is open, and so locked: ``with LogDirectory.open(path) as it``."""

    def __init__(self, path: str, files: Files, lock: Lock, meta: MetaProperties) -> None:
        """Take over a lock; ``open`` is how a directory is opened."""
        self.path = path
        self.files = files
        self.meta = meta
        self.quorum_state = QuorumStateFile(files, self.metadata_path)
        self._lock = lock

    @property
    def metadata_path(self) -> str:
        """The directory of the metadata log."""
        return f"{self.path}/{METADATA_NAME}"

    @classmethod
    def format(
        cls,
        path: str,
        meta: MetaProperties,
        checkpoints: Mapping[str, bytes] | None = None,
        files: Files | None = None,
    ) -> None:
        """Make a directory a node's; durable on return, and not formatted before that.

        ``checkpoints`` are files by their names within the directory:
        ``__cluster_metadata-0/…-….checkpoint``, and what else a draft has a first node begin with.
        Raises FileExistsError where it is formatted.
        """
        files = files or LocalFiles()
        ensure_directory(files, path)
        lock = files.lock(f"{path}/{LOCK_NAME}")
        try:
            if META_NAME in files.names(path):
                raise FileExistsError(f"{path} is formatted already: {path}/{META_NAME} is there")
            for name, data in (checkpoints or {}).items():
                directory, _, file_name = f"{path}/{name}".rpartition("/")
                ensure_directory(files, directory)
                replace_whole(files, directory, file_name, data)
                # A snapshot of the log, and those are read-only; a log or a state is not.
                if directory != path and file_name.endswith(".checkpoint"):
                    files.make_read_only(f"{directory}/{file_name}")
            replace_whole(files, path, META_NAME, meta.render())
        finally:
            lock.close()

    @classmethod
    def open(
        cls,
        path: str,
        files: Files | None = None,
        *,
        profile: str = KAFKA,
        node_id: int | None = None,
        cluster_id: str | None = None,
    ) -> Self:
        """Lock a directory and read whose it is.

        Raises BlockingIOError where another process (Kafka's too) or this one has it open, and
        NotFormattedError where it is not formatted, is another profile's, or is not that of
        ``node_id`` and ``cluster_id``, where these are given.
        """
        files = files or LocalFiles()
        try:
            names = files.names(path)
        except FileNotFoundError:
            names = []
        if META_NAME not in names:
            raise NotFormattedError(
                f"{path} is not formatted: there is no {META_NAME} in it; format it with "
                f"kraftspec storage format, or Kafka's kafka-storage format"
            )
        lock = files.lock(f"{path}/{LOCK_NAME}")
        try:
            files.remove(f"{path}/{META_NAME}.tmp")
            meta = MetaProperties.parse(read_whole(files, f"{path}/{META_NAME}"), path)
            if meta.profile != profile:
                raise NotFormattedError(
                    f"{path} belongs to the profile {meta.profile}, and was opened as {profile}"
                )
            if node_id is not None and meta.node_id != node_id:
                raise NotFormattedError(
                    f"{path} is that of node {meta.node_id}, and this is node {node_id}: "
                    f"{meta.id_property} in {META_NAME} is not that of the configuration"
                )
            if cluster_id is not None and meta.cluster_id != cluster_id:
                raise NotFormattedError(
                    f"{path} is of the cluster {meta.cluster_id}, and not of {cluster_id}"
                )
            ensure_directory(files, f"{path}/{METADATA_NAME}")
        except BaseException:
            lock.close()
            raise
        return cls(path, files, lock, meta)

    def open_log(
        self, config: LogConfig | None = None, *, cut_corrupt: bool = False
    ) -> MetadataLog:
        """Open the metadata log; see ``MetadataLog.open``."""
        return MetadataLog.open(self.metadata_path, self.files, config, cut_corrupt=cut_corrupt)

    def bootstrap_values(self) -> list[bytes]:
        """Return the records that a first leader appends, their values, as formatting left them.

        Since Kafka 4.4 they are in the checkpoint 0-0; if that has none, in bootstrap.checkpoint.
        """
        for name in (FIRST_CHECKPOINT, BOOTSTRAP_NAME):
            try:
                values = list(data_values(read_whole(self.files, f"{self.path}/{name}")))
            except FileNotFoundError:
                continue
            if values:
                return values
        return []

    def set_meta(self, meta: MetaProperties) -> None:
        """Replace meta.properties; durable on return."""
        replace_whole(self.files, self.path, META_NAME, meta.render())
        self.meta = meta

    def close(self) -> None:
        """Let others have the directory; what is open in it is closed before."""
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

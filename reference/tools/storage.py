"""Format the log directories of a node, and tell what is in them (``kafka.tools.StorageTool``).

What formatting makes, as Kafka's does since 4.4 (KAFKA-19648)::

    meta.properties          whose directory it is
    __cluster_metadata-0/00000000000000000000-0000000000.checkpoint
                             of a controller: KRaftVersion where voters are not static, Voters
                             where the first ones are given, metadata.version and the other
                             features, SCRAM credentials

Before 4.4 all but the first two records were in ``bootstrap.checkpoint``, of every log directory. A
directory is formatted once its meta.properties is there, which is written last.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from kraftspec.fastpath.message import Message
from kraftspec.fastpath.types import Uuid
from kraftspec.generated.kafka import (
    FeatureLevelRecord,
    SnapshotHeaderRecord,
    UserScramCredentialRecord,
)
from kraftspec.reference.log.control import control_value
from kraftspec.reference.log.directory import (
    FIRST_CHECKPOINT,
    META_NAME,
    LogDirectory,
    MetaProperties,
)
from kraftspec.reference.log.properties import parse_properties
from kraftspec.reference.log.snapshots import checkpoint_bytes
from kraftspec.reference.metadata.features import (
    BY_NAME,
    KRAFT_VERSION,
    LATEST_STABLE,
    METADATA_VERSION,
    NAMES,
    SCRAM_MIN,
    effective_levels,
    metadata_level,
    parse_level,
    release_level,
)
from kraftspec.reference.profiles.kafka.records import encode_control
from kraftspec.reference.raft.control import KRaftVersion, Voters
from kraftspec.reference.raft.types import ReplicaKey, Voter
from kraftspec.reference.raft.voters import VoterSet
from kraftspec.reference.tools.scram import parse_scram
from kraftspec.reference.tools.storage_config import StorageConfig
from kraftspec.reference.tools.voters import KRAFT_VERSIONS, parse_voters

META_BYTES_MAX: Final = 1 << 20  # It has four lines.
ID_DIGITS_MAX: Final = 19  # A number of 64 bits has no more; what is longer is told as it is.
_FRAME_VERSION: Final = 1
_SIGN_BIT: Final = 128
_LEGACY: Final = (
    "The kafka configuration file appears to be for a cluster in KRaft mode, but the directories "
    "are formatted for legacy mode."
)

Say = Callable[[str], None]


class StorageError(ValueError):
    """What the tool refuses to do; nothing was changed."""


class FormatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What ``format`` is asked for, as the options have it.

    ``features`` are ``name=level``, ``scram`` the arguments of ``--add-scram``, and
    ``initial_controllers`` the text of ``--initial-controllers``, None without it.
    """

    cluster_id: str
    standalone: bool = False
    no_initial_controllers: bool = False
    initial_controllers: str | None = None
    ignore_formatted: bool = False
    release_version: str | None = None
    features: tuple[str, ...] = ()
    scram: tuple[str, ...] = ()


class FormattedDirectory(msgspec.Struct, frozen=True, kw_only=True):
    """A directory that was formatted; ``kind`` is Kafka's word for what it is now."""

    path: str
    kind: str
    directory_id: Uuid


class FormatReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was done. ``features`` are all that are on, ``skipped`` what was formatted before."""

    cluster_id: str
    node_id: int
    metadata_version: int
    features: dict[str, int]
    directories: tuple[FormattedDirectory, ...]
    skipped: tuple[str, ...]


class StorageInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What ``info`` found: directories, the first meta.properties, problems."""

    directories: tuple[str, ...]
    metadata: dict[str, str] | None
    problems: tuple[str, ...]


# ---- what is there -----------------------------------------------------------------------------


def load_meta(path: Path) -> dict[str, str]:
    """Return what a meta.properties says, sorted; other keys are left out.

    Raises ValueError in Kafka's words (``MetaProperties.Builder``), OSError as the disk does.
    """
    with path.open("rb") as file:
        properties = parse_properties(file.read(META_BYTES_MAX).decode("latin-1"))
    text = properties.get("version", "0")
    if not text.isascii() or not text.isdigit():
        raise ValueError(f"Invalid meta.properties version string '{text}'")
    if text not in ("0", "1"):
        raise ValueError(f"Unknown meta.properties version number {text}")
    id_key = "node.id" if text == "1" else "broker.id"
    meta = {"version": text}
    if id_key in properties:
        digits = properties[id_key].removeprefix("-")
        if not digits.isascii() or not digits.isdigit():
            raise ValueError(f"Unable to read {id_key} as a base-10 number.")
        meta[id_key] = str(int(properties[id_key])) if len(digits) <= ID_DIGITS_MAX else digits
    elif text == "1":
        raise ValueError("Failed to find node.id")
    if "cluster.id" in properties:
        meta["cluster.id"] = properties["cluster.id"]
    elif text == "1":
        raise ValueError("cluster.id was not found.")
    if "directory.id" in properties:
        try:
            meta["directory.id"] = str(Uuid.parse(properties["directory.id"]))
        except ValueError as error:
            raise ValueError(f"Unable to read directory.id as a Uuid: {error}") from None
    return dict(sorted(meta.items()))


def _node_id(meta: dict[str, str]) -> str | None:
    return meta.get("node.id", meta.get("broker.id"))


def storage_info(log_dirs: Sequence[str]) -> StorageInfo:
    """Look into log directories, as ``info`` does."""
    directories, problems = [], []
    first: dict[str, str] | None = None
    for name in sorted(log_dirs):
        path = Path(name)
        if not path.is_dir():
            missing = "is not a directory" if path.exists() else "does not exist"
            problems.append(f"{name} {missing}")
            continue
        directories.append(name)
        if not (path / META_NAME).exists():
            problems.append(f"{name} is not formatted.")
            continue
        try:
            meta = load_meta(path / META_NAME)
        except (ValueError, OSError) as error:
            problems.append(f"Error loading {name}/{META_NAME}: {error}")
            continue
        first = first if first is not None else meta
        if first.get("cluster.id") != meta.get("cluster.id"):
            problems.append("Mismatched cluster IDs between storage directories.")
        elif _node_id(first) != _node_id(meta):
            problems.append("Mismatched node IDs between storage directories.")
    if first is not None and first["version"] == "0":
        problems.append(_LEGACY)
    return StorageInfo(directories=tuple(directories), metadata=first, problems=tuple(problems))


# ---- format ------------------------------------------------------------------------------------


def format_storage(
    config: StorageConfig, request: FormatRequest, say: Say = lambda _: None
) -> FormatReport:
    """Format the log directories of a node that are not; durable on return.

    ``say`` is called with each line that Kafka's tool prints. Raises StorageError and ValueError
    (nothing was changed), or OSError as the disk does.
    """
    level, given = _release(config, request)
    voters = _first_voters(config, request)
    _check_quorum(config, request)
    levels = effective_levels(level, given)
    _check_kraft(config, request, given)
    records: list[Message] = [
        FeatureLevelRecord(name=name, feature_level=value)
        for name, value in {METADATA_VERSION: level, **levels}.items()
    ]
    records += _credentials(request, level)
    values = [_framed(record) for record in records]  # Refused before anything is made.
    empty, formatted = _survey(config, request, say)
    report = FormatReport(
        cluster_id=request.cluster_id,
        node_id=config.node_id,
        metadata_version=level,
        features={METADATA_VERSION: level, **levels},
        directories=tuple(_kinds(config, voters, empty)),
        skipped=formatted,
    )
    if not empty:
        say("All of the log directories are already formatted.")
        return report
    shown = ", ".join(f"ApiMessageAndVersion({java_text(one)} at version 0)" for one in records)
    say(
        f"Bootstrap metadata: BootstrapMetadata(records=[{shown}], "
        f"metadataVersionLevel={level}, source=format command)"
    )
    for directory in report.directories:
        say(f"Formatting {directory.kind} {directory.path} with metadata.version {NAMES[level]}.")
        _write(config, request, directory, values, voters)
    return report


def _release(config: StorageConfig, request: FormatRequest) -> tuple[int, dict[str, int]]:
    """Return the metadata.version, and the levels that are given of the other features."""
    given = dict(map(parse_level, request.features))
    of_feature = given.pop(METADATA_VERSION, None)
    unstable = config.allows_unstable
    if request.release_version is not None:
        if of_feature is not None:
            raise StorageError(
                "Use --release-version instead of --feature metadata.version=X to avoid ambiguity."
            )
        return release_level(request.release_version, allow_unstable=unstable), given
    if of_feature is not None:
        return metadata_level(of_feature, allow_unstable=unstable), given
    return max(NAMES) if unstable else LATEST_STABLE, given


def _first_voters(config: StorageConfig, request: FormatRequest) -> list[Voter]:
    chosen = (request.standalone, request.initial_controllers is not None)
    if sum(chosen) + request.no_initial_controllers > 1:
        raise StorageError(
            "only one of --standalone, --initial-controllers and --no-initial-controllers goes"
        )
    if request.initial_controllers is not None:
        return parse_voters(request.initial_controllers, config.listener_name)
    if not request.standalone:
        return []
    if not config.is_controller:
        raise StorageError("You can only use --standalone on a controller.")
    assert config.listener is not None  # load_storage_config asks it of every controller.
    key = ReplicaKey(config.node_id, Uuid.random())
    return [Voter(key, (config.listener,), KRAFT_VERSIONS)]


def _check_quorum(config: StorageConfig, request: FormatRequest) -> None:
    gives_voters = request.standalone or request.initial_controllers is not None
    if config.has_static_voters and gives_voters:
        raise StorageError(
            "You cannot specify controller.quorum.voters and format the node with "
            "--initial-controllers or --standalone. If you want to use dynamic quorum, please "
            "remove controller.quorum.voters and specify controller.quorum.bootstrap.servers "
            "instead."
        )
    is_told = config.has_static_voters or gives_voters or request.no_initial_controllers
    if config.is_controller and not is_told:
        raise StorageError(
            "Because controller.quorum.voters is not set on this controller, you must specify "
            "one of the following: --standalone, --initial-controllers, or "
            "--no-initial-controllers."
        )
    # Kafka writes any, and no node starts on an empty one.
    if not request.cluster_id or not request.cluster_id.isprintable():
        wrong = f"{request.cluster_id!a} is not printable" if request.cluster_id else "it is empty"
        raise StorageError(f"the cluster id is not taken: {wrong}; random-uuid prints one that is")


def _check_kraft(config: StorageConfig, request: FormatRequest, given: dict[str, int]) -> None:
    has_flag = (
        request.standalone
        or request.no_initial_controllers
        or request.initial_controllers is not None
    )
    is_dynamic = has_flag and not config.has_static_voters
    level = given.get(KRAFT_VERSION)
    flags = (
        "controller.quorum.voters is empty and one of the flags --standalone, "
        "--initial-controllers, or --no-initial-controllers is used. For dynamic controllers "
        "support, try "
    )
    if level == 0 and is_dynamic:
        raise StorageError(
            f"Cannot set kraft.version to 0 if {flags}removing the --feature flag for "
            f"kraft.version."
        )
    if level == BY_NAME[KRAFT_VERSION].level_max and not is_dynamic:
        raise StorageError(
            f"Cannot set kraft.version to {level} unless {flags}using one of --standalone, "
            f"--initial-controllers, or --no-initial-controllers and removing "
            f"controller.quorum.voters."
        )


def _credentials(request: FormatRequest, level: int) -> list[UserScramCredentialRecord]:
    credentials = [parse_scram(text) for text in request.scram]
    if credentials and level < SCRAM_MIN:
        raise StorageError(
            f"SCRAM is only supported in metadata.version {NAMES[SCRAM_MIN]} or later."
        )
    return credentials


def _survey(
    config: StorageConfig, request: FormatRequest, say: Say
) -> tuple[list[str], tuple[str, ...]]:
    """Return the directories that are to be formatted, and those that are.

    StorageError where there are neither, and where what is formatted does not go with the rest.
    """
    empty, formatted, unreadable = [], [], []
    for name in config.log_dirs:
        path = Path(name) / META_NAME
        try:
            meta = load_meta(path)
        except FileNotFoundError:
            empty.append(name)
            continue
        except (ValueError, OSError) as error:
            say(f"I/O error trying to read log directory {name}. Ignoring...")
            reason = error.strerror if isinstance(error, OSError) else None
            unreadable.append(f"{name}: {reason or error}")
            continue
        formatted.append(name)
        # Version 0, that of ZooKeeper's brokers, needs none of the two.
        cluster_id, node_id = meta.get("cluster.id"), _node_id(meta)
        if cluster_id is not None and cluster_id != request.cluster_id:
            raise StorageError(
                f"Invalid cluster.id in: {path}. Expected {request.cluster_id}, but read "
                f"{cluster_id}"
            )
        if node_id is not None and node_id != str(config.node_id):
            raise StorageError(
                f"Stored node id {node_id} doesn't match previous node id {config.node_id} in "
                f"{path}. If you moved your data, make sure your configured node id matches. If "
                f"you intend to create a new node, you should remove all data in your data "
                f"directories."
            )
    if formatted and not request.ignore_formatted:
        raise StorageError(
            f"Log directory {formatted[0]} is already formatted. Use --ignore-formatted to ignore "
            f"this directory and format the others."
        )
    if not empty and not formatted:  # Kafka's words, and then why.
        raise StorageError(f"No available log directories to format. ({'; '.join(unreadable)})")
    return empty, tuple(formatted)


def _kinds(
    config: StorageConfig, voters: Sequence[Voter], empty: Sequence[str]
) -> list[FormattedDirectory]:
    ours = next((voter.key for voter in voters if voter.key.id == config.node_id), None)
    formatted = []
    for path in empty:
        kind, directory_id = "data directory", None
        if path == config.metadata_dir:
            kind = "dynamic metadata directory" if voters else "metadata directory"
            if ours is not None:
                kind, directory_id = "dynamic metadata voter directory", ours.directory_id
        directory_id = directory_id or Uuid.random()
        formatted.append(FormattedDirectory(path=path, kind=kind, directory_id=directory_id))
    return formatted


def _write(
    config: StorageConfig,
    request: FormatRequest,
    directory: FormattedDirectory,
    values: Sequence[bytes],
    voters: Sequence[Voter],
) -> None:
    checkpoints = {}
    if config.is_controller and directory.path == config.metadata_dir:
        now_ms = time.time_ns() // 1_000_000
        header = [control_value(SnapshotHeaderRecord(last_contained_log_timestamp=now_ms))]
        if not config.has_static_voters:
            header.append(encode_control(KRaftVersion(BY_NAME[KRAFT_VERSION].level_max)))
        if voters:
            header.append(encode_control(Voters(VoterSet(voters))))
        data = checkpoint_bytes(header, values, timestamp_ms=now_ms)
        checkpoints[FIRST_CHECKPOINT] = data
    meta = MetaProperties(
        cluster_id=request.cluster_id,
        node_id=config.node_id,
        directory_id=directory.directory_id,
    )
    os.makedirs(directory.path, exist_ok=True)
    LogDirectory.format(directory.path, meta, checkpoints)


def _framed(record: Message) -> bytes:
    """Return the value of a data record: a frame, all of whose numbers take one byte."""
    version = 0  # The only one of both records that formatting writes.
    assert record.API_KEY is not None
    return bytes([_FRAME_VERSION, record.API_KEY, version]) + record.encode(version)


def java_text(record: Message) -> str:
    """Return a record as Kafka's generated ``toString`` has it: strings, numbers and bytes."""
    fields = record.to_json(record.VALID_VERSIONS[0])
    values = [getattr(record, name) for name in record.__struct_fields__]
    parts = []
    for name, value in zip(fields, values, strict=False):  # The unknown tags come last.
        if isinstance(value, bytes):
            signed = (byte - 2 * _SIGN_BIT if byte >= _SIGN_BIT else byte for byte in value)
            parts.append(f"{name}=[{', '.join(map(str, signed))}]")
        else:
            parts.append(f"{name}='{value}'" if isinstance(value, str) else f"{name}={value}")
    return f"{type(record).__name__}({', '.join(parts)})"

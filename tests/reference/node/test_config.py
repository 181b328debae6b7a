"""Kafka's controller properties as a node reads them, with Kafka's own classes as the judge."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraftspec.conformance.cluster import class_path
from kraftspec.conformance.cluster.kafka_keys import keys_of_kafka
from kraftspec.fastpath.types import Uuid
from kraftspec.reference.log.directory import MetaProperties, NotFormattedError
from kraftspec.reference.log.properties import render_properties
from kraftspec.reference.node.config import load_config
from kraftspec.reference.node.keys import KEYS_FILE, BadValueError, Key, kafka_keys
from kraftspec.reference.node.reader import FILE_BYTES_MAX, PROPERTY_COUNT_MAX, nearest
from kraftspec.reference.node.settings import ConfigError, NodeConfig, Protocol
from kraftspec.reference.raft.types import Endpoint, Node, ReplicaKey

from .config_corpus import BASE, CASES, SERVERS, VOTERS, Changes, mutants, text_of

# What Kafka takes and this node does not, and why. The rest must agree.
STRICTER: dict[str, str] = {
    "authorizer.class.name": "it has no classes of Java",
    "security.providers": "it has no classes of Java",
    "principal.builder.class": "it has no classes of Java",
    "config.providers": "it does not fetch values from elsewhere",
    "controller.quorum.election.timeout.ms": "0 would be no time at all",
    "controller.quorum.fetch.timeout.ms": "0 would be no time at all",
    "controller.quorum.request.timeout.ms": "0 would be no time at all",
    "internal.metadata.log.segment.bytes": "a segment must hold a byte",
    "metadata.log.segment.ms": "a segment must be open for some time",
    "metadata.log.dir": "an empty name is no directory",
    "ssl.principal.mapping.rules": "Kafka reads them when the first peer connects",
    "controller.quorum.bootstrap.servers": "nobody can connect to an empty host",
    "process.roles": "it is no broker",
    "listeners": "Kafka's default is a broker's",
}
# Kafka refuses values of these that no controller uses; here they have no effect, which is said.
LAXER = (
    "group.consumer.",
    "group.share.",
    "group.streams.",
    "log.cleaner.",
    "log.retention.",
    "log.roll.",
    "offsets.topic.compression.codec",
    "share.coordinator.state.topic.compression.codec",
    "replica.",
)


def write(path: Path, changes: Changes) -> Path:
    path.write_text(text_of(changes), "latin-1")
    return path


def load(path: Path, changes: Changes | None = None) -> NodeConfig:
    return load_config(write(path / "node.properties", changes or {}))


def mistakes(path: Path, changes: Changes) -> list[str]:
    """Return what is wrong, each without the directory of the file."""
    with pytest.raises(ConfigError) as caught:
        load(path, changes)
    return [text.removeprefix(f"{path}/") for text in caught.value.mistakes]


# ---- Kafka's own verdict -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Changes, Path, Any]]:
    """Every case with its file and with what KafkaConfig makes of it."""
    directory = tmp_path_factory.mktemp("properties")
    cases = [*CASES, *mutants()]
    paths = [write(directory / f"{number}", case) for number, case in enumerate(cases)]
    names = directory / "names"
    names.write_text("".join(f"{path}\n" for path in paths))
    oracle = Path(__file__).with_name("ConfigOracle.java")
    jars = os.pathsep.join(map(str, class_path()))
    done = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
         "-cp", jars, str(oracle), str(names)],
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return list(zip(cases, paths, answers, strict=True))


@pytest.mark.kafka
def test_kafka_and_we_refuse_the_same(verdicts: list[tuple[Changes, Path, Any]]) -> None:
    stricter, laxer = [], []
    refused = 0
    for changes, path, theirs in verdicts:
        try:
            load_config(path)
            ours = None
        except ConfigError as error:
            ours = str(error)
            assert str(path) in ours
        refused += "refused" in theirs
        if ours is not None and "refused" not in theirs:
            if not STRICTER.keys() & changes.keys() and not doubtful_voters(changes):
                stricter.append((changes, ours))
        elif ours is None and "refused" in theirs:
            names = tuple(changes)
            unknown_class = "lass" in theirs["refused"] and "be found" in theirs["refused"]
            if not (names[0].startswith(LAXER) or unknown_class):
                laxer.append((changes, theirs["refused"]))
    assert stricter == []
    assert laxer == []
    assert refused > 500


def doubtful_voters(changes: Changes) -> bool:
    """Whether a voter has a port 0, no host, or an id below zero, which Kafka takes."""
    return any(word in (changes.get(VOTERS) or "") for word in ("@:", ":0", "-1@"))


@pytest.mark.kafka
def test_kafka_and_we_understand_the_same(verdicts: list[tuple[Changes, Path, Any]]) -> None:
    compared = 0
    for changes, path, theirs in verdicts:
        try:
            config = load_config(path)
        except ConfigError:
            continue
        if "refused" in theirs:
            continue
        compared += 1
        values = theirs["values"]
        core = config.core
        assert config.log_dir == theirs["metadata_log_dir"], changes
        assert [f"{node.host}:{node.port}" for node in core.bootstrap_servers] == theirs["servers"]
        voters = [
            f"{voter.key.id}@{voter.endpoints[0].host}:{voter.endpoints[0].port}"
            for voter in core.voters
        ]
        assert voters == theirs["voters"], changes
        assert [
            (one.name, one.protocol, one.advertised_host, one.advertised_port)
            for one in config.listeners
        ] == [
            (one["name"], one["protocol"], reachable(one["host"]), one["port"])
            for one in theirs["controllers"]
        ], changes
        ours = understood(config)
        assert ours == {key: values[key] for key in ours}, changes
    assert compared > 400


def reachable(host: str) -> str:
    """Return a host as others are told it. Kafka tells them ``::``, where nobody finds it."""
    return socket.getfqdn() if host in ("", "::") else host


def understood(config: NodeConfig) -> dict[str, str]:
    """Return the single values that a configuration holds, by the properties they come from."""
    core, limits, security = config.core, config.limits, config.security
    quorum = {
        "election.timeout.ms": core.election_timeout_us // 1000,
        "fetch.timeout.ms": core.fetch_timeout_us // 1000,
        "election.backoff.max.ms": core.election_backoff_max_us // 1000,
        "request.timeout.ms": core.request_timeout_us // 1000,
        "retry.backoff.ms": core.retry_backoff_us // 1000,
        "append.linger.ms": core.append_linger_us // 1000,
        "fetch.max.bytes": core.fetch_max_bytes,
        "fetch.snapshot.max.bytes": core.fetch_snapshot_max_bytes,
        "auto.join.enable": str(core.auto_join).lower(),
    }
    values = {f"controller.quorum.{name}": value for name, value in quorum.items()} | {
        "node.id": core.node_id,
        "metadata.max.retention.bytes": core.retention_bytes,
        "metadata.max.retention.ms": core.retention_us // 1000,
        "metadata.log.segment.ms": config.log.segment_ms,
        "metadata.log.max.record.bytes.between.snapshots": config.snapshot_bytes,
        "metadata.log.max.snapshot.interval.ms": config.snapshot_ms,
        "metadata.max.idle.interval.ms": config.idle_ms,
        "socket.request.max.bytes": limits.request_bytes_max,
        "max.connections": limits.connections_max,
        "max.connections.per.ip": limits.connections_per_ip_max,
        "max.connection.creation.rate": limits.connections_per_second_max,
        "connections.max.idle.ms": limits.idle_ms_max,
        "queued.max.requests": limits.queued_requests_max,
        "queued.max.request.bytes": limits.queued_bytes_max,
        "socket.listen.backlog.size": limits.backlog,
        "socket.send.buffer.bytes": limits.send_buffer_bytes,
        "socket.receive.buffer.bytes": limits.receive_buffer_bytes,
        "connection.failed.authentication.delay.ms": limits.failed_authentication_delay_ms,
        "socket.connection.setup.timeout.ms": limits.connect_ms,
        "socket.connection.setup.timeout.max.ms": limits.connect_ms_max,
    }
    if "internal.metadata.log.segment.bytes" not in config.properties:
        values["metadata.log.segment.bytes"] = config.log.segment_bytes
    assert security.protocol is Protocol.PLAINTEXT
    return {key: str(value) for key, value in values.items()}


@pytest.mark.kafka
def test_the_keys_are_those_of_kafka() -> None:
    assert keys_of_kafka() == KEYS_FILE.read_text("utf-8")


# ---- names that nobody knows -------------------------------------------------------------------


@cache
def names_of_kafka() -> list[str]:
    return sorted(kafka_keys())


@given(st.sampled_from(names_of_kafka()), st.integers(0, 200), st.sampled_from("-xo"))
def test_a_slip_in_a_name_is_found(name: str, at: int, kind: str) -> None:
    at %= len(name)
    if kind == "-":
        slip = name[:at] + name[at + 1 :]
    elif kind == "x":
        slip = name[:at] + name[at : at + 2][::-1] + name[at + 2 :]
    else:
        slip = name[: at + 1] + name[at:]
    if slip not in kafka_keys():
        assert nearest(slip) is not None


def test_a_name_that_is_nearly_known_is_refused(tmp_path: Path) -> None:
    changes: Changes = {
        "controller.quorum.voter": "1@a:1",
        "metadata.log.segmnet.ms": "5",
        "listener.name.controller.ssl.keystore.locaton": "x",
        "Node.Id": "1",
    }
    assert mistakes(tmp_path, changes) == [
        f"node.properties:{line}: {key}: Kafka has no such property; did you mean {meant}?"
        for line, key, meant in [
            (6, "controller.quorum.voter", "controller.quorum.voters"),
            (7, "metadata.log.segmnet.ms", "metadata.log.segment.ms"),
            (
                8,
                "listener.name.controller.ssl.keystore.locaton",
                "listener.name.controller.ssl.keystore.location",
            ),
            (9, "Node.Id", "node.id"),
        ]
    ]


def test_what_has_no_effect_is_a_warning(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        {
            "num.partitions": "3",
            "my.plugin.option": "x",
            "zookeeper.connect": "a:2181",
            "log.dirs": "/a,/b",
        },
    )
    texts = [
        str(warning).removeprefix(f"{tmp_path}/node.properties:") for warning in config.warnings
    ]
    assert texts == [
        "6: num.partitions: it has no effect on this node, which is a controller without a broker",
        "7: my.plugin.option: Kafka has no such property; it is ignored",
        "8: zookeeper.connect: Kafka has no ZooKeeper any more; it is ignored",
        "9: log.dirs: only the first, '/a', is used: it has no broker",
    ]


def test_every_key_of_kafka_is_taken(tmp_path: Path) -> None:
    """Each with its default: none is unknown, and none is refused but those named above."""
    refused = []
    for name, key in kafka_keys().items():
        if key.default is None or name in BASE:
            continue
        try:
            load(tmp_path, {name: key.default})
        except ConfigError:
            refused.append(name)
    # Of the one, the default is below zero; of the other, it does not have the name CONTROLLER.
    assert refused == ["broker.id", "listener.security.protocol.map"]


# ---- what a file says --------------------------------------------------------------------------


def test_all_mistakes_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    changes: Changes = {
        "node.id": "one",
        "listeners": "CONTROLLER://localhost:9093,CONTROLLER://localhost:9094",
        VOTERS: "1@a",
        "socket.request.max.bytes": "-5",
        "num.partitions": "many",
        "metadata.log.segment.bytes": "1024",
    }
    texts = mistakes(tmp_path, changes)
    assert [text.split(": ")[:2] for text in texts] == [
        ["node.properties:2", "node.id"],
        ["node.properties:4", "listeners"],
        ["node.properties:6", VOTERS],
        ["node.properties:7", "socket.request.max.bytes"],
        ["node.properties:8", "num.partitions"],
        ["node.properties:9", "metadata.log.segment.bytes"],
    ]


def test_listeners_that_do_not_fit(tmp_path: Path) -> None:
    assert mistakes(tmp_path, {"controller.listener.names": "CONTROLER"}) == [
        "node.properties:3: controller.listener.names: 'CONTROLER' is not in listeners; did you "
        "mean CONTROLLER?",
        "node.properties:4: listeners: CONTROLLER is not in controller.listener.names, and a node "
        "that is only a controller has no others; did you mean CONTROLER?",
    ]


def test_a_file_is_read_as_java_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "node.properties"
    path.write_text(
        "# a comment\n! another\nprocess.roles : controller\nnode.id 7\n"
        "controller.listener.names = \\\n   INNER,\\\n   OUTER\n"
        "listeners=INNER://127.0.0.1:9093,\\\n  OUTER://[::1]:\\u0039\\u0030\n"
        f"{VOTERS}=7@a:1,8@b:2\nnode.id=8\n"
    )
    config = load_config(path)
    assert config.node_id == 8
    assert config.core.endpoints == (
        Endpoint("INNER", "127.0.0.1", 9093),
        Endpoint("OUTER", "::1", 90),
    )
    assert config.core.listener_name == "INNER"
    assert [voter.node("INNER") for voter in config.core.voters] == [
        Node(7, "a", 1),
        Node(8, "b", 2),
    ]
    assert [str(warning) for warning in config.warnings] == [
        f"{path}:11: node.id: stands in line 4, too; this one counts"
    ]


def test_whose_directory_it_is(tmp_path: Path) -> None:
    config = load(tmp_path)
    directory_id = Uuid.parse("vlqM7XEUQjyZQlMUQl8Lqw")
    meta = MetaProperties(cluster_id="c", node_id=1, directory_id=directory_id)
    identified = config.of_directory(meta)
    assert identified.core.cluster_id == "c"
    assert identified.core.key == ReplicaKey(1, directory_id)
    other = MetaProperties(cluster_id="c", node_id=2, directory_id=directory_id)
    with pytest.raises(NotFormattedError, match=r"is that of node 2, and .* has node\.id=1"):
        config.of_directory(other)


@pytest.mark.parametrize(
    ("data", "pattern"),
    [
        (b"node.id=\\u12", r"line 1: .u takes four"),
        (b"node.id=1\0", "zero bytes"),
        (b"a=b\n" * (FILE_BYTES_MAX // 4 + 1), "more than"),
        (b"".join(b"a%d=b\n" % number for number in range(PROPERTY_COUNT_MAX + 1)), "more than"),
        (b"", r"process\.roles: it is missing"),
        (b"\xff\xfe\x00", "zero bytes"),
    ],
    ids=["escape", "zeros", "large", "many", "empty", "utf-16"],
)
def test_files_that_are_none(tmp_path: Path, data: bytes, pattern: str) -> None:
    path = tmp_path / "node.properties"
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=pattern):
        load_config(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load_config(tmp_path / "none")
    with pytest.raises(ConfigError, match="Is a directory"):
        load_config(tmp_path)


@given(st.text(), st.text())
def test_no_value_is_too_odd(name: str, value: str) -> None:
    for key in kafka_keys().values():
        with suppress(BadValueError):
            key.parse(value)
    nearest(name)


VALUES = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        ["SASL_SSL", "CONTROLLER:SASL_SSL", "PLAIN", "SCRAM-SHA-256", "PEM", "a:1", "0"]
    ),
)
PREFIXES = st.sampled_from(["", "", "listener.name.controller.", "listener.name.controller.plain."])
SECURED = {"listener.security.protocol.map": "CONTROLLER:SASL_SSL"}


@given(
    st.dictionaries(st.tuples(PREFIXES, st.sampled_from(names_of_kafka())), VALUES, max_size=8),
    st.sampled_from([BASE, BASE | SECURED, {}]),
)
def test_no_file_is_too_odd(
    tmp_path_factory: pytest.TempPathFactory,
    changes: dict[tuple[str, str], str],
    base: dict[str, str],
) -> None:
    """Whatever stands in it, it is taken or refused with a place and a reason."""
    path = tmp_path_factory.getbasetemp() / "odd.properties"
    properties = base | {prefix + name: value for (prefix, name), value in changes.items()}
    path.write_text(render_properties(properties), "latin-1")
    try:
        load_config(path)
    except ConfigError as error:
        refusals = error.mistakes
        assert all(text.startswith(str(path)) for text in refusals)


@given(st.binary(max_size=300))
def test_no_bytes_are_too_odd(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes.properties"
    path.write_bytes(data)
    with pytest.raises(ConfigError):
        load_config(path)


def test_a_number_of_many_digits_is_not_even_read() -> None:
    with pytest.raises(BadValueError, match="does not fit in 64 bits"):
        Key(type="LONG").parse("9" * 1_000_000)


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    config = load(tmp_path, {"ssl.key.password": "hunter2", SERVERS: "a:1"})
    assert "hunter2" not in repr(config)
    assert config.properties["ssl.key.password"] == "hunter2"

"""Properties files for the judgement of Kafka's own ``KafkaConfig``, and of ours."""

from __future__ import annotations

from kraftspec.reference.node.keys import kafka_keys

BASE = {
    "process.roles": "controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "CONTROLLER://localhost:9093",
    "controller.quorum.bootstrap.servers": "localhost:9093",
}
VOTERS = "controller.quorum.voters"
SERVERS = "controller.quorum.bootstrap.servers"
MAP = "listener.security.protocol.map"
ADVERTISED = "advertised.listeners"
NAMES = "controller.listener.names"
OVERRIDES = "max.connections.per.ip.overrides"

Changes = dict[str, str | None]


def each(value: str | None) -> list[Changes]:
    """Return each property of BASE with this value in turn."""
    return [{name: value} for name in BASE]


# Changes of BASE; None takes a property out. Kafka says which of them are right.
CASES: list[Changes] = [
    {},
    *each(None),
    *each(""),
    *each(","),
    {SERVERS: None, VOTERS: "1@localhost:9093"},
    {SERVERS: None, VOTERS: "2@localhost:9093"},
    {VOTERS: "1@localhost:9093"},
    {VOTERS: " 1@localhost:9093 , 2@b.example:1 "},
    {VOTERS: "1@localhost"},
    {VOTERS: "1@localhost:99999"},
    {VOTERS: "1@[::1]:9093"},
    {VOTERS: "1@::1:9093"},
    {VOTERS: "1@0.0.0.0:9093"},
    {VOTERS: "1@0.0.0.0:0"},
    {VOTERS: "1@a:9093,"},
    {VOTERS: "+1@localhost:9093"},
    {VOTERS: "1@localhost:+9093"},
    {VOTERS: "x@localhost:9093"},
    {VOTERS: "99999999999@localhost:9093,1@a:1"},
    {VOTERS: "1@a b:9093"},
    {VOTERS: "1@a@b:9093"},
    {VOTERS: "1@http://a:9093"},
    {VOTERS: "1@PLAINTEXT://a:9093"},
    {VOTERS: "@a:9093"},
    {SERVERS: "localhost"},
    {SERVERS: "a:1,a:1"},
    {SERVERS: "a:99999"},
    {SERVERS: "[::1]:9093"},
    {SERVERS: "[::1]:9093,,b:2"},
    {SERVERS: "fe80::1%eth0:9093"},
    {SERVERS: "a_b:9093"},
    {SERVERS: "a:b:9093"},
    {SERVERS: ":9093"},
    {NAMES: "CONTROLER"},
    {NAMES: "controller"},
    {NAMES: "CONTROLLER,OTHER"},
    {NAMES: "CONTROLLER,CONTROLLER"},
    {"listeners": "controller://localhost:9093"},
    {"listeners": "CONTROLLER://:9093,B://:9094", MAP: "CONTROLLER:PLAINTEXT,B:PLAINTEXT"},
    {"listeners": "CONTROLLER://h:9093,B://h:9094", NAMES: "CONTROLLER,B"},
    {"listeners": "CONTROLLER://h:9093,B://h:9094", NAMES: "B,CONTROLLER"},
    {"listeners": "C://h:9093,C://h:9094", NAMES: "C"},
    {"listeners": "C://h:9093,C://h:9093", NAMES: "C"},
    {"listeners": "C://h:9093,D://h:9093", NAMES: "C,D"},
    {"listeners": "C://h:0,D://h:0", NAMES: "C,D"},
    {"listeners": "C://127.0.0.1:9093,D://[::1]:9093", NAMES: "C,D"},
    {"listeners": "C://127.0.0.1:9093,D://127.0.0.2:9093", NAMES: "C,D"},
    {"listeners": "C://127.0.0.1:9093,D://[::1]:9093,E://h:9093", NAMES: "C,D,E"},
    {"listeners": "CONTROLLER://0.0.0.0:9093"},
    {"listeners": "CONTROLLER://[::]:9093"},
    {"listeners": "CONTROLLER://0.0.0.0:9093", ADVERTISED: "CONTROLLER://h:1"},
    {"listeners": "CONTROLLER://localhost"},
    {"listeners": "CONTROLLER:localhost:9093"},
    {"listeners": "CONTROLLER://local host:9093"},
    {"listeners": "CONTROLLER://localhost:9093/"},
    {"listeners": "CONTROLLER://a:9093,:"},
    {"listeners": "SSL://h:9093", NAMES: "SSL", MAP: "SSL:PLAINTEXT"},
    {"listeners": "PLAINTEXT://h:9093", NAMES: "PLAINTEXT"},
    {"listeners": "C://h:9093,SSL://h:9094", NAMES: "C,SSL"},
    {ADVERTISED: "B://h:1"},
    {ADVERTISED: "controller://h:1"},
    {ADVERTISED: "CONTROLLER://0.0.0.0:9093"},
    {ADVERTISED: "CONTROLLER://h:0"},
    {ADVERTISED: "CONTROLLER://h:1,CONTROLLER://i:2"},
    {ADVERTISED: "CONTROLLER://[fe80::1]:9093"},
    {ADVERTISED: "CONTROLLER://h"},
    {MAP: "X:SSL"},
    {MAP: "CONTROLLER:SLL"},
    {MAP: "CONTROLLER:plaintext"},
    {MAP: "controller:PLAINTEXT"},
    {MAP: "CONTROLLER:PLAINTEXT,controller:SSL"},
    {MAP: "CONTROLLER:PLAINTEXT,"},
    {MAP: "CONTROLLER : PLAINTEXT"},
    {MAP: "CONTROLLER"},
    {MAP: ""},
    {"inter.broker.listener.name": "CONTROLLER"},
    {"inter.broker.listener.name": "XX"},
    {"inter.broker.listener.name": "PLAINTEXT"},
    {"broker.id": "2"},
    {"broker.id": "1"},
    {"broker.id": "7", "node.id": None},
    {"queued.max.request.bytes": "5"},
    {"queued.max.request.bytes": "104857600"},
    {"queued.max.request.bytes": "0"},
    {"max.connections.per.ip": "0"},
    {"max.connections.per.ip": "0", OVERRIDES: "127.0.0.1:5"},
    {OVERRIDES: "127.0.0.1:x"},
    {OVERRIDES: "127.0.0.1"},
    {OVERRIDES: "a:1, b:2"},
    {"connections.max.idle.ms": "100"},
    {"connections.max.idle.ms": "-1"},
    {"process.roles": "broker,controller"},
    {"process.roles": "controler"},
    {"process.roles": "controller,controller"},
    {"controller.quorum.auto.join.enable": "true"},
    {"early.start.listeners": "FOO"},
    {"early.start.listeners": "CONTROLLER"},
    {"log.dirs": "/a,/b"},
    {"log.dirs": "/a,/b,/a"},
    {"log.dirs": "/a", "log.dir": "/b"},
    {"log.dir": "/b"},
    {"log.dirs": "/a", "metadata.log.dir": "/c"},
    {"node.id": " 7 "},
    {"node.id": "2147483648"},
    {"node.id": "0x10"},
    {"node.id": "1_0"},
    {"node.id": "-0"},
    {"ssl.client.auth": "yes"},
    {"metadata.max.retention.bytes": "-1", "metadata.max.retention.ms": "-1"},
]

# What stands where a property's value should: empty, out of range, of other types.
MUTANTS = ("", "-1", "0", "x")
MORE = ("1", "25", "2147483648", "99999999999999999999", "1.5", "true", "a,a")
READ_HERE = ("controller.", "metadata.", "node.", "socket.", "max.conn", "connection", "queued.")


def mutants() -> list[Changes]:
    """Return every property of Kafka with several values in turn; more where it counts here."""
    return [
        {name: value}
        for name in kafka_keys()
        for value in (*MUTANTS, *(MORE if name.startswith(READ_HERE) else ()))
    ]


def text_of(changes: Changes) -> str:
    """Return the properties file of a case."""
    properties = BASE | changes
    lines = [f"{key}={value}" for key, value in properties.items() if value is not None]
    return "\n".join([*lines, ""])

"""The drafts' own properties: names, defaults, and what is refused, each with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraftspec.cli.profiles import PROFILES
from kraftspec.generated import kip_595, kip_853
from kraftspec.reference.node.config import load_config
from kraftspec.reference.node.security.authorizer import Operation, needs_of
from kraftspec.reference.node.settings import ConfigError, NodeConfig, Protocol
from kraftspec.reference.profiles import PROFILE_NAMES, parts_of, profile_named
from kraftspec.reference.raft.config import MS
from kraftspec.reference.raft.types import Endpoint

BROKER = {
    "broker.id": "3",
    "log.dirs": "/var/lib/quorum",
    "listeners": "PLAINTEXT://localhost:9092",
    "bootstrap.servers": "vip.example:9000",
    "quorum.voters": "1,2,3",
}
CONTROLLER = {
    "process.roles": "controller",
    "node.id": "1",
    "log.dirs": "/var/lib/quorum",
    "controller.listener.names": "CONTROLLER",
    "listeners": "CONTROLLER://localhost:9093",
}
STATIC = {"controller.quorum.voters": "1@localhost:9093,2@localhost:9094"}
SERVERS = {"controller.quorum.bootstrap.servers": "localhost:9093"}


def load(path: Path, profile: str, properties: dict[str, str], **more: str) -> NodeConfig:
    lines = properties | {key.replace("__", "."): value for key, value in more.items()}
    file = path / "node.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    return load_config(file, profile)


def mistakes(path: Path, profile: str, properties: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as refused:
        load(path, profile, properties)
    return str(refused.value).replace(f"{path}/node.properties", "FILE")


def test_every_table_has_every_profile() -> None:
    assert PROFILES == PROFILE_NAMES
    for name in PROFILES:
        profile = profile_named(name, listener="CONTROLLER")
        assert profile.name == name
        messages = parts_of(name).messages
        keys = {entry[2] for entry in messages.CATALOGUE.values() if entry[1] == "request"}
        # What is served is served by messages of its own set, and each has its need.
        assert set(profile.apis) <= keys
        assert set(profile.apis) - {18} <= set(needs_of(messages))


def test_the_private_requests_need_what_their_like_need() -> None:
    needs = needs_of(kip_595)
    assert needs[kip_595.VoteRequest.API_KEY] is Operation.CLUSTER_ACTION
    assert needs[kip_595.FetchQuorumRecordsRequest.API_KEY] is Operation.CLUSTER_ACTION
    assert needs[kip_595.FindQuorumRequest.API_KEY] is Operation.DESCRIBE
    assert needs[kip_595.AlterQuorumRequest.API_KEY] is Operation.ALTER
    needs = needs_of(kip_853)
    assert needs[kip_853.AddVoterRequest.API_KEY] is Operation.ALTER
    assert needs[kip_853.RemoveVoterRequest.API_KEY] is Operation.ALTER


def test_kip_595_has_the_defaults_of_its_prototype(tmp_path: Path) -> None:
    core = load(tmp_path, "kip-595", BROKER).core
    assert core.node_id == 3
    assert core.voters.ids == (1, 2, 3)
    assert [voter.endpoints for voter in core.voters] == [(), (), ()]  # Ids are all that it says.
    assert [(node.host, node.port) for node in core.bootstrap_servers] == [("vip.example", 9000)]
    assert core.bootstrap_servers[0].id < -1
    assert core.endpoints == (Endpoint("PLAINTEXT", "localhost", 9092),)
    times = (
        core.fetch_timeout_us,
        core.election_timeout_us,
        core.election_backoff_max_us,
        core.request_timeout_us,
        core.retry_backoff_us,
        core.retry_backoff_max_us,
    )
    assert times == tuple(ms * MS for ms in (15_000, 5_000, 5_000, 20_000, 100, 1_000))


def test_kip_595_reads_each_of_its_properties(tmp_path: Path) -> None:
    given = {
        "quorum.fetch.timeout.ms": 1,
        "quorum.election.timeout.ms": 2,
        "quorum.election.backoff.max.ms": 3,
        "quorum.request.timeout.ms": 4,
        "quorum.retry.backoff.ms": 5,
        "quorum.retry.backoff.max.ms": 6,
    }
    config = load(tmp_path, "kip-595", BROKER | {key: str(it) for key, it in given.items()})
    core = config.core
    assert (core.fetch_timeout_us, core.election_timeout_us) == (1 * MS, 2 * MS)
    assert (core.election_backoff_max_us, core.request_timeout_us) == (3 * MS, 4 * MS)
    assert (core.retry_backoff_us, core.retry_backoff_max_us) == (5 * MS, 6 * MS)
    assert config.warnings == ()


def test_quorum_voters_may_go_and_so_may_bootstrap_servers_but_not_both(tmp_path: Path) -> None:
    without = {key: value for key, value in BROKER.items() if key != "quorum.voters"}
    assert len(load(tmp_path, "kip-595", without).core.voters) == 0
    alone = {key: value for key, value in BROKER.items() if key != "bootstrap.servers"}
    assert load(tmp_path, "kip-595", alone).core.bootstrap_servers == ()
    del without["bootstrap.servers"]
    assert "nothing says where the quorum is" in mistakes(tmp_path, "kip-595", without)


def test_the_listener_of_the_quorum_is_the_one_between_brokers(tmp_path: Path) -> None:
    two = BROKER | {
        "listeners": "CLIENTS://localhost:9092,QUORUM://localhost:9093",
        "listener.security.protocol.map": "CLIENTS:PLAINTEXT,QUORUM:PLAINTEXT",
    }
    assert load(tmp_path, "kip-595", two).core.listener_name == "CLIENTS"
    two["inter.broker.listener.name"] = "QUORUM"
    config = load(tmp_path, "kip-595", two)
    assert config.core.listener_name == "QUORUM"
    assert [one.name for one in config.listeners] == ["QUORUM", "CLIENTS"]
    two["inter.broker.listener.name"] = "OTHER"
    assert "FILE:7: inter.broker.listener.name: 'OTHER' is not in" in mistakes(
        tmp_path, "kip-595", two
    )


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"broker.id": "-1"}, "FILE:1: broker.id: -1 is out of range"),
        ({"quorum.voters": "1,two"}, "FILE:5: quorum.voters: 'two' is no id"),
        ({"quorum.voters": "1@localhost:9092"}, "FILE:5: quorum.voters: '1@localhost:9092' is no"),
        ({"bootstrap.servers": "vip"}, "FILE:4: bootstrap.servers: 'vip' has no host and port"),
        ({"quorum.fetch.timeout.ms": "0"}, "quorum.fetch.timeout.ms: 0 is out of range"),
        ({"quorum.fetch.timeout": "1"}, "did you mean quorum.fetch.timeout.ms?"),
        ({"node.id": "3"}, "FILE:6: node.id: kip-595 has no such property: write broker.id"),
        ({"process.roles": "controller"}, "process.roles: kip-595 has no such property"),
        (STATIC, "controller.quorum.voters: kip-595 has no such property: write quorum.voters"),
    ],
    ids=lambda it: next(iter(it)) if isinstance(it, dict) else "",
)
def test_what_kip_595_refuses(tmp_path: Path, more: dict[str, str], told: str) -> None:
    text = mistakes(tmp_path, "kip-595", BROKER | more)
    assert told in text
    assert len(text.splitlines()) == 1


def test_what_is_a_brokers_has_no_effect(tmp_path: Path) -> None:
    config = load(tmp_path, "kip-595", BROKER | {"num.partitions": "3", "made.up": "1"})
    warnings = [(warning.key, warning.text) for warning in config.warnings]
    assert [key for key, _ in warnings] == ["num.partitions", "made.up"]
    assert "keeps the quorum's log and no other" in warnings[0][1]
    assert warnings[1][1] == "kip-595 has no such property; it is ignored"


def test_kip_595_needs_a_broker_id(tmp_path: Path) -> None:
    without = {key: value for key, value in BROKER.items() if key != "broker.id"}
    assert "broker.id: it is missing" in mistakes(tmp_path, "kip-595", without)


def test_kip_853_has_static_voters_or_servers(tmp_path: Path) -> None:
    static = load(tmp_path, "kip-853", CONTROLLER | STATIC).core
    assert (static.voters.ids, static.bootstrap_servers) == ((1, 2), ())
    dynamic = load(tmp_path, "kip-853", CONTROLLER | SERVERS).core
    assert (len(dynamic.voters), len(dynamic.bootstrap_servers)) == (0, 1)
    text = mistakes(tmp_path, "kip-853", CONTROLLER | STATIC | SERVERS)
    assert "kip-853 has it instead of controller.quorum.voters: remove one of the two" in text


def test_a_broker_of_kip_853_observes(tmp_path: Path) -> None:
    """It has listeners of its own, and reaches controllers as the first of their names says."""
    own = {"process.roles": "broker", "node.id": "9", "listeners": "CLIENTS://localhost:9092"}
    protocols = {"listener.security.protocol.map": "CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT"}
    broker = CONTROLLER | own | protocols
    for quorum in (STATIC, SERVERS):
        config = load(tmp_path, "kip-853", broker | quorum)
        assert not config.core.can_become_voter
        assert config.core.listener_name == "CONTROLLER"
        assert config.core.endpoints == (Endpoint("CLIENTS", "localhost", 9092),)
        assert [one.name for one in config.listeners] == ["CLIENTS"]
        assert config.core.contacts[0].port == 9093
    assert load(tmp_path, "kip-853", CONTROLLER | SERVERS).core.can_become_voter
    logins = {
        "listener.security.protocol.map": "CLIENTS:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain."
        'PlainLoginModule required username="9" password="x";',
    }
    security = load(tmp_path, "kip-853", broker | SERVERS | logins).security
    assert (security.protocol, security.has_secure_listener) == (Protocol.SASL_PLAINTEXT, False)
    assert security.sasl is not None


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"process.roles": "broker,controller"}, "this node is a controller and never a broker"),
        ({"listeners": "CONTROLLER://localhost:9092"}, "CONTROLLER is the controllers', and this"),
        ({"node.id": "2"}, "2 is in it, and a broker: correct node.id"),
        (
            {"listener.security.protocol.map": "CLIENTS:PLAINTEXT"},
            "it has no protocol for the listener CONTROLLER",
        ),
        (
            {"listener.security.protocol.map": "CONTROLLER:PLAINTEXT"},
            "it has no protocol for the listener CLIENTS",
        ),
    ],
)
def test_a_broker_of_kip_853_that_is_wrong_is_told(
    tmp_path: Path, changes: dict[str, str], text: str
) -> None:
    broker = {
        "process.roles": "broker",
        "node.id": "9",
        "listeners": "CLIENTS://localhost:9092",
        "listener.security.protocol.map": "CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT",
    }
    assert text in mistakes(tmp_path, "kip-853", CONTROLLER | broker | STATIC | changes)


@pytest.mark.parametrize("profile", ["kafka", "kip-996"])
def test_other_profiles_have_no_brokers(tmp_path: Path, profile: str) -> None:
    text = mistakes(tmp_path, profile, CONTROLLER | STATIC | {"process.roles": "broker"})
    assert "this node is a controller and never a broker" in text


def test_kip_996_has_static_voters_alone(tmp_path: Path) -> None:
    assert load(tmp_path, "kip-996", CONTROLLER | STATIC).core.voters.ids == (1, 2)
    text = mistakes(tmp_path, "kip-996", CONTROLLER | SERVERS)
    assert "kip-996 has no such property: write controller.quorum.voters" in text


@pytest.mark.parametrize("profile", ["kip-853", "kip-996"])
def test_later_properties_are_refused(tmp_path: Path, profile: str) -> None:
    later = CONTROLLER | STATIC | {"controller.quorum.auto.join.enable": "true"}
    assert f"{profile} has no such property: remove it" in mistakes(tmp_path, profile, later)

"""TLS and SASL of the admin client, at a node of ours that listens in all ways."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.reference.node.certificates import Authority
from tests.reference.node.secured import (
    ADMIN,
    CLUSTER_ID,
    LISTENERS,
    NOBODY,
    NODE,
    PASSWORDS,
    SCRAMS,
    client_properties,
    format_ours,
    login,
    write_properties,
)
from tests.reference.node.test_secured import GOOD, WAIT_S, Loop, node_properties, running

from kraftspec.cli import main
from kraftspec.conformance.cluster.node import HOST
from kraftspec.reference.admin import (
    AdminClient,
    AdminError,
    AnswerError,
    TimedOutError,
    load_client_config,
)
from kraftspec.reference.admin.security import client_security


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def ours(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> Iterator[dict[str, int]]:
    """The ports of a node of ours that leads a quorum alone."""
    home = tmp_path_factory.mktemp("ours")
    path, ports = node_properties(home, authority, 1, "SCRAM-SHA-512")
    format_ours(path, standalone=True)
    with Loop() as loop, running(loop, path) as node:
        loop.run(node.until(lambda it: it.core.committed_offset > 0, WAIT_S))
        yield ports
    assert threading.active_count() < 20


def describe(port: int, home: Path, properties: dict[str, str]) -> int:
    """Return who leads, by the admin client with such properties."""
    config = load_client_config(str(write_properties(home / "client.properties", properties)))
    with AdminClient(f"{HOST}:{port}", to_controllers=True, config=config) as admin:
        return admin.describe_quorum().leader_id


@pytest.mark.parametrize(("listener", "mechanism"), GOOD)
def test_it_is_let_in(
    ours: dict[str, int], authority: Authority, tmp_path: Path, listener: str, mechanism: str
) -> None:
    name = ADMIN if mechanism in ("", "PLAIN") else NODE
    identity = authority.sign("admin") if not mechanism else None
    properties = client_properties(
        tmp_path, authority, LISTENERS[listener], mechanism, name, identity=identity
    )
    assert describe(ours[listener], tmp_path, properties) == 1


def test_the_command_takes_the_file(
    ours: dict[str, int], authority: Authority, tmp_path: Path
) -> None:
    properties = client_properties(tmp_path, authority, "SASL_SSL", "SCRAM-SHA-256", NODE)
    path = write_properties(tmp_path / "client.properties", properties)
    arguments = ["--bootstrap-controller", f"{HOST}:{ours['CONTROLLER']}"]
    arguments += ["--command-config", str(path), "describe", "--status"]
    result = CliRunner().invoke(main, ["quorum", *arguments])
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith(f"ClusterId:              {CLUSTER_ID}\n")


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAMS])
def test_a_wrong_password_is_final(
    ours: dict[str, int], authority: Authority, tmp_path: Path, mechanism: str
) -> None:
    properties = client_properties(
        tmp_path, authority, "SASL_SSL", mechanism, NODE, PASSWORDS[NODE] + "x"
    )
    with pytest.raises(AdminError, match=r"the login failed: it does not take 'node': "):
        describe(ours["CONTROLLER"], tmp_path, properties)


def test_who_may_not_is_told(ours: dict[str, int], authority: Authority, tmp_path: Path) -> None:
    properties = client_properties(tmp_path, authority, "SASL_SSL", "PLAIN", NOBODY)
    with pytest.raises(AnswerError, match=r"CLUSTER_AUTHORIZATION_FAILED \(31\)"):
        describe(ours["CONTROLLER"], tmp_path, properties)


def test_a_stranger_is_no_server(
    ours: dict[str, int], authority: Authority, tmp_path: Path
) -> None:
    """A certificate that another authority signed; and no certificate where one is asked for."""
    strangers = client_properties(tmp_path, Authority("others"), "SASL_SSL", "PLAIN", ADMIN)
    with pytest.raises(AdminError, match=r"TLS failed: .*certificate verify failed"):
        describe(ours["CONTROLLER"], tmp_path, strangers)
    nameless = client_properties(tmp_path, authority, "SSL")
    nameless |= {"default.api.timeout.ms": "2000", "request.timeout.ms": "2000"}
    with pytest.raises(AdminError, match=r"TLS failed: |may want a certificate"):
        describe(ours["MUTUAL"], tmp_path, nameless)


@pytest.mark.parametrize("listener", ["CONTROLLER", "MUTUAL", "CLEAR"])
def test_who_comes_without_security_is_told(
    ours: dict[str, int], tmp_path: Path, listener: str
) -> None:
    quick = {"default.api.timeout.ms": "2000", "request.timeout.ms": "2000"}
    with pytest.raises(TimedOutError, match=r"may want TLS or a login: set security\.protocol"):
        describe(ours[listener], tmp_path, quick)


WRONG = {
    "protocol": ({"security.protocol": "TLS"}, r"security\.protocol=TLS: it is one of PLAINTEXT"),
    "mechanism": ({"sasl.mechanism": "GSSAPI"}, r"sasl\.mechanism=GSSAPI: it is one of PLAIN"),
    "no login": ({"sasl.jaas.config": ""}, r"sasl\.jaas\.config: "),
    "another login": (
        {"sasl.jaas.config": login("SCRAM-SHA-256", "a", "b")},
        r"the login module of PLAIN is .*PlainLoginModule",
    ),
    "no name": (
        {"sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required;"},
        "it has no username",
    ),
    "host names": ({"ssl.endpoint.identification.algorithm": "ldaps"}, "it is https, or empty"),
    "versions": ({"ssl.enabled.protocols": "SSLv3"}, "none is known of TLSv1.2, TLSv1.3"),
    "store": ({"ssl.truststore.type": "BKS"}, r"ssl\.truststore\.type=BKS: it is one of PEM"),
    "no store": ({"ssl.truststore.location": "/no/such"}, r"ssl\.truststore\.location"),
}


@pytest.mark.parametrize(("changes", "told"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_named(changes: dict[str, str], told: str) -> None:
    good = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": login("PLAIN", "a", "b"),
    }
    tls, sasl = client_security(good)
    assert tls is not None
    assert sasl is not None
    assert "b" not in repr(sasl.logins)
    with pytest.raises(ValueError, match=told):
        client_security(good | changes)

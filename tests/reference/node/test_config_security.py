"""``ssl.*``, ``sasl.*`` and who may call, as a properties file has them, and mistakes in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kraftspec.reference.node.config import load_config
from kraftspec.reference.node.settings import (
    ClientAuth,
    ConfigError,
    Mechanism,
    Protocol,
    StoreKind,
)

from .config_corpus import BASE
from .secured import AUTHORIZER, login

MAP = "listener.security.protocol.map"
JAAS = "listener.name.controller.{}.sasl.jaas.config"


def load(path: Path, changes: dict[str, str]) -> Any:
    file = path / "node.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in (BASE | changes).items()))
    return load_config(file)


def mistakes(path: Path, changes: dict[str, str]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(path, changes)
    prefix = f"{path}/node.properties:"
    return [text.removeprefix(prefix).strip() for text in caught.value.mistakes]


SSL = {
    MAP: "CONTROLLER:SSL",
    "ssl.keystore.location": "key.pem",
    "ssl.keystore.type": "PEM",
    "super.users": "User:CN=a;User:b",
}
PLAIN = {
    MAP: "CONTROLLER:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    JAAS.format("plain"): login("PLAIN", "node", "secret", {"node": "secret"}),
    "super.users": "User:node",
}


def test_tls_of_a_listener(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        SSL
        | {
            "ssl.client.auth": "requested",
            "listener.name.controller.ssl.client.auth": "required",
            "listener.name.controller.ssl.truststore.location": "trust.p12",
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": "elsewhere",
            "ssl.truststore.password": "hunter2",
            "ssl.enabled.protocols": "TLSv1.3,TLSv1.1",
            "ssl.endpoint.identification.algorithm": "",
            "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/L, DEFAULT",
        },
    )
    (listener,) = config.listeners
    assert listener.protocol is Protocol.SSL
    assert listener.ssl_rules == "RULE:^CN=(.*)$/$1/L, DEFAULT"
    tls = listener.tls
    assert tls.client_auth is ClientAuth.REQUIRED
    assert (tls.key_store.kind, tls.key_store.location) == (StoreKind.PEM, "key.pem")
    assert (tls.trust_store.kind, tls.trust_store.location) == (StoreKind.PKCS12, "trust.p12")
    assert tls.trust_store.key == "listener.name.controller.ssl.truststore.location"
    assert tls.protocols == ("TLSv1.3",)
    assert not tls.check_host_name
    assert config.security.tls == tls
    assert config.security.super_users == {"User:CN=a", "User:b"}
    assert config.security.is_on
    assert [(one.key, one.text) for one in config.warnings] == [
        ("ssl.enabled.protocols", "TLSv1.1 is not offered")
    ]
    assert "hunter2" not in repr(tls)


def test_sasl_of_a_listener(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        PLAIN
        | {
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            JAAS.format("scram-sha-512"): login("SCRAM-SHA-512", "n", "s"),
            "connections.max.reauth.ms": "5000",
            "sasl.server.max.receive.size": "1000",
        },
    )
    sasl = config.listeners[0].sasl
    assert sasl.mechanisms == (Mechanism.PLAIN, Mechanism.SCRAM_SHA_512)
    assert sasl.logins[Mechanism.PLAIN].options["user_node"] == "secret"
    assert (sasl.reauthentication_ms, sasl.receive_bytes_max) == (5000, 1000)
    own = config.security.sasl
    assert own.mechanisms == (Mechanism.PLAIN,)
    assert own.logins[Mechanism.PLAIN].options["username"] == "node"
    assert "secret" not in repr(sasl) + repr(own)


def test_security_that_lets_nobody_in_is_a_warning(tmp_path: Path) -> None:
    without = {key: value for key, value in PLAIN.items() if key != "super.users"}
    (warning,) = load(tmp_path, without).warnings
    assert warning.key == "super.users"
    assert "it names nobody" in warning.text
    assert load(tmp_path, without | {"allow.everyone.if.no.acl.found": "true"}).warnings == ()
    assert not load(tmp_path, {}).security.is_on
    assert load(tmp_path, {"authorizer.class.name": AUTHORIZER}).security.is_on


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {MAP: "CONTROLLER:SSL"},
            "ssl.keystore.location: the listener CONTROLLER is SSL and has no key",
        ),
        (SSL | {"ssl.keystore.type": "BKS"}, "8: ssl.keystore.type: 'BKS' is none of PEM"),
        (SSL | {"ssl.keystore.password": "x"}, "10: ssl.keystore.password: PEM has no password"),
        (SSL | {"ssl.keystore.key": "x"}, "ssl.keystore.certificate.chain: ssl.keystore.location"),
        (SSL | {"ssl.enabled.protocols": "SSLv3"}, "ssl.enabled.protocols: none of it is known"),
        (
            SSL | {"ssl.endpoint.identification.algorithm": "ldaps"},
            "ssl.endpoint.identification.algorithm: 'ldaps' is neither",
        ),
        (SSL | {"ssl.principal.mapping.rules": "RULE:x"}, "begins no rule"),
        (SSL | {"ssl.principal.mapping.rules": "RULE:(/a/"}, "is no pattern"),
        (SSL | {"super.users": "admin"}, "super.users: 'admin' is no principal"),
        (SSL | {"ssl.engine.factory.class": "org.x.Y"}, "classes of Java are not run here"),
        (SSL | {"authorizer.class.name": "org.x.Y"}, f"write {AUTHORIZER}"),
        (
            SSL | {"listener.name.CONTROLLER.ssl.client.auth": "required"},
            "write listener.name.controller.ssl.client.auth",
        ),
        (
            {MAP: "CONTROLLER:SASL_PLAINTEXT"},
            "sasl.enabled.mechanisms: the default, GSSAPI, is not spoken",
        ),
        (PLAIN | {"sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER"}, "'OAUTHBEARER' is not spoken"),
        (PLAIN | {"sasl.enabled.mechanisms": ""}, "sasl.enabled.mechanisms: it is empty"),
        (PLAIN | {JAAS.format("plain"): ""}, "it is missing: the login of PLAIN on CONTROLLER"),
        (PLAIN | {JAAS.format("plain"): "x required"}, "plain.sasl.jaas.config: it ends too early"),
        (
            PLAIN | {JAAS.format("plain"): login("SCRAM-SHA-256", "a", "b")},
            "the login module of PLAIN is",
        ),
        (
            PLAIN | {JAAS.format("plain"): login("PLAIN", "a", "b").replace("username", "user_x")},
            "it has no username",
        ),
        (
            PLAIN | {"sasl.mechanism.controller.protocol": "GSSAPI"},
            "sasl.mechanism.controller.protocol: 'GSSAPI' is not spoken",
        ),
        (PLAIN | {"sasl.login.class": "x.Y"}, "sasl.login.class: classes of Java"),
        (PLAIN | {"connections.max.reauth.ms": "soon"}, "'soon' is no whole number"),
    ],
    ids=str,
)
def test_mistakes(tmp_path: Path, changes: dict[str, str], expected: str) -> None:
    texts = mistakes(tmp_path, changes)
    assert any(expected in text for text in texts), texts
    assert "secret" not in "".join(texts)

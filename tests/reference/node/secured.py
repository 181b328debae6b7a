"""Properties of nodes with TLS and SASL, for ours and for Kafka's: the same files do for both."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kraftspec.conformance.cluster.node import HOST
from kraftspec.reference.tools.storage import FormatRequest, format_storage
from kraftspec.reference.tools.storage_config import load_storage_config

from .certificates import PASSWORD, Authority, Identity

CLUSTER_ID = "c2VjdXJpdHktb2YtdGVzdA"
NODE, NODE_PASSWORD = "node", "node-secret"
ADMIN, ADMIN_PASSWORD = "admin", "admin, = \\ secret"
NOBODY, NOBODY_PASSWORD = "nobody", "nobody-secret"
PASSWORDS = {NODE: NODE_PASSWORD, ADMIN: ADMIN_PASSWORD, NOBODY: NOBODY_PASSWORD}
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
SCRAMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
# Names of listeners, and their protocols.
LISTENERS = {
    "CONTROLLER": "SASL_SSL",
    "MUTUAL": "SSL",
    "CLEAR": "SASL_PLAINTEXT",
    "OPEN": "PLAINTEXT",
}


def quoted(text: str) -> str:
    """Return a value of a JAAS option."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def login(mechanism: str, name: str, password: str, users: Mapping[str, str] | None = None) -> str:
    """Return a JAAS configuration; ``users`` are those that PLAIN lets in."""
    module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
    options = {"username": name, "password": password}
    options |= {f"user_{user}": word for user, word in (users or {}).items()}
    arguments = " ".join(f"{option}={quoted(value)}" for option, value in options.items())
    return f"{module} required {arguments};"


def server_properties(
    home: Path, authority: Authority, ports: Mapping[str, int], node_id: int, mechanism: str
) -> dict[str, str]:
    """Return the security of a controller that listens in all four ways.

    It shows itself to others by ``mechanism`` on CONTROLLER, and by its certificate on MUTUAL.
    """
    home.mkdir(parents=True, exist_ok=True)
    identity = authority.sign(f"node-{node_id}")
    key = identity.write_pkcs12(home / "key.p12")
    trust = authority.write_pkcs12(home / "trust.p12")
    listeners = ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items())
    names = list(ports)
    properties = {
        "listeners": listeners,
        "controller.listener.names": ",".join(names),
        "listener.security.protocol.map": ",".join(f"{it}:{LISTENERS[it]}" for it in names),
        "sasl.enabled.mechanisms": ",".join(["PLAIN", *SCRAMS]),
        "sasl.mechanism.controller.protocol": mechanism,
        "ssl.keystore.location": str(key),
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.location": str(trust),
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.password": PASSWORD,
        "listener.name.mutual.ssl.client.auth": "required",
        "authorizer.class.name": AUTHORIZER,
        "super.users": f"User:{NODE};User:{ADMIN};User:CN=node-1,O=Tests;User:CN=node-2,O=Tests;"
        "User:CN=admin,O=Tests",
    }
    for name in names:
        if not LISTENERS[name].startswith("SASL"):
            continue
        for one in ("PLAIN", *SCRAMS):
            users = PASSWORDS if one == "PLAIN" else None
            key_name = f"listener.name.{name.lower()}.{one.lower()}.sasl.jaas.config"
            properties[key_name] = login(one, NODE, NODE_PASSWORD, users)
    return properties


def write_properties(path: Path, properties: Mapping[str, str]) -> Path:
    lines = (f"{key}={escape(value)}\n" for key, value in properties.items())
    path.write_text("".join(lines), encoding="latin-1")
    return path


def escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def scram_arguments() -> tuple[str, ...]:
    """Return ``--add-scram`` arguments for all users."""
    return tuple(
        f'{mechanism}=[name="{name}",password="{password}",iterations=4096]'
        for mechanism in SCRAMS
        for name, password in PASSWORDS.items()
        if "," not in password
    )


def format_ours(path: Path, **request: Any) -> None:
    """Format the directory of a node, with SCRAM credentials for all."""
    format_request = FormatRequest(cluster_id=CLUSTER_ID, scram=scram_arguments(), **request)
    format_storage(load_storage_config(path), format_request)


def client_properties(
    home: Path,
    authority: Authority,
    protocol: str,
    mechanism: str = "",
    name: str = ADMIN,
    password: str | None = None,
    identity: Identity | None = None,
) -> dict[str, str]:
    """Return what a client of Kafka's needs to talk to such a controller."""
    home.mkdir(parents=True, exist_ok=True)
    properties = {
        "security.protocol": protocol,
        "request.timeout.ms": "120000",
        "default.api.timeout.ms": "120000",
    }
    if "SSL" in protocol:
        trust = authority.write_pem(home / "trust.pem")
        properties |= {"ssl.truststore.location": str(trust), "ssl.truststore.type": "PEM"}
    if identity is not None:
        key = identity.write_pem(home / "key.pem")
        properties |= {"ssl.keystore.location": str(key), "ssl.keystore.type": "PEM"}
    if mechanism:
        word = PASSWORDS[name] if password is None else password
        properties |= {
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": login(mechanism, name, word),
        }
    return properties

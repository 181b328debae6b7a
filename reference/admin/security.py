"""TLS and SASL of an admin client, out of Kafka's client properties.

``security.protocol``, ``ssl.*``, ``sasl.mechanism`` and ``sasl.jaas.config``; the pieces are those
of a node's own client side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kraftspec.reference.node.config_security import TLS_VERSIONS
from kraftspec.reference.node.security.jaas import MODULES, JaasError, parse_login
from kraftspec.reference.node.security.tls import client_context
from kraftspec.reference.node.settings import (
    Mechanism,
    Protocol,
    SaslConfig,
    Store,
    StoreKind,
    TlsConfig,
)

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

PROTOCOL: Final = "security.protocol"
MECHANISM: Final = "sasl.mechanism"
JAAS: Final = "sasl.jaas.config"
IDENTIFICATION: Final = "ssl.endpoint.identification.algorithm"


def client_security(
    properties: Mapping[str, str],
) -> tuple[ssl.SSLContext | None, SaslConfig | None]:
    """Return what is needed to connect; ValueError names the property that is wrong."""
    protocol = protocol_of(properties)
    return (
        client_context(tls_of(properties)) if protocol.has_tls else None,
        _sasl(properties) if protocol.has_sasl else None,
    )


def protocol_of(properties: Mapping[str, str]) -> Protocol:
    """Return ``security.protocol``; ValueError for what is none."""
    word = properties.get(PROTOCOL, "PLAINTEXT").strip()
    if word not in list(Protocol):
        raise ValueError(f"{PROTOCOL}={word}: it is one of {', '.join(Protocol)}")
    return Protocol(word)


def tls_of(properties: Mapping[str, str]) -> TlsConfig:
    """Return ``ssl.*`` of a client; ValueError names the property that is wrong."""
    identification = properties.get(IDENTIFICATION, "https").strip().lower()
    if identification not in ("", "https"):
        raise ValueError(f"{IDENTIFICATION}={identification}: it is https, or empty")
    versions = _words(properties.get("ssl.enabled.protocols", ""))
    known = tuple(version for version in TLS_VERSIONS if version in versions)
    if versions and not known:
        raise ValueError(f"ssl.enabled.protocols: none is known of {', '.join(TLS_VERSIONS)}")
    return TlsConfig(
        key_store=_store(
            properties, "keystore", "ssl.keystore.certificate.chain", "ssl.keystore.key"
        ),
        trust_store=_store(properties, "truststore", "ssl.truststore.certificates"),
        protocols=known or TLS_VERSIONS,
        cipher_suites=_words(properties.get("ssl.cipher.suites", "")),
        check_host_name=identification == "https",
    )


def _store(
    properties: Mapping[str, str], kind: str, pem_certificates: str, pem_key: str = ""
) -> Store | None:
    type_key = f"ssl.{kind}.type"
    word = properties.get(type_key, StoreKind.JKS).strip().upper()
    if word not in list(StoreKind):
        raise ValueError(f"{type_key}={word}: it is one of {', '.join(StoreKind)}")
    store = Store(
        key=f"ssl.{kind}.location",
        kind=StoreKind(word),
        location=properties.get(f"ssl.{kind}.location", ""),
        password=properties.get(f"ssl.{kind}.password", ""),
        key_password=properties.get("ssl.key.password", "") if pem_key else "",
        pem_key=properties.get(pem_key, "") if pem_key else "",
        pem_certificates=properties.get(pem_certificates, ""),
    )
    return store if store.location or store.pem_key or store.pem_certificates else None


def _sasl(properties: Mapping[str, str]) -> SaslConfig:
    word = properties.get(MECHANISM, "GSSAPI").strip()
    if word not in list(Mechanism):
        raise ValueError(f"{MECHANISM}={word}: it is one of {', '.join(Mechanism)}")
    mechanism = Mechanism(word)
    try:
        login = parse_login(properties.get(JAAS, ""))
    except JaasError as error:
        raise ValueError(f"{JAAS}: {error}") from error
    if login.module != MODULES[mechanism]:
        raise ValueError(f"{JAAS}: the login module of {mechanism} is {MODULES[mechanism]}")
    for option in ("username", "password"):
        if option not in login.options:
            raise ValueError(f"{JAAS}: it has no {option}")
    return SaslConfig(mechanisms=(mechanism,), logins={mechanism: login})


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())

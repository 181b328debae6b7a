"""``ssl.*``, ``sasl.*`` and who may do what, out of a properties file.

A property with ``listener.name.NAME.`` before it counts for that listener, before the one without.
A login is found as Kafka finds it on a server: ``listener.name.NAME.MECHANISM.sasl.jaas.config``,
in which the node's own user name and password stand, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from kraftspec.reference.node.keys import kafka_keys, shown
from kraftspec.reference.node.reader import LISTENER_PREFIX
from kraftspec.reference.node.security.jaas import MODULES, JaasError, parse_login
from kraftspec.reference.node.security.principal import MappingError, parse_rules
from kraftspec.reference.node.settings import (
    ClientAuth,
    Listener,
    Login,
    Mechanism,
    Protocol,
    SaslConfig,
    SecurityConfig,
    Store,
    StoreKind,
    TlsConfig,
)

if TYPE_CHECKING:
    from kraftspec.reference.node.reader import Reader

JAAS: Final = "sasl.jaas.config"
MECHANISMS: Final = "sasl.enabled.mechanisms"
OWN_MECHANISM: Final = "sasl.mechanism.controller.protocol"
AUTHORIZER: Final = "authorizer.class.name"
STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SUPER_USERS: Final = "super.users"
RULES: Final = "ssl.principal.mapping.rules"
PRINCIPALS: Final = "principal.builder.class"
TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
# A class of the operator's own, without which other peers would be let in, or by other names.
FOREIGN_CLASSES: Final = (
    "ssl.engine.factory.class",
    "security.providers",
    "sasl.server.callback.handler.class",
    "sasl.client.callback.handler.class",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
)
JAVA_TLS: Final = (
    "ssl.protocol",
    "ssl.provider",
    "ssl.keymanager.algorithm",
    "ssl.trustmanager.algorithm",
    "ssl.secure.random.implementation",
)


class Security:
    """What a file says of security; ``reader`` takes down what is wrong."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def server_side(self, listener: Listener) -> Listener:
        """Return the listener with its TLS and its SASL."""
        protocol = listener.protocol
        self._check_foreign(listener.name)
        rules = self._rules(listener.name)
        sasl = None
        if protocol.has_sasl:
            sasl = self._sasl(listener.name, self._mechanisms(listener.name))
        tls = self._tls(listener) if protocol.has_tls else None
        return msgspec.structs.replace(listener, tls=tls, sasl=sasl, ssl_rules=rules)

    def client_side(
        self, listeners: tuple[Listener, ...], own: Listener | None = None
    ) -> SecurityConfig:
        """Return how this node shows itself, by its first listener or ``own``, and who may call."""
        reader = self._reader
        authorizer = reader.text(AUTHORIZER)
        if authorizer not in ("", STANDARD_AUTHORIZER):
            reader.mistake(
                AUTHORIZER,
                f"classes of Java are not run here: write {STANDARD_AUTHORIZER}, or remove it",
            )
        builder = reader.text(PRINCIPALS)
        if builder != kafka_keys()[PRINCIPALS].default:
            reader.mistake(PRINCIPALS, "classes of Java are not run here: remove it")
        if own is None:
            own = listeners[0] if listeners else None
        elif own.protocol.has_tls:
            own = msgspec.structs.replace(own, tls=self._tls(own))
        protocol = own.protocol if own is not None else Protocol.PLAINTEXT
        sasl = None
        if own is not None and protocol.has_sasl:
            sasl = self._own_login(own)
        security = SecurityConfig(
            protocol=protocol,
            tls=own.tls if own is not None else None,
            sasl=sasl,
            has_authorizer=bool(authorizer),
            has_secure_listener=any(one.protocol is not Protocol.PLAINTEXT for one in listeners),
            super_users=self._super_users(),
            allow_if_no_acl=reader.flag("allow.everyone.if.no.acl.found"),
        )
        if security.is_on and not security.super_users and not security.allow_if_no_acl:
            reader.warn(
                SUPER_USERS,
                "it names nobody, so no other controller may call this node until ACLs let it; "
                'add the principals of the controllers, such as "User:controller"',
            )
        return security

    # ---- names ---------------------------------------------------------------------------------

    def _key(self, listener: str, base: str) -> str:
        """Return the property that counts for a listener: its own, or the general one."""
        self._reader.used.add(base)  # Where a listener has its own, the general one is for others.
        own = f"{LISTENER_PREFIX}{listener.lower()}.{base}"
        return own if self._reader.has(own) else base

    def _text(self, listener: str, base: str) -> str:
        return self._reader.text(self._key(listener, base), base)

    def _check_foreign(self, listener: str) -> None:
        for base in FOREIGN_CLASSES:
            key = self._key(listener, base)
            if self._reader.has(key) and self._text(listener, base):
                self._reader.mistake(key, "classes of Java are not run here: remove it")
        for base in JAVA_TLS:
            key = self._key(listener, base)
            if self._reader.has(key):
                self._reader.value(key, base)
                self._reader.warn(key, "it is of Java's TLS; this node's is OpenSSL")

    # ---- TLS -----------------------------------------------------------------------------------

    def _tls(self, listener: Listener) -> TlsConfig:
        name = listener.name
        key_store = self._store(
            name, "keystore", "ssl.keystore.key", "ssl.keystore.certificate.chain"
        )
        if key_store is None:
            self._reader.mistake(
                self._key(name, "ssl.keystore.location"),
                f"the listener {name} is {listener.protocol} and has no key: add it, or "
                "ssl.keystore.key and ssl.keystore.certificate.chain with ssl.keystore.type=PEM",
            )
        client_auth = self._text(name, "ssl.client.auth")
        known = {one.value: one for one in ClientAuth}
        identification = self._text(name, "ssl.endpoint.identification.algorithm").lower()
        if identification not in ("", "https"):
            self._reader.mistake(
                self._key(name, "ssl.endpoint.identification.algorithm"),
                f"{shown(identification)} is neither https nor empty",
            )
        ciphers = self._key(name, "ssl.cipher.suites")
        return TlsConfig(
            key_store=key_store,
            trust_store=self._store(name, "truststore", "", "ssl.truststore.certificates"),
            client_auth=known.get(client_auth, ClientAuth.NONE),
            protocols=self._versions(name),
            cipher_suites=self._reader.words(ciphers, "ssl.cipher.suites"),
            check_host_name=identification == "https",
        )

    def _versions(self, listener: str) -> tuple[str, ...]:
        base = "ssl.enabled.protocols"
        key = self._key(listener, base)
        versions = self._reader.words(key, base)
        known = tuple(version for version in TLS_VERSIONS if version in versions)
        others = [version for version in versions if version not in TLS_VERSIONS]
        if versions and not known:
            self._reader.mistake(key, f"none of it is known: write {' or '.join(TLS_VERSIONS)}")
        elif others:
            self._reader.warn(key, f"{', '.join(others)} is not offered")
        return known or TLS_VERSIONS

    def _store(self, listener: str, kind: str, pem_key: str, pem_certificates: str) -> Store | None:
        location_key = self._key(listener, f"ssl.{kind}.location")
        store = Store(
            key=location_key,
            kind=self._store_kind(listener, f"ssl.{kind}.type"),
            location=self._reader.text(location_key, f"ssl.{kind}.location"),
            password=self._text(listener, f"ssl.{kind}.password"),
            key_password=self._text(listener, "ssl.key.password") if pem_key else "",
            pem_key=self._text(listener, pem_key) if pem_key else "",
            pem_certificates=self._text(listener, pem_certificates),
        )
        inline = store.pem_key or store.pem_certificates
        if not store.location and not inline:
            return None
        certificates = self._key(listener, pem_certificates)
        if inline and store.location:
            self._reader.mistake(certificates, f"ssl.{kind}.location is set, too: remove one")
        if inline and store.kind is not StoreKind.PEM:
            self._reader.mistake(certificates, f"it needs ssl.{kind}.type=PEM")
        if inline and pem_key and not (store.pem_key and store.pem_certificates):
            self._reader.mistake(certificates, f"{pem_key} and it go together: add the other")
        if store.password and store.kind is StoreKind.PEM:
            self._reader.mistake(
                self._key(listener, f"ssl.{kind}.password"),
                "PEM has no password of its store; that of a key is ssl.key.password",
            )
        return store

    def _store_kind(self, listener: str, base: str) -> StoreKind:
        key = self._key(listener, base)
        kind = self._reader.text(key, base).upper()
        if kind not in list(StoreKind):
            self._reader.mistake(key, f"{shown(kind)} is none of {', '.join(StoreKind)}")
            return StoreKind.PEM
        return StoreKind(kind)

    def _rules(self, listener: str) -> str:
        key = self._key(listener, RULES)
        text = self._reader.text(key, RULES)
        try:
            if not parse_rules(text):
                self._reader.mistake(key, "it has no rule, so fits nobody: write DEFAULT")
        except MappingError as error:
            self._reader.mistake(key, str(error))
        return text

    # ---- SASL ----------------------------------------------------------------------------------

    def _mechanisms(self, listener: str) -> list[Mechanism]:
        key = self._key(listener, MECHANISMS)
        mechanisms = []
        for word in self._reader.words(key, MECHANISMS):
            mechanism = self._mechanism(key, word)
            if mechanism is not None:
                mechanisms.append(mechanism)
        if not self._reader.has(key):
            self._reader.mistake(key, f"the default, GSSAPI, is not spoken: write {_KNOWN}")
        elif not self._reader.words(key, MECHANISMS):
            self._reader.mistake(key, f"it is empty: write {_KNOWN}")
        return mechanisms

    def _mechanism(self, key: str, word: str) -> Mechanism | None:
        if word in list(Mechanism):
            return Mechanism(word)
        if self._reader.has(key):
            self._reader.mistake(key, f"{shown(word)} is not spoken: write {_KNOWN}")
        return None

    def _login(self, listener: str, mechanism: Mechanism) -> Login | None:
        key = f"{LISTENER_PREFIX}{listener.lower()}.{mechanism.lower()}.{JAAS}"
        text = self._reader.text(key, JAAS)
        if not text:
            self._reader.mistake(key, f"it is missing: the login of {mechanism} on {listener}")
            return None
        try:
            login = parse_login(text)
        except JaasError as error:
            self._reader.mistake(key, str(error))
            return None
        if login.module != MODULES[mechanism]:
            self._reader.mistake(key, f"the login module of {mechanism} is {MODULES[mechanism]}")
            return None
        return login

    def _sasl(self, listener: str, mechanisms: list[Mechanism]) -> SaslConfig:
        logins = {}
        for mechanism in mechanisms:
            login = self._login(listener, mechanism)
            if login is not None:
                logins[mechanism] = login
        size_key = self._key(listener, "sasl.server.max.receive.size")
        life_key = self._key(listener, "connections.max.reauth.ms")
        return SaslConfig(
            mechanisms=tuple(mechanisms),
            logins=logins,
            receive_bytes_max=self._integer(size_key, "sasl.server.max.receive.size"),
            reauthentication_ms=self._integer(life_key, "connections.max.reauth.ms"),
        )

    def _integer(self, key: str, base: str) -> int:
        value = self._reader.value(key, base)
        return value if isinstance(value, int) else 0

    def _own_login(self, listener: Listener) -> SaslConfig | None:
        word = self._reader.text(OWN_MECHANISM)
        mechanism = self._mechanism(OWN_MECHANISM, word)
        if mechanism is None:
            if not self._reader.has(OWN_MECHANISM):
                self._reader.mistake(
                    OWN_MECHANISM, f"the default, GSSAPI, is not spoken: write {_KNOWN}"
                )
            return None
        login = self._login(listener.name, mechanism)
        if login is None:
            return None
        for option in ("username", "password"):
            if option not in login.options:
                key = f"{LISTENER_PREFIX}{listener.name.lower()}.{mechanism.lower()}.{JAAS}"
                self._reader.mistake(key, f"it has no {option}, which this node connects with")
        return SaslConfig(mechanisms=(mechanism,), logins={mechanism: login})

    # ---- who may call --------------------------------------------------------------------------

    def _super_users(self) -> frozenset[str]:
        principals = set()
        for word in self._reader.text(SUPER_USERS).split(";"):
            principal = word.strip()
            kind, colon, name = principal.partition(":")
            if principal and not (kind and colon and name):
                self._reader.mistake(
                    SUPER_USERS, f"{shown(principal)} is no principal: write User:name;User:other"
                )
            elif principal:
                principals.add(principal)
        return frozenset(principals)


_KNOWN: Final = " or ".join(Mechanism)

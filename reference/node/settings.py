"""What a node is run with, as ``load_config`` makes it of Kafka's controller properties.

Plain values: nothing here opens a file, a socket or a key store. Times and sizes have their units
in their names; the defaults are those of Apache Kafka 4.4.0 unless a comment says otherwise.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, Self

import msgspec

from kraftspec.reference.log.directory import MetaProperties, NotFormattedError
from kraftspec.reference.log.metadata_log import LogConfig
from kraftspec.reference.raft.config import Config

if TYPE_CHECKING:
    from collections.abc import Iterable

MIB: Final = 1 << 20
DAY_MS: Final = 24 * 3600 * 1000
FRAME_BYTES_MAX: Final = 100 * MIB  # socket.request.max.bytes
CONNECTIONS_MAX: Final = (1 << 31) - 1  # max.connections: Kafka's default is no limit.


def host_port(host: str, port: int) -> str:
    """Return ``host:port``, the address of IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Protocol(StrEnum):
    """What a listener speaks below Kafka's frames (``SecurityProtocol``)."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def number(self) -> int:
        """Its number in Kafka's messages, whose order is that of the names here."""
        return list(Protocol).index(self)

    @property
    def has_tls(self) -> bool:
        """Whether TLS comes first."""
        return self in (Protocol.SSL, Protocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        """Whether a SASL exchange comes before anything but ApiVersions."""
        return self in (Protocol.SASL_PLAINTEXT, Protocol.SASL_SSL)


class Mechanism(StrEnum):
    """The SASL mechanisms that a node speaks, of those that Kafka has."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


class StoreKind(StrEnum):
    """How keys and certificates are kept (``ssl.keystore.type``)."""

    PEM = "PEM"
    PKCS12 = "PKCS12"
    JKS = "JKS"  # A file of this type is read if it is PKCS #12, as Java itself does.


class Store(msgspec.Struct, frozen=True, kw_only=True):
    """A key store or a trust store: a file, or PEM that stands in the properties themselves.

    ``key`` names the property that a message about the store is to name.
    """

    key: str
    kind: StoreKind = StoreKind.JKS
    location: str = ""
    password: str = ""
    key_password: str = ""
    pem_key: str = ""
    pem_certificates: str = ""

    def __repr__(self) -> str:
        return f"Store({self.kind} {self.location or 'in the properties'})"  # Without its secrets.


class ClientAuth(StrEnum):
    """Whether a client must show a certificate (``ssl.client.auth``)."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


class TlsConfig(msgspec.Struct, frozen=True, kw_only=True):
    """``ssl.*`` of a listener, or of the client side. Protocols are ``TLSv1.2``, ``TLSv1.3``."""

    key_store: Store | None = None
    trust_store: Store | None = None  # None: the certificates that the system trusts.
    client_auth: ClientAuth = ClientAuth.NONE
    protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    cipher_suites: tuple[str, ...] = ()  # IANA's names; empty: those of OpenSSL.
    check_host_name: bool = True  # ssl.endpoint.identification.algorithm=https


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """One login module of a JAAS configuration with its options (``sasl.jaas.config``)."""

    module: str
    options: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"Login({self.module}, options {', '.join(sorted(self.options))})"


class SaslConfig(msgspec.Struct, frozen=True, kw_only=True):
    """``sasl.*`` of a listener, or of the client side, with the login of each mechanism."""

    mechanisms: tuple[Mechanism, ...]
    logins: dict[Mechanism, Login]
    receive_bytes_max: int = 512 << 10  # sasl.server.max.receive.size
    reauthentication_ms: int = 0  # connections.max.reauth.ms; 0: a login lasts for ever.


class Listener(msgspec.Struct, frozen=True, kw_only=True):
    """One of ``listeners``, with what it says of itself to others.

    ``host`` is empty for every interface; ``port`` 0 lets the system choose one, and then
    ``advertised_port`` is 0, too. ``ssl_rules`` is ``ssl.principal.mapping.rules``.
    """

    name: str
    host: str
    port: int
    advertised_host: str
    advertised_port: int
    protocol: Protocol = Protocol.PLAINTEXT
    tls: TlsConfig | None = None
    sasl: SaslConfig | None = None
    ssl_rules: str = "DEFAULT"


class SecurityConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Who may do what, and how this node shows other controllers who it is.

    The client side is that of the first controller listener (``listener``).
    """

    protocol: Protocol = Protocol.PLAINTEXT
    tls: TlsConfig | None = None
    sasl: SaslConfig | None = None  # One mechanism: sasl.mechanism.controller.protocol
    has_authorizer: bool = False  # authorizer.class.name is set.
    has_secure_listener: bool = False  # Any listener is other than PLAINTEXT.
    super_users: frozenset[str] = frozenset()  # "User:name", as in super.users
    allow_if_no_acl: bool = False  # allow.everyone.if.no.acl.found

    @property
    def is_on(self) -> bool:
        """Whether callers are told apart at all, so that only some may call."""
        return self.has_authorizer or self.has_secure_listener


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a peer may cost this node."""

    request_bytes_max: int = FRAME_BYTES_MAX
    connections_max: int = CONNECTIONS_MAX
    connections_per_ip_max: int = CONNECTIONS_MAX
    connections_per_ip_overrides: dict[str, int] = {}
    connections_per_second_max: int = CONNECTIONS_MAX
    idle_ms_max: int = 600_000  # connections.max.idle.ms; below 0: for ever.
    # How long a request may take to arrive, and an answer to be read. Kafka waits until it is idle.
    stall_ms_max: int = 30_000
    queued_requests_max: int = 500  # queued.max.requests, of all connections together.
    queued_bytes_max: int = -1  # queued.max.request.bytes; below 0: no limit.
    backlog: int = 50  # socket.listen.backlog.size
    send_buffer_bytes: int = 102_400  # Below 0: the system's own.
    receive_buffer_bytes: int = 102_400
    failed_authentication_delay_ms: int = 100
    connect_ms_max: int = 30_000  # socket.connection.setup.timeout.max.ms
    connect_ms: int = 10_000  # socket.connection.setup.timeout.ms, of the first attempt.


class ConfigWarning(msgspec.Struct, frozen=True):
    """Something that a file says and that has no effect, or a different one than in Kafka."""

    where: str  # file:line
    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.key}: {self.text}"


class NodeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """All of it. Whose directory it is stands in no properties file: see ``of_directory``.

    ``properties`` are all that the file says, as strings (with secrets: not for printing).
    """

    path: str
    core: Config  # Without cluster id and directory id until of_directory.
    log: LogConfig
    log_dir: str  # metadata.log.dir, or the first of log.dirs
    listeners: tuple[Listener, ...]  # As in controller.listener.names; the first is the quorum's.
    limits: Limits = Limits()
    security: SecurityConfig = SecurityConfig()
    snapshot_bytes: int = 20 * MIB  # metadata.log.max.record.bytes.between.snapshots
    snapshot_ms: int = 3_600_000  # metadata.log.max.snapshot.interval.ms; 0: never by time
    idle_ms: int = 500  # metadata.max.idle.interval.ms; 0: no NoOpRecords
    properties: dict[str, str] = {}
    warnings: tuple[ConfigWarning, ...] = ()

    def __repr__(self) -> str:
        return f"NodeConfig(node {self.core.node_id} of {self.path})"

    @property
    def node_id(self) -> int:
        """``node.id``."""
        return self.core.node_id

    def of_directory(self, meta: MetaProperties) -> Self:
        """Return it with the cluster id and the directory id of a formatted log directory.

        Raises NotFormattedError where the directory is another node's.
        """
        if meta.node_id not in (-1, self.node_id):
            raise NotFormattedError(
                f"{self.log_dir} is that of node {meta.node_id}, and {self.path} has "
                f"node.id={self.node_id}: correct node.id, or log.dirs"
            )
        core = msgspec.structs.replace(
            self.core, cluster_id=meta.cluster_id, directory_id=meta.directory_id
        )
        return msgspec.structs.replace(self, core=core)


class ConfigError(ValueError):
    """A properties file is not taken; ``mistakes`` are all that is wrong in it, one a line."""

    def __init__(self, mistakes: Iterable[str]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(self.mistakes))

"""The arithmetic and the messages of SCRAM (RFC 5802), as Kafka has them.

::

    client first   n,[a=name],n=name,r=nonce[,extensions]     gs2 header, then the bare message
    server first   r=nonce and more,s=salt,i=iterations
    client final   c=gs2 header,r=nonce,p=proof
    server final   v=signature, or e=error

Salt, header, proof and signature are base64. Passwords are UTF-8 as they are written: Kafka does
not prepare them (``ScramFormatter.normalize``), and neither do its peers.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from kraftspec.reference.node.settings import Mechanism

if TYPE_CHECKING:
    from kraftspec.generated.kafka import UserScramCredentialRecord

ITERATIONS_MIN: Final = 4_096  # ScramMechanism.minIterations
# Kafka's tools take 16,384 at the most. A server that asks for more than this asks for our time.
ITERATIONS_MAX: Final = 1_000_000
SALT_BYTES_MAX: Final = 1_024
NONCE_CHARS_MIN: Final = 8
NONCE_CHARS_MAX: Final = 1_024
NONCE_BYTES: Final = 24
HASHES: Final = {Mechanism.SCRAM_SHA_256: "sha256", Mechanism.SCRAM_SHA_512: "sha512"}
RECORD_TYPES: Final = {1: Mechanism.SCRAM_SHA_256, 2: Mechanism.SCRAM_SHA_512}  # ScramMechanism

_NONCE: Final = r"[\x21-\x2b\x2d-\x7e]+"  # Printable, and no comma.
_NAME: Final = r"(?:[^=,\x00]|=2C|=3D)+"
_CLIENT_FIRST: Final = re.compile(
    rf"(?P<header>[ny],(?:a=(?P<authzid>{_NAME}))?,)"
    rf"(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>{_NONCE})(?:,(?P<extensions>.*))?)",
    re.DOTALL,
)
_BASE64: Final = r"[A-Za-z0-9+/=]+"
_SERVER_FIRST: Final = re.compile(
    rf"r=(?P<nonce>{_NONCE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[1-9][0-9]{{0,8}})(?:,.*)?",
    re.DOTALL | re.ASCII,
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<unproven>c=(?P<channel>{_BASE64}),r=(?P<nonce>{_NONCE})),p=(?P<proof>{_BASE64})"
)
_SERVER_FINAL: Final = re.compile(rf"v=({_BASE64})(?:,.*)?|e=([^,]+)(?:,.*)?", re.DOTALL)


class ScramError(ValueError):
    """A message is malformed, or does not prove what it should."""


class ScramCredential(NamedTuple):
    """What a server keeps of a password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class ClientFirst(NamedTuple):
    """The client's first message, taken apart."""

    header: str
    bare: str
    name: str
    nonce: str
    extensions: dict[str, str]


class ClientFinal(NamedTuple):
    """The client's last message, taken apart."""

    unproven: str
    channel: bytes
    nonce: str
    proof: bytes


# ---- arithmetic --------------------------------------------------------------------------------


def salted_password(mechanism: Mechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Return ``Hi`` of a password; takes time in proportion to ``iterations``."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


def credential_of(
    mechanism: Mechanism, password: str, salt: bytes, iterations: int
) -> ScramCredential:
    """Return what a server keeps of a password."""
    salted = salted_password(mechanism, password, salt, iterations)
    return credential_of_salted(mechanism, salted, salt, iterations)


def credential_of_salted(
    mechanism: Mechanism, salted: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    """Return what a server keeps of a password that was salted with ``salt``."""
    stored = hashlib.new(HASHES[mechanism], _client_key(mechanism, salted)).digest()
    return ScramCredential(salt, stored, _mac(mechanism, salted, b"Server Key"), iterations)


def credential_of_record(record: UserScramCredentialRecord) -> ScramCredential:
    """Return the credential that a record of the metadata log holds."""
    return ScramCredential(
        bytes(record.salt), bytes(record.stored_key), bytes(record.server_key), record.iterations
    )


def proof_of(mechanism: Mechanism, salted: bytes, messages: bytes) -> tuple[bytes, bytes]:
    """Return a client's proof for ``messages``, and the signature to expect for it."""
    key = _client_key(mechanism, salted)
    stored = hashlib.new(HASHES[mechanism], key).digest()
    proof = _xor(key, _mac(mechanism, stored, messages))
    return proof, signature_of(mechanism, _mac(mechanism, salted, b"Server Key"), messages)


def is_proven(
    mechanism: Mechanism, credential: ScramCredential, messages: bytes, proof: bytes
) -> bool:
    """Whether ``proof`` is of the password; the time taken is the same for both."""
    signature = _mac(mechanism, credential.stored_key, messages)
    if len(proof) != len(signature):
        return False
    stored = hashlib.new(HASHES[mechanism], _xor(proof, signature)).digest()
    return hmac.compare_digest(stored, credential.stored_key)


def signature_of(mechanism: Mechanism, server_key: bytes, messages: bytes) -> bytes:
    """Return the signature by which a server proves that it knows the password, too."""
    return _mac(mechanism, server_key, messages)


def _client_key(mechanism: Mechanism, salted: bytes) -> bytes:
    return _mac(mechanism, salted, b"Client Key")


def _mac(mechanism: Mechanism, key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, HASHES[mechanism])


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


# ---- messages ----------------------------------------------------------------------------------


def escape_name(name: str) -> str:
    """Return a user name as messages have it (``=2C`` for a comma, ``=3D`` for an equals sign)."""
    return name.replace("=", "=3D").replace(",", "=2C")


def _unescape(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def read_client_first(message: bytes) -> ClientFirst:
    """Take the client's first message apart. Raises ScramError."""
    match = _CLIENT_FIRST.fullmatch(_text(message))
    if match is None:
        raise ScramError("it is no first message of SCRAM, or asks for channel binding")
    extensions = {}
    for extension in filter(None, (match["extensions"] or "").split(",")):
        name, equals, value = extension.partition("=")
        if not equals or name == "m":  # RFC 5802: m stands for what must be understood.
            raise ScramError("it has an extension that is not spoken")
        extensions[name] = value
    authorization_id = _unescape(match["authzid"] or "")
    name = _unescape(match["name"])
    if authorization_id not in ("", name):
        raise ScramError("it asks to be somebody else than it authenticates")
    return ClientFirst(match["header"], match["bare"], name, _nonce(match["nonce"]), extensions)


def read_server_first(message: bytes, client_nonce: str) -> tuple[str, bytes, int]:
    """Return nonce, salt and iterations. Raises ScramError; also where they are too weak."""
    match = _SERVER_FIRST.fullmatch(_text(message))
    if match is None:
        raise ScramError("it is no first message of a SCRAM server")
    nonce = _nonce(match["nonce"])
    if not nonce.startswith(client_nonce) or nonce == client_nonce:
        raise ScramError("its nonce does not go on from ours: it answers somebody else")
    iterations = int(match["iterations"])
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise ScramError(f"{iterations} iterations; {ITERATIONS_MIN} to {ITERATIONS_MAX} are taken")
    salt = _bytes(match["salt"])
    if not 0 < len(salt) <= SALT_BYTES_MAX:
        raise ScramError(f"a salt of {len(salt)} bytes")
    return nonce, salt, iterations


def read_client_final(message: bytes) -> ClientFinal:
    """Take the client's last message apart. Raises ScramError."""
    match = _CLIENT_FINAL.fullmatch(_text(message))
    if match is None:
        raise ScramError("it is no last message of SCRAM")
    channel, proof = _bytes(match["channel"]), _bytes(match["proof"])
    return ClientFinal(match["unproven"], channel, match["nonce"], proof)


def read_server_final(message: bytes) -> bytes:
    """Return the server's signature. Raises ScramError where it has none."""
    match = _SERVER_FINAL.fullmatch(_text(message))
    if match is None or match[2]:
        raise ScramError("the server says that it was no success")
    return _bytes(match[1])


def encode(data: bytes) -> str:
    """Return base64."""
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ScramError("it has base64 that is none") from error


def _nonce(text: str) -> str:
    if not NONCE_CHARS_MIN <= len(text) <= NONCE_CHARS_MAX:
        raise ScramError(f"a nonce of {len(text)} characters")
    return text


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError as error:
        raise ScramError("it is no UTF-8") from error

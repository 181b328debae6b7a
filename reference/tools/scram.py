"""``--add-scram``: credentials that a cluster has from its first record on (``ScramParser``).

``SCRAM-SHA-256=[name=alice,password=secret]``, with ``iterations``, ``salt`` and, instead of the
password, ``saltedpassword``; the last two are base64, in quotes or not (RFC 5802, KIP-900).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from typing import Final

from kraftspec.generated.kafka import UserScramCredentialRecord

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16_384
_SALT_BYTES: Final = 26  # As many letters and digits as Kafka draws.
_MECHANISMS: Final = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}
_KNOWN: Final = ("name", "password", "salt", "saltedpassword", "iterations")
_ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz0123456789"


def parse_scram(text: str) -> UserScramCredentialRecord:
    """Return the credential of one argument; ValueError in Kafka's words."""
    mechanism, equals, rest = text.partition("=")
    if not equals:
        raise ValueError(f"Failed to find equals sign in SCRAM argument '{text}'")
    if mechanism not in _MECHANISMS:
        raise ValueError(f"The add-scram mechanism {mechanism} is not supported.")
    given = _components(rest)
    number, digest = _MECHANISMS[mechanism]
    name = given.get("name")
    if name is None:
        raise ValueError("You must supply 'name' to add-scram")
    iterations = _iterations(given.get("iterations", str(ITERATIONS_MIN)), mechanism)
    salt = _salt(given)
    salted = _salted(given, digest, salt, iterations)
    stored = hashlib.new(digest, hmac.digest(salted, b"Client Key", digest)).digest()
    return UserScramCredentialRecord(
        name=name,
        mechanism=number,
        salt=salt,
        stored_key=stored,
        server_key=hmac.digest(salted, b"Server Key", digest),
        iterations=iterations,
    )


def _components(text: str) -> dict[str, str]:
    if not text.startswith("["):
        raise ValueError("Expected configuration string to start with [")
    if not text.endswith("]"):
        raise ValueError("Expected configuration string to end with ]")
    given = {}
    for component in text[1:-1].split(","):
        key, equals, value = component.partition("=")
        if not equals:
            raise ValueError(f"No equals sign found in SCRAM component: {component}")
        is_quoted = len(value) > 1 and value[0] == value[-1] == '"'
        given[key] = value[1:-1] if is_quoted else value
    # " password", with a space, is none of them, and the one that is missing is told first.
    if "name" in given and not {"password", "saltedpassword"} & set(given):
        raise ValueError("You must supply one of 'password' or 'saltedpassword' to add-scram")
    unknown = [key for key in given if key not in _KNOWN]
    if unknown:
        raise ValueError(f"Unknown SCRAM configurations: {', '.join(unknown)}")
    return given


def _iterations(text: str, mechanism: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > len(str(ITERATIONS_MAX)):
        raise ValueError(f"Failed to parse iterations count: {text}")
    count = int(text)
    name = mechanism.replace("-", "_")
    if count < ITERATIONS_MIN:
        raise ValueError(
            f"The 'iterations' value must be >= {ITERATIONS_MIN} for add-scram using {name}"
        )
    if count > ITERATIONS_MAX:
        raise ValueError(
            f"The 'iterations' value must be <= {ITERATIONS_MAX} for add-scram using {name}"
        )
    return count


def _salt(given: dict[str, str]) -> bytes:
    if "salt" in given:
        return _decode(given["salt"], "Failed to decode given salt")
    if "password" not in given:
        raise ValueError("You must supply 'salt' with 'saltedpassword' to add-scram")
    return "".join(secrets.choice(_ALPHABET) for _ in range(_SALT_BYTES)).encode()


def _salted(given: dict[str, str], digest: str, salt: bytes, iterations: int) -> bytes:
    if "saltedpassword" in given:
        return _decode(given["saltedpassword"], "Failed to decode given saltedPassword")
    if not given["password"]:
        raise ValueError("Empty key: a password has a letter at least")
    return hashlib.pbkdf2_hmac(digest, given["password"].encode(), salt, iterations)


def _decode(text: str, refusal: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error) as error:
        raise ValueError(f"{refusal}: {text}") from error

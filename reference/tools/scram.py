"""``--add-scram``: credentials that a cluster has from its first record on (``ScramParser``).

``SCRAM-SHA-256=[name=alice,password=secret]``, with ``iterations``, ``salt`` and, instead of the
password, ``saltedpassword``; the last two are base64, in quotes or not (RFC 5802, KIP-900).
"""

from __future__ import annotations

import base64
import binascii
import secrets
from typing import Final

from kraftspec.generated.kafka import UserScramCredentialRecord
from kraftspec.reference.node.security.scram import (
    ITERATIONS_MIN,
    RECORD_TYPES,
    credential_of_salted,
    salted_password,
)
from kraftspec.reference.node.settings import Mechanism

ITERATIONS_MAX: Final = 16_384
_SALT_BYTES: Final = 26  # As many letters and digits as Kafka draws.
_MECHANISMS: Final = {str(kind): (number, kind) for number, kind in RECORD_TYPES.items()}
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
    number, kind = _MECHANISMS[mechanism]
    name = given.get("name")
    if name is None:
        raise ValueError("You must supply 'name' to add-scram")
    iterations = _iterations(given.get("iterations", str(ITERATIONS_MIN)), mechanism)
    salt = _salt(given)
    salted = _salted(given, kind, salt, iterations)
    credential = credential_of_salted(kind, salted, salt, iterations)
    return UserScramCredentialRecord(
        name=name,
        mechanism=number,
        salt=salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
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


def _salted(given: dict[str, str], kind: Mechanism, salt: bytes, iterations: int) -> bytes:
    if "saltedpassword" in given:
        return _decode(given["saltedpassword"], "Failed to decode given saltedPassword")
    if not given["password"]:
        raise ValueError("Empty key: a password has a letter at least")
    return salted_password(kind, given["password"], salt, iterations)


def _decode(text: str, refusal: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error) as error:
        raise ValueError(f"{refusal}: {text}") from error

"""TLS contexts out of key stores: PEM in files or in the properties, and PKCS #12.

A store of type JKS is read where the file really is PKCS #12, which Java takes for it, too; Java's
own format is refused with the command that converts it. Keys that are not a PEM file already reach
OpenSSL by a file that is in memory only, where the system has such.
"""

from __future__ import annotations

import os
import re
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from kraftspec.reference.node.settings import ClientAuth, Store, StoreKind, TlsConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

STORE_BYTES_MAX: Final = 4 << 20
_JKS_MAGIC: Final = bytes.fromhex("feedfeed")
_JCEKS_MAGIC: Final = bytes.fromhex("cececece")
_CERTIFICATE: Final = re.compile(
    r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL
)
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_TLS13_SUITES: Final = (
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
)


class TlsError(ValueError):
    """A store or a choice of ciphers is of no use; the message names the property."""


def server_context(tls: TlsConfig) -> ssl.SSLContext:
    """Return the context of a listener. Raises TlsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _set_up(context, tls)
    context.verify_mode = {
        ClientAuth.NONE: ssl.CERT_NONE,
        ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
        ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
    }[tls.client_auth]
    return context


def client_context(tls: TlsConfig) -> ssl.SSLContext:
    """Return the context by which this node connects to others. Raises TlsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _set_up(context, tls)
    context.check_hostname = tls.check_host_name
    return context


def _set_up(context: ssl.SSLContext, tls: TlsConfig) -> None:
    context.options |= ssl.OP_NO_RENEGOTIATION
    # As in Java, whatever is in a trust store is trusted, whichever CA signed it.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    _choose_versions(context, tls)
    if tls.key_store is not None:
        _load_key(context, tls.key_store)
    if tls.trust_store is None:
        context.load_default_certs(
            ssl.Purpose.CLIENT_AUTH
            if context.protocol is ssl.PROTOCOL_TLS_SERVER
            else ssl.Purpose.SERVER_AUTH
        )
        return
    certificates = _certificates(tls.trust_store)
    if not certificates:
        _refuse(tls.trust_store, "it has no certificates")
    try:
        context.load_verify_locations(cadata="\n".join(certificates))
    except ssl.SSLError as error:
        _refuse(tls.trust_store, f"its certificates are none ({error.reason or error})")


def _choose_versions(context: ssl.SSLContext, tls: TlsConfig) -> None:
    versions = [version for version in _VERSIONS if version in tls.protocols]
    if tls.cipher_suites:
        old = [suite for suite in tls.cipher_suites if suite not in _TLS13_SUITES]
        if len(old) == len(tls.cipher_suites):
            versions = [version for version in versions if version != "TLSv1.3"]
        if not old:
            versions = [version for version in versions if version == "TLSv1.3"]
        if not versions:
            raise TlsError("ssl.cipher.suites: none is of a version in ssl.enabled.protocols")
        if old:
            _choose_ciphers(context, old)
    context.minimum_version = _VERSIONS[versions[0]]
    context.maximum_version = _VERSIONS[versions[-1]]


def _choose_ciphers(context: ssl.SSLContext, suites: Sequence[str]) -> None:
    """Choose ciphers of TLS 1.2 by IANA's names, one by one: OpenSSL passes over unknown ones."""
    names = []
    for suite in suites:
        name = openssl_name(suite)
        try:
            context.set_ciphers(name)
        except ssl.SSLError as error:
            raise TlsError(f"ssl.cipher.suites: {suite!r} is not known to OpenSSL") from error
        names.append(name)
    context.set_ciphers(":".join(names))


def openssl_name(suite: str) -> str:
    """Return OpenSSL's name of a cipher suite of TLS 1.2: ``ECDHE-RSA-AES128-GCM-SHA256``."""
    name = suite.removeprefix("TLS_").replace("_WITH_", "_")
    name = re.sub(r"AES_(128|256)_CBC", r"AES\1", name)
    name = re.sub(r"AES_(128|256)", r"AES\1", name).replace("POLY1305_SHA256", "POLY1305")
    return re.sub("^RSA_", "", name).replace("_", "-")


# ---- stores ------------------------------------------------------------------------------------


def _load_key(context: ssl.SSLContext, store: Store) -> None:
    def no_password() -> NoReturn:  # OpenSSL would ask at the terminal.
        _refuse(store, "its key has a password: add ssl.key.password")

    pem, password = _key_pem(store)
    try:
        with _as_file(pem) as path:
            context.load_cert_chain(path, password=password or no_password)
    except ssl.SSLError as error:
        text = (error.reason or str(error)).lower().replace("_", " ")
        if password and "decrypt" in text:
            text = "wrong password"
        _refuse(store, f"it has no key with its certificate that could be used ({text})")


def _key_pem(store: Store) -> tuple[bytes, str]:
    """Return a key with its certificates as PEM, and the password that the key has in it."""
    if store.pem_key:
        # A value on one line has its line ends escaped; Kafka takes spaces for them, too.
        text = f"{_lines(store.pem_key)}\n{_lines(store.pem_certificates)}\n"
        return text.encode(), store.key_password
    data = _read(store)
    if store.kind is StoreKind.PEM:
        return data, store.key_password
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 — PKCS #12 only
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    key, certificates = _open_pkcs12(store, data)
    if key is None:
        _refuse(store, "it has no key")
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return private + "\n".join(certificates).encode(), ""


def _certificates(store: Store) -> list[str]:
    """Return the certificates of a store, each as PEM."""
    if store.pem_certificates:
        return _CERTIFICATE.findall(_lines(store.pem_certificates))
    data = _read(store)
    if store.kind is StoreKind.PEM:
        return _CERTIFICATE.findall(data.decode("latin-1"))
    return _open_pkcs12(store, data)[1]


def _lines(pem: str) -> str:
    r"""Return PEM with its lines apart: ``-----BEGIN X----- data -----END X-----`` is one line."""

    def apart(match: re.Match[str]) -> str:
        return "\n".join((match[1], *match[2].split(), match[3]))

    return re.sub(r"(-----BEGIN [A-Z ]+-----)(.*?)(-----END [A-Z ]+-----)", apart, pem, flags=re.S)


def _open_pkcs12(store: Store, data: bytes) -> tuple[Any, list[str]]:
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 — PKCS #12 only
        Encoding,
    )
    from cryptography.hazmat.primitives.serialization.pkcs12 import (  # noqa: PLC0415 — likewise
        load_pkcs12,
    )

    if data.startswith((_JKS_MAGIC, _JCEKS_MAGIC)):
        _refuse(
            store,
            "it is in Java's own format, which is not read; convert it: keytool -importkeystore "
            "-srckeystore OLD -destkeystore NEW -deststoretype PKCS12",
        )
    try:
        opened = load_pkcs12(data, store.password.encode() or None)
    except ValueError as error:
        _refuse(store, f"it is no PKCS #12, or its password is another one ({error})")
    opened_certificates = [opened.cert, *opened.additional_certs]
    certificates = [
        one.certificate.public_bytes(Encoding.PEM).decode()
        for one in opened_certificates
        if one is not None
    ]
    return opened.key, certificates


def _read(store: Store) -> bytes:
    try:
        with Path(store.location).open("rb") as file:
            data = file.read(STORE_BYTES_MAX + 1)
    except OSError as error:
        _refuse(store, error.strerror or str(error))
    if len(data) > STORE_BYTES_MAX:
        _refuse(store, f"it has more than {STORE_BYTES_MAX} bytes")
    return data


def _refuse(store: Store, reason: str) -> NoReturn:
    where = f" {store.location}:" if store.location else ""
    raise TlsError(f"{store.key}:{where} {reason}")


@contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    """Give bytes a name for as long as the block runs; OpenSSL reads keys from files alone."""
    if hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir():
        with open(os.memfd_create("key", os.MFD_CLOEXEC), "wb") as file:
            file.write(data)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
        return
    with tempfile.NamedTemporaryFile() as file:  # Of this user alone, and removed at once.
        file.write(data)
        file.flush()
        yield file.name

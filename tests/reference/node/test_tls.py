"""Key stores of all kinds, the handshakes they are good for, and what is said of bad ones."""

from __future__ import annotations

import asyncio
import logging
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.reference.node.quorum import run, seen

from kraftspec.reference.node.security.tls import (
    TlsError,
    client_context,
    openssl_name,
    server_context,
)
from kraftspec.reference.node.server import Server
from kraftspec.reference.node.settings import (
    ClientAuth,
    Limits,
    Listener,
    Protocol,
    Store,
    StoreKind,
    TlsConfig,
)

from .certificates import PASSWORD, Authority

HOST = "127.0.0.1"
KEY, TRUST = "ssl.keystore.location", "ssl.truststore.location"


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def pem(path: Path, key: str = KEY, **more: str) -> Store:
    return Store(key=key, kind=StoreKind.PEM, location=str(path), **more)


def trusting(authority: Authority, path: Path) -> Store:
    return pem(authority.write_pem(path / "trust.pem"), TRUST)


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, host: str = HOST) -> ssl.SSLObject:
    """Let both talk to each other in memory; return the server's side."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    at_client = client.wrap_bio(to_client, to_server, server_hostname=host)
    at_server = server.wrap_bio(to_server, to_client, server_side=True)
    sides: list[ssl.SSLObject] = [at_client, at_server]
    for _ in range(10):
        for side in sides[:]:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            sides.remove(side)
        if not sides:
            break
    assert not sides, "they do not come to an end"
    # With TLS 1.3 the client has said everything before it hears that it is refused.
    at_server.write(b"x")
    assert at_client.read(1) == b"x"
    return at_server


def stores(authority: Authority, home: Path) -> dict[str, Store]:
    """Return one key in each of the ways that it can be kept."""
    identity = authority.sign("node")
    one_line = " ".join(identity.key_pem().split("\n"))
    return {
        "pem": pem(identity.write_pem(home / "key.pem")),
        "encrypted": pem(identity.write_pem(home / "secret.pem", "word"), key_password="word"),
        "inline": Store(
            key=KEY, kind=StoreKind.PEM,
            pem_key=identity.key_pem(), pem_certificates=identity.chain_pem,
        ),
        "one line": Store(
            key=KEY, kind=StoreKind.PEM,
            pem_key=one_line, pem_certificates=" ".join(identity.chain_pem.split("\n")),
        ),
        "inline, encrypted": Store(
            key=KEY, kind=StoreKind.PEM, key_password="word",
            pem_key=identity.key_pem("word"), pem_certificates=identity.chain_pem,
        ),
        "pkcs12": Store(
            key=KEY, kind=StoreKind.PKCS12, password=PASSWORD,
            location=str(identity.write_pkcs12(home / "key.p12")),
        ),
        "pkcs12 by the name of jks": Store(
            key=KEY, kind=StoreKind.JKS, password=PASSWORD,
            location=str(identity.write_pkcs12(home / "key.jks")),
        ),
    }  # fmt: skip


KINDS = [
    "pem", "encrypted", "inline", "one line", "inline, encrypted", "pkcs12",
    "pkcs12 by the name of jks",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_store(authority: Authority, tmp_path: Path, kind: str) -> None:
    tls = TlsConfig(
        key_store=stores(authority, tmp_path)[kind],
        trust_store=trusting(authority, tmp_path),
        client_auth=ClientAuth.REQUIRED,
    )
    at_server = shake_hands(server_context(tls), client_context(tls))
    assert at_server.getpeercert(binary_form=True)
    assert at_server.version() == "TLSv1.3"


@pytest.mark.parametrize("kind", ["pem", "inline", "pkcs12"])
def test_each_kind_of_trust(authority: Authority, tmp_path: Path, kind: str) -> None:
    trust = {
        "pem": trusting(authority, tmp_path),
        "inline": Store(
            key=TRUST, kind=StoreKind.PEM, pem_certificates=authority.own.chain_pem
        ),
        "pkcs12": Store(
            key=TRUST, kind=StoreKind.PKCS12, password=PASSWORD,
            location=str(authority.write_pkcs12(tmp_path / "trust.p12")),
        ),
    }[kind]  # fmt: skip
    key = stores(authority, tmp_path)["pem"]
    tls = TlsConfig(key_store=key, trust_store=trust, client_auth=ClientAuth.REQUIRED)
    shake_hands(server_context(tls), client_context(tls))


def test_whom_nobody_signed_is_refused(authority: Authority, tmp_path: Path) -> None:
    other = Authority("other")
    ours = TlsConfig(
        key_store=stores(authority, tmp_path)["pem"],
        trust_store=trusting(authority, tmp_path),
        client_auth=ClientAuth.REQUIRED,
    )
    foreign = TlsConfig(
        key_store=pem(other.sign("x").write_pem(tmp_path / "x.pem")),
        trust_store=trusting(authority, tmp_path),
    )
    nobody = TlsConfig(trust_store=trusting(authority, tmp_path))
    for client in (foreign, nobody):
        with pytest.raises(ssl.SSLError, match=r"CERTIFICATE|certificate|UNKNOWN_CA"):
            shake_hands(server_context(ours), client_context(client))
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(server_context(foreign), client_context(ours))


def test_who_does_not_shake_hands_is_counted(authority: Authority, tmp_path: Path) -> None:
    tls = TlsConfig(
        key_store=stores(authority, tmp_path)["pem"], trust_store=trusting(authority, tmp_path)
    )
    listener = Listener(
        name="SECURE", host=HOST, port=0, advertised_host=HOST, advertised_port=0,
        protocol=Protocol.SSL, tls=tls,
    )  # fmt: skip

    async def main() -> None:
        server = Server(Limits(connections_max=3), lambda connection, frame: None)
        host, port = await server.listen(listener, server_context(tls))
        silent = [await asyncio.open_connection(host, port) for _ in range(3)]
        await seen(lambda: len(server.connections) == 3)
        reader, writer = await asyncio.open_connection(host, port)
        assert await asyncio.wait_for(reader.read(), 30) == b""
        assert (len(server.connections), server.refused) == (3, 1)
        for _, one in [*silent, (reader, writer)]:
            one.transport.abort()
        await seen(lambda: not server.connections)
        reader, writer = await asyncio.open_connection(host, port, ssl=client_context(tls))
        await seen(lambda: len(server.connections) == 1)
        await server.close()
        writer.transport.abort()

    run(main())


def test_why_a_handshake_failed_is_logged(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    tls = TlsConfig(
        key_store=stores(authority, tmp_path)["pem"],
        trust_store=trusting(authority, tmp_path),
        client_auth=ClientAuth.REQUIRED,
    )
    client = TlsConfig(trust_store=trusting(authority, tmp_path))
    listener = Listener(
        name="SECURE", host=HOST, port=0, advertised_host=HOST, advertised_port=0,
        protocol=Protocol.SSL, tls=tls,
    )  # fmt: skip

    async def main() -> str:
        server = Server(Limits(), lambda connection, frame: None)
        host, port = await server.listen(listener, server_context(tls))
        reader, writer = await asyncio.open_connection(host, port, ssl=client_context(client))
        peer = writer.get_extra_info("sockname")
        with suppress(OSError):  # The alert may be lost with the connection.
            assert await asyncio.wait_for(reader.read(), 30) == b""
        await seen(lambda: not server.connections)
        await server.close()
        writer.transport.abort()
        return f"{peer[0]}:{peer[1]}"

    peer = run(main())
    failures = [vars(it) for it in caplog.records if it.message == "a TLS handshake failed"]
    assert [(it["peer"], it["reason"]) for it in failures] == [
        (peer, "PEER_DID_NOT_RETURN_A_CERTIFICATE")
    ]


def test_requested_is_not_required(authority: Authority, tmp_path: Path) -> None:
    tls = TlsConfig(
        key_store=stores(authority, tmp_path)["pem"],
        trust_store=trusting(authority, tmp_path),
        client_auth=ClientAuth.REQUESTED,
    )
    client = TlsConfig(trust_store=trusting(authority, tmp_path))
    at_server = shake_hands(server_context(tls), client_context(client))
    assert at_server.getpeercert(binary_form=True) is None


def test_the_host_is_looked_at_unless_told_not_to(authority: Authority, tmp_path: Path) -> None:
    tls: dict[str, Any] = {
        "key_store": stores(authority, tmp_path)["pem"],
        "trust_store": trusting(authority, tmp_path),
    }
    server = server_context(TlsConfig(**tls))
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(server, client_context(TlsConfig(**tls)), "other.example")
    lax = TlsConfig(check_host_name=False, **tls)
    shake_hands(server, client_context(lax), "other.example")


@pytest.mark.parametrize(
    ("protocols", "suites", "version", "cipher"),
    [
        (("TLSv1.2",), (), "TLSv1.2", None),
        (("TLSv1.3",), (), "TLSv1.3", None),
        (
            ("TLSv1.2", "TLSv1.3"),
            ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",),
            "TLSv1.2",
            "ECDHE-ECDSA-AES256-GCM-SHA384",
        ),
        (
            ("TLSv1.2",),
            ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"),
            "TLSv1.2",
            "ECDHE-ECDSA-CHACHA20-POLY1305",
        ),
        (("TLSv1.2", "TLSv1.3"), ("TLS_AES_256_GCM_SHA384",), "TLSv1.3", "TLS_AES_256_GCM_SHA384"),
    ],
)
def test_versions_and_ciphers(
    authority: Authority,
    tmp_path: Path,
    protocols: tuple[str, ...],
    suites: tuple[str, ...],
    version: str,
    cipher: str | None,
) -> None:
    tls: dict[str, Any] = {
        "key_store": stores(authority, tmp_path)["pem"],
        "trust_store": trusting(authority, tmp_path),
    }
    chosen = TlsConfig(protocols=protocols, cipher_suites=suites, **tls)
    at_server = shake_hands(server_context(chosen), client_context(TlsConfig(**tls)))
    assert at_server.version() == version
    used = at_server.cipher()
    assert used is not None
    assert cipher in (None, used[0])


def test_names_of_ciphers() -> None:
    known = {one["name"] for one in ssl.create_default_context().get_ciphers()}
    for suite in (
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384",
    ):
        assert openssl_name(suite) in known


def bad_stores(authority: Authority, home: Path) -> list[tuple[str, Store, str]]:
    good = authority.sign("node")
    other = authority.sign("other")
    mixed = home / "mixed.pem"
    mixed.write_text(good.key_pem() + other.chain_pem)
    cut = home / "cut.pem"
    cut.write_text(good.key_pem())
    jks = home / "store.jks"
    jks.write_bytes(bytes.fromhex("feedfeed00000002") + bytes(40))
    rubbish = home / "rubbish.p12"
    rubbish.write_bytes(b"rubbish")
    secret = good.write_pem(home / "secret.pem", "word")
    p12 = str(good.write_pkcs12(home / "good.p12"))
    trust12 = str(authority.write_pkcs12(home / "trust.p12"))
    return [
        ("missing", pem(home / "none.pem"), "No such file"),
        ("directory", pem(home), "Is a directory"),
        ("mixed", pem(mixed), "key values mismatch"),
        ("no certificate", pem(cut), "no key with its certificate"),
        ("no password", pem(secret), "add ssl.key.password"),
        ("wrong password", pem(secret, key_password="other"), "no key with its certificate"),
        ("jks", Store(key=KEY, location=str(jks)), "keytool -importkeystore"),
        ("rubbish", Store(key=KEY, location=str(rubbish)), "it is no PKCS #12"),
        (
            "wrong store password",
            Store(key=KEY, kind=StoreKind.PKCS12, location=p12, password="word2"),
            "its password is another one",
        ),
        (
            "no key",
            Store(key=KEY, kind=StoreKind.PKCS12, location=trust12, password=PASSWORD),
            "it has no key",
        ),
        (
            "inline rubbish",
            Store(key=KEY, kind=StoreKind.PEM, pem_key="word1", pem_certificates="word2"),
            "no key with its certificate",
        ),
    ]


def test_what_is_wrong_with_a_store_is_told(authority: Authority, tmp_path: Path) -> None:
    trust = trusting(authority, tmp_path)
    for name, store, pattern in bad_stores(authority, tmp_path):
        with pytest.raises(TlsError, match=pattern) as caught:
            server_context(TlsConfig(key_store=store, trust_store=trust))
        assert str(caught.value).startswith(f"{KEY}:"), name
        assert "word" not in str(caught.value).replace("password", ""), name
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    with pytest.raises(TlsError, match=r"^ssl\.truststore\.location: .*it has no certificates"):
        client_context(TlsConfig(trust_store=pem(empty, TRUST)))
    broken = tmp_path / "broken.pem"
    broken.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    with pytest.raises(TlsError, match="its certificates are none"):
        client_context(TlsConfig(trust_store=pem(broken, TRUST)))


def test_ciphers_that_nobody_knows() -> None:
    with pytest.raises(TlsError, match="'TLS_RSA_WITH_NONSENSE' is not known"):
        client_context(TlsConfig(cipher_suites=("TLS_RSA_WITH_NONSENSE",)))
    with pytest.raises(TlsError, match="none is of a version"):
        client_context(TlsConfig(cipher_suites=("TLS_AES_128_GCM_SHA256",), protocols=("TLSv1.2",)))

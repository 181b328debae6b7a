"""Certificates for exchanges over TLS: an authority that the client trusts, and one it does not."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)
_Key = ec.EllipticCurvePrivateKey


def make(directory: Path) -> Path:
    """Write all certificates into a directory, and return it. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    trusted, other = _authority("suite"), _authority("other")
    pem = trusted[1].public_bytes(Encoding.PEM)
    (directory / "authority.pem").write_bytes(pem)
    for name, authority in (
        ("trusted", trusted), ("expired", trusted), ("other-host", trusted), ("untrusted", other),
    ):  # fmt: skip
        key, certificate = _signed(authority, name)
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (directory / f"{name}.pem").write_bytes(private + certificate.public_bytes(Encoding.PEM))
    return directory


def _authority(name: str) -> tuple[_Key, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = _builder(subject, subject, key).add_extension(
        x509.BasicConstraints(ca=True, path_length=None), critical=True
    )
    usage = x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, key_cert_sign=True, crl_sign=True,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip
    builder = builder.add_extension(usage, critical=True)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    builder = builder.add_extension(identifier, critical=False)
    return key, builder.sign(key, hashes.SHA256())


def _signed(authority: tuple[_Key, x509.Certificate], name: str) -> tuple[_Key, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    until = -_DAY if name == "expired" else 30 * _DAY
    builder = _builder(subject, authority[1].subject, key, until)
    names: list[x509.GeneralName] = [
        x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    ]  # fmt: skip
    if name == "other-host":
        names = [x509.DNSName("broker.example")]
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority[0].public_key())
    builder = builder.add_extension(identifier, critical=False)
    return key, builder.sign(authority[0], hashes.SHA256())


def _builder(
    subject: x509.Name, issuer: x509.Name, key: _Key, until: datetime.timedelta = 30 * _DAY
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 10 * _DAY)
        .not_valid_after(now + until)
    )

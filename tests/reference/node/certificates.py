"""Certificates for tests: an authority, and what it signs, as PEM, PKCS #12 and in properties."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

PASSWORD = "changeit"
_DAY = datetime.timedelta(days=1)


def name_of(common_name: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Tests"),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


@dataclass(frozen=True)
class Identity:
    """A key and its certificate, signed by an authority or by itself."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def chain_pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def key_pem(self, password: str | None = None) -> str:
        encryption = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()

    def write_pem(self, path: Path, password: str | None = None) -> Path:
        path.write_text(self.key_pem(password) + self.chain_pem)
        return path

    def write_pkcs12(self, path: Path, password: str = PASSWORD) -> Path:
        encryption = BestAvailableEncryption(password.encode())
        data = pkcs12.serialize_key_and_certificates(
            b"node", self.key, self.certificate, None, encryption
        )
        path.write_bytes(data)
        return path


class Authority:
    """Signs certificates; ``write_pem`` and ``write_pkcs12`` make trust stores of its own."""

    def __init__(self, common_name: str = "authority") -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = name_of(common_name)
        builder = _builder(name, name, key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.own = Identity(key, builder.sign(key, hashes.SHA256()))

    def sign(
        self, common_name: str, host: str = "127.0.0.1", subject: x509.Name | None = None
    ) -> Identity:
        """Return an identity that is good for one host, as server and as client."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject or name_of(common_name), self.own.certificate.subject, key)
        try:
            names: list[x509.GeneralName] = [x509.IPAddress(ipaddress.ip_address(host))]
        except ValueError:
            names = [x509.DNSName(host)]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return Identity(key, builder.sign(self.own.key, hashes.SHA256()))

    def write_pem(self, path: Path) -> Path:
        path.write_text(self.own.chain_pem)
        return path

    def write_pkcs12(self, path: Path, password: str = PASSWORD) -> Path:
        """Write the certificate as one that Java trusts."""
        entry = pkcs12.PKCS12Certificate(self.own.certificate, b"authority")
        encryption = BestAvailableEncryption(password.encode())
        path.write_bytes(pkcs12.serialize_java_truststore([entry], encryption))
        return path


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
    )

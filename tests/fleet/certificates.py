"""A certificate authority for one rehearsal: it signs one certificate a server, and nothing of it outlives the folder.

Keys are of the curve P-256, certificates of two days: a rehearsal lasts a quarter of an hour.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = dt.timedelta(days=2)
CLOCK_ERROR = dt.timedelta(hours=1)  # by which another machine's clock may be behind
ADDRESS = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Pair:
    """Paths of a certificate and of its key, PEM."""

    certificate: Path
    key: Path


class Authority:
    """A private root. Its key is in memory alone."""

    def __init__(self, name: str = "fleet rehearsal") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        public = self._key.public_key()
        builder = _certificate(self._name, self._name, public).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        signs = x509.KeyUsage(
            digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
            key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        identifier = x509.SubjectKeyIdentifier.from_public_key(public)
        self.root = (
            builder.add_extension(signs, critical=True)
            .add_extension(identifier, critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def write_root(self, path: Path) -> Path:
        """Write the root's certificate, which clients verify by, and return its path."""
        path.write_bytes(self.root.public_bytes(serialization.Encoding.PEM))
        return path

    def issue(self, folder: Path, name: str) -> Pair:
        """Write a server's certificate for 127.0.0.1 and `localhost`, and its key, which only its owner can read."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(ADDRESS)), x509.DNSName("localhost")])
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        signed = (
            _certificate(_named(name), self._name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(names, critical=False)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(authority, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        pair = Pair(folder / f"{name}.crt", folder / f"{name}.key")
        pair.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        pair.key.touch(mode=0o600)
        pair.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return pair


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _certificate(subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_ERROR)
        .not_valid_after(now + LIFETIME)
    )

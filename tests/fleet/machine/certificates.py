"""A certificate authority for one rehearsal: it signs one certificate a server, and nothing of it outlives the folder.

It is made as `make secrets` makes a fleet's, with certificates of two days: a rehearsal lasts a quarter of an hour.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from deploy import credentials

DAYS = 2
ADDRESS = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Pair:
    """Paths of a certificate and of its key, PEM."""

    certificate: Path
    key: Path


class Authority:
    """A private root. Its key is in memory alone."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.root = credentials.root(self._key, DAYS)

    def write_root(self, path: Path) -> Path:
        """Write the root's certificate, which clients verify by, and return its path."""
        path.write_bytes(self.root.public_bytes(serialization.Encoding.PEM))
        return path

    def issue(self, folder: Path, name: str) -> Pair:
        """Write a server's certificate for 127.0.0.1 and `localhost`, and its key, which only its owner can read."""
        key = ec.generate_private_key(ec.SECP256R1())
        signed = credentials.server(key, self.root, self._key, (ADDRESS,), DAYS)
        pair = Pair(folder / f"{name}.crt", folder / f"{name}.key")
        pair.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        pair.key.touch(mode=0o600)
        pair.key.write_bytes(credentials.pem(key))
        return pair

"""Artifacts: pictures that tools gave to turns, kept as files of the data folder under the digest of their bytes."""

from __future__ import annotations

import hashlib
from pathlib import Path

from models.files import replacing

FOLDER = "artifacts"
_ENDINGS = {"image/png": ".png", "image/jpeg": ".jpg"}


def digest_of(data: bytes) -> str:
    """Return the SHA-256 of the bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def path_in_home(digest: str, kind: str) -> str:
    """Return the path of an artifact's file, relative to the data folder. kind: its media type, such as image/png."""
    return f"{FOLDER}/{digest}{_ENDINGS.get(kind, '')}"


def keep(home: Path, data: bytes, kind: str) -> None:
    """Store the bytes in the data folder; a file that is there already has the same ones. Raises OSError."""
    path = home / path_in_home(digest_of(data), kind)
    if not path.exists():
        with replacing(path) as file:
            file.write(data)


def stored(home: Path, digest: str, kind: str) -> bytes | None:
    """Return the bytes with this digest; None where the file is not there, or has others."""
    try:
        data = (home / path_in_home(digest, kind)).read_bytes()
    except OSError:
        return None
    return data if digest_of(data) == digest else None

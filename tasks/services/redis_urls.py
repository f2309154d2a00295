"""Redis URLs in redis-py's form."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote


def socket_url(path: Path) -> str:
    """The URL of a server on a unix socket, as redis-py reads it."""
    return f"unix://{quote(str(path))}"

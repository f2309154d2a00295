"""Redis URLs in redis-py's form, and addresses as people may see them."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

HIDDEN = "********"
_LOGIN = re.compile(r"(?<=://)([^/?#@]*):([^/?#]*)@")
_PARAMETER = re.compile(r"(?i)(?<=[?&])([^=&]*(?:password|token|key|secret)[^=&]*)=[^&#]*")


def socket_url(path: Path) -> str:
    """The URL of a server on a unix socket, as redis-py reads it."""
    return f"unix://{quote(str(path))}"


def masked(url: str) -> str:
    """The URL with passwords replaced, in its login part and in its query."""
    return _PARAMETER.sub(rf"\1={HIDDEN}", _LOGIN.sub(rf"\1:{HIDDEN}@", url))

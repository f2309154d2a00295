"""Who gives a command, for the record."""

from __future__ import annotations

import getpass
import os
import socket


def whoami() -> str:
    """user@host, as the system knows them. A record, not a proof: a mandate's signature is one."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        user = f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname()}"

"""Where the service listens, and the names that it answers to."""

from __future__ import annotations

import socket

from models.errors import SettingError, UsageError
from models.settings import Settings
from models.urls import is_loopback

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")
EVERYWHERE = ("", "0.0.0.0", "::")
BACKLOG = 1024


def require_safe(settings: Settings) -> None:
    """Raises SettingError when other machines could reach the service with a token that nobody chose for it."""
    if not is_loopback(settings.api_host) and settings.api_token is None:
        raise SettingError(
            f"DESK_API_HOST={settings.api_host!r} lets other machines in, and DESK_API_TOKEN is not set",
            remedy="set DESK_API_TOKEN as well, or leave DESK_API_HOST at 127.0.0.1",
        )


def names_of(settings: Settings) -> frozenset[str]:
    """Host names that requests may carry: loopback's, the address itself, and what the user added. In lower case."""
    more = [part.strip().strip("[]") for part in settings.api_hosts.split(",")]
    own = [] if settings.api_host in EVERYWHERE else [settings.api_host]
    return frozenset(name.lower() for name in (*LOOPBACK_NAMES, *own, *more) if name)


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises UsageError when it cannot be had."""
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {host!r} port {port}: {error.strerror or error}",
            remedy="set another DESK_API_PORT or DESK_API_HOST, or give --port; port 0 takes a free one",
        ) from None

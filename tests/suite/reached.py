"""A watch over the connections of this process: loopback and unix sockets work, any other address is refused and
noted."""

from __future__ import annotations

import functools
import ipaddress
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_watching: list[list[str]] = []


@contextmanager
def no_request() -> Iterator[list[str]]:
    """Refuse every connection beyond this machine until the block ends. Yields what was tried."""
    _hook()
    reached: list[str] = []
    _watching.append(reached)
    try:
        yield reached
    finally:
        _watching.remove(reached)


@functools.cache
def _hook() -> None:
    sys.addaudithook(_seen)  # it cannot be removed, so it looks whether a block is on
    try:
        import curl_cffi.requests
    except ImportError:
        return
    session = curl_cffi.requests.Session
    fetch = session.request

    def request(self: Any, method: str, url: str, *given: Any, **named: Any) -> Any:
        _refuse(f"curl {url}")  # no hook of Python's sees libcurl's sockets
        return fetch(self, method, url, *given, **named)

    session.request = request


def _seen(event: str, given: tuple[Any, ...]) -> None:
    if not _watching:
        return
    if event in ("socket.connect", "socket.sendto") and isinstance(given[1], tuple):
        host = given[1][0]
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        host = given[0]
    else:
        return
    if not _is_own(host):
        _refuse(f"{event} {host}")


def _refuse(what: str) -> None:
    if _watching:
        for reached in _watching:
            reached.append(what)
        raise OSError(101, "the network is closed")


def _is_own(host: Any) -> bool:
    text = host.decode() if isinstance(host, bytes) else str(host)
    if host is None or text in ("localhost", "", socket.gethostname()):
        return True
    try:
        return ipaddress.ip_address(text.split("%")[0]).is_loopback
    except ValueError:
        return False

"""One GET request to a checked address, within limits of time and size.

The connection goes to the address that was checked, so that a name that resolves to another one a moment later changes
nothing. Certificates are verified against the host's name. No proxy is used: it would resolve the name itself.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from email.message import Message
from functools import cache

from chordesk.tools.pages.targets import PageError, Target, address_of

AGENT = "chordesk"
MOST_BYTES = 2 * 1024 * 1024
_READ_BYTES = 64 * 1024
_GZIP = 31  # of zlib: the gzip format with its largest window


@dataclass(frozen=True, slots=True)
class PageReply:
    """A server's reply. body: empty unless the status is 200."""

    status: int
    headers: Message
    body: bytes


def get(target: Target, until: float) -> PageReply:
    """Return the reply to one request. until: time.monotonic() by which it is cut off. Raises PageError."""
    address = address_of(target.host, target.port, target.rule)
    cut = threading.Event()
    try:
        with _connected(target, address, until, cut) as connected:
            connection = http.client.HTTPConnection(target.host, target.port)
            connection.sock = connected
            connection.request("GET", target.path, headers=_headers(target))
            with connection.getresponse() as reply:
                return PageReply(reply.status, reply.headers, _body(reply, target, cut) if reply.status == 200 else b"")
    except (OSError, ValueError, http.client.HTTPException, zlib.error) as error:
        if cut.is_set() or isinstance(error, TimeoutError):
            raise PageError(f"{target.host} took too long") from None
        raise PageError(f"{target.host} did not give the page: {_reason(error)}") from None


@contextmanager
def _connected(target: Target, address: str, until: float, cut: threading.Event) -> Iterator[socket.socket]:
    """Yield a connection that is shut down at the deadline, whatever the server does: a limit for each read would let a
    byte a second go on without end."""
    if (left := until - time.monotonic()) <= 0:
        raise TimeoutError
    connected = socket.create_connection((address, target.port), left)
    timer = None
    try:
        if target.scheme == "https":
            connected = _tls().wrap_socket(connected, server_hostname=target.host, do_handshake_on_connect=False)
        timer = threading.Timer(max(until - time.monotonic(), 0.0), _cut, (connected, cut))
        timer.daemon = True
        timer.start()
        if isinstance(connected, ssl.SSLSocket):
            connected.do_handshake()
        yield connected
    finally:
        if timer is not None:
            timer.cancel()
        connected.close()


def _cut(connected: socket.socket, cut: threading.Event) -> None:
    cut.set()
    with suppress(OSError):
        socket.socket.shutdown(
            connected, socket.SHUT_RDWR
        )  # of TLS too: its own would change what another thread reads


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


def _headers(target: Target) -> dict[str, str]:
    return {
        "Host": target.authority,
        "User-Agent": AGENT,
        "Accept": "text/html,text/plain;q=0.9",
        "Accept-Encoding": "gzip",
        "Connection": "close",
    }


def _body(reply: http.client.HTTPResponse, target: Target, cut: threading.Event) -> bytes:
    """Return the body, unpacked. Raises PageError for one too large or incomplete, TimeoutError when cut off."""
    packing = reply.headers.get("Content-Encoding", "identity").strip().lower()
    if packing not in ("gzip", "identity", ""):
        raise PageError(f"{target.host} sent the page packed as {packing[:40]!r}, which was not asked for")
    unpacker = zlib.decompressobj(_GZIP) if packing == "gzip" else None
    found, came = bytearray(), 0
    while part := reply.read1(_READ_BYTES):
        came += len(part)  # what follows the end of a packed page is kept by zlib, and counts too
        # No more is unpacked than may be kept: a few KB can stand for gigabytes.
        found += unpacker.decompress(part, MOST_BYTES + 1 - len(found)) if unpacker else part
        if max(len(found), came) > MOST_BYTES:
            raise PageError(f"the page of {target.host} is larger than {MOST_BYTES // 2**20} MB")
    if cut.is_set():
        raise TimeoutError
    if reply.length or (unpacker and not unpacker.eof):
        raise PageError(f"the page of {target.host} ended before its end")
    return bytes(found)


def _reason(error: Exception) -> str:
    if isinstance(error, zlib.error):
        return "its gzip is broken"
    text = getattr(error, "verify_message", None) or getattr(error, "strerror", None) or type(error).__name__
    return str(text)[:200]

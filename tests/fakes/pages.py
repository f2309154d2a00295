"""A web server on loopback with scripted pages, for what reads pages; its faults are those of real ones."""

from __future__ import annotations

import gzip
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from tests.patience import PATIENCE

Answer = Callable[[socket.socket], None]
ARTICLE = """<html><head><title>ACME beats estimates</title>
<meta property="article:published_time" content="2024-03-14T09:30:00Z"><meta name="author" content="Jane Roe"></head>
<body><nav>Home Markets Login</nav><article><h1>ACME beats estimates</h1>
<p>ACME Corporation reported revenue of 1,234.5 million dollars for the quarter, more than analysts had expected of it.
The margin rose to 23.4 percent, and the company raised its outlook for the year that ends in December.</p>
<p>Shares rose 4.2 percent after the report, to the highest close since the listing of the company.</p></article>
<script>document.title = "script ran"</script></body></html>"""


def reply(
    body: bytes | str, kind: str | None = "text/html; charset=utf-8", status: int = 200, **headers: str
) -> Answer:
    """A whole reply. headers: with _ for -."""
    data = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(data)}", "Connection: close"]
    lines += [f"Content-Type: {kind}"] if kind is not None else []
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return lambda peer: peer.sendall("\r\n".join([*lines, "", ""]).encode() + data)


def redirect(place: str, status: int = 302) -> Answer:
    return reply("", status=status, Location=place)


def half(body: str) -> Answer:
    """Twice as many bytes announced as come."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {2 * len(body)}\r\n\r\n"
    return lambda peer: peer.sendall(head.encode() + body.encode())


def bomb(megabytes: int) -> Answer:
    """So many megabytes of spaces, gzipped when they are asked for, which takes a second."""

    def answer(peer: socket.socket) -> None:
        reply(gzip.compress(b" " * (megabytes * 2**20)), Content_Encoding="gzip")(peer)

    return answer


def drip(head: bytes, seconds: float = 0.05) -> Answer:
    """The head, then a byte each so many seconds without an end."""

    def answer(peer: socket.socket) -> None:
        peer.sendall(head)
        began = time.monotonic()
        while time.monotonic() - began < PATIENCE:
            peer.sendall(b"a")
            time.sleep(seconds)

    return answer


class FakePages:
    """Pages by path; any other is 404. requests: paths with their heads, in the order of arrival."""

    def __init__(self, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> None:
        self.pages: dict[str, Answer] = {}
        self.requests: list[tuple[str, str]] = []
        self._tls = tls
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, 0), family=family, backlog=64)
        self.port: int = self._socket.getsockname()[1]
        name = f"[{host}]" if ":" in host else host
        self.place = f"{name}:{self.port}"
        self.url = f"{'https' if tls else 'http'}://{self.place}"
        self._thread = threading.Thread(target=self._serve, name="fake-pages", daemon=True)

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.requests]

    def __enter__(self) -> FakePages:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(PATIENCE)

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(peer,), daemon=True).start()

    def _answer(self, peer: socket.socket) -> None:
        with suppress(OSError), peer:
            peer.settimeout(PATIENCE)
            if self._tls is not None:
                peer = self._tls.wrap_socket(peer, server_side=True)
            head = b""
            while b"\r\n\r\n" not in head:
                if not (part := peer.recv(4096)):
                    return
                head += part
            text = head.decode("latin-1")
            path = text.split(" ", 2)[1]
            self.requests.append((path, text))
            self.pages.get(path, reply("nothing here", status=404))(peer)

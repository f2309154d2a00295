"""A Redis that may vanish without a goodbye: a proxy whose open connections go silent, and stay open."""

from __future__ import annotations

import contextlib
import socket
import threading


class SilentProxy:
    """Forwards TCP connections of loopback to a unix socket. After `vanish` those that are open neither answer nor
    close, as when a server's machine is gone; new ones are served."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._silent = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self._kept: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._listener.getsockname()[1]}"

    def vanish(self) -> int:
        """Return how many connections are silent from now on."""
        before, self._silent = self._silent, threading.Event()
        before.set()
        return len(self._kept)

    def close(self) -> None:
        self._listener.close()
        for line in self._kept:
            line.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            try:
                far.connect(self._path)
            except OSError:
                near.close()
                continue
            self._kept += (near, far)
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(one, other, self._silent), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, silent: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                if silent.is_set():
                    return
                target.sendall(data)
            if not silent.is_set():
                target.shutdown(socket.SHUT_WR)

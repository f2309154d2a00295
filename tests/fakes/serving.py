"""Servers of stand-ins, which answer and end at once."""

from __future__ import annotations

import asyncio
import socket
from http.server import BaseHTTPRequestHandler
from types import FrameType
from typing import Any

import uvicorn


class PromptHandler(BaseHTTPRequestHandler):
    """A handler of the standard library's server, without a log of its own.

    It sends an answer's head and body by themselves, and the body would wait 40 ms until the head is acknowledged.
    """

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args: Any) -> None:
        """Quiet."""


class PromptServer(uvicorn.Server):
    """A uvicorn server in a thread that `end` stops at once.

    uvicorn's own looks every tenth of a second whether it should end, and then waits for another tenth: with one server
    a test that is most of the test's time.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ended = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def end(self) -> None:
        """End the server, from any thread; connections are cut."""
        self.should_exit = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._ended.set)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self.end()

    async def main_loop(self) -> None:
        self._loop = asyncio.get_running_loop()
        if not self.should_exit:
            await self._ended.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for listening in (*self.servers, *(sockets or ())):
            listening.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        await asyncio.sleep(0)

"""The far side of a channel of notifications: it takes JSON by POST, as apprise's json:// sends it, with its faults."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from types import TracebackType
from typing import Any

from tests.fakes.serving import PromptHandler
from tests.patience import PATIENCE
from tests.stack import wait_for


@dataclass(frozen=True, slots=True)
class Got:
    """A message that arrived. at: monotonic seconds."""

    channel: str
    title: str
    text: str
    at: float


class FakeChannel:
    """Any number of channels by path. status: the answers of a channel, the last one for all further messages; `hang`:
    channels that never answer; seconds: before each answer; on_message: called before the answer."""

    def __init__(self) -> None:
        self.got: list[Got] = []
        self.status: dict[str, list[int]] = {}
        self.hang: set[str] = set()
        self.seconds = 0.0
        self.on_message: Callable[[Got], None] | None = None
        self._over = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def url(self, channel: str) -> str:
        return f"json://127.0.0.1:{self._server.server_address[1]}/{channel}"

    def variable(self, *channels: str) -> str:
        """The setting of these channels."""
        return " ".join(f"{name}={self.url(name)}" for name in channels)

    def of(self, channel: str) -> list[Got]:
        return [one for one in self.got if one.channel == channel]

    def until(self, count: int, channel: str) -> list[Got]:
        """Wait for so many messages to a channel, and return them."""
        wait_for(lambda: len(self.of(channel)) >= count, f"{count} messages to {channel}")
        return self.of(channel)

    def __enter__(self) -> FakeChannel:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, channel: str, body: dict[str, Any]) -> int:
        one = Got(channel, body["title"], body["message"], time.monotonic())
        self.got.append(one)
        if self.on_message is not None:
            self.on_message(one)
        if channel in self.hang:
            self._over.wait(PATIENCE)
        self._over.wait(self.seconds)
        answers = self.status.get(channel, [200])
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def _handler(self) -> type[PromptHandler]:
        far = self

        class Handler(PromptHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status = far._answer(self.path.strip("/"), body)
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

        return Handler

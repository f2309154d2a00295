"""Talks to a rulebook server over HTTP as the app-server does: tool calls are answered until a message comes."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from chordesk.agents.rulebook.cases import MAX_CALLS
from chordesk.agents.rulebook.server import build_server
from chordesk.tasks.web.app import bind
from tests.patience import PATIENCE

Tools = Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]]
Item = dict[str, Any]


class Live:
    """A rulebook server on a loopback port, in a thread of its own."""

    def __init__(self, latency_seconds: float = 0.0) -> None:
        self._socket = bind("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"
        self._server = build_server(latency_seconds=latency_seconds)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), daemon=True)

    def __enter__(self) -> Live:
        self._thread.start()
        limit = time.monotonic() + PATIENCE
        while not self._server.started:
            assert time.monotonic() < limit, "the rulebook server did not start within 10 s"
            time.sleep(0.005)
        return self

    def __exit__(self, *_exc: object) -> None:
        self._server.should_exit = True
        self._thread.join(PATIENCE)
        self._socket.close()
        assert not self._thread.is_alive(), "the rulebook server did not stop within 10 s"


def user(text: str) -> Item:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def ask(subject: Mapping[str, Any]) -> Item:
    return user(f"Some words.\n```subject\n{json.dumps(subject)}\n```\nMore words.")


def offered(names: Tools | list[str]) -> list[Item]:
    return [{"type": "function", "name": name, "parameters": {"type": "object"}} for name in names]


def events(answer: httpx.Response) -> list[tuple[str, Item]]:
    """The server-sent events of an answer; each data line's type must be the event's."""
    found = []
    for block in answer.text.strip().split("\n\n"):
        kind, data = (line.split(": ", 1)[1] for line in block.splitlines())
        found.append((kind, json.loads(data)))
        assert found[-1][1]["type"] == kind
    return found


@dataclass
class Turn:
    """One turn: what was answered, which tools were called with what, and the thread it leaves behind."""

    answer: dict[str, Any]
    calls: list[tuple[str, dict[str, Any]]]
    items: list[Item] = field(default_factory=list)
    responses: int = 0


def converse(
    http: httpx.Client, role: str, items: list[Item], tools: Tools, schema: Mapping[str, Any] | None = None
) -> Turn:
    """Run one turn on a thread that ends with the user's item; fail after more model calls than the rulebook makes."""
    turn = Turn({}, [], list(items))
    while turn.responses <= MAX_CALLS:
        turn.responses += 1
        body: dict[str, Any] = {"model": "m", "instructions": f"Role: {role}\nDo it.", "input": turn.items}
        body["tools"] = offered(tools)
        if schema is not None:
            body["text"] = {"format": {"type": "json_schema", "name": "out", "strict": True, "schema": schema}}
        answer = http.post("/responses", json=body)
        assert answer.status_code == 200, answer.text
        item = events(answer)[1][1]["item"]
        turn.items.append(item)
        if item["type"] == "message":
            turn.answer = json.loads(item["content"][0]["text"])
            return turn
        arguments = json.loads(item["arguments"])
        turn.calls.append((item["name"], arguments))
        output = json.dumps(tools[item["name"]](arguments))
        turn.items.append({"type": "function_call_output", "call_id": item["call_id"], "output": output})
    raise AssertionError(f"no answer after {turn.responses} model calls: {turn.calls}")

"""An answer as server-sent events of the Responses API."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import orjson

from chordesk.agents.gateway.problems import CODE
from chordesk.agents.gateway.stream import MadeCall


def event(kind: str, **fields: Any) -> bytes:
    """Return one event."""
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), orjson.dumps({"type": kind, **fields}))


def failed(told: str) -> bytes:
    """Return the end of an answer that failed. told: as `agents.gateway.problems` writes it."""
    error = {"code": CODE, "message": told}
    return event("response.failed", response={"id": _id("resp"), "status": "failed", "error": error})


def completed(usage: Mapping[str, Any] | None, number: str = "") -> bytes:
    """Return the end of an answer. usage: None where it is not known, which the app-server takes as it is."""
    counted = {"usage": usage} if usage is not None else {}
    response = {"id": number or _id("resp"), "status": "completed", "output": [], **counted}
    return event("response.completed", response=response)


def message(text: str, id_: str = "") -> dict[str, Any]:
    """Return the item of a text."""
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "role": "assistant", "id": id_ or _id("msg"), "content": [part]}


class AnswerEvents:
    """The events of one answer, in order. Each method returns the bytes to send."""

    def __init__(self) -> None:
        self._number = _id("resp")
        self._index = 0
        self._item: dict[str, Any] | None = None
        self._reasoned: list[str] = []

    def created(self) -> bytes:
        return event("response.created", response={"id": self._number, "status": "in_progress", "output": []})

    def reasons(self, text: str) -> bytes:
        """A piece of reasoning, which opens an item of its own."""
        opened = b""
        if self._item is None:
            self._item = {"type": "reasoning", "id": _id("rs"), "summary": []}
            opened = event("response.output_item.added", output_index=self._index, item=self._item)
            opened += event("response.reasoning_summary_part.added", **self._place(), summary_index=0)
        if self._item["type"] != "reasoning":
            return b""  # beside an answer that has begun there is no place for it
        self._reasoned.append(text)
        return opened + event("response.reasoning_summary_text.delta", **self._place(), summary_index=0, delta=text)

    def writes(self, text: str) -> bytes:
        """A piece of the answer's text as it comes."""
        opened = self._close_reasoning()
        if self._item is None:
            self._item = {**message(""), "content": []}
            opened += event("response.output_item.added", output_index=self._index, item=self._item)
        return opened + event("response.output_text.delta", **self._place(), content_index=0, delta=text)

    def ends(self, text: str, calls: tuple[MadeCall, ...], usage: Mapping[str, Any] | None) -> bytes:
        """All that is left to say: the whole text, the calls, and the end."""
        parts = [self._close_reasoning()]
        if text.strip():
            if self._item is None:
                parts.append(self.writes(text))
            assert self._item is not None
            parts.append(self._done(message(text, self._item["id"])))
        for call in calls:
            ids = {"id": _id("fc"), "call_id": call.id}
            parts.append(self._done({"type": "function_call", **ids, "name": call.name, "arguments": call.arguments}))
        return b"".join((*parts, completed(usage, self._number)))

    def _close_reasoning(self) -> bytes:
        if self._item is None or self._item["type"] != "reasoning":
            return b""
        text = "".join(self._reasoned)
        self._reasoned = []
        return self._done({**self._item, "summary": [{"type": "summary_text", "text": text}]})

    def _done(self, item: dict[str, Any]) -> bytes:
        told = event("response.output_item.done", output_index=self._index, item=item)
        self._index, self._item = self._index + 1, None
        return told

    def _place(self) -> dict[str, Any]:
        assert self._item is not None
        return {"item_id": self._item["id"], "output_index": self._index}


def _id(kind: str) -> str:
    return f"{kind}_{uuid.uuid4().hex}"

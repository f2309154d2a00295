"""The input of a Responses request as the messages of chat completions.

Chat templates are narrow: one system message, and that first; user and assistant in turn; pictures in a user's message
alone; arguments of tool calls that are JSON objects, some servers answer 500 to others; an id for every call. So what
Codex sends is put into that form, in an order that keeps the beginning the same from call to call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson
import structlog

from chordesk.agents.gateway.stream import new_call_id

log = structlog.get_logger(__name__)

Message = dict[str, Any]
NO_PICTURE = "(A picture stood here. It was left out: this model takes none.)"
IMAGE_CHARS = 4_000  # a picture costs about as much as so much text
# Items of a conversation that are of no use to another model than the one that wrote them.
_DROPPED = frozenset({"reasoning"})


class Messages:
    """The messages so far. images: pictures go along. in_words: calls and answers of tools are told in text, for a
    template that has no form for them; of calls (name, arguments) and of a text as the model is to write it."""

    def __init__(self, images: bool, in_words: Callable[[Sequence[tuple[str, str]], str], str] | None = None) -> None:
        self.used: set[str] = set()
        self.rounds = self.repeats = 0
        self._made: set[tuple[str, str]] = set()
        self._images, self._in_words = images, in_words
        self._system: list[str] = []
        self._messages: list[Message] = []
        self._ids: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._later: list[Message] = []
        self._answering = False

    def add_all(self, instructions: str | None, items: Iterable[Any]) -> None:
        """Add the items of a request. rounds is then how often the model has called tools since the last message of a
        user, and repeats how many of those calls it had made before; used has the ids of calls."""
        if instructions:
            self._system.append(instructions)
        for item in items:
            if isinstance(item, Mapping):
                self._add(item)
        self._flush()

    def whole(self, *more: str) -> list[Message]:
        """Return all messages. more: further parts of the system message."""
        system = "\n\n".join(filter(None, (*self._system, *more)))
        return [{"role": "system", "content": system}, *self._messages] if system else self._messages

    def _add(self, item: Mapping[str, Any]) -> None:
        kind = item.get("type", "message")
        if kind == "function_call_output":
            self.rounds += not self._answering
            self._answering = True
            self._add_output(item)
            return
        self._flush()
        if kind == "message":
            self._add_message(str(item.get("role")), item.get("content"))
        elif kind == "function_call":
            self._add_call(item)
        elif kind not in _DROPPED:
            log.warning("gateway.item_left_out", type=kind)

    def _add_message(self, role: str, content: Any) -> None:
        if role in ("system", "developer"):
            self._system.append(_text(self._parts(content)))
            return
        if role == "assistant":
            text = _text(self._parts(content))
            if text.strip():
                self._append("assistant", self._in_words((), text) if self._in_words else text)
            return
        self.rounds = self.repeats = 0
        self._made.clear()
        self._append("user", self._parts(content))

    def _append(self, role: str, content: str | list[Any]) -> None:
        """Add a message, to the one before if that is of the same role."""
        last = self._messages[-1] if self._messages else None
        if last is not None and last["role"] == role and "tool_calls" not in last:
            last["content"] = _joined(last["content"], content)
        else:
            self._messages.append({"role": role, "content": _plain(content)})

    def _add_call(self, item: Mapping[str, Any]) -> None:
        name, arguments = str(item.get("name")), _sendable(item.get("arguments"))
        self.repeats += (name, arguments) in self._made
        self._made.add((name, arguments))
        id_ = self._own_id(str(item.get("call_id") or ""))
        self._names[id_] = name
        if self._in_words is not None:
            self._append("assistant", self._in_words([(name, arguments)], ""))
            return
        call = {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}
        last = self._messages[-1] if self._messages else None
        if last is not None and last["role"] == "assistant":
            last.setdefault("tool_calls", []).append(call)
        else:
            # An empty text, not null: templates put it together with others.
            self._messages.append({"role": "assistant", "content": "", "tool_calls": [call]})

    def _own_id(self, told: str) -> str:
        id_ = told if told and told not in self.used else new_call_id()
        self._ids[told] = id_
        self.used.add(id_)
        return id_

    def _add_output(self, item: Mapping[str, Any]) -> None:
        id_ = self._ids.get(str(item.get("call_id")))
        parts = self._parts(item.get("output"))
        text, pictures = _text(parts), [part for part in parts if part["type"] == "image_url"]
        name = self._names.get(id_ or "", "a tool")
        if id_ is None or self._in_words is not None:
            self._append("user", f"The answer of {name}:\n{text}")
        else:
            self._messages.append({"role": "tool", "tool_call_id": id_, "content": text})
        if pictures:
            self._later += [{"type": "text", "text": f"The picture of {name}:"}, *pictures]

    def _flush(self) -> None:
        """Add the pictures of tools' answers, after all answers."""
        self._answering = False
        if self._later:
            parts, self._later = self._later, []
            self._append("user", parts)

    def _parts(self, content: Any) -> list[dict[str, Any]]:
        """Return a content as parts of chat completions."""
        if isinstance(content, str):
            return [{"type": "text", "text": content}]
        found: list[dict[str, Any]] = []
        for part in content if isinstance(content, list) else ():
            if not isinstance(part, Mapping):
                continue
            if isinstance(part.get("text"), str):
                found.append({"type": "text", "text": part["text"]})
            elif part.get("type") == "refusal":
                found.append({"type": "text", "text": str(part.get("refusal"))})
            elif part.get("type") == "input_image" and self._images and part.get("image_url"):
                found.append({"type": "image_url", "image_url": {"url": part["image_url"]}})
            else:
                if part.get("type") != "input_image":
                    log.warning("gateway.part_left_out", type=part.get("type"))
                found.append({"type": "text", "text": NO_PICTURE})
        return found


def chars_of(messages: Sequence[Message]) -> int:
    """Return the characters of messages, by which their tokens are estimated."""
    size = 0
    for message in messages:
        content = message["content"]
        for part in content if isinstance(content, list) else ({"text": content},):
            size += len(part["text"]) if "text" in part else IMAGE_CHARS
        for call in message.get("tool_calls", ()):
            size += len(call["function"]["name"]) + len(call["function"]["arguments"])
    return size


def _sendable(arguments: Any) -> str:
    """Return arguments that every server can read."""
    try:
        return arguments if isinstance(orjson.loads(arguments), dict) else "{}"
    except (orjson.JSONDecodeError, TypeError):
        return "{}"


def _text(parts: Sequence[Mapping[str, Any]]) -> str:
    return "\n".join(part["text"] for part in parts if part["type"] == "text")


def _plain(content: str | list[Any]) -> str | list[Any]:
    """Return parts as one text where there is nothing else: many templates take no other."""
    if isinstance(content, list) and all(part["type"] == "text" for part in content):
        return _text(content)
    return content


def _joined(one: str | list[Any], other: str | list[Any]) -> str | list[Any]:
    first, second = ([{"type": "text", "text": it}] if isinstance(it, str) else it for it in (one, other))
    joined = [*first, *second]
    return "\n\n".join(part["text"] for part in joined) if all("text" in part for part in joined) else joined

"""The history of a conversation, and its rendering in the form that the library takes: OpenAI's chat messages.

It is rendered for each call anew, since a call may go to another provider than the one before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from chordesk.tools.registry import ToolAnswer, ToolSpec

ANSWER = "answer"
LEFT_OUT = orjson.dumps({"error": "left out: the conversation grew too long; call again for less", "success": False})
_HOW_TO_ANSWER = (
    f"When you have what you need, give your answer by one call of the tool `{ANSWER}`, with no other call in the same "
    "message. Do not write the answer as text."
)

Message = dict[str, Any]
Image = tuple[str, str]  # name of the tool, data URL


@dataclass(frozen=True, slots=True)
class DeskMessage:
    """A message of the desk."""

    text: str


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A tool call as the model made it. arguments: text, which may be no JSON."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ModelMessage:
    """A message of a model. thinking: its blocks of reasoning, which go back to the model that wrote them alone."""

    model: str
    text: str
    calls: tuple[ModelCall, ...] = ()
    thinking: Sequence[Any] = ()


@dataclass(frozen=True, slots=True)
class ToolResults:
    """The answers to the calls of one message, by the ids of the calls, in their order."""

    answers: Mapping[str, ToolAnswer | bytes]


@dataclass(slots=True)
class ChatHistory:
    """The messages of one conversation."""

    instructions: str
    items: list[DeskMessage | ModelMessage | ToolResults] = field(default_factory=list)

    def add(self, item: DeskMessage | ModelMessage | ToolResults) -> None:
        self.items.append(item)

    def shorten(self) -> bool:
        """Leave out all tool answers but those of the last round; return whether that made it shorter."""
        places = [place for place, item in enumerate(self.items) if isinstance(item, ToolResults)]
        shorter = False
        for place in places[:-1]:
            item = self.items[place]
            assert isinstance(item, ToolResults)
            if any(answer != LEFT_OUT for answer in item.answers.values()):
                self.items[place] = replace(item, answers=dict.fromkeys(item.answers, LEFT_OUT))
                shorter = True
        return shorter

    def render(self, model: str, *, images_in_results: bool, closing: str | None = None) -> list[Message]:
        """Return the messages for a call of this model. images_in_results: its provider takes a tool's image as part of
        the tool's answer; otherwise a message after it has the image. closing: words of the desk at the end."""
        messages: list[Message] = [{"role": "system", "content": f"{self.instructions}\n\n{_HOW_TO_ANSWER}"}]
        for item in self.items:
            if isinstance(item, DeskMessage):
                messages.append({"role": "user", "content": item.text})
            elif isinstance(item, ModelMessage):
                messages.append(_of_the_model(item, model))
            else:
                messages += _results(item, images_in_results)
        if closing is not None:
            _close(messages, closing)
        return messages


def _close(messages: list[Message], closing: str) -> None:
    """Add words at the end: to the desk's own message where it is the last, since many templates refuse two."""
    last = messages[-1]
    if last["role"] == "user" and isinstance(last["content"], str):
        messages[-1] = {**last, "content": f"{last['content']}\n\n{closing}"}
    else:
        messages.append({"role": "user", "content": closing})


def _of_the_model(item: ModelMessage, model: str) -> Message:
    message: Message = {"role": "assistant", "content": item.text or None}
    if item.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": _sendable(call.arguments)}}
            for call in item.calls
        ]
    elif not item.text:
        message["content"] = "(no answer)"  # an empty message is refused
    if item.thinking and item.model == model:
        message["thinking_blocks"] = list(item.thinking)
    return message


def _sendable(arguments: str) -> str:
    """Return arguments as they may go back: some providers parse them, and refuse what is no JSON object."""
    try:
        return arguments if isinstance(orjson.loads(arguments), dict) else "{}"
    except orjson.JSONDecodeError:
        return "{}"


def _results(item: ToolResults, images_in_results: bool) -> list[Message]:
    messages: list[Message] = []
    later: list[Message] = []
    for call_id, answer in item.answers.items():
        text = answer.decode() if isinstance(answer, bytes) else answer.text()
        content: Any = text
        if not isinstance(answer, bytes) and answer.image is not None:
            picture = {"type": "image_url", "image_url": {"url": answer.image.data_url()}}
            if images_in_results:
                content = [{"type": "text", "text": text}, picture]
            else:
                later += [{"type": "text", "text": f"The image of {answer.tool} (call {call_id}):"}, picture]
        messages.append({"role": "tool", "tool_call_id": call_id, "content": content})
    if later:
        messages.append({"role": "user", "content": later})
    return messages


def tool_list(specs: Sequence[ToolSpec], schema: Mapping[str, Any]) -> list[Message]:
    """Return the tools of a turn: the role's, and the one that takes its answer."""
    described = [(spec.name, spec.description, spec.input_schema) for spec in specs]
    described.append((ANSWER, "Takes your final answer and ends the turn.", dict(schema)))
    return [
        {"type": "function", "function": {"name": name, "description": text, "parameters": parameters}}
        for name, text, parameters in described
    ]

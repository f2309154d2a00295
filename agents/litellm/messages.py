"""The history of a conversation in the library's form, and a model's reply as it comes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from chordesk.agents.answers import answer_in
from chordesk.agents.completions import Apart, function_tool, is_object, sendable
from chordesk.agents.gateway.translation import Messages
from chordesk.agents.pulse import Pulse
from chordesk.models.tables.columns import new_id
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
    given: Sequence[Mapping[str, Any]] = ()  # what was said before its turns, as items of the Responses API
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
        before = Messages(images=True)
        before.add_all(f"{self.instructions}\n\n{_HOW_TO_ANSWER}", self.given)
        messages = before.whole()
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
    last = messages[-1]
    if last["role"] == "user" and isinstance(last["content"], str):
        messages[-1] = {**last, "content": f"{last['content']}\n\n{closing}"}
    else:
        messages.append({"role": "user", "content": closing})


def _of_the_model(item: ModelMessage, model: str) -> Message:
    message: Message = {"role": "assistant", "content": item.text or None}
    if item.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": sendable(call.arguments)}}
            for call in item.calls
        ]
    elif not item.text:
        message["content"] = "(no answer)"  # an empty message is refused
    if item.thinking and item.model == model:
        message["thinking_blocks"] = list(item.thinking)
    return message


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
    described = [(spec.name, spec.description, spec.input_schema) for spec in specs]
    described.append((ANSWER, "Takes your final answer and ends the turn.", dict(schema)))
    return [function_tool(*one) for one in described]


@dataclass(slots=True)
class _Call:
    """A tool call on its way. place: of its pieces; id: None where the provider gives none."""

    place: int
    id: str | None
    name: str
    arguments: list[str] = field(default_factory=list)


class Reply:
    """A reply on its way. finish: why it ended, None where it did not end. cut: it ended at the bound of its length.

    thinking: blocks of reasoning with their signatures, which go back to the model that wrote them; reasoning without
    one is counted and left out.
    """

    def __init__(self, pulse: Pulse) -> None:
        self._pulse = pulse
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._calls: list[_Call] = []
        self._apart = Apart()
        self.thinking: list[Any] = []
        self.finish: str | None = None

    def take(self, delta: Any) -> None:
        blocks = getattr(delta, "thinking_blocks", None) or ()
        self.thinking += [block for block in blocks if block.get("signature") or block.get("data")]
        reasoning = getattr(delta, "reasoning_content", None)
        if reasoning or blocks:
            self._pulse.reasons(reasoning or "")
        if text := getattr(delta, "content", None):
            self._text.append(text)
            self._apart.heard(text, self._pulse)
        for place, call in enumerate(getattr(delta, "tool_calls", None) or ()):
            self._take_call(call, getattr(call, "index", None) or place)

    def refuse(self, piece: str) -> None:
        self._pulse.writes(piece)
        self._refusal.append(piece)

    def _take_call(self, piece: Any, place: int) -> None:
        """Take a piece of a tool call. Some providers give no ids, one place to several calls, or a name each time."""
        name, arguments = piece.function.name or "", piece.function.arguments or ""
        self._pulse.writes(name + arguments)
        last = next((one for one in reversed(self._calls) if one.place == place), None)
        another = last is not None and piece.id and last.id and piece.id != last.id
        again = last is not None and name and not piece.id and last.arguments
        if last is None or another or again:
            last = _Call(place, piece.id, name)
            self._calls.append(last)
        last.id, last.name = last.id or piece.id, last.name or name
        if arguments:
            last.arguments.append(arguments)

    @property
    def text(self) -> str:
        return "".join(self._text)

    @property
    def bare_text(self) -> str:
        """The text without the reasoning that a model wrote into it."""
        return answer_in(self.text).text

    @property
    def refusal(self) -> str | None:
        return "".join(self._refusal) or None

    @property
    def calls(self) -> tuple[ModelCall, ...]:
        found: dict[str, ModelCall] = {}
        for call in self._calls:
            id_ = call.id if call.id and call.id not in found else new_id()
            found[id_] = ModelCall(id_, call.name, "".join(call.arguments) or "{}")
        return tuple(found.values())

    @property
    def cut(self) -> bool:
        return self.finish == "length"

    @property
    def begun(self) -> bool:
        return bool(self._text or self._calls or self._refusal or self.thinking or self._pulse.tokens)

    @property
    def whole(self) -> bool:
        """Whether it is complete by what it says: some providers do not say why a stream ended."""
        return (
            all(is_object(call.arguments) for call in self.calls)
            if self._calls
            else answer_in(self.text).problem is None
        )


async def refusals_to(reply: Reply, chunks: Any) -> AsyncIterator[Any]:
    """Yield the chunks of OpenAI's stream as they are; the library drops the pieces of a refusal in them."""
    try:
        async for chunk in chunks:
            for choice in getattr(chunk, "choices", None) or ():
                if piece := getattr(getattr(choice, "delta", None), "refusal", None):
                    reply.refuse(piece)
            yield chunk
    finally:
        close = getattr(chunks, "aclose", None) or getattr(chunks, "close", None)
        if close is not None and (closing := close()) is not None:
            await closing

"""LangChain messages as items of the Responses API, each with its real role.

Nothing is written as tagged text, so that no headline in a tool's result can pass for a message of another role.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from chordesk.agents.langchain.errors import ConversationError

Item = dict[str, Any]
MAX_TEXT_CHARS = 1_000_000  # of one message: more than any model's context holds
MAX_IMAGE_BYTES = 20 * 1024 * 1024
_ROLES: Mapping[type[BaseMessage], str] = {SystemMessage: "developer", HumanMessage: "user", AIMessage: "assistant"}


def items_of(messages: Sequence[BaseMessage]) -> tuple[Item, ...]:
    """Return the items of a conversation, in its order; system messages keep their places.

    Raises ConversationError for an empty conversation, one that ends with the model's own message or with calls that
    have no result, and content that cannot be sent.
    """
    if not messages:
        raise ConversationError("the conversation is empty", remedy="give at least one message")
    _check_end(messages)
    return tuple(item for message in messages for item in _items(message))


def _check_end(messages: Sequence[BaseMessage]) -> None:
    last = messages[-1]
    if isinstance(last, AIMessage):
        why = "with calls that have no results" if last.tool_calls else "with the model's own message"
        remedy = "add the tools' results" if last.tool_calls else "add what the model is to answer"
        raise ConversationError(f"the conversation ends {why}", remedy=remedy)
    if all(isinstance(message, SystemMessage) for message in messages):
        raise ConversationError("the conversation has system messages alone", remedy="add what the model is to answer")
    called = {call["id"] for one in messages if isinstance(one, AIMessage) for call in one.tool_calls}
    for message in messages:
        if isinstance(message, ToolMessage) and message.tool_call_id not in called:
            raise ConversationError(
                f"a tool's result is for the call {message.tool_call_id!r}, which no message makes",
                remedy="keep the message with the call before its result",
            )


def _items(message: BaseMessage) -> Iterator[Item]:
    if isinstance(message, ToolMessage):
        yield {"type": "function_call_output", "call_id": message.tool_call_id, "output": _output(message)}
        return
    role = next((role for kind, role in _ROLES.items() if isinstance(message, kind)), None)
    if role is None:
        raise ConversationError(
            f"a message of type {message.type!r} has no role", remedy="use system, human, ai and tool messages"
        )
    parts = list(_parts(message, "output_text" if role == "assistant" else "input_text"))
    if parts:
        yield {"type": "message", "role": role, "content": parts}
    if isinstance(message, AIMessage):
        for call in message.tool_calls:
            arguments = orjson.dumps(call["args"], default=str).decode()
            yield {"type": "function_call", "call_id": call["id"], "name": call["name"], "arguments": arguments}


def _output(message: ToolMessage) -> str | list[Item]:
    parts = list(_parts(message, "input_text"))
    failed = [{"type": "input_text", "text": "The tool failed."}] if message.status == "error" else []
    found = [*failed, *parts]
    if all(part["type"] == "input_text" for part in found):
        return "\n".join(part["text"] for part in found)
    return found


def _parts(message: BaseMessage, text_type: str) -> Iterator[Item]:
    blocks = [message.content] if isinstance(message.content, str) else message.content
    for block in blocks:
        if isinstance(block, str):
            if block:
                yield _text(block, text_type, message)
            continue
        kind = block.get("type")
        if kind in ("text", "input_text", "output_text"):
            if block.get("text"):
                yield _text(str(block["text"]), text_type, message)
        elif kind in ("image", "image_url", "input_image"):
            if text_type == "output_text":
                raise ConversationError("a message of the model has an image", remedy="leave it out")
            yield {"type": "input_image", "image_url": _image_url(block)}
        elif kind not in ("tool_use", "tool_call", "reasoning", "thinking", "function_call"):
            raise ConversationError(
                f"a {message.type} message has content of type {kind!r}", remedy="send text and images"
            )


def _text(text: str, text_type: str, message: BaseMessage) -> Item:
    if len(text) > MAX_TEXT_CHARS:
        what = f"the result of {message.name or 'a tool'}" if isinstance(message, ToolMessage) else message.type
        raise ConversationError(
            f"{what} has {len(text):,} characters, at most {MAX_TEXT_CHARS:,}", remedy="shorten it or summarise it"
        )
    return {"type": text_type, "text": text.replace("\x00", "\ufffd")}


def _image_url(block: Mapping[str, Any]) -> str:
    """Return the URL of an image block, in any of the forms that LangChain has."""
    source = block.get("source") or {}
    url = block.get("image_url") or block.get("url") or source.get("url")
    url = url.get("url") if isinstance(url, Mapping) else url
    if isinstance(url, str):
        _check_image(url)
        return url
    data = block.get("base64") or block.get("data") or source.get("data")
    mime = block.get("mime_type") or block.get("media_type") or source.get("media_type")
    if isinstance(data, bytes):
        data = base64.b64encode(data).decode()
    if not isinstance(data, str) or not isinstance(mime, str):
        raise ConversationError("an image has neither a URL nor data with a media type", remedy="give one of them")
    _check_image(data)
    return f"data:{mime};base64,{data}"


def _check_image(text: str) -> None:
    if len(text) > MAX_IMAGE_BYTES * 4 // 3:
        raise ConversationError(f"an image has more than {MAX_IMAGE_BYTES // 2**20} MB", remedy="make it smaller")

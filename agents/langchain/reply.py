"""The answer that one call asks for, as a schema of strict mode, and what it says."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from langchain_core.messages.tool import ToolCall, tool_call

from chordesk.agents.answer_text import Fits, answer_in, continued
from chordesk.agents.langchain.errors import ToolSchemaError
from chordesk.agents.langchain.strict import Decoder, StrictSchema, problems, strict

ToolSchema = Mapping[str, Any]  # as `convert_to_openai_tool` makes it
ANY = "any"
PLAIN = {
    "type": "object",
    "properties": {"answer": {"type": "string"}},
    "required": ["answer"],
    "additionalProperties": False,
}


class InvalidReply(ValueError):
    """Text of a model that is not the answer asked for, said so that the model can repair it. begun: the beginning of
    an answer that was cut off, which the model may go on with."""

    def __init__(self, reason: str, begun: str | None = None) -> None:
        super().__init__(reason)
        self.begun = begun


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What a call answered: text, or calls of tools with text beside them; of a structured answer `value` too."""

    content: str
    calls: tuple[ToolCall, ...] = ()
    value: Any = None


@dataclass(frozen=True, slots=True)
class ReplyFormat:
    """The schema that a call is sent with. tools: the decoder of the arguments of each; structured: of the value."""

    schema: dict[str, Any]
    tools: Mapping[str, Decoder]
    structured: Decoder | None = None
    calls_only: bool = False

    def read(self, text: str, begun: str | None = None) -> ChatReply:
        """Return the answer in a text. begun: the beginning of it, as an InvalidReply had it, which the text goes on
        with. Raises InvalidReply."""
        return self._reply(_object(text, begun, self._fits))

    def _fits(self, text: str) -> bool:
        try:
            self._reply(orjson.loads(text))
        except (InvalidReply, orjson.JSONDecodeError):
            return False
        return True

    def _reply(self, value: dict[str, Any]) -> ChatReply:
        if self.structured is not None:
            decoded = _decoded(self.structured, value, "the answer")
            return ChatReply(orjson.dumps(decoded).decode(), value=decoded)
        if not self.tools:
            return ChatReply(_string(value, "answer"))
        reply = value if self.calls_only else value.get("reply")
        if not isinstance(reply, dict):
            raise InvalidReply("the answer has no object `reply`")
        content = _string(reply, "content")
        if reply.get("mode") == "final":
            return ChatReply(content)
        calls = reply.get("tool_calls")
        if not isinstance(calls, list) or not calls:
            raise InvalidReply("`tool_calls` is to be a list with at least one call")
        return ChatReply(content, tuple(self._call(one) for one in calls))

    def _call(self, given: Any) -> ToolCall:
        name = given.get("name") if isinstance(given, dict) else None
        if not isinstance(name, str) or name not in self.tools:
            raise InvalidReply(f"there is no tool {name!r}; there are {', '.join(self.tools)}")
        arguments = given.get("arguments")
        if not isinstance(arguments, dict):
            raise InvalidReply(f"the arguments of {name} are no object")
        decoded = _decoded(self.tools[name], arguments, f"the arguments of {name}")
        return tool_call(name=name, args=decoded, id=f"call_{uuid.uuid4().hex}")


def reply_format(
    tools: Sequence[ToolSchema] = (),
    choice: str | None = None,
    *,
    parallel: bool = True,
    answer: Mapping[str, Any] | None = None,
) -> ReplyFormat:
    """Return the format of a call's answer.

    choice: None lets the model choose, `none` forbids calls, `any` demands one, a tool's name demands that one.
    parallel: whether it may make several calls at once. answer: the JSON schema of a structured answer, instead of
    text. Raises ToolSchemaError.
    """
    if answer is not None:
        found = strict(answer)
        return ReplyFormat(_checked(found.schema, "the answer"), {}, found.decode)
    chosen = _chosen(tools, choice)
    if not chosen:
        return ReplyFormat(PLAIN, {})
    made = {name: _tool(name, tool) for name, tool in chosen.items()}
    definitions = {key: one for found in made.values() for key, one in found.schema.get("$defs", {}).items()}
    calls = _calls(made, chosen, parallel=parallel)
    forced = choice not in (None, "auto", "none")
    schema = calls if forced else _object_of(reply={"anyOf": [_final(), calls]})
    whole = {**schema, "$defs": definitions} if definitions else schema
    decoders = {name: found.decode for name, found in made.items()}
    return ReplyFormat(_checked(whole, "the tools"), decoders, calls_only=forced)


def _chosen(tools: Sequence[ToolSchema], choice: str | None) -> dict[str, ToolSchema]:
    named: dict[str, ToolSchema] = {}
    for tool in tools:
        name = str(tool["function"]["name"])
        if name in named:
            raise ToolSchemaError(f"two tools have the name {name!r}", remedy="rename one of them")
        named[name] = tool["function"]
    if choice == "none":
        return {}
    if choice in (None, "auto", ANY, "required"):
        if choice not in (None, "auto") and not named:
            raise ToolSchemaError(f"tool_choice is {choice!r} and there are no tools", remedy="bind at least one")
        return named
    if choice not in named:
        raise ToolSchemaError(
            f"tool_choice names {choice!r}", remedy=f"choose among {', '.join(named) or 'the tools that you bind'}"
        )
    return {str(choice): named[str(choice)]}


def _tool(name: str, tool: ToolSchema) -> StrictSchema:
    parameters = tool.get("parameters") or {"type": "object", "properties": {}}
    found = strict({**parameters, "additionalProperties": False}, prefix=f"{name}__")
    _checked({key: value for key, value in found.schema.items() if key != "description"}, f"the tool {name}")
    return found


def _calls(made: Mapping[str, StrictSchema], tools: Mapping[str, ToolSchema], *, parallel: bool) -> dict[str, Any]:
    branches = [
        {
            **_object_of(
                name={"type": "string", "enum": [name]},
                arguments={key: value for key, value in found.schema.items() if key != "$defs"},
            ),
            "description": str(tools[name].get("description") or ""),
        }
        for name, found in made.items()
    ]
    most = {} if parallel else {"maxItems": 1}
    calls = {"type": "array", "minItems": 1, **most, "items": {"anyOf": branches}}
    return _object_of(mode={"type": "string", "enum": ["tool_calls"]}, content={"type": "string"}, tool_calls=calls)


def _final() -> dict[str, Any]:
    return _object_of(mode={"type": "string", "enum": ["final"]}, content={"type": "string"})


def _object_of(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _checked(schema: dict[str, Any], what: str) -> dict[str, Any]:
    if found := problems(schema):
        raise ToolSchemaError(f"the schema of {what} cannot be sent: {found[0]}", remedy="simplify that part")
    return schema


def _object(text: str, begun: str | None, fits: Fits) -> dict[str, Any]:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        found = answer_in(text, fits) if begun is None else continued(begun, text, fits)
        if found.problem is not None:
            raise InvalidReply(f"the answer is no JSON: {found.problem}", found.text if found.cut else None) from None
        value = orjson.loads(found.text)
    if not isinstance(value, dict):
        raise InvalidReply("the answer is no JSON object")
    return value


def _string(value: Mapping[str, Any], key: str) -> str:
    found = value.get(key)
    if not isinstance(found, str):
        raise InvalidReply(f"`{key}` is to be a string")
    return found


def _decoded(decode: Decoder, value: Any, what: str) -> Any:
    try:
        return decode(value)
    except ValueError as error:
        raise InvalidReply(f"{what}: {error}") from None

"""A Responses request put to a server of chat completions: input, schema and tools, and how its answer is read back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson
import structlog

from chordesk.agents.calls.call_reader import MadeCall, OfferedTools, fits
from chordesk.agents.calls.call_texts import calls_in
from chordesk.agents.gateway.facts import Keywords, ServerFacts
from chordesk.agents.gateway.stream import CALL_CHARS, SHORT_CHARS, ChatAnswer, new_call_id, shortened
from chordesk.agents.providers.completions import function_tool, is_object, sendable
from chordesk.agents.turn_answers import answer_in
from chordesk.models.answers import CHOICES

# The input of a Responses request as the messages of chat completions.
#
# Chat templates are narrow: one system message, and that first; user and assistant in turn; pictures in a user's
# message alone; arguments of tool calls that are JSON objects, some servers answer 500 to others; an id for every call.
# So what Codex sends is put into that form, in an order that keeps the beginning the same from call to call.

Message = dict[str, Any]
NO_PICTURE = "(A picture stood here. It was left out: this model takes none.)"
CITE_CHARS = 200  # of an answer of a tool, which begins with its id
_CITE = re.compile(r'"cite": ?"([a-z]+-[a-z]+)"')
IMAGE_CHARS = 4_000  # a picture costs about as much as so much text
# Items of a conversation that are of no use to another model than the one that wrote them.
_DROPPED = frozenset({"reasoning"})


class Messages:
    """The messages so far. images: pictures go along. in_words: calls and answers of tools are told in text, for a
    template that has no form for them; of calls (name, arguments) and of a text as the model is to write it."""

    def __init__(self, images: bool, in_words: Callable[[Sequence[tuple[str, str]], str], str] | None = None) -> None:
        self.used: set[str] = set()
        self.cites: list[str] = []
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
        name, arguments = str(item.get("name")), sendable(item.get("arguments"))
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
        self.cites += _CITE.findall(text[:CITE_CHARS])
        if id_ is None or self._in_words is not None:
            self._append("user", f"The answer of {name}:\n{text}")
        else:
            self._messages.append({"role": "tool", "tool_call_id": id_, "content": text})
        if pictures:
            self._later += [{"type": "text", "text": f"The picture of {name}:"}, *pictures]

    def _flush(self) -> None:
        self._answering = False
        if self._later:
            parts, self._later = self._later, []
            self._append("user", parts)

    def _parts(self, content: Any) -> list[dict[str, Any]]:
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
    size = 0
    for message in messages:
        content = message["content"]
        for part in content if isinstance(content, list) else ({"text": content},):
            size += len(part["text"]) if "text" in part else IMAGE_CHARS
        for call in message.get("tool_calls", ()):
            size += len(call["function"]["name"]) + len(call["function"]["arguments"])
    return size


def _text(parts: Sequence[Mapping[str, Any]]) -> str:
    return "\n".join(part["text"] for part in parts if part["type"] == "text")


def _plain(content: str | list[Any]) -> str | list[Any]:
    if isinstance(content, list) and all(part["type"] == "text" for part in content):
        return _text(content)
    return content


def _joined(one: str | list[Any], other: str | list[Any]) -> str | list[Any]:
    first, second = ([{"type": "text", "text": it}] if isinstance(it, str) else it for it in (one, other))
    joined = [*first, *second]
    return "\n\n".join(part["text"] for part in joined) if all("text" in part for part in joined) else joined


log = structlog.get_logger(__name__)

ANSWER = "answer"
ANSWER_TOOL = "Takes your final answer. Call it once, when you have what you need, and no other tool beside it."
MOST_ROUNDS = 12  # calls of tools in one turn, after which the model has to answer
MOST_REPEATS = 2  # calls that were made before in the turn; weak models go on with them for ever
ANSWER_ROOM = 1_000  # tokens left of the context, below which no tool is called any more
LEAST_TOKENS = 256  # of an answer, whatever is left of the context
MARGIN = 64  # tokens of the chat template itself
CHARS_A_TOKEN = 6  # at the most: a prompt with more characters for each token of the context cannot fit
_FORM = "Your answer is one JSON object by this JSON schema, and nothing beside it:"
_REPLY = 'When you have what you need, answer by {"reply":{"answer":...}}, and nothing beside it. The answer is'
_CALLS = (
    'You may call tools before you answer, by {"reply":{"tool_calls":[{"name":...,"arguments":{...}}]}}. There are:'
)
_EFFORTS = {"none": "none", "minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "high"}
_BEGUN = re.compile(r'\s*\{\s*"reply"\s*:\s*\{\s*"answer"\s*:\s*')


@dataclass(frozen=True, slots=True)
class Reply:
    """What an answer says: a text, calls of tools, or both. done: what was done to read it."""

    text: str
    calls: tuple[MadeCall, ...] = ()
    done: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """The request to a server."""

    body: dict[str, Any]
    # what a second one has beside it, where the first is answered with a text that does not fit the schema
    again: Mapping[str, Any] | None
    short: Mapping[str, Any] | None  # where it was cut off; None where there is no second
    live: bool  # the text may go on as it comes
    way: str  # for the turn's record
    used: frozenset[str]  # ids of earlier calls
    prompt: int  # characters
    schema: Mapping[str, Any] | None
    in_words: bool
    offered: OfferedTools
    answering: bool = False  # the model has called tools often enough, and has to answer
    bounds: bool = False  # the schema that is sent says more than the role's own

    def read(self, answer: ChatAnswer) -> Reply:
        """Return what an answer says. A call may stand in the text or among the reasoning; an answer among the
        reasoning is one where nothing else was written, and where it fits the schema."""
        calls = answer.pieces.calls(self.offered)
        if not calls and self.in_words and (reply := _of_words(answer)) is not None:
            return _noted(Reply(reply.text, tuple(map(self.offered.read, reply.calls))))
        if calls:
            return _noted(self._without_answer(Reply(answer.text, tuple(calls))))
        if self.answer(Reply(answer.text)) is None:
            for text in (answer.raw, "" if answer.text.strip() else answer.reasoning):
                if (found := self._calls_in(text, answer.text)) is not None:
                    return _noted(self._without_answer(found))
        if not answer.text.strip() and (told := self.answer(Reply(answer.reasoning))) is not None:
            return Reply(told, (), ("the answer stood among the reasoning",))
        return Reply(_BEGUN.sub("", answer.text, count=1) if self.in_words else answer.text)

    def _calls_in(self, text: str, answer: str) -> Reply | None:
        found = calls_in(text, self.offered) if not self.answering else None
        if found is None:
            return None
        prose = found.prose if found.prose and answer.startswith(found.prose) else ""
        return Reply(prose, tuple(found.calls))

    def _without_answer(self, reply: Reply) -> Reply:
        given = [call for call in reply.calls if call.name == ANSWER]
        others = tuple(call for call in reply.calls if call.name != ANSWER)
        if not given or ANSWER in self._tools:
            return reply
        if others:
            log.info("gateway.answer_beside_calls", calls=[call.name for call in others])
            return Reply(reply.text, others)
        return Reply(given[0].arguments, (), given[0].read)

    def fits(self, reply: Reply) -> bool:
        if reply.calls or self.schema is None:
            return True
        return self.answer(reply) is not None

    def answer(self, reply: Reply) -> str | None:
        if self.schema is None:
            return None
        found = answer_in(reply.text, self.is_answer)
        return found.text if found.problem is None and self.is_answer(found.text) else None

    def is_answer(self, text: str) -> bool:
        try:
            return self.schema is not None and fits(self.schema, orjson.loads(text))
        except (orjson.JSONDecodeError, RecursionError):
            return False

    @property
    def _tools(self) -> frozenset[str]:
        own = [
            tool["function"] for tool in self.body.get("tools", ()) if tool["function"]["description"] != ANSWER_TOOL
        ]
        return frozenset(tool["name"] for tool in own)


def plan(
    request: Mapping[str, Any],
    facts: ServerFacts,
    tokens: int,
    chars_a_token: float,
    *,
    tools_first: bool = False,
    bounded: Mapping[str, Any] | None = None,
) -> Plan:
    """tokens: most of its answer. chars_a_token: of its prompts. tools_first: a tool has to be called before an answer.
    bounded: the schema with all that a server may enforce of it. The prompt tells the plain one: what is the same in
    all turns of a role is read once."""
    tools = _tools(request.get("tools"))
    schema = _schema(request)
    in_words = bool(tools) and facts.tool_way == "schema"
    messages = Messages(facts.images is not False, _said if in_words else None)
    messages.add_all(request.get("instructions"), request.get("input") or ())
    answering = messages.rounds >= MOST_ROUNDS or messages.repeats >= MOST_REPEATS
    told, schema = schema, _enforced(schema, bounded, facts, messages.cites)
    # What is said of the form is the same whether the model has to answer or not: what was read is not read again.
    words = _form_in_words(tools, told, facts, in_words=in_words)
    sent = messages.whole(*words)
    chars = chars_of(sent) + (0 if in_words else len(orjson.dumps(tools)))
    left = None if facts.context is None else int(facts.context - chars / chars_a_token - MARGIN)
    answering = answering or (messages.rounds > 0 and left is not None and left < ANSWER_ROOM)
    if answering:
        log.warning(
            "gateway.must_answer", model=facts.model, rounds=messages.rounds, repeats=messages.repeats, left=left
        )
    if in_words:
        calling = tools_first and not messages.rounds and not answering
        form = _tools_or_answer([] if answering else tools, schema, one=facts.parallel_tools is False, calling=calling)
        put, again = _put(form, facts, strict=False), None
        if calling:
            short = _short(form, facts, CALL_CHARS, strict=False)
        else:
            short = _short(_tools_or_answer([], schema, one=True), facts, strict=False) if schema is not None else {}
    else:
        put, again = _beside(tools, schema, facts, answering=answering)
        short = _short(schema, facts, chosen={"tool_choice": "none"} if tools else {}) if schema is not None else {}
    body = {
        "model": request["model"],
        "messages": sent,
        **put,
        **_options(request, facts),
        "max_tokens": tokens if left is None else min(tokens, max(LEAST_TOKENS, left)),
    }
    live = again is None and not in_words and not (tools and facts.schema_way == "forced_tool")
    used = frozenset(messages.used)
    offered = OfferedTools.of(body.get("tools") or tools)
    bounds = schema is not told
    return Plan(body, again, short or None, live, facts.way, used, chars, told, in_words, offered, answering, bounds)


_KEYWORDS: Mapping[str, Keywords] = {
    "minLength": "lengths", "maxLength": "lengths", "minItems": "items", "maxItems": "items", "pattern": "patterns",
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), "bounds"),
}  # fmt: skip
MOST_LENGTH = 300  # of a text: a grammar repeats its characters, which takes time, and servers refuse many more


def _enforced(
    schema: Mapping[str, Any] | None, bounded: Mapping[str, Any] | None, facts: ServerFacts, cites: Sequence[str]
) -> Mapping[str, Any] | None:
    """Return the schema with what this server keeps to of the bounded one; the schema itself where it keeps to
    nothing more."""
    known = facts.schema_way == "json_schema" and (facts.keywords or facts.choices)
    if (
        schema is None
        or bounded is None
        or not known
        or set(bounded.get("properties", ())) != set(schema.get("properties", ()))
    ):
        return schema
    found: Mapping[str, Any] = _kept(bounded, facts, cites)
    return schema if found == schema else found


def _kept(node: Any, facts: ServerFacts, cites: Sequence[str]) -> Any:
    if isinstance(node, list):
        return [_kept(one, facts, cites) for one in node]
    if not isinstance(node, Mapping):
        return node
    choices = node.get(CHOICES)
    if isinstance(choices, str):  # the beginning of the cites of this turn
        choices = [one for one in dict.fromkeys(cites) if one.startswith(f"{choices}-")]
    if isinstance(choices, list) and 0 < len(choices) <= facts.choices and node.get("type") == "string":
        described = {"description": node["description"]} if "description" in node else {}
        return {"type": "string", "enum": choices, **described}
    made: dict[str, Any] = {}
    for key, value in node.items():
        if key == "properties":
            made[key] = {name: _kept(one, facts, cites) for name, one in value.items()}
        elif key != CHOICES and _is_kept(key, value, facts):
            made[key] = _kept(value, facts, cites)
    return made


def _is_kept(key: str, value: Any, facts: ServerFacts) -> bool:
    if key == "pattern":
        return True  # it is in the plain schema too
    group = _KEYWORDS.get(key)
    return group is None or (group in facts.keywords and not (group == "lengths" and value > MOST_LENGTH))


def _beside(
    tools: list[dict[str, Any]], schema: Mapping[str, Any] | None, facts: ServerFacts, *, answering: bool
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return how native tools and a schema are put, and what a second request has beside that."""
    if not tools:
        return ({}, None) if schema is None else (_put(schema, facts), None)
    put: dict[str, Any] = {"tools": tools}
    if schema is None:
        return ({**put, "tool_choice": "none"} if answering else put), None
    if facts.schema_way == "forced_tool":
        forced = _put(schema, facts)
        both = {"tools": [*tools, *forced["tools"]]}
        return (both | _chosen(), None) if answering else (both, _chosen())
    # Of the tools, the prompt's beginning goes on telling; what has been read need not be read again.
    second = {**_put(schema, facts), "tool_choice": "none"}
    if answering:
        return put | second, None
    if facts.beside:
        return put | _put(schema, facts), None
    return put, second if facts.schema_way != "words" else None


def _put(schema: Mapping[str, Any], facts: ServerFacts, *, strict: bool = True) -> dict[str, Any]:
    if facts.schema_way == "json_schema":
        wanted = {"name": ANSWER, "schema": schema, "strict": strict}
        return {"response_format": {"type": "json_schema", "json_schema": wanted}}
    if facts.schema_way == "forced_tool":
        return {"tools": [function_tool(ANSWER, ANSWER_TOOL, schema)], **_chosen()}
    return {"response_format": {"type": "json_object"}} if facts.schema_way == "json_object" else {}


def _short(
    form: Mapping[str, Any],
    facts: ServerFacts,
    chars: int = SHORT_CHARS,
    *,
    strict: bool = True,
    chosen: Mapping[str, Any] = {},
) -> dict[str, Any]:
    """Empty where the server keeps to no schema. After a first call the answer has to end. chosen: of native tools."""
    if facts.schema_way != "json_schema":
        return {}
    return {**_put(shortened(form, chars), facts, strict=strict), **chosen}


def _chosen() -> dict[str, Any]:
    return {"tool_choice": {"type": "function", "function": {"name": ANSWER}}}


def _options(request: Mapping[str, Any], facts: ServerFacts) -> dict[str, Any]:
    found: dict[str, Any] = {name: request[name] for name in ("temperature", "top_p") if request.get(name) is not None}
    if request.get("tools") and facts.tool_way == "native" and facts.parallel_tools is not None:
        found["parallel_tool_calls"] = facts.parallel_tools
    effort = (request.get("reasoning") or {}).get("effort")
    if facts.reasoning and effort in _EFFORTS:
        found["reasoning_effort"] = _EFFORTS[effort]
    if facts.streaming is not False:
        found["stream"] = True
        if facts.usage is not False:  # some servers refuse what they do not know
            found["stream_options"] = {"include_usage": True}
    return found


def _tools(given: Any) -> list[dict[str, Any]]:
    found = []
    for tool in given or ():
        if tool.get("type") != "function":
            log.warning("gateway.tool_left_out", type=tool.get("type"))
            continue
        parameters = tool.get("parameters") or {"type": "object", "properties": {}}
        found.append(function_tool(tool["name"], tool.get("description") or "", parameters))
    return found


def _schema(request: Mapping[str, Any]) -> Mapping[str, Any] | None:
    wanted = (request.get("text") or {}).get("format") or {}
    return wanted.get("schema") if wanted.get("type") == "json_schema" else None


# Tools as a part of the answer's schema, for a template that has no words for them.


def _tools_or_answer(
    tools: Sequence[Mapping[str, Any]], schema: Mapping[str, Any] | None, *, one: bool, calling: bool = False
) -> dict[str, Any]:
    """An object with either calls of tools or the answer. one: at most one call. calling: no answer yet."""
    definitions: dict[str, Any] = {}
    plain = {"type": "string"}
    branches = [_object(answer=_moved(schema, "", definitions) if schema is not None else plain)]
    calls = [
        _object(
            name={"type": "string", "enum": [tool["function"]["name"]]},
            arguments=_moved(tool["function"]["parameters"], f"{tool['function']['name']}__", definitions),
        )
        for tool in tools
    ]
    if calls:
        most = {"maxItems": 1} if one else {}
        item = calls[0] if len(calls) == 1 else {"anyOf": calls}
        wished = _object(tool_calls={"type": "array", "minItems": 1, **most, "items": item})
        branches = [wished] if calling else [wished, *branches]
    reply = branches[0] if len(branches) == 1 else {"anyOf": branches}
    return _object(reply=reply) | ({"$defs": definitions} if definitions else {})


def _moved(schema: Mapping[str, Any], prefix: str, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without its definitions, which are put among the others under names with a prefix."""
    moved = {key: _named(one, prefix) for key, one in schema.items() if key != "$defs"}
    for name, one in (schema.get("$defs") or {}).items():
        definitions[prefix + name] = _named(one, prefix)
    return moved


def _named(node: Any, prefix: str) -> Any:
    if isinstance(node, list):
        return [_named(one, prefix) for one in node]
    if not isinstance(node, Mapping):
        return node
    reference = node.get("$ref")
    own = {"$ref": f"#/$defs/{prefix}{reference.rpartition('/')[2]}"} if isinstance(reference, str) else {}
    return {**{key: _named(one, prefix) for key, one in node.items()}, **own}


def _object(**properties: Any) -> dict[str, Any]:
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _tools_in_words(tools: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        f"- {one['name']}: {one['description']} Arguments: {orjson.dumps(one['parameters']).decode()}"
        for one in (tool["function"] for tool in tools)
    ]
    return "\n".join((_CALLS, *lines))


def _form_in_words(
    tools: Sequence[Mapping[str, Any]], schema: Mapping[str, Any] | None, facts: ServerFacts, *, in_words: bool
) -> list[str]:
    """Return what the model is told of the form of its answer, and of tools that its template has no words for."""
    told = orjson.dumps(schema).decode()
    if in_words:
        form = "a text." if schema is None else f"one JSON object by this JSON schema:\n{told}"
        return [_tools_in_words(tools), f"{_REPLY} {form}"]
    if schema is None or facts.schema_way == "forced_tool":
        return []
    return [f"{'Call tools as you need them. When you have what you need: ' if tools else ''}{_FORM}\n{told}"]


def _said(calls: Sequence[tuple[str, str]], text: str) -> str:
    if calls:
        made = ",".join(f'{{"name":"{name}","arguments":{arguments}}}' for name, arguments in calls)
        return f'{{"reply":{{"tool_calls":[{made}]}}}}'
    answer = text if is_object(text) else orjson.dumps(text).decode()
    return f'{{"reply":{{"answer":{answer}}}}}'


def _noted(reply: Reply) -> Reply:
    notes = (*reply.done, *(note for call in reply.calls for note in call.read))
    return replace(reply, done=tuple(dict.fromkeys(notes)))


def _of_words(answer: ChatAnswer) -> Reply | None:
    found = answer_in(answer.text)
    try:
        reply = orjson.loads(found.text)["reply"] if found.problem is None else None
    except (orjson.JSONDecodeError, KeyError):
        reply = None
    if not isinstance(reply, Mapping):
        return None
    calls = reply.get("tool_calls")
    if isinstance(calls, list) and calls:
        return Reply("", tuple(_made(call) for call in calls if isinstance(call, Mapping)))
    told = reply.get("answer")
    return Reply(told if isinstance(told, str) else orjson.dumps(told).decode())


def _made(call: Mapping[str, Any]) -> MadeCall:
    arguments = call.get("arguments")
    text = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
    return MadeCall("", str(call.get("name")), text)

"""One request to the rulebook: read from the Responses wire, answered on it, and the table of policies."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import orjson

Payload = dict[str, Any]

MAX_CALLS = 4  # tool calls of one turn
SPLIT = "split adjustment"  # the price tools' name for a move that may be a split
PREFIX = "Rule, not a model:"  # of every text of the rulebook


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that a policy makes."""

    tool: str
    arguments: Payload


@dataclass(frozen=True, slots=True)
class Output:
    """A tool's answer to a call of this turn."""

    tool: str
    payload: Payload

    @property
    def failed(self) -> str | None:
        if self.payload.get("success") is False or "error" in self.payload:
            return str(self.payload.get("error", "no reason given"))
        return None


@dataclass(frozen=True, slots=True)
class Case:
    """The latest subject of a conversation and the tool outputs that came after it."""

    role: str
    subject: Payload
    tools: frozenset[str]
    outputs: Sequence[Output]

    def next_call(self, planned: Sequence[Call]) -> Call | None:
        """Return the first planned call without an answer yet. Answers are told by their tool alone: what code asked
        before the turn counts, in whatever order."""
        answered = Counter(output.tool for output in self.outputs)
        for call in [call for call in planned if call.tool in self.tools][:MAX_CALLS]:
            if not answered[call.tool]:
                return call
            answered[call.tool] -= 1
        return None

    def payloads(self, tool: str) -> list[Payload]:
        return [output.payload for output in self.outputs if output.tool == tool and output.failed is None]

    def rows(self, tool: str, key: str) -> list[Payload]:
        """Return the data rows of a tool's answers; rows that are not objects are left out."""
        rows: list[Payload] = []
        for payload in self.payloads(tool):
            found = payload.get(key)
            if isinstance(found, list):
                rows.extend(row for row in found if isinstance(row, dict))
        return rows

    def cite(self, tool: str) -> str | None:
        """Return the id of a tool's last answer in this turn; None without one."""
        return next((str(one["cite"]) for one in reversed(self.payloads(tool)) if "cite" in one), None)

    def has_data(self, tool: str) -> bool:
        return any(payload.get("available", True) for payload in self.payloads(tool))

    def signals(self) -> list[Payload]:
        """Return the price figures, each with the number of split-like moves that they are not adjusted for."""
        odd = [row.get("symbol") for row in self.rows("signals_get", "missing") if row.get("what") == SPLIT]
        rows = [
            {**(payload.get("each") or {}), **row}
            for payload in self.payloads("signals_get")
            for row in payload.get("signals") or ()
            if isinstance(row, dict)
        ]
        return [{**row, "splitLike": odd.count(row.get("symbol"))} for row in rows]

    def gaps(self, wanted: Sequence[str], symbol: str | None = None) -> list[str]:
        """A line for each tool that was not offered or failed, and for data that tools lack, without other symbols'
        gaps."""
        found = [f"{tool} is not offered" for tool in wanted if tool not in self.tools]
        for output in self.outputs:
            if output.failed is not None:
                found.append(f"{output.tool} failed: {clip(output.failed)}")
        for tool in dict.fromkeys(output.tool for output in self.outputs):
            rows = self.rows(tool, "missing")
            found.extend(_gap(row) for row in rows if symbol is None or row.get("symbol") in (None, symbol))
        return list(dict.fromkeys(found))


def _gap(row: Payload) -> str:
    of = f"{row['symbol']} " if row.get("symbol") else ""
    return clip(f"{of}{row.get('what', 'data')}: {row.get('reason', 'no reason given')}")


def calls_of(asked: Iterable[tuple[str, Mapping[str, Any]]]) -> list[Call]:
    return [Call(tool, dict(arguments)) for tool, arguments in asked]


def number(row: Mapping[str, Any], field: str) -> float | None:
    """Return a finite figure of a row, else None: a missing figure is never replaced by another."""
    value = row.get(field)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def symbols_of(subject: Payload) -> list[str]:
    found = subject.get("symbols")
    return [symbol for symbol in found if isinstance(symbol, str)] if isinstance(found, list) else []


def clip(text: str, length: int = 160) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= length else flat[: length - 1] + "…"


def shown(value: float, unit: str) -> str:
    if unit == "percent":
        return f"{value:.1%}"
    if unit == "times":
        return f"{value:.1f}x"
    if unit in ("sessions", "count"):
        return f"{value:.0f}" + (" sessions" if unit == "sessions" else "")
    return f"{value:.1f}"


Policy = Callable[[Case], Call | Payload]

POLICIES: dict[str, Policy] = {}


def policy(role: str) -> Callable[[Policy], Policy]:
    def enter(function: Policy) -> Policy:
        if POLICIES.setdefault(role, function) is not function:
            raise ValueError(f"the role {role} has two policies")
        return function

    return enter


# The Responses wire: parses the parts of a request that the rulebook reads, and writes the events of its answer.
#
# A kept thread carries older turns. Only the latest user message with a subject block counts, and only the tool
# outputs after it; a user message without such a block (a request to repair an answer) changes neither.

BYTES_PER_TOKEN = 4  # there is no tokenizer here: token counts are bytes / 4, and only that
_SUBJECT = re.compile(r"^```subject\n(.*?)\n```", re.DOTALL | re.MULTILINE)
_ANSWERS = re.compile(r"^```answers\n(.*?)\n```", re.DOTALL | re.MULTILINE)
_ROLE = "Role: "
numbers = count(1)


class BadRequest(Exception):
    """A request that the rulebook cannot answer; code: a short snake_case name."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def parse(body: bytes) -> tuple[Payload, Case]:
    request, items = read(body, "input")
    return request, case_of(request.get("instructions"), items, request.get("tools"))


def read(body: bytes, key: str) -> tuple[Payload, list[Payload]]:
    try:
        request = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadRequest("invalid_json", f"the request body is no JSON: {error}") from None
    if not isinstance(request, dict):
        raise BadRequest("invalid_request", "the request body must be a JSON object")
    items = request.get(key)
    if not isinstance(items, list):
        raise BadRequest(f"invalid_{key}", f"{key} must be a list of items, not {type(items).__name__}")
    return request, [item for item in items if isinstance(item, dict)]


def case_of(instructions: Any, items: list[Payload], tools: Any) -> Case:
    role = role_of(instructions, items)
    place, subject = _subject(items)
    outputs = [*_given(text_of(items[place].get("content"))), *_outputs(items[place + 1 :])]
    return Case(role, subject, _tools(tools), outputs)


def role_of(instructions: Any, items: list[Payload]) -> str:
    instructions = instructions or _developer_text(items)
    first = instructions.split("\n", 1)[0].strip() if isinstance(instructions, str) else ""
    if not first.startswith(_ROLE):
        raise BadRequest("no_role", f"the first line of instructions must read '{_ROLE}<key>', not {first[:80]!r}")
    return first.removeprefix(_ROLE).strip()


def _developer_text(items: list[Payload]) -> str:
    """The app-server sends a thread's base instructions as a developer message and leaves `instructions` out."""
    texts = (text_of(item.get("content")) for item in items if item.get("role") in ("developer", "system"))
    return next((text for text in texts if text.startswith(_ROLE)), "")


def _subject(items: list[Payload]) -> tuple[int, Payload]:
    for place in range(len(items) - 1, -1, -1):
        item = items[place]
        if item.get("role") != "user" or item.get("type", "message") != "message":
            continue
        if (found := _SUBJECT.search(text_of(item.get("content")))) is None:
            continue
        try:
            subject = orjson.loads(found.group(1))
        except orjson.JSONDecodeError as error:
            raise BadRequest("invalid_subject", f"the subject block is no JSON: {error}") from None
        if not isinstance(subject, dict):
            raise BadRequest("invalid_subject", "the subject block must hold a JSON object")
        return place, subject
    raise BadRequest("no_subject", "no user message has a ```subject block: the rulebook does not know what to judge")


def _tools(tools: Any) -> frozenset[str]:
    rows = tools if isinstance(tools, list) else []
    return frozenset(str(tool["name"]) for tool in rows if isinstance(tool, dict) and tool.get("name"))


def _given(text: str) -> list[Output]:
    """Return the answers that stand in the question."""
    if (found := _ANSWERS.search(text)) is None:
        return []
    try:
        return [Output(str(one["tool"]), dict(one["answer"])) for one in orjson.loads(found[1])]
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        raise BadRequest("invalid_answers", "the answers block must hold a list of {tool, arguments, answer}") from None


def _outputs(items: Iterable[Payload]) -> list[Output]:
    names: dict[str, str] = {}
    outputs: list[Output] = []
    for item in items:
        if item.get("type") == "function_call":
            names[str(item.get("call_id"))] = str(item.get("name"))
        elif item.get("type") == "function_call_output":
            name = names.get(str(item.get("call_id")), "unknown tool")
            outputs.append(Output(name, _payload(text_of(item.get("output")))))
    return outputs


def _payload(text: str) -> Payload:
    """What a tool answered. After its JSON may stand a word on a picture that was left out."""
    try:
        payload, _ = json.JSONDecoder().raw_decode(text)
    except json.JSONDecodeError:
        return {"success": False, "error": f"the answer is no JSON: {text[:120]}"}
    if not isinstance(payload, dict):
        return {"success": False, "error": "the answer is no JSON object"}
    return payload


def text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))


def schema_of(request: Mapping[str, Any]) -> Payload | None:
    text = request.get("text")
    wanted = text.get("format") if isinstance(text, dict) else None
    if not isinstance(wanted, dict) or wanted.get("type") != "json_schema":
        return None
    schema = wanted.get("schema")
    if not isinstance(schema, dict):
        raise BadRequest("invalid_schema", "text.format has the type json_schema and no schema")
    return schema


def fill(schema: Mapping[str, Any], value: Any, where: str = "answer") -> Any:
    """Return a value cut to the schema's properties. Raises BadRequest for a required one that no rule fills."""
    if isinstance(value, list):
        items = schema.get("items")
        return [fill(items, item, f"{where}[]") for item in value] if isinstance(items, dict) else value
    properties = schema.get("properties")
    if not isinstance(value, dict) or not isinstance(properties, dict):
        return value
    for name in schema.get("required", ()):
        if name not in value:
            raise BadRequest("unknown_schema", f"the schema requires {where}.{name}, which no rule fills")
    return {name: fill(properties[name], item, f"{where}.{name}") for name, item in value.items() if name in properties}


def stream(request: Mapping[str, Any], request_bytes: int, move: Call | Payload) -> bytes:
    """Return the server-sent events of one response: a function call or the final message."""
    number = next(numbers)
    item = _call_item(number, move) if isinstance(move, Call) else _message_item(number, move)
    head = {"id": f"resp_{number}", "object": "response", "model": request.get("model", "rulebook"), "output": []}
    written = len(orjson.dumps(item))
    done = {**head, "status": "completed", "output": [item], "usage": usage(request_bytes, written)}
    return b"".join(
        (
            _event("response.created", response={**head, "status": "in_progress"}),
            _event("response.output_item.done", output_index=0, item=item),
            _event("response.completed", response=done),
        )
    )


def usage(read: int, written: int) -> Payload:
    """Return token counts by the rule bytes / 4, rounded up."""
    tokens_in, tokens_out = -(-read // BYTES_PER_TOKEN), -(-written // BYTES_PER_TOKEN)
    return {
        "input_tokens": tokens_in,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": tokens_out,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens_in + tokens_out,
    }


def _call_item(number: int, call: Call) -> Payload:
    arguments = orjson.dumps(call.arguments).decode()
    names = {"id": f"fc_{number}", "call_id": f"call_{number}"}
    return {"type": "function_call", "status": "completed", **names, "name": call.tool, "arguments": arguments}


def _message_item(number: int, value: Payload) -> Payload:
    part = {"type": "output_text", "text": orjson.dumps(value).decode(), "annotations": []}
    return {"type": "message", "status": "completed", "role": "assistant", "id": f"msg_{number}", "content": [part]}


def _event(kind: str, **fields: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), orjson.dumps({"type": kind, **fields}))

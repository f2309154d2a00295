"""The rulebook as a model's API on loopback only: POST /v1/responses (server-sent events), POST /v1/chat/completions
(one JSON, or server-sent events) and GET /v1/models."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from chordesk.agents.providers.liveness import failure, interrupted
from chordesk.agents.rulebook.cases import (
    PREFIX,
    BadRequest,
    Call,
    Case,
    Output,
    Payload,
    case_of,
    clip,
    fill,
    numbers,
    read,
    role_of,
    schema_of,
    stream,
    text_of,
    usage,
)
from chordesk.agents.rulebook.policies import POLICIES
from chordesk.agents.runtime import ActiveRuntime, ConversationSpec, TurnResult, TurnStatus
from chordesk.models import features
from chordesk.models.answers import Failure, Usage
from chordesk.models.descriptions import said
from chordesk.models.errors import SettingError
from chordesk.models.tables.columns import new_id
from chordesk.models.urls import is_loopback

ANSWER_SECONDS = 0.0  # of each answer, in place of a model's time


class RulesRuntime(ActiveRuntime):
    """Implements agents.runtime.Runtime, one a worker process."""

    def __init__(self) -> None:
        super().__init__("runtime of the rules")

    @asynccontextmanager
    async def conversation(self, spec: ConversationSpec, deadline: float) -> AsyncIterator[RulesConversation]:
        self._require_open()
        conversation = RulesConversation(spec, deadline)
        with self._holding(conversation):
            yield conversation


class RulesConversation:
    """Implements agents.runtime.Conversation: each turn asks the role's policy until it answers."""

    def __init__(self, spec: ConversationSpec, deadline: float) -> None:
        self.thread_id, self.reason = new_id(), "stateless" if spec.keep else "initial"
        self.running_turn_id: str | None = None
        self._spec, self._deadline = spec, deadline
        self._stop = asyncio.Event()

    def interrupt(self) -> None:
        self._stop.set()

    async def turn(
        self,
        text: str,
        output_schema: dict[str, Any],
        metadata: Mapping[str, str],
        on_started: Callable[[str], None] | None = None,
        on_limited: Callable[[float | None], None] | None = None,
    ) -> TurnResult:
        turn_id = self.running_turn_id = new_id()
        if on_started is not None:
            on_started(turn_id)
        asked = asyncio.ensure_future(self._asked(text, output_schema))
        stopped = asyncio.ensure_future(self._stop.wait())
        left = max(self._deadline - asyncio.get_running_loop().time(), 0.0)
        try:
            await asyncio.wait((asked, stopped), timeout=left, return_when=asyncio.FIRST_COMPLETED)
            return self._ended(turn_id, asked)
        finally:
            self.running_turn_id = None
            asked.cancel()
            stopped.cancel()

    def _ended(self, turn_id: str, asked: asyncio.Future[tuple[str, Usage]]) -> TurnResult:
        if asked.done() and not self._stop.is_set():
            try:
                return self._result(turn_id, "completed", *asked.result())
            except BadRequest as error:
                return self._result(turn_id, "failed", why=failure("bad_request", f"{error.code}: {error}"))
        if self._stop.is_set():
            return self._result(turn_id, "interrupted", why=interrupted())
        return self._result(turn_id, "failed", why=failure("timeout", "the turn did not end before its deadline"))

    def _result(
        self, turn_id: str, status: TurnStatus, text: str = "", spent: Usage | None = None, why: Failure | None = None
    ) -> TurnResult:
        return TurnResult(self.thread_id, turn_id, status, text, spent or Usage(), why, None)

    async def _asked(self, text: str, schema: Mapping[str, Any]) -> tuple[str, Usage]:
        spec, read = self._spec, 0
        tools = [{"name": one.name} for one in spec.tools.specs()]
        case = case_of(spec.base_instructions, [{"role": "user", "content": text}], tools)
        outputs, size = list(case.outputs), len(spec.base_instructions) + len(text)
        while True:
            if ANSWER_SECONDS:
                await asyncio.sleep(ANSWER_SECONDS)
            read += size
            move = _move(Case(case.role, case.subject, case.tools, outputs), schema)
            if not isinstance(move, Call):
                answer = orjson.dumps(move)
                counted = usage(read, len(answer))
                return answer.decode(), Usage(**{name: counted[name] for name in _COUNTS})
            given = await spec.tools.call(move.tool, move.arguments)
            written = orjson.dumps(given.payload)
            # As the wire would give it: a value that JSON does not have, such as a date, is text.
            payload: Payload = orjson.loads(written)
            outputs.append(Output(move.tool, payload))
            size += len(written)


_COUNTS = ("input_tokens", "output_tokens", "total_tokens")


# The chat completions wire: parses a request into the same case as a Responses request, and writes its answer, as one
# JSON or as a stream.
#
# The answer goes through the tool `answer` where the request has one, as the LiteLLM runtime asks for it.

ANSWER = "answer"


def parse_chat(body: bytes) -> tuple[Payload, Case]:
    request, messages = read(body, "messages")
    tools = [tool for tool in _functions(request) if tool.get("name") != ANSWER]
    return request, case_of(None, list(_items(messages)), tools)


def answer_schema(request: Mapping[str, Any]) -> Payload | None:
    schema = next((tool.get("parameters") for tool in _functions(request) if tool.get("name") == ANSWER), None)
    return schema if isinstance(schema, dict) else None


def completion(request: Mapping[str, Any], request_bytes: int, move: Call | Payload) -> bytes:
    """A tool call, or the answer by the answer tool or as text; for a stream its events."""
    number = next(numbers)
    by_tool = answer_schema(request) is not None
    call = move if isinstance(move, Call) else Call(ANSWER, move) if by_tool else None
    message: Payload = {"role": "assistant", "content": None if call else orjson.dumps(move).decode()}
    if call is not None:
        function = {"name": call.tool, "arguments": orjson.dumps(call.arguments).decode()}
        message["tool_calls"] = [{"id": f"call_{number}", "type": "function", "function": function}]
    counted = usage(request_bytes, len(orjson.dumps(message)))
    head = {"id": f"chatcmpl_{number}", "created": 0, "model": request.get("model", "rulebook")}
    spent = {
        "prompt_tokens": counted["input_tokens"],
        "completion_tokens": counted["output_tokens"],
        "total_tokens": counted["total_tokens"],
    }
    finish = "tool_calls" if call else "stop"
    if request.get("stream"):
        options = request.get("stream_options")
        counts = isinstance(options, dict) and options.get("include_usage")
        return _stream({**head, "object": "chat.completion.chunk"}, message, finish, spent if counts else None)
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return orjson.dumps({**head, "object": "chat.completion", "choices": [choice], "usage": spent})


def _stream(head: Payload, message: Payload, finish: str, spent: Payload | None) -> bytes:
    delta = {**message, "tool_calls": [{"index": 0, **call} for call in message.get("tool_calls", ())]}
    if not delta["tool_calls"]:
        del delta["tool_calls"]
    chunks: list[Payload] = [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
    ]
    if spent is not None:
        chunks.append({"choices": [], "usage": spent})
    events = (b"data: %b\n\n" % orjson.dumps({**head, **chunk}) for chunk in chunks)
    return b"".join((*events, b"data: [DONE]\n\n"))


def _functions(request: Mapping[str, Any]) -> list[Payload]:
    tools = request.get("tools")
    rows = [tool.get("function") for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
    return [row for row in rows if isinstance(row, dict)]


def _items(messages: Iterable[Payload]) -> Iterable[Payload]:
    """Yield messages as items of the Responses API. Calls of the answer tool are none: what they gave is repaired."""
    answers: set[Any] = set()
    for message in messages:
        if message.get("role") == "tool":
            called = message.get("tool_call_id")
            if called not in answers:
                yield {"type": "function_call_output", "call_id": called, "output": message.get("content")}
            continue
        yield {"type": "message", "role": message.get("role"), "content": message.get("content")}
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            function = call.get("function") if isinstance(call, dict) else None
            if not isinstance(function, dict):
                continue
            if function.get("name") == ANSWER:
                answers.add(call.get("id"))
            else:
                yield {"type": "function_call", "call_id": call.get("id"), "name": function.get("name")}


# Answers to programs that bring their own schema and no role, such as graphs of LangGraph: rules know nothing of what
# these ask, and say so. A graph can so be tried without a model.

PROGRAM = "program"  # the role in the instructions of such a call
# What an answer that has to choose chooses, where the schema offers it; else the first value.
_RESERVED = frozenset({"hold", "neutral", "none", "unknown", "no_data", "pass", "low"})


def plain(schema: Mapping[str, Any], items: Sequence[Payload], text_of: Any) -> Payload:
    """A value of a schema, with a call of the first tool until one has answered. text_of: gives an item's text."""
    asked = next((text_of(one.get("content")) for one in reversed(items) if one.get("role") == "user"), "")
    outputs = [text_of(one.get("output")) for one in items if one.get("type") == "function_call_output"]
    answered = bool(items) and items[-1].get("type") == "function_call_output"
    text = f"{PREFIX} no model has read this. Asked: {clip(asked)}"
    if outputs:
        text += f" The last tool answered: {clip(outputs[-1])}"
    found: Payload = _Filler(schema.get("$defs") or {}, text, answered).value(schema)
    return found


class _Filler:
    """Maker of values of one schema."""

    def __init__(self, definitions: Mapping[str, Any], text: str, answered: bool) -> None:
        self._definitions, self._text, self._answered = definitions, text, answered

    def value(self, node: Mapping[str, Any]) -> Any:
        if "$ref" in node:
            return self.value(self._definitions[str(node["$ref"]).rpartition("/")[2]])
        if "anyOf" in node:
            return self.value(self._branch(node["anyOf"]))
        if "enum" in node:
            reserved = (one for one in node["enum"] if str(one).lower() in _RESERVED)
            return next(reserved, node["enum"][0])
        kinds = node.get("type")
        kind = ("null" if "null" in kinds else kinds[0]) if isinstance(kinds, list) else kinds
        if kind == "object":
            return {name: self.value(one) for name, one in node.get("properties", {}).items()}
        if kind == "array":
            return [self.value(node["items"])] * int(node.get("minItems", 0))
        if kind in ("integer", "number"):
            return node.get("minimum", 0)
        return {"string": self._text, "boolean": False}.get(str(kind))

    def _branch(self, branches: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        """Null, the final answer after a tool's, else the branch that calls; the first of any others."""
        for one in branches:
            if one.get("type") == "null":
                return one
        calls = [one for one in branches if "tool_calls" in one.get("properties", {})]
        rest = [one for one in branches if one not in calls]
        return (calls or rest)[0] if not self._answered else (rest or calls)[0]


_SAID = {"type": "object", "properties": {"said": {"type": "string"}}}
MODEL = "rulebook"
CONCURRENT = 2048  # connections waiting to be taken: a screen's widest wave opens them at once
KEEP_ALIVE_SECONDS = 60
STOP_SECONDS = 2


def answer(body: bytes) -> bytes:
    request, items = read(body, "input")
    schema = schema_of(request)
    if schema is not None and role_of(request.get("instructions"), items) == PROGRAM:
        return stream(request, len(body), plain(schema, items, text_of))
    case = case_of(request.get("instructions"), items, request.get("tools"))
    return stream(request, len(body), _move(case, schema))


def answer_chat(body: bytes) -> bytes:
    request, messages = read(body, "messages")
    if not any(one.get("role") in ("developer", "system") for one in messages):
        return completion(request, len(body), _tried(request, list(_items(messages))))
    request, case = parse_chat(body)
    return completion(request, len(body), _move(case, answer_schema(request)))


def _tried(request: Mapping[str, Any], items: Sequence[Payload]) -> Call | Payload:
    """The answer to a call without any instructions, such as those by which the desk finds out what a server can do."""
    tools = [tool for tool in _functions(request) if tool.get("name") != ANSWER]
    if tools and not any(one.get("type") == "function_call_output" for one in items):
        return Call(str(tools[0].get("name")), plain(tools[0].get("parameters") or {}, items, text_of))
    form = request.get("response_format")
    wanted = form.get("json_schema") if isinstance(form, dict) else None
    schema = answer_schema(request) or (wanted.get("schema") if isinstance(wanted, dict) else None)
    return plain(schema or _SAID, items, text_of)


def _move(case: Case, schema: Mapping[str, Any] | None) -> Call | Payload:
    """Ask the role's policy. One that fails by the same data would fail again, so that no other try is asked for."""
    if (policy := POLICIES.get(case.role) or POLICIES.get(f"{case.role.partition('_')[0]}_*")) is None:
        raise BadRequest("unknown_role", f"no rule for the role {case.role!r}; there are {', '.join(sorted(POLICIES))}")
    try:
        move = policy(case)
        return move if isinstance(move, Call) or schema is None else fill(schema, move)
    except BadRequest:
        raise
    except (Exception, SystemExit) as error:
        why = str(features.blamed(error) or said(error))
        raise BadRequest("policy_failed", f"the policy of the role {case.role}: {why}") from error


def create_app(latency_seconds: float = 0.0) -> Starlette:
    """Return the application; each response waits latency_seconds before its first byte, in place of a model's time."""
    if not 0 <= latency_seconds <= 600:
        raise SettingError(f"rulebook latency of {latency_seconds} s: give 0 to 600")

    async def answered(request: Request, answer: Callable[[bytes], bytes]) -> Response:
        body = await request.body()
        try:
            found = answer(body)
        except BadRequest as error:
            problem = {"type": "invalid_request_error", "code": error.code, "message": str(error)}
            return JSONResponse({"error": problem}, 400)
        if latency_seconds:
            await asyncio.sleep(latency_seconds)
        media_type = "application/json" if found.startswith(b"{") else "text/event-stream"
        return Response(found, media_type=media_type, headers={"cache-control": "no-cache"})

    async def responses(request: Request) -> Response:
        return await answered(request, answer)

    async def chat(request: Request) -> Response:
        return await answered(request, answer_chat)

    async def models(_request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "chordesk"}]})

    return Starlette(
        routes=[
            Route("/v1/responses", responses, methods=["POST"]),
            Route("/v1/chat/completions", chat, methods=["POST"]),
            Route("/v1/models", models, methods=["GET"]),
        ]
    )


def build_server(host: str = "127.0.0.1", port: int = 0, latency_seconds: float = 0.0) -> uvicorn.Server:
    """Its run() serves until SIGINT or SIGTERM. Raises SettingError for an address other hosts could reach."""
    if not is_loopback(host):
        raise SettingError(f"rulebook host {host!r}: it listens on loopback only, give 127.0.0.1 or ::1")
    config = uvicorn.Config(
        create_app(latency_seconds), host=host, port=port, lifespan="off", http="httptools", ws="none",
        access_log=False, log_level="warning", backlog=CONCURRENT, timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS,
    )  # fmt: skip
    return uvicorn.Server(config)

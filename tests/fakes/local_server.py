"""The far side of a model server's wire: chat completions on loopback, with the habits of real servers.

In a test: `with LocalServer() as server:` starts it on a thread of its own; `server.script(...)` queues replies,
`server.policy` decides when the queue is empty (as first set: what a server of these abilities does), `server.requests`
holds every request with its time, `server.chats()` those that ask for an answer. `server.open` counts the answers in
progress, `server.left` those whose reader went away before their end.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Literal

import orjson

from tests.fakes.responses import JSON_HEADERS, SSE_HEADERS, FakeResponses, Receive, Seen, Send, Status

Kind = Literal["llama.cpp", "ollama", "vllm", "lmstudio", "unknown"]
Body = Mapping[str, Any]
COUNTED = {"counted": True}  # in place of a usage: what was read and written
CHARS = 4  # characters of a token, as this server counts them
PROSE = "I think that this is a good question, and there is much to say about it."
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call. id: None gets one of its own, empty sends none. index: False leaves it out of the pieces."""

    name: str
    arguments: str = "{}"
    id: str | None = None
    index: bool = True


@dataclass(frozen=True, slots=True)
class Pace:
    """The times of an answer. first: seconds to its first token. rate: tokens a second, 0 for at once. heartbeat:
    seconds between signs of life until the first token, 0 for none; beat: what they are. headers: seconds until the
    answer's head is sent (real servers send it with the first token, or at once)."""

    first: float = 0.0
    rate: float = 0.0
    heartbeat: float = 0.0
    beat: Literal["comment", "empty"] = "comment"
    headers: float = 0.0


@dataclass(frozen=True, slots=True)
class Says:
    """An answer: reasoning first, then text, then calls.

    reasoning goes out as delta.<reasoning_key>. piece: characters of a token. usage: COUNTED, a mapping as it is, or
    None for none. finish: None is `tool_calls` or `stop`, empty sends none. end: done, or no [DONE] at the end of the
    stream (plain), a connection that is cut (dropped), stays open in silence before the answer's end (open) or after it
    (kept), or text for ever (endless).
    answers: choices at once. stream: False answers a streaming request with one JSON. bounded: False ignores
    max_tokens. model: the one that the answer names; None for the one asked, or the server's own where it serves any.
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    reasoning: str = ""
    reasoning_key: str = "reasoning_content"
    pace: Pace | None = None
    piece: int = CHARS
    usage: Mapping[str, Any] | None = field(default_factory=lambda: COUNTED)
    finish: str | None = None
    end: Literal["done", "plain", "dropped", "open", "kept", "endless"] = "done"
    answers: int = 1
    stream: bool = True
    bounded: bool = True
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Raw:
    """An answer as it is."""

    body: bytes
    content_type: str = "text/event-stream"
    code: int = 200


@dataclass(frozen=True, slots=True)
class FailsMidway:
    """A stream with some text and then an error in it, as llama.cpp and vLLM send them."""

    error: Mapping[str, Any]
    text: str = ""


HTML = Raw(b"<!doctype html><html><body>It works!</body></html>", "text/html; charset=utf-8")

Reply = Says | Status | Raw | FailsMidway
Policy = Callable[[Body], Reply]


@dataclass(frozen=True, slots=True)
class Abilities:
    """What the server's own policy does of what it is asked.

    schema: enforces response_format json_schema; json_object: at least JSON. tools: the template can say tools at all;
    beside: tools are called where a schema is asked for too; False has a grammar over the whole answer, as llama.cpp.
    parallel: several calls in one answer. images: False refuses them with a 500,
    None takes and does not see them. thinks: reasons first, `tags` as <think> in the text, `field` apart.
    """

    schema: bool = True
    json_object: bool = True
    tools: bool = True
    beside: bool = True
    parallel: bool = True
    images: bool | None = True
    thinks: Literal["", "tags", "field"] = ""


class LocalServer(FakeResponses):
    """A model server on loopback; thread-safe to script while it serves.

    model, models: the one it serves, and all that it has. context: tokens of one conversation, beyond which a request
    is refused in the words of its kind. slots: answers at a time; others wait. pace: of answers without one of their
    own. any_model: answers whatever model is asked, as llama.cpp does. pages: replies at paths in place of its own.
    """

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        kind: Kind = "llama.cpp",
        model: str = "small",
        models: Sequence[str] = (),
        context: int = 32_768,
        slots: int = 8,
        pace: Pace = Pace(),
        abilities: Abilities = Abilities(),
        version: str = "1.2.3",
        port: int = 0,
        log: bool = True,
        seed: int = 1,
    ) -> None:
        super().__init__(port=port, log=log)
        self.kind, self.model, self.context, self.slots = kind, model, context, slots
        self.models = list(models) or [model]
        self.aliases: list[str] = []  # further names of each
        self.pace, self.abilities, self.version = pace, abilities, version
        self.any_model = kind == "llama.cpp"
        self.pages: dict[str, Reply] = {}
        self.policy: Policy = policy or self.able  # type: ignore[assignment]
        self.random = random.Random(seed)
        self.open = self.most_open = self.left = self.tokens = 0
        self._queue: deque[Reply] = deque()
        self._free: asyncio.Semaphore | None = None

    def __enter__(self) -> LocalServer:
        super().__enter__()
        return self

    @property
    def root(self) -> str:
        return self.url.removesuffix("/v1")

    def chats(self) -> list[Seen]:
        return [seen for seen in self.requests if seen.path.endswith("/chat/completions")]

    def script(self, *replies: Reply) -> None:  # type: ignore[override]
        """Queue replies for the next requests for an answer; when they are used up the policy answers."""
        self._queue.extend(replies)

    def restart(self, model: str, models: Sequence[str] = ()) -> None:
        """Serve another model from now on, as a server that was started anew."""
        self.model, self.models = model, list(models) or [model]

    def able(self, body: Body) -> Reply:
        """Answer as a server of these abilities does: by the schema, by a forced tool, by the first tool once a turn,
        or with prose."""
        can, tools = self.abilities, body.get("tools") or []
        if can.images is False and _has_image(body):
            return Status(
                500, {"error": {"code": 500, "message": "image input is not supported", "type": "server_error"}}
            )
        reasoning = "Let me think." if can.thinks == "field" else ""
        open_ = "<think>Let me think.</think>" if can.thinks == "tags" else ""
        choice = body.get("tool_choice")
        if can.tools and tools and isinstance(choice, Mapping):
            tool = next(one["function"] for one in tools if one["function"]["name"] == choice["function"]["name"])
            return Says(calls=(self._called(tool),), reasoning=reasoning)
        wanted = body.get("response_format") or {}
        constrained = bool(wanted) and can.schema and not can.beside
        calls = bool(can.tools and tools) and not constrained and choice != "none"
        if calls and (choice == "required" or not _after_tool(body)):
            asked = tools[:2] if can.parallel and body.get("parallel_tool_calls") else tools[:1]
            return Says(calls=tuple(self._called(one["function"]) for one in asked), reasoning=reasoning)
        if wanted.get("type") == "json_schema" and can.schema:
            return Says(open_ + self._json(wanted["json_schema"]["schema"]), reasoning=reasoning)
        if wanted.get("type") in ("json_object", "json_schema") and can.json_object:
            return Says(open_ + '{"text": "some JSON"}', reasoning=reasoning)
        return Says(open_ + PROSE, reasoning=reasoning)

    def _called(self, tool: Mapping[str, Any]) -> Call:
        return Call(str(tool["name"]), self._json(tool.get("parameters") or {"type": "object"}))

    def _json(self, schema: Mapping[str, Any]) -> str:
        return orjson.dumps(value_of(schema, self.random)).decode()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["method"] != "GET":
            await super().__call__(scope, receive, send)
            return
        if self._log:
            headers = {name.decode(): value.decode() for name, value in scope["headers"]}
            self.requests.append(Seen(asyncio.get_running_loop().time(), scope["path"], headers, {}))
        await _whole(send, self._page(scope["path"], {}))

    async def answer(self, seen: Seen, receive: Receive, send: Send) -> None:
        if seen.path not in self._paths("/chat/completions") or seen.path in self.pages:
            await _whole(send, self._page(seen.path, seen.body))
            return
        reply = self._refused(seen.body) or (self._queue.popleft() if self._queue else self.policy(seen.body))
        if not isinstance(reply, Says):
            await _whole(send, reply)
            return
        self._free = self._free or asyncio.Semaphore(self.slots)
        writing = asyncio.ensure_future(self._write(reply, seen.body, send))
        leaving = asyncio.ensure_future(_gone(receive))
        try:
            await asyncio.wait((writing, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not writing.done():
                self.left += 1
        finally:
            writing.cancel()
            leaving.cancel()
        await asyncio.gather(writing, leaving, return_exceptions=True)

    def _refused(self, body: Body) -> Reply | None:
        if not self.any_model and body.get("model") not in self.models:
            return _no_model(self.kind, str(body.get("model")))
        asked = prompt_tokens(body)
        return _too_long(self.kind, asked, self.context) if asked > self.context else None

    async def _write(self, reply: Says, body: Body, send: Send) -> None:
        assert self._free is not None
        async with self._free:
            self.open += 1
            self.most_open = max(self.most_open, self.open)
            try:
                model = reply.model or (self.model if self.any_model else str(body.get("model")))
                answer = Writing(self, replace(reply, pace=reply.pace or self.pace, model=model), body)
                if body.get("stream") and reply.stream:
                    await answer.stream(send)
                else:
                    await answer.whole(send)
            finally:
                self.open -= 1

    def _page(self, path: str, body: Body) -> Reply:
        """Return what the server says of itself, as its kind does."""
        if path in self.pages:
            return self.pages[path]
        found = _PAGES.get((self.kind, path.rstrip("/")))
        if found is None:
            found = _models_page if path in self._paths("/models") else _not_found
        return found(self, body)

    def _paths(self, end: str) -> tuple[str, ...]:
        return (f"/v1{end}", end) if self.kind == "llama.cpp" else (f"/v1{end}",)


class Writing:
    """One answer on its way."""

    def __init__(self, server: LocalServer, reply: Says, body: Body) -> None:
        self._server, self._reply, self._body = server, reply, body
        self._pace = reply.pace or Pace()
        self._id, self._written = f"chatcmpl-{next(_numbers)}", 0
        self._most = int(body.get("max_tokens") or body.get("max_completion_tokens") or 2**31)
        self._cut = False

    async def stream(self, send: Send) -> None:
        reply = self._reply
        await asyncio.sleep(self._pace.headers)
        await send({"type": "http.response.start", "status": 200, "headers": SSE_HEADERS})
        async for beat in self._waiting():
            await _more(send, beat)
        opening = [{"index": place, "delta": {"role": "assistant", "content": None}} for place in range(reply.answers)]
        await _more(send, self._chunk(opening))
        pending: list[bytes] = []
        async for delta in self._deltas():
            choices = [{"index": place, "delta": delta} for place in range(reply.answers)]
            pending.append(self._chunk(choices))
            if self._pace.rate or len(pending) > 500:
                await _more(send, b"".join(pending))
                pending.clear()
                await asyncio.sleep(1 / self._pace.rate if self._pace.rate else 0)
        await _more(send, b"".join(pending))
        if reply.end == "dropped":
            return  # without the end of the body: the connection is closed
        if reply.end == "open":
            await asyncio.Event().wait()
        await _more(send, self._ending())
        if reply.end == "kept":
            await asyncio.Event().wait()
        await send({"type": "http.response.body", "body": b""})

    async def whole(self, send: Send) -> None:
        reply = self._reply
        await asyncio.sleep(self._pace.headers + self._pace.first)
        deltas = [delta async for delta in self._deltas()]
        if self._pace.rate:
            await asyncio.sleep(self._written / self._pace.rate)
        text = "".join(delta.get("content") or "" for delta in deltas)
        message: dict[str, Any] = {"role": "assistant", "content": text or None}
        if reply.reasoning:
            message[reply.reasoning_key] = reply.reasoning
        if reply.calls:
            message["tool_calls"] = [_call(call, place) for place, call in enumerate(reply.calls)]
        choices = [
            {"index": place, "message": message, "finish_reason": self._finish()} for place in range(reply.answers)
        ]
        body = {**self._head("chat.completion"), "choices": choices}
        if reply.usage is not None:
            body["usage"] = self._usage()
        await _whole(send, Status(200, body))

    async def _waiting(self) -> AsyncIterator[bytes]:
        left, every = self._pace.first, self._pace.heartbeat
        while every and left > every:
            await asyncio.sleep(every)
            left -= every
            yield b": heartbeat\n\n" if self._pace.beat == "comment" else self._chunk([{"index": 0, "delta": {}}])
        await asyncio.sleep(left)

    async def _deltas(self) -> AsyncIterator[dict[str, Any]]:
        reply = self._reply
        for piece in _pieces(reply.reasoning, reply.piece):
            yield self._count({reply.reasoning_key: piece})
        while True:
            for piece in _pieces(reply.text, reply.piece):
                if reply.bounded and self._written >= self._most:
                    self._cut = True
                    return
                yield self._count({"content": piece})
            if reply.end != "endless":
                break
            await asyncio.sleep(0)
        for place, call in enumerate(reply.calls):
            yield self._count(
                {"tool_calls": [{**_call(call, place), "function": {"name": call.name, "arguments": ""}}]}
            )
            for piece in _pieces(call.arguments, reply.piece):
                part = {"index": place} if call.index else {}
                yield self._count({"tool_calls": [{**part, "function": {"arguments": piece}}]})

    def _count(self, delta: dict[str, Any]) -> dict[str, Any]:
        self._written += 1
        self._server.tokens += 1
        return delta

    def _finish(self) -> str | None:
        if self._reply.finish is not None:
            return self._reply.finish or None
        return "length" if self._cut else "tool_calls" if self._reply.calls else "stop"

    def _ending(self) -> bytes:
        places = range(self._reply.answers)
        parts = [self._chunk([{"index": place, "delta": {}, "finish_reason": self._finish()} for place in places])]
        if self._reply.usage is not None and (self._body.get("stream_options") or {}).get("include_usage"):
            parts.append(_data({**self._head("chat.completion.chunk"), "choices": [], "usage": self._usage()}))
        return b"".join((*parts, b"data: [DONE]\n\n" if self._reply.end not in ("plain", "kept") else b""))

    def _usage(self) -> Mapping[str, Any]:
        if self._reply.usage != COUNTED:
            return self._reply.usage or {}
        read = prompt_tokens(self._body)
        return {
            "prompt_tokens": read,
            "completion_tokens": self._written,
            "total_tokens": read + self._written,
            "prompt_tokens_details": {"cached_tokens": read // 2},
        }

    def _chunk(self, choices: Sequence[Mapping[str, Any]]) -> bytes:
        return _data({**self._head("chat.completion.chunk"), "choices": choices})

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self._id, "object": kind, "created": 1, "model": self._reply.model}


def prompt_tokens(body: Body) -> int:
    """Return the tokens of a request as this server counts them: of its messages and tools, pictures aside."""
    texts = [_text(message.get("content")) for message in body.get("messages") or ()]
    return (sum(map(len, texts)) + len(orjson.dumps(body.get("tools") or ""))) // CHARS


def value_of(schema: Mapping[str, Any], chance: random.Random, root: Mapping[str, Any] | None = None) -> Any:
    """Return a value that fits a schema; which one is a matter of chance."""
    root = root if root is not None else schema
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return value_of({**root.get("$defs", {}), **root.get("definitions", {})}[name], chance, root)
    if branches := schema.get("anyOf") or schema.get("oneOf"):
        return value_of(chance.choice(list(branches)), chance, root)
    if "const" in schema or "enum" in schema:
        return schema["const"] if "const" in schema else chance.choice(schema["enum"])
    kinds = schema.get("type", "object")
    kind = chance.choice(kinds) if isinstance(kinds, list) else kinds
    if kind == "object":
        wanted = schema.get("required", schema.get("properties") or ())
        return {
            name: value_of(child, chance, root)
            for name, child in (schema.get("properties") or {}).items()
            if name in wanted
        }
    if kind == "array":
        least = int(schema.get("minItems", 0))
        size = chance.randint(least, min(int(schema.get("maxItems", least + 2)), least + 2))
        return [value_of(schema.get("items") or {"type": "string"}, chance, root) for _ in range(size)]
    return _scalar(kind, schema, chance)


def _scalar(kind: str, schema: Mapping[str, Any], chance: random.Random) -> Any:
    if kind in ("number", "integer"):
        least = schema.get("minimum", schema.get("exclusiveMinimum", 0))
        most = schema.get("maximum", schema.get("exclusiveMaximum", least + 100))
        return chance.randint(-(-least // 1), most // 1) if kind == "integer" else round(chance.uniform(least, most), 4)
    if kind == "boolean":
        return chance.random() < 0.5
    if kind == "null":
        return None
    if digits := re.fullmatch(r"\^\[0-9\]\{(\d)\}\$", schema.get("pattern", "")):  # no other pattern is kept to
        return "".join(chance.choice("0123456789") for _ in range(int(digits[1])))
    words = " ".join(chance.choice(("word", "figure", "price", "risk", "rises", "falls")) for _ in range(4))
    return words[: schema.get("maxLength", 200)].ljust(schema.get("minLength", 0), "x")


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _more(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def _whole(send: Send, reply: Reply) -> None:
    if isinstance(reply, FailsMidway):
        told = _data({"id": "x", "choices": [{"index": 0, "delta": {"content": reply.text}}]})
        reply = Raw(told + _data({"error": reply.error}))
    if isinstance(reply, Status):
        extra = [(name.lower().encode(), value.encode()) for name, value in reply.headers.items()]
        code, headers, body = reply.code, [*JSON_HEADERS, *extra], orjson.dumps(reply.body)
    else:
        assert isinstance(reply, Raw)
        code, headers, body = reply.code, [(b"content-type", reply.content_type.encode())], reply.body
    headers = [*headers, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": code, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _data(value: Any) -> bytes:
    return b"data: " + orjson.dumps(value) + b"\n\n"


def _pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def _call(call: Call, place: int) -> dict[str, Any]:
    made = {"id": call.id if call.id is not None else f"call_{next(_numbers)}"} if call.id != "" else {}
    index = {"index": place} if call.index else {}
    return {**index, **made, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text") or "" for part in content or () if isinstance(part, Mapping))


def _has_image(body: Body) -> bool:
    contents = [message.get("content") for message in body.get("messages") or ()]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    return any(part.get("type") == "image_url" for part in parts)


def _after_tool(body: Body) -> bool:
    """Return whether a tool's answer came after the last message of a user."""
    roles = [message.get("role") for message in body.get("messages") or ()]
    return "tool" in roles and "user" not in roles[len(roles) - roles[::-1].index("tool") :]


def _no_model(kind: Kind, model: str) -> Reply:
    if kind == "ollama":
        text = f'model "{model}" not found, try pulling it first'
        return Status(404, {"error": {"message": text, "type": "not_found_error", "param": None, "code": None}})
    text = f"The model `{model}` does not exist."
    return Status(404, {"error": {"message": text, "type": "NotFoundError", "param": "model", "code": 404}})


def _too_long(kind: Kind, asked: int, context: int) -> Reply:
    if kind == "llama.cpp":
        text = f"request ({asked} tokens) exceeds the available context size ({context} tokens), try increasing it"
        error = {"code": 400, "message": text, "type": "exceed_context_size_error"}
        return Status(400, {"error": {**error, "n_prompt_tokens": asked, "n_ctx": context}})
    if kind == "ollama":
        text = f"the input length exceeds the context length: {asked} > {context}"
        return Status(400, {"error": {"message": text, "type": "invalid_request_error", "param": None, "code": None}})
    text = (
        f"This model's maximum context length is {context} tokens. However, your request has {asked} input tokens. "
        "Please reduce the length of the input messages."
    )
    return Status(400, {"error": {"message": text, "type": "BadRequestError", "param": "input_tokens", "code": 400}})


def _models_page(server: LocalServer, _body: Body) -> Reply:
    own: dict[str, Any] = {}
    if server.kind == "llama.cpp":
        own = {"meta": {"n_ctx": server.context, "n_ctx_train": server.context, "n_params": 134_515_008}}
    if server.kind == "vllm":
        own = {"max_model_len": server.context}
    if server.aliases:
        own["aliases"] = server.aliases
    owner = {"llama.cpp": "llamacpp", "ollama": "library", "lmstudio": "organization_owner"}.get(
        server.kind, server.kind
    )
    rows = [{"id": name, "object": "model", "created": 1, "owned_by": owner, **own} for name in server.models]
    return Status(200, {"object": "list", "data": rows})


def _props(server: LocalServer, _body: Body) -> Reply:
    modes = {"vision": server.abilities.images is True, "audio": False}
    return Status(200, {
        "default_generation_settings": {"n_ctx": server.context}, "total_slots": server.slots, "modalities": modes,
        "model_path": server.model, "chat_template": "{{ messages }}", "build_info": server.version,
    })  # fmt: skip


def _show(server: LocalServer, body: Body) -> Reply:
    model = body.get("model") or body.get("name")
    if model not in server.models:
        return Status(404, {"error": f"model '{model}' not found"})
    can = server.abilities
    traits = {"completion": True, "tools": can.tools, "vision": can.images is True, "thinking": bool(can.thinks)}
    return Status(200, {
        "details": {"family": "small"}, "capabilities": [name for name, has in traits.items() if has],
        "model_info": {"general.architecture": "small", "small.context_length": server.context},
        "parameters": f"num_ctx {server.context}",
    })  # fmt: skip


def _tags(server: LocalServer, _body: Body) -> Reply:
    return Status(200, {"models": [{"name": name, "model": name} for name in server.models]})


def _ps(server: LocalServer, _body: Body) -> Reply:
    """A model is loaded by its first request."""
    loaded = [{"name": server.model, "model": server.model, "context_length": server.context}]
    return Status(200, {"models": loaded if server.chats() else []})


def _lmstudio(server: LocalServer, _body: Body) -> Reply:
    rows = [
        {"id": name, "type": "llm", "state": "loaded", "max_context_length": server.context,
         "loaded_context_length": server.context}
        for name in server.models
    ]  # fmt: skip
    return Status(200, {"object": "list", "data": rows})


def _version(server: LocalServer, _body: Body) -> Reply:
    return Status(200, {"version": server.version})


def _slots(server: LocalServer, _body: Body) -> Reply:
    return Status(200, [{"id": place, "n_ctx": server.context} for place in range(server.slots)])  # type: ignore[arg-type]


def _not_found(server: LocalServer, _body: Body) -> Reply:
    return Status(404, {"error": {"code": 404, "message": "File Not Found", "type": "not_found_error"}})


_PAGES: Mapping[tuple[Kind, str], Callable[[LocalServer, Body], Reply]] = {
    ("llama.cpp", "/props"): _props,
    ("llama.cpp", "/slots"): _slots,
    ("llama.cpp", "/health"): lambda _server, _body: Status(200, {"status": "ok"}),
    ("ollama", "/api/show"): _show,
    ("ollama", "/api/tags"): _tags,
    ("ollama", "/api/ps"): _ps,
    ("ollama", "/api/version"): _version,
    ("ollama", ""): lambda _server, _body: Raw(b"Ollama is running", "text/plain; charset=utf-8"),
    ("vllm", "/version"): _version,
    ("vllm", "/health"): lambda _server, _body: Raw(b"", "text/plain"),
    ("lmstudio", "/api/v0/models"): _lmstudio,
}

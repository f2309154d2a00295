"""Finds out what a model server can do for a model: what it says of itself, and what small real calls show.

The answers are kept in the home for that server, version and model. Each later use looks at the server again, without a
model call, and asks anew where it is another one.
"""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import json
import re
import struct
import time
import uuid
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from chordesk.agents.gateway.facts import Keywords, SchemaWay, ServerFacts, ToolWay, keep_facts, known_facts
from chordesk.agents.gateway.server_description import Look, missing, require_chat
from chordesk.agents.gateway.server_requests import PAUSES, Answer, ModelServer, loaded
from chordesk.agents.providers.completions import function_tool
from chordesk.models.errors import ModelMissing, ModelServerError, ServerAway
from chordesk.models.urls import masked

CALL_SHARE = 0.25  # of the time for all calls
FIRST_SHARE = 0.5  # of the first call, for which a server may have to load its model
TOKENS = 64
THINKING_TOKENS = 2048  # of a model that reasons before it answers
MEASURED_TOKENS = 48
MOST_SPEED = 1e7  # tokens a second; a server that names more has no clock
LEAST_TOKENS = 8  # of which a speed can be told
ODD = "zyxomma"  # a word that no model says by itself
SHOWN = 60

_SCHEMA = {
    "type": "object",
    "properties": {"word": {"type": "string", "enum": [ODD]}},
    "required": ["word"],
    "additionalProperties": False,
}
_PLAIN = "What is the capital of France? Answer with the plain word Paris and nothing else, and do not write JSON."
_RESPONSE_FORMAT = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": _SCHEMA}}
_SYMBOL = {
    "type": "object",
    "properties": {"symbol": {"type": "string"}},
    "required": ["symbol"],
    "additionalProperties": False,
}
_TOOLS = [function_tool(f"get_{what}", f"{what} of a stock", _SYMBOL) for what in ("price", "volume")]
_ASK_TOOLS = "Call get_price and get_volume for the symbol ACME, both at once. Do not answer before you know both."
_ANSWER_TOOL = function_tool("answer", "gives the answer", _SCHEMA)
_NOTE = (
    "The desk read the quarterly figures of forty companies this morning. Revenue rose in twenty-six of them and fell "
    "in nine; five did not report in time. Margins were narrower than a year ago in most of retail, and wider in most "
    "of software. Two companies cut their dividend, and one of them also replaced its chief financial officer. Prices "
    "moved little before noon. In the afternoon the index lost half a per cent, most of it in the last hour. "
)


class Questions:
    """The calls to one server for one model, and what they have found so far. tired: why no further call is made, empty
    while calls are made. thinks: the model reasons first, so that its answers get more room."""

    def __init__(self, server: ModelServer, model: str, seen: Look, seconds: float) -> None:
        self.server, self.model, self.seen = server, model, seen
        self.why: dict[str, str] = {}
        self.tired = ""
        self.thinks = bool(seen.reasoning)
        self.usage = True
        self._seconds = seconds
        self._until = time.monotonic() + seconds

    async def call(
        self, messages: Sequence[Mapping[str, Any]], tokens: int = TOKENS, share: float = CALL_SHARE, **more: Any
    ) -> Answer | None:
        seconds = share * self._seconds
        answer = await self._call(messages, THINKING_TOKENS if self.thinks else tokens, seconds, more)
        if answer is None or self.thinks or not answer.reasoned:
            return answer
        self.thinks = True
        if answer.chat.finish == "length" and not answer.text:
            return await self._call(messages, THINKING_TOKENS, seconds, more)
        return answer

    async def _call(
        self, messages: Sequence[Mapping[str, Any]], tokens: int, seconds: float, more: Mapping[str, Any]
    ) -> Answer | None:
        limit = min(seconds, self._until - time.monotonic())
        if not self.tired and limit <= 0:
            self.tired = "the calls before took too long"
        if self.tired:
            return None
        body = {"model": self.model, "messages": list(messages), "max_tokens": tokens, "temperature": 0, **more}
        if self.usage:
            body["stream_options"] = {"include_usage": True}
        try:
            answer = await self.server.chat(body, limit)
        except ServerAway as error:
            self.tired = str(error.args[0])
            return None
        if answer.late:
            self.tired = f"one call was not answered within {limit:.3g} s"
        return answer

    def no_answer(self, fact: str, answer: Answer | None) -> bool:
        if answer is not None and not answer.late:
            return False
        self.why[fact] = self.tired
        return True


async def first_call(asked: Questions) -> dict[str, Any]:
    """What any answer tells: streaming, usage and reasoning. Raises KeyRefused, ModelMissing, WrongApi, ServerAway,
    ModelServerError."""
    hello = [user("Say hello in a few words.")]
    answer = await asked.call(hello, share=FIRST_SHARE)
    if answer is not None and answer.error and answer.page is not None and answer.page.code in (400, 422):
        asked.usage = False  # some servers refuse options that they do not know
        answer = await asked.call(hello, share=FIRST_SHARE)
    if answer is not None and answer.page is not None and answer.page.code >= 500:
        await asyncio.sleep(PAUSES[-1])
        answer = await asked.call(hello, share=FIRST_SHARE) or answer
    if answer is None:
        raise ServerAway(asked.tired)
    if answer.error:
        await _refused(asked, answer)
    found: dict[str, Any] = {}
    if not asked.no_answer("streaming", answer) or answer.pieces > 1:
        found["streaming"] = answer.pieces > 1
        if answer.pieces <= 1:
            asked.why["streaming"] = "the answer came in one piece: nothing is known of a turn until it ends"
    if not asked.no_answer("usage", answer) and not answer.cut:
        found["usage"] = asked.usage and _usable(answer)
        if not found["usage"]:
            asked.why["usage"] = f"its figures are of no use: {_quoted(answer.usage)}" if answer.usage else "none given"
    if answer.text or answer.reasoned:
        found["reasoning"] = asked.thinks
    return found


async def _refused(asked: Questions, answer: Answer) -> None:
    server, page = asked.server, answer.page
    if page is not None:
        if (wrong := server.refusal(page)) is not None:
            raise wrong
        if page.code in (400, 404, 422) and "model" in page.error.lower():
            raise missing(server, asked.model, asked.seen)
        if page.code in (404, 405):
            await require_chat(server, page)
    raise ModelServerError(f"the model server at {server.name} fails to answer for {asked.model}: {answer.error}")


async def ask_schema(asked: Questions) -> SchemaWay | None:
    """Return the surest way of an answer that fits a schema, None where no call was answered in time."""
    tried: list[str] = []
    ways: tuple[tuple[SchemaWay, Mapping[str, Any]], ...] = (
        ("json_schema", {"response_format": _RESPONSE_FORMAT}),
        ("forced_tool", {"tools": [_ANSWER_TOOL], "tool_choice": {"type": "function", "function": {"name": "answer"}}}),
        ("json_object", {"response_format": {"type": "json_object"}}),
    )
    for way, more in ways:
        answer = await asked.call([user(_PLAIN)], **more)
        if asked.no_answer("schema_way", answer):
            return None
        assert answer is not None
        if _fits(way, answer):
            if tried:
                asked.why["schema_way"] = "; ".join(tried)
            return way
        tried.append(f"{way}: {'' if answer.error else 'ignored, '}{_told(answer)}")
    asked.why["schema_way"] = "; ".join(tried)
    return "words"


_BOUNDED: Mapping[Keywords, tuple[Mapping[str, Any], Any]] = {  # the schema of a field, and a value that breaks it
    "lengths": ({"type": "string", "minLength": 2, "maxLength": 4}, "extraordinary"),
    "bounds": ({"type": "integer", "minimum": 3, "maximum": 7}, 4096),
    "items": ({"type": "array", "items": {"type": "string", "enum": [ODD]}, "minItems": 2, "maxItems": 3}, []),
    "patterns": ({"type": "string", "pattern": "^[0-9]{3}$"}, "abc"),
}
_MANY = (200, 40)  # values of an enumeration


async def ask_keywords(asked: Questions) -> dict[str, Any]:
    """Return the keywords of a schema that a server keeps to: one call for all, and where that is refused one each; and
    of how many values an enumeration may be."""
    names = list(_BOUNDED)
    found = await _kept_to(asked, names)
    if found is None:
        each = [await _kept_to(asked, [name]) for name in names]
        found = [name for one in each for name in one or ()]
    if missing := [name for name in names if name not in found]:
        asked.why["keywords"] = asked.tired or f"not kept to: {', '.join(missing)}"
    for many in _MANY:
        values = [f"{ODD}{place}" for place in range(many)]
        answer = await asked.call([user(_PLAIN)], **_formatted({"word": {"type": "string", "enum": values}}))
        if answer is None or answer.late:
            break
        if answer.answered and _object(answer.text).get("word") in values:
            return {"keywords": tuple(found), "choices": many}
    return {"keywords": tuple(found)}


async def _kept_to(asked: Questions, names: Sequence[Keywords]) -> list[Keywords] | None:
    """None where the server refuses one of them."""
    wrong = json.dumps({name: _BOUNDED[name][1] for name in names})
    text = f"Answer with this JSON as it is, and with nothing else: {wrong}"
    answer = await asked.call([user(text)], 2 * TOKENS, **_formatted({name: _BOUNDED[name][0] for name in names}))
    if answer is None or answer.late:
        return []
    if answer.error:
        return None
    told = _object(answer.text)
    return [name for name in names if name in told and _keeps(name, told[name])]


def _keeps(name: Keywords, value: Any) -> bool:
    match name:
        case "lengths":
            return isinstance(value, str) and 2 <= len(value) <= 4
        case "bounds":
            return isinstance(value, int) and 3 <= value <= 7
        case "items":
            return isinstance(value, list) and 2 <= len(value) <= 3
        case "patterns":
            return isinstance(value, str) and re.fullmatch("[0-9]{3}", value) is not None


def _formatted(properties: Mapping[str, Any]) -> dict[str, Any]:
    schema = {**_SCHEMA, "properties": dict(properties), "required": list(properties)}
    wanted = {"name": "answer", "strict": True, "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": wanted}}


def _fits(way: SchemaWay, answer: Answer) -> bool:
    if not answer.answered:
        return False
    if way == "forced_tool":
        return any(name == "answer" and "word" in _object(arguments) for name, arguments in answer.calls)
    value = _object(answer.text)
    return value == {"word": ODD} if way == "json_schema" else bool(value)


async def ask_tools(asked: Questions) -> dict[str, Any]:
    answer = await asked.call([user(_ASK_TOOLS)], tools=_TOOLS, tool_choice="auto", parallel_tool_calls=True)
    if asked.no_answer("tool_way", answer):
        return {}
    assert answer is not None
    if not (called := _called(answer)):
        asked.why["tool_way"] = f"no tool was called: {_told(answer)}"
        forced = await asked.call([user(_ASK_TOOLS)], tools=_TOOLS, tool_choice="required")
        if forced is not None and _called(forced):
            asked.why["tool_way"] = "a tool is called where it is forced, and only there"
        return {"tool_way": "schema"}
    found: dict[str, Any] = {"tool_way": "native"}
    if notes := _dialect(answer):
        found["dialect"] = notes
    if len(called) > 1:
        found["parallel_tools"] = True
    elif asked.seen.parallel is None:
        asked.why["parallel_tools"] = "one tool was called where two were asked for"
    return found


def _dialect(answer: Answer) -> tuple[str, ...]:
    """Return what is done to read a server's calls, without the name of the tool."""
    names = "|".join(tool["function"]["name"] for tool in _TOOLS)
    notes = [re.sub(rf"^(?:{names})(?:: | )", "", note) for call in answer.made for note in call.read]
    return tuple(dict.fromkeys(re.sub(names, "NAME", note) for note in notes))


def _called(answer: Answer) -> list[tuple[str, str]]:
    names = {tool["function"]["name"] for tool in _TOOLS}
    good = [
        (name, arguments)
        for name, arguments in answer.calls
        if name in names and isinstance(_object(arguments).get("symbol"), str)
    ]
    return good if answer.answered and len(good) == len(answer.calls) else []


async def ask_beside(asked: Questions, way: SchemaWay) -> bool | None:
    """Return whether the answer's schema and tools go together; None where it could not be found out. Some servers
    constrain all that is written to the schema, so that no tool can be called; others drop the schema where there are
    tools."""
    if way not in ("json_schema", "json_object"):
        return None
    wanted: dict[str, Any] = {
        "tools": _TOOLS,
        "tool_choice": "auto",
        "response_format": _RESPONSE_FORMAT if way == "json_schema" else {"type": "json_object"},
    }
    calling = await asked.call([user(_ASK_TOOLS)], **wanted)
    if asked.no_answer("beside", calling):
        return None
    assert calling is not None
    if not _called(calling):
        asked.why["beside"] = f"no tool was called beside a schema: {_told(calling)}"
        return False
    answering = await asked.call(_after_tools(), **wanted)
    if asked.no_answer("beside", answering):
        return None
    assert answering is not None
    if answering.calls:
        return None
    if not _fits(way, answering):
        asked.why["beside"] = f"the schema is dropped where there are tools: {_told(answering)}"
        return False
    return True


def _after_tools() -> list[dict[str, Any]]:
    arguments = json.dumps({"symbol": "ACME"})
    calls = [
        {"id": f"call_{place}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for place, name in enumerate(("get_price", "get_volume"))
    ]
    answers = [
        {"role": "tool", "tool_call_id": f"call_{place}", "content": json.dumps({"ACME": value})}
        for place, value in enumerate((12.5, 40_000))
    ]
    return [user(f"{_ASK_TOOLS} Then: {_PLAIN}"), {"role": "assistant", "content": "", "tool_calls": calls}, *answers]


async def ask_images(asked: Questions) -> bool | None:
    if asked.seen.images is not None:
        if not asked.seen.images:
            asked.why["images"] = "the server says so"
        return asked.seen.images
    picture = {"type": "image_url", "image_url": {"url": _red_square()}}
    text = {"type": "text", "text": "Which colour has this picture? One word."}
    answer = await asked.call([{"role": "user", "content": [text, picture]}])
    if asked.no_answer("images", answer):
        return None
    assert answer is not None
    if answer.error:
        asked.why["images"] = f"refused: {answer.error[:SHOWN]}"
        return False
    if "red" in answer.text.lower():
        return True
    asked.why["images"] = f"one was taken and its colour not named: {_quoted(answer.text)}"
    return None


async def ask_speed(asked: Questions) -> dict[str, Any]:
    """Return the speeds of reading and writing, and whether a prefix that was read before is counted as cached."""
    # Each time it begins with another word, so that nothing of it was read before.
    messages = [user(f"{uuid.uuid4().hex}. {_NOTE}Write the numbers from one to forty in words.")]
    answer = await asked.call(messages, MEASURED_TOKENS)
    if answer is None or answer.error:
        for fact in ("read_speed", "write_speed", "cached_tokens"):
            asked.why[fact] = asked.tired or (answer.error[:SHOWN] if answer else "")
        return {}
    found = _speeds(asked, answer)
    again = await asked.call(messages, 1)
    if asked.no_answer("cached_tokens", again):
        return found
    assert again is not None
    details = again.usage.get("prompt_tokens_details") if isinstance(again.usage, Mapping) else None
    cached = details.get("cached_tokens") if isinstance(details, Mapping) else None
    found["cached_tokens"] = isinstance(cached, int) and cached > 0
    if not found["cached_tokens"]:
        asked.why["cached_tokens"] = "the same prompt was read anew" if cached == 0 else "no count is given"
    return found


def _speeds(asked: Questions, answer: Answer) -> dict[str, Any]:
    """Return tokens a second, of the server's own clock where it tells, else by the time of the stream."""
    usage = answer.usage if isinstance(answer.usage, Mapping) and _usable(answer) else {}
    read, written = usage.get("prompt_tokens"), usage.get("completion_tokens") or answer.pieces
    read_speed, write_speed = answer.timings.get("prompt_per_second"), answer.timings.get("predicted_per_second")
    if answer.first is not None and answer.last is not None:
        streamed = answer.pieces > 1 and answer.last > answer.first
        seconds = answer.last - answer.first if streamed else answer.last
        read_speed = read_speed or (read / answer.first if read and streamed and answer.first else None)
        write_speed = write_speed or (written / seconds if seconds else None)
    found: dict[str, Any] = {}
    for fact, speed in (("read_speed", read_speed), ("write_speed", write_speed)):
        if isinstance(speed, int | float) and 0 < speed < MOST_SPEED and written >= LEAST_TOKENS:
            found[fact] = round(float(speed), 1)
        else:
            asked.why[fact] = "the answer was too short, or came without a count"
    return found


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assumed_ways(seen: Look) -> tuple[SchemaWay, ToolWay]:
    """Return the ways for a server that could not be asked: those of its kind, else what needs the least of it."""
    enforces = seen.server in ("llama.cpp", "ollama", "vllm", "lmstudio")
    return "json_schema" if enforces else "words", "native" if seen.tools and not enforces else "schema"


def _usable(answer: Answer) -> bool:
    usage = answer.usage if isinstance(answer.usage, Mapping) else {}
    read, written = usage.get("prompt_tokens"), usage.get("completion_tokens")
    counts = [one for one in (read, written) if isinstance(one, int) and not isinstance(one, bool) and one > 0]
    return len(counts) == 2 and counts[0] < 100_000 and counts[1] <= 2 * THINKING_TOKENS


def _object(text: str) -> Mapping[str, Any]:
    value = loaded(text)
    return value if isinstance(value, Mapping) else {}


def _told(answer: Answer) -> str:
    if answer.error:
        return f"refused, {answer.error[:SHOWN]}"
    if answer.calls:
        return f"it called {_quoted(answer.calls)}"
    return f"it wrote {_quoted(answer.text)}" if answer.text else "it wrote nothing"


def _quoted(value: Any) -> str:
    shown = " ".join((value if isinstance(value, str) else json.dumps(value)).split())
    return f"{shown[:SHOWN]!r}"


def _red_square() -> str:
    """Return a small red picture as a data URL; smaller ones are refused by some models."""
    side = 64
    rows = b"".join(b"\x00" + b"\xff\x00\x00" * side for _ in range(side))
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    )
    chunks = b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    )
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + chunks).decode()


ASK_SECONDS = 240.0  # of all calls together
MAX_AGE = dt.timedelta(days=7)
UNFINISHED_AGE = dt.timedelta(hours=1)  # of facts that a server was too slow for
FRESH_SECONDS = 30.0  # for which a process uses facts without a look at the server


async def look_at_server(url: str, key: str | None, model: str, ca_file: Path | None = None) -> ServerFacts:
    """Without a model call: models, context and slots. Ways are those of its kind, and `whole` is False. Raises
    ServerAway, KeyRefused, WrongApi, ModelMissing."""
    from chordesk.agents.gateway.server_description import look

    async with _reaching(url, key, ca_file) as server:
        return _unasked(url, model, await look(server, model), "not asked yet")


async def look_at_endpoint(url: str, key: str | None, ca_file: Path | None = None) -> None:
    """Raise WrongApi, KeyRefused or ServerAway. No answer is requested."""
    from chordesk.agents.gateway.server_description import require_responses

    async with _reaching(url, key, ca_file) as server:
        await require_responses(server)


async def ask_server(
    url: str, key: str | None, model: str, *, seconds: float = ASK_SECONDS, ca_file: Path | None = None
) -> ServerFacts:
    """Return what a server can do for a model, by small real calls. seconds: after which no further call is made; what
    is not known then has its reason in `why`. Raises ServerAway, KeyRefused, WrongApi, ModelMissing,
    ModelServerError."""
    from chordesk.agents.gateway.server_description import look

    async with _reaching(url, key, ca_file) as server:
        seen = await look(server, model)
        facts = await _ask(server, url, model, seen, seconds)
        if facts.context is None:  # some servers say it of a loaded model alone
            facts = _as_seen(facts, await look(server, model))
        return facts


async def _ask(server: ModelServer, url: str, model: str, seen: Look, seconds: float) -> ServerFacts:
    from chordesk.agents.gateway import probe

    asked = probe.Questions(server, model, seen, seconds)
    found = await probe.first_call(asked)
    found["schema_way"] = await probe.ask_schema(asked)
    found |= await probe.ask_tools(asked)
    for fact, way in zip(("schema_way", "tool_way"), probe.assumed_ways(seen), strict=True):
        if found.get(fact) is None:
            found[fact], asked.why[fact] = way, f"assumed: {asked.tired}"
    if found["tool_way"] == "native":
        found["beside"] = await probe.ask_beside(asked, found["schema_way"])
    found["images"] = await probe.ask_images(asked)
    found |= await probe.ask_speed(asked)
    if found["schema_way"] == "json_schema":
        found |= await probe.ask_keywords(asked)
    if asked.thinks:
        found["reasoning"] = True
    return _facts(url, model, seen, asked.why, whole=not asked.tired, **found)


async def facts_for(
    home: Path, url: str, key: str | None, model: str, *, max_age: dt.timedelta = MAX_AGE, ca_file: Path | None = None
) -> ServerFacts:
    """The kept facts where they still hold, else new ones. Raises ServerAway, KeyRefused, WrongApi, ModelMissing,
    ModelServerError."""
    from chordesk.agents.gateway.server_description import look

    kept = known_facts(home, url, model)
    async with _reaching(url, key, ca_file) as server:
        seen = await look(server, model)
    if kept is not None:
        _require_same_model(kept, seen)
        age = dt.datetime.now(dt.UTC) - kept.asked_at
        if age < (max_age if kept.whole else min(max_age, UNFINISHED_AGE)) and _holds(kept, seen):
            now = _as_seen(kept, seen)
            if now != kept:  # what is queued for and fitted to it reads the kept ones
                keep_facts(home, now)
            return now
    facts = await ask_server(url, key, model, ca_file=ca_file)
    keep_facts(home, facts)
    return facts


def _holds(kept: ServerFacts, seen: Look) -> bool:
    return (kept.server, kept.version, kept.mark) == (seen.server, seen.version, seen.mark)


def _require_same_model(kept: ServerFacts, seen: Look) -> None:
    if seen.single and not seen.has(kept.model) and kept.models != seen.models:
        before, now = ", ".join(kept.models), ", ".join(seen.models)
        raise ModelMissing(
            f"the model server at {masked(kept.url)}, asked for {kept.model}, has {now} now, and had {before}",
            remedy=f"start it with the earlier model, set DESK_MODEL={now}, or accept this one by `desk doctor`",
        )


class KnownServer:
    """The facts of a server's models, as one process uses them: kept here and in the home, asked for once however many
    turns begin at the same time. For one event loop. key: of the server; ca_file: PEM of its trust roots."""

    def __init__(self, home: Path, url: str, key: str | None = None, ca_file: Path | None = None) -> None:
        self._home, self._url, self._key, self._ca_file = home, url, key, ca_file
        self._known: dict[str, tuple[float, ServerFacts]] = {}
        self._asking: dict[str, asyncio.Task[ServerFacts]] = {}
        self._one = asyncio.Lock()

    async def __call__(self, model: str) -> ServerFacts:
        """Return the facts of a model. Raises ServerAway, KeyRefused, WrongApi, ModelMissing, ModelServerError."""
        at, facts = self._known.get(model, (0.0, None))
        if facts is not None and time.monotonic() - at < FRESH_SECONDS:
            return facts
        if (asking := self._asking.get(model)) is None:
            asking = self._asking[model] = asyncio.create_task(self._ask(model))
            asking.add_done_callback(partial(self._asked, model))
        # A turn that is ended while it waits takes the answer from no other.
        return await asyncio.shield(asking)

    def _asked(self, model: str, task: asyncio.Task[ServerFacts]) -> None:
        del self._asking[model]
        if not task.cancelled():
            task.exception()  # it is told to those who wait, and nobody may be left

    async def _ask(self, model: str) -> ServerFacts:
        async with self._one:
            try:
                facts = await facts_for(self._home, self._url, self._key, model, ca_file=self._ca_file)
            except ServerAway:
                # A server may be too busy to say something of itself. The turn's own call shows whether it is away.
                if model not in self._known:
                    raise
                facts = self._known[model][1]
            self._known[model] = (time.monotonic(), facts)
            return facts


@asynccontextmanager
async def _reaching(url: str, key: str | None, ca_file: Path | None) -> AsyncIterator[ModelServer]:
    # The HTTP library takes a quarter of a second: only what asks a server loads it.
    from chordesk.agents.gateway.server_requests import reaching

    async with reaching(url, key, ca_file) as server:
        yield server


def _unasked(url: str, model: str, seen: Look, reason: str) -> ServerFacts:

    schema_way, tool_way = assumed_ways(seen)
    why = {"schema_way": f"{reason}; taken from what is known of {seen.server}", "tool_way": reason}
    return _facts(url, model, seen, why, whole=False, schema_way=schema_way, tool_way=tool_way)


def _facts(url: str, model: str, seen: Look, why: dict[str, str], **found: Any) -> ServerFacts:
    found = {name: value for name, value in {"parallel_tools": seen.parallel, **found}.items() if value is not None}
    found["reasoning"] = bool(seen.reasoning) or found.get("reasoning")
    if seen.single and not seen.has(model):
        why["model"] = f"the server has {seen.models[0]} alone, and answers as it whatever model is asked for"
    now = dt.datetime.now(dt.UTC)
    return ServerFacts.of(seen, url=url, model=model, why={**seen.why, **why}, asked_at=now, **found)


def _as_seen(facts: ServerFacts, seen: Look) -> ServerFacts:
    """Return facts with what the server says of itself now; what it does not say now is as it was."""
    why = {name: text for name, text in facts.why.items() if name not in ("context", "slots")}
    context = seen.context or facts.context
    why |= {name: text for name, text in seen.why.items() if not (name == "context" and context)}
    now = {"models": seen.models, "context": context, "slots": seen.slots or facts.slots, "why": why}
    return facts.model_copy(update=now)

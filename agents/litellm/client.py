"""One call of a model through the library: its request, its way of answering by a schema, and its reply."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

import orjson
import structlog

from chordesk.agents.calls.call_reader import CallPieces, MadeCall, OfferedTools, fits
from chordesk.agents.calls.call_texts import calls_in
from chordesk.agents.gateway.translation import Messages
from chordesk.agents.litellm.library import (
    POLICY,
    LitellmConfig,
    ModelError,
    cost_of,
    failure_of_call,
    is_rules,
    known_parameters,
    library,
    listen,
    no_key,
    provider_of,
    total_of,
    usage_of,
)
from chordesk.agents.providers.completions import Apart, function_tool, is_object, same_model, sendable
from chordesk.agents.providers.liveness import Liveness, TurnLimits, failure
from chordesk.agents.role_models import missing_keys
from chordesk.agents.turn_answers import answer_in
from chordesk.models.answers import Failure, Usage
from chordesk.models.tables.columns import new_id
from chordesk.models.text import environment_secrets
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
    text: str


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A tool call as the model made it. arguments: text, which may be no JSON. read: what was done to read it."""

    id: str
    name: str
    arguments: str
    read: tuple[str, ...] = ()


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


class Reply:
    """A reply on its way. finish: why it ended, None where it did not end. cut: it ended at the bound of its length.

    thinking: blocks of reasoning with their signatures, which go back to the model that wrote them; reasoning without
    one is counted and left out.
    """

    def __init__(self, liveness: Liveness, tools: OfferedTools | None = None, *, must: bool = False) -> None:
        """must: it has to answer, so that no call of another tool stands in its text."""
        self._liveness, self._tools, self._must = liveness, tools, must
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._refusal: list[str] = []
        self._pieces = CallPieces()
        self._apart = Apart()
        self.thinking: list[Any] = []
        self.finish: str | None = None
        self.model: str | None = None  # that it says it is of

    def take(self, delta: Any) -> None:
        blocks = getattr(delta, "thinking_blocks", None) or ()
        self.thinking += [block for block in blocks if block.get("signature") or block.get("data")]
        reasoning = getattr(delta, "reasoning_content", None)
        if reasoning or blocks:
            self._liveness.reasons(reasoning or "")
            self._reasoning.append(reasoning or "")
        if text := getattr(delta, "content", None):
            self._text.append(text)
            self._apart.heard(text, self._liveness)
        for place, call in enumerate(getattr(delta, "tool_calls", None) or ()):
            function = call.function
            index = getattr(call, "index", None) or place
            self._liveness.writes(self._pieces.add(index, call.id, function.name, function.arguments))

    def refuse(self, piece: str) -> None:
        self._liveness.writes(piece)
        self._refusal.append(piece)

    @property
    def text(self) -> str:
        return "".join(self._text)

    @property
    def beside(self) -> str:
        """The text of the message, which is no call."""
        return self.bare_text if self._pieces or not self.calls else ""

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
        for call in self._pieces.calls(self._tools) or self._written():
            id_ = call.id if call.id and call.id not in found else new_id()
            found[id_] = ModelCall(id_, call.name, call.arguments or "{}", call.read)
        return tuple(found.values())

    def _written(self) -> Sequence[MadeCall]:
        """Calls that stand in the text, or among the reasoning where there is no text."""
        for text in (self.text, "" if self.bare_text.strip() else "".join(self._reasoning)):
            if self._tools and (found := calls_in(text, self._tools)) is not None:
                return () if self._must and any(call.name != ANSWER for call in found.calls) else found.calls
        return ()

    def answer_within(self, schema: Mapping[str, Any]) -> str | None:
        """Return the answer among the reasoning, where nothing else was written and it fits the schema."""
        if self.bare_text.strip() or self._pieces or self._refusal:
            return None

        def fit(text: str) -> bool:
            return fits(schema, orjson.loads(text))

        found = answer_in("".join(self._reasoning), fit)
        return found.text if found.problem is None and fit(found.text) else None

    @property
    def cut(self) -> bool:
        return self.finish == "length"

    @property
    def begun(self) -> bool:
        return bool(self._text or self._pieces or self._refusal or self.thinking or self._liveness.tokens)

    @property
    def whole(self) -> bool:
        """Whether it is complete by what it says: some providers do not say why a stream ended."""
        if calls := self.calls:
            return all(is_object(call.arguments) for call in calls)
        return answer_in(self.text).problem is None


async def refusals_to(reply: Reply, chunks: Any) -> AsyncIterator[Any]:
    """Yield the chunks of OpenAI's stream as they are; the library drops the pieces of a refusal in them."""
    try:
        async for chunk in chunks:
            reply.model = getattr(chunk, "model", None) or reply.model
            for choice in getattr(chunk, "choices", None) or ():
                if piece := getattr(getattr(choice, "delta", None), "refusal", None):
                    reply.refuse(piece)
            yield chunk
    finally:
        close = getattr(chunks, "aclose", None) or getattr(chunks, "close", None)
        if close is not None and (closing := close()) is not None:
            await closing


# Ways in which a model gives an answer that fits a schema, the surest first.
#
# Hosted models keep to a forced tool. Many servers take `tool_choice` and ignore it, refuse it, or have a template that
# cannot say tools: their models write prose. Of those, most constrain the answer to a JSON schema.

Way = Literal["forced_tool", "json_schema", "json_object", "words"]
FORMAT = "response_format"
_ABOUT_THE_WAY = re.compile(
    r"(?i)tool_choice|response_format|json_schema|json_object|grammar|schema|mime type|\btools?\b"
)


class AnswerWays:
    """The way of each model, as the calls so far have shown it; of one worker."""

    def __init__(self) -> None:
        self._found: dict[str, Way] = {}

    def of(self, model: str) -> Way:
        return self._found.get(model, "forced_tool")

    def failed(self, model: str, way: Way) -> bool:
        ways = _ways(model)
        rest = ways[ways.index(way) + 1 :]
        if rest and self.of(model) == way:
            self._found[model] = rest[0]
        return bool(rest)


def _ways(model: str) -> tuple[Way, ...]:
    known = known_parameters(model)
    if known and FORMAT not in known:
        return ("forced_tool", "words")
    return ("forced_tool", "json_schema", "json_object", "words")


def refuses_way(why: Failure) -> bool:
    return why.kind == "bad_request" and _ABOUT_THE_WAY.search(why.message) is not None


def way_parameters(model: str, way: Way | None, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return what makes a call answer in this way; None: it may call any tool."""
    if way is None:
        return {"tool_choice": "auto"}
    if way == "forced_tool":
        return {"tool_choice": {"type": "function", "function": {"name": ANSWER}}}
    found: dict[str, Any] = {}
    if way == "words" or provider_of(model) != "anthropic":  # there a format is a forced tool of the library's own
        found["tool_choice"] = "none"
    if way == "json_schema":
        found[FORMAT] = {"type": way, way: {"name": ANSWER, "strict": True, "schema": dict(schema)}}
    elif way == "json_object":
        found[FORMAT] = {"type": way}
    return found


def closing_words(schema: Mapping[str, Any]) -> str:
    """Return what a request for an answer as text ends with: not every server tells the model the schema."""
    text = orjson.dumps(schema).decode()
    return f"Answer now with one JSON object that fits this JSON schema, and with nothing else; call no tool:\n{text}"


METADATA_HEADER = "x-desk-turn"
# Tokens of output that a model gets for its reasoning, which providers count as output. Of the desk's limits only that
# of time ends reasoning; this is so that the provider ends it, too.
REASONING_TOKENS = 32_768
# Providers that take an image in a tool's answer; for all others it follows in a message of its own.
_IMAGES_IN_RESULTS = frozenset({"anthropic"})
_LATE_SECONDS = 5.0  # the library's own limit lies so much behind the turn's, which says why
_LEAST_BOUND = 256  # tokens; a smaller bound is another figure of the message
_BOUND = re.compile(r"(?i)max_(completion_|output_|new_)?tokens|output tokens|in the completion|maximum context length")
_CONTEXT = re.compile(r"(?i)maximum context length is (\d+)")
_READ = re.compile(r"(?i)(\d+) (?:in the messages|input tokens|of text input)")
_SUM = re.compile(r"(\d+) \+ \d+ > (\d+)")


@dataclass(frozen=True, slots=True)
class Request:
    """A call to make."""

    history: ChatHistory
    tools: Sequence[Message]
    effort: str | None
    way: Way | None  # in which it has to answer; None: it may call tools
    schema: Mapping[str, Any]  # of the answer
    metadata: Mapping[str, str]  # of the turn, in a header
    on: bool = False  # it goes on with an answer that was cut off, as text


def parameters(
    model: str, request: Request, config: LitellmConfig, limits: TurnLimits, bound: int, *, stream: bool
) -> dict[str, Any]:
    """Return a call's parameters. bound: most tokens of its output. Raises ModelError."""
    way: Way | None = "words" if request.on else request.way
    closing = None if request.on or way in (None, "forced_tool") else closing_words(request.schema)
    images = provider_of(model) in _IMAGES_IN_RESULTS
    found: dict[str, Any] = {
        "model": model,
        "messages": request.history.render(model, images_in_results=images, closing=closing),
        "tools": list(request.tools),
        "max_tokens": bound,
        # Of reading, from one byte to the next: a call that goes on is not ended by it.
        "timeout": limits.turn_seconds + _LATE_SECONDS,
        "num_retries": 0,
        "max_retries": 0,
        "extra_headers": {METADATA_HEADER: orjson.dumps(dict(request.metadata)).decode()},
    } | way_parameters(model, way, request.schema)
    if stream:
        found |= {"stream": True, "stream_options": {"include_usage": True}}
    if request.effort is not None and way is None:
        found["reasoning_effort"] = request.effort  # a forced call and reasoning exclude each other
    if is_rules(model):
        if config.rulebook_url is None:
            raise ModelError(failure("unreachable", "the rulebook is not served: rulebook_url is not set"))
        found |= {"model": f"openai/{model}", "api_base": config.rulebook_url, "api_key": "none"}
    return found


def output_bound(model: str, limits: TurnLimits) -> int:
    """The limit, plus what a model that reasons needs for that, and no more than the model can."""
    reasons, most = _output_of(model)
    bound = limits.output_tokens + (REASONING_TOKENS if reasons else 0)
    return min(bound, most) if most else bound


@lru_cache(maxsize=64)
def _output_of(model: str) -> tuple[bool, int | None]:
    try:
        info = library().get_model_info(model)
    except Exception:
        return True, None
    most = info.get("max_output_tokens")
    return bool(info.get("supports_reasoning")), most if type(most) is int and most > 0 else None


def smaller_bound(why: Failure, bound: int) -> int | None:
    """The smaller bound that a server names, for the model or its context's room; None for another failure."""
    text = why.message
    if why.kind not in ("bad_request", "context_window") or not _BOUND.search(text):
        return None
    if found := _SUM.search(text):
        room = int(found[2]) - int(found[1])
    elif context := _CONTEXT.search(text):
        read = _READ.search(text)
        room = int(context[1]) - int(read[1]) if read else 0
    else:
        room = max((number for number in map(int, re.findall(r"\d+", text)) if number < bound), default=0)
    return room if _LEAST_BOUND <= room < bound else None


log = structlog.get_logger(__name__)

LOOK_SECONDS = 1.0  # between two looks at a call: with the first token its limit is another one
STOOD_STILL_SECONDS = 10.0  # later than a timer was due: the process stood still, and has not read what came
ENDED_SECONDS = 0.4  # a cancelled call ends within milliseconds
_FILTERED = "content_filter"
_WRONG_URL = "this is no model's API; look at the variable with its base URL, such as OPENAI_API_BASE"


@dataclass(frozen=True, slots=True)
class Answered:
    """A model's reply."""

    message: ModelMessage
    text: str  # with the reasoning that the model wrote into it
    refusal: str | None
    cut: bool  # it ended at the bound of its length
    usage: Usage
    cost_usd: float | None  # None where its price or its tokens are not known
    done: tuple[str, ...] = ()  # what was done to read it, and who else answered


class ModelClient:
    """Client of all models of one worker; its methods belong to one loop.

    Calls are streamed. A call lives while its provider sends anything, also what is not a token: comments, pings and
    heartbeats are seen where the library reads with aiohttp, which it does unless DISABLE_AIOHTTP_TRANSPORT is set (of
    Bedrock's older APIs they are not); there the first token has to come within its limit. A server that does not
    stream is asked for the whole answer, which has to come within the limit of the first token.
    """

    def __init__(self, config: LitellmConfig) -> None:
        self._config = config
        self._unstreamed: set[str] = set()  # models whose servers answer with one JSON
        self._bounds: dict[str, int] = {}  # most output tokens, of models whose servers refused more

    async def ask(self, model: str, request: Request, liveness: Liveness) -> Answered:
        """Return a model's reply. liveness gets its life signs and ends the call. Raises ModelError."""
        if names := missing_keys(model, os.environ):
            raise ModelError(failure("unauthorized", no_key(names)))  # the library may send a request without one
        bound = min(output_bound(model, liveness.limits), self._bounds.get(model, sys.maxsize))
        try:
            return await self._watched(model, request, liveness, bound)
        except ModelError as error:
            smaller = smaller_bound(error.failure, bound)
            if smaller is None:
                raise
            if error.failure.kind == "bad_request":
                self._bounds[model] = smaller
            return await self._watched(model, request, liveness, smaller)

    async def _watched(self, model: str, request: Request, liveness: Liveness, bound: int) -> Answered:
        liveness.requested()
        stream = model not in self._unstreamed
        reading = asyncio.ensure_future(self._read(model, request, liveness, bound, stream=stream))
        try:
            await _while_alive(reading, liveness)
            return reading.result()
        finally:
            if not reading.done():
                reading.cancel()
                await asyncio.wait((reading,), timeout=ENDED_SECONDS)

    async def _read(self, model: str, request: Request, liveness: Liveness, bound: int, *, stream: bool) -> Answered:
        listen(liveness.heard)
        given = parameters(model, request, self._config, liveness.limits, bound, stream=stream)
        try:
            answer = await library().acompletion(**given)
            streamed = stream and hasattr(answer, "__aiter__")
            take = _streamed if streamed else _taken_whole
            found = await take(model, answer, request, liveness)
        except ModelError:
            raise
        except Exception as error:
            secrets = environment_secrets(os.environ)
            raise ModelError(failure_of_call(error, _missing_keys(model), secrets)) from None
        if found is not None:
            return found
        liveness.requested()
        found = await self._read(model, request, liveness, bound, stream=False)
        log.warning("model.not_streamed", model=model)
        self._unstreamed.add(model)
        return replace(found, usage=Usage.unknown(), cost_usd=None)  # the first answer was paid for as well


async def _while_alive(reading: asyncio.Future[Answered], liveness: Liveness) -> None:
    """Wait for the end of a call. Raises ModelError when its provider is silent for too long."""
    while not reading.done():
        looked = time.monotonic()
        left = max(min(liveness.due - looked, LOOK_SECONDS), 0.0)
        await asyncio.wait((reading,), timeout=left)
        if time.monotonic() - looked > left + STOOD_STILL_SECONDS:
            liveness.heard()
        elif not reading.done() and time.monotonic() >= liveness.due and (why := liveness.overdue()) is not None:
            raise ModelError(why)


def _reply(request: Request, liveness: Liveness) -> Reply:
    return Reply(liveness, OfferedTools.of(request.tools), must=request.way is not None)


async def _streamed(model: str, stream: Any, request: Request, liveness: Liveness) -> Answered | None:
    """None where the server sent one JSON instead. Raises ModelError and the library's errors."""
    reply = _reply(request, liveness)
    counted: list[Any] = []
    try:
        async with aclosing(stream):
            await _take_all(stream, reply, liveness, counted)
    except Exception:
        if not _ended(stream):
            raise
        # The answer is whole: the library stumbled over what follows it, such as tokens that are not numbers.
    if not (reply.cut or _ended(stream)):
        if not reply.begun and (kind := _content_type(stream)):
            if "json" in kind:
                return None
            if "event-stream" not in kind:
                raise ModelError(failure("not_found", f"{model} answered with {kind}: {_WRONG_URL}"))
        if not reply.whole:
            raise ModelError(failure("stream_cut", f"the stream of {model} ended before its answer did"))
    passed_on = [getattr(chunk, "usage", None) for chunk in getattr(stream, "chunks", ())]
    return _answered(model, request, reply, None if liveness.too_long else total_of([*passed_on, *counted]))


async def _take_all(stream: Any, reply: Reply, liveness: Liveness, counted: list[Any]) -> None:
    """With the provider's tokens. The library's end of a stream joins all chunks twice and estimates tokens."""
    source = getattr(stream, "completion_stream", None)
    if hasattr(source, "__aiter__"):
        source = stream.completion_stream = refusals_to(reply, source)
    else:
        source = None
    async for chunk in stream:
        choice = next((one for one in chunk.choices if not one.index), None)  # of several answers the first
        if choice is None:
            continue
        reply.take(choice.delta)
        reply.finish = choice.finish_reason or reply.finish
        if liveness.too_long:
            reply.finish = "length"
            return
        if choice.finish_reason and source is not None and _ended(stream):
            async for rest in source:
                counted.append(rest.get("usage") if isinstance(rest, dict) else getattr(rest, "usage", None))
            return


def _ended(stream: Any) -> bool:
    return bool(getattr(stream, "received_finish_reason", None) or getattr(stream, "intermittent_finish_reason", None))


def _content_type(stream: Any) -> str:
    hidden = getattr(stream, "_hidden_params", None) or {}
    return str((hidden.get("additional_headers") or {}).get("llm_provider-content-type") or "")


async def _taken_whole(model: str, answer: Any, request: Request, liveness: Liveness) -> Answered:
    if not getattr(answer, "choices", None):
        raise ModelError(failure("stream_cut", f"the answer of {model} has no message in it"))
    choice, reply = answer.choices[0], _reply(request, liveness)
    reply.model = getattr(answer, "model", None)
    reply.take(choice.message)
    fields = getattr(choice.message, "provider_specific_fields", None) or {}
    if refusal := fields.get("refusal") or getattr(choice.message, "refusal", None):
        reply.refuse(str(refusal))
    reply.finish = choice.finish_reason
    return _answered(model, request, reply, total_of([getattr(answer, "usage", None)]))


def _answered(model: str, request: Request, reply: Reply, counted: Any) -> Answered:
    refusal, usage, text, done = reply.refusal, usage_of(counted), reply.text, [*_notes(model, reply)]
    if refusal is None and reply.finish == _FILTERED:
        refusal = reply.bare_text or f"the content filter of the provider ({POLICY}) stopped the answer"
    message = ModelMessage(model, reply.beside, reply.calls, tuple(reply.thinking))
    if not message.calls and refusal is None and (told := reply.answer_within(request.schema)) is not None:
        message, text = replace(message, text=told), told
        done.append("the answer stood among the reasoning")
    return Answered(message, text, refusal, reply.cut, usage, cost_of(model, counted, usage), tuple(done))


def _notes(model: str, reply: Reply) -> Iterator[str]:
    if reply.model and not same_model(model, reply.model):
        yield f"answered by {reply.model}"
    for call in reply.calls:
        yield from call.read


def _missing_keys(model: str) -> list[str]:
    try:
        found = library().validate_environment(model)
    except Exception:
        return []
    missing = [] if found.get("keys_in_environment") else found.get("missing_keys") or []
    return [str(name) for name in missing if str(name).endswith("KEY")] if not is_rules(model) else []

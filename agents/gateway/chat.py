"""Model calls of the app-server put to a server of chat completions, and its answers put back.

One call of the app-server is one request to the server, or two where the first was answered with a text that does not
fit the schema. It is never tried again, and never given up by time: whoever waits for the turn does both. When the
app-server goes away the request is dropped, so that the server stops writing.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

import aiohttp
import orjson
import structlog

from chordesk.agents.calls.call_arguments import is_json
from chordesk.agents.calls.call_reader import MadeCall
from chordesk.agents.calls.call_texts import may_be_call
from chordesk.agents.gateway import server_requests
from chordesk.agents.gateway.facts import ServerFacts
from chordesk.agents.gateway.server_description import same_name
from chordesk.agents.gateway.server_requests import CODE, Problem, Server
from chordesk.agents.gateway.stream import (
    DONE,
    ChatAnswer,
    Piece,
    Repeats,
    added,
    beginning,
    body_of,
    chunks_in,
    events,
    sendable,
    usage_of,
    with_own_ids,
)
from chordesk.agents.gateway.translation import CHARS_A_TOKEN, Plan, Reply, plan
from chordesk.agents.providers.completions import same_model
from chordesk.agents.providers.liveness import Liveness
from chordesk.agents.turn_answers import answer_in, continued
from chordesk.models.errors import DeskError, kind_of
from chordesk.models.urls import masked


def event(kind: str, **fields: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), orjson.dumps({"type": kind, **fields}))


def failed(told: str) -> bytes:
    error = {"code": CODE, "message": told}
    return event("response.failed", response={"id": _id("resp"), "status": "failed", "error": error})


def completed(usage: Mapping[str, Any] | None, number: str = "") -> bytes:
    """Return the end of an answer. usage: None where it is not known, which the app-server takes as it is."""
    counted = {"usage": usage} if usage is not None else {}
    response = {"id": number or _id("resp"), "status": "completed", "output": [], **counted}
    return event("response.completed", response=response)


def message(text: str, id_: str = "") -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "role": "assistant", "id": id_ or _id("msg"), "content": [part]}


class AnswerEvents:
    """The events of one answer, in order. Each method returns the bytes to send."""

    def __init__(self) -> None:
        self._number = _id("resp")
        self._index = 0
        self._item: dict[str, Any] | None = None
        self._reasoned: list[str] = []

    def created(self) -> bytes:
        return event("response.created", response={"id": self._number, "status": "in_progress", "output": []})

    def reasons(self, text: str) -> bytes:
        opened = b""
        if self._item is None:
            self._item = {"type": "reasoning", "id": _id("rs"), "summary": []}
            opened = event("response.output_item.added", output_index=self._index, item=self._item)
            opened += event("response.reasoning_summary_part.added", **self._place(), summary_index=0)
        if self._item["type"] != "reasoning":
            return b""  # beside an answer that has begun there is no place for it
        self._reasoned.append(text)
        return opened + event("response.reasoning_summary_text.delta", **self._place(), summary_index=0, delta=text)

    def writes(self, text: str) -> bytes:
        """A piece of the answer's text as it comes."""
        opened = self._close_reasoning()
        if self._item is None:
            self._item = {**message(""), "content": []}
            opened += event("response.output_item.added", output_index=self._index, item=self._item)
        return opened + event("response.output_text.delta", **self._place(), content_index=0, delta=text)

    def ends(self, text: str, calls: tuple[MadeCall, ...], usage: Mapping[str, Any] | None) -> bytes:
        parts = [self._close_reasoning()]
        if text.strip():
            if self._item is None:
                parts.append(self.writes(text))
            assert self._item is not None
            parts.append(self._done(message(text, self._item["id"])))
        for call in calls:
            parts.append(self._done({"id": _id("fc"), **made(call)}))
        return b"".join((*parts, completed(usage, self._number)))

    def _close_reasoning(self) -> bytes:
        if self._item is None or self._item["type"] != "reasoning":
            return b""
        text = "".join(self._reasoned)
        self._reasoned = []
        return self._done({**self._item, "summary": [{"type": "summary_text", "text": text}]})

    def _done(self, item: dict[str, Any]) -> bytes:
        told = event("response.output_item.done", output_index=self._index, item=item)
        self._index, self._item = self._index + 1, None
        return told

    def _place(self) -> dict[str, Any]:
        assert self._item is not None
        return {"item_id": self._item["id"], "output_index": self._index}


def _id(kind: str) -> str:
    return f"{kind}_{uuid.uuid4().hex}"


log = structlog.get_logger(__name__)

Facts = Callable[[str], Awaitable[ServerFacts]]
Send = Callable[[bytes], Awaitable[None]]

SENT_ON = ("session-id", "thread-id", "x-codex-turn-metadata")  # headers that tell the server which turn asks
REASONING_TOKENS = 32_000  # beyond those of the answer, for a model that reasons
CHARS_FIRST = 3.0  # of a token of a prompt, before a server has counted one; of figures a token is less than of prose
LEAST_CHARS = 1.5
LISTED_SECONDS = 5.0
AFTER_SECONDS = 2.0  # for what follows the last piece of an answer: its tokens, and the end of the stream
ERROR_BYTES = 64 * 1024
PROSE_CHARS = 2_400
TOGETHER_SECONDS = 0.2
BODY_BYTES = 64 * 1024 * 1024
_KINDS = {"server_away": "unreachable", "key_refused": "unauthorized", "model_missing": "not_found"}


def made(call: MadeCall) -> dict[str, str]:
    return {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments or "{}"}


class ChatCalls:
    """The calls to one server. session: an aiohttp session of the gateway's loop."""

    def __init__(self, url: str, key: str | None, facts: Facts, session: aiohttp.ClientSession) -> None:
        self._url, self._name, self._facts, self._session = url.rstrip("/"), masked(url), facts, session
        self._key = key
        self._chars: dict[str, float] = {}
        self._unbounded: set[str] = set()  # models whose server refuses what it kept to when it was asked
        self._answering: dict[str, set[str]] = {}  # other models that answered for each

    async def answer(
        self, request: Mapping[str, Any], headers: Mapping[str, str], liveness: Liveness, send: Send
    ) -> None:
        told = AnswerEvents()
        await send(told.created())
        try:
            await self._call(request, headers, liveness, told, send)
        except Problem as problem:
            log.info("gateway.call_failed", kind=problem.kind, why=problem.shown(self._key), server=self._name)
            await send(failed(problem.told(self._key)))

    async def _call(
        self, request: Mapping[str, Any], headers: Mapping[str, str], liveness: Liveness, told: AnswerEvents, send: Send
    ) -> None:
        try:
            facts = await self._known(str(request.get("model")))
            wanted = liveness.limits.output_tokens + (REASONING_TOKENS if facts.reasoning else 0)
            chars = self._chars.get(facts.model, CHARS_FIRST)
            bounded = None if facts.model in self._unbounded else liveness.bounded
            planned = plan(request, facts, wanted, chars, tools_first=liveness.tools_first, bounded=bounded)
            try:
                await Call(self, planned, facts, headers, liveness, told, send).run()
            except Problem as problem:
                if not planned.bounds or liveness.tokens or problem.kind not in ("bad_request", "server_error"):
                    raise
                plain = plan(request, facts, wanted, chars, tools_first=liveness.tools_first)
                await Call(self, plain, facts, headers, liveness, told, send).run()
                log.warning("gateway.bounds_refused", model=facts.model, server=self._name, why=problem.message)
                self._unbounded.add(facts.model)
        except (Problem, ConnectionResetError):
            raise
        except Exception as error:  # whatever a server may send
            log.exception("gateway.broken", server=self._name)
            raise Problem("unknown", f"the desk cannot read what {self._name} sent: {error!r}") from None

    async def _known(self, model: str) -> ServerFacts:
        try:
            return await self._facts(model)
        except DeskError as error:
            raise Problem(_KINDS.get(kind_of(error), "bad_request"), str(error)) from None

    def post(self, body: Mapping[str, Any], headers: Mapping[str, str]) -> Any:
        given = {name: headers[name] for name in SENT_ON if name in headers}
        given["content-type"] = "application/json"
        if self._key:
            given["authorization"] = f"Bearer {self._key}"
        url = f"{self._url}/chat/completions"
        return self._session.post(url, data=sendable(orjson.dumps(body)), headers=given, allow_redirects=False)

    def server(self, facts: ServerFacts, chars: int) -> Server:
        return Server(self._name, facts.model, facts.models, facts.context, round(chars / CHARS_FIRST))

    def counted(self, model: str, chars: int, tokens: int) -> None:
        if chars > 1_000 and tokens > 100:
            self._chars[model] = max(LEAST_CHARS, min(self._chars.get(model, chars / tokens), chars / tokens))

    async def require_served(self, facts: ServerFacts, now: str) -> None:
        """Accept another model's name on an answer while the model that was asked for is served: a router answers by
        the name of the model that it chose, and chooses another one the next time. Raises Problem for a server of one
        model that was started anew with another one."""
        known = self._answering.setdefault(facts.model, set())
        if now in known or same_model(facts.model, now):
            return
        listed = await self._listed()
        names = tuple(dict.fromkeys(name for one in listed for name in one))
        asked = any(same_name(facts.model, one) or same_model(facts.model, one) for one in names)
        if len(listed) == 1 and not asked and names != facts.models:
            raise self.server(facts, 0).other_model(now)
        known.add(now)
        log.info("gateway.answered_by", asked=facts.model, model=now, server=self._name)

    async def _listed(self) -> list[list[str]]:
        """Return the names of each of the server's models now, aliases too; none where it does not say them."""
        headers = {"authorization": f"Bearer {self._key}"} if self._key else {}
        try:
            async with asyncio.timeout(LISTED_SECONDS), self._session.get(
                f"{self._url}/models", headers=headers, allow_redirects=False
            ) as response:  # fmt: skip
                found = server_requests.loaded(await beginning(response.content, server_requests.PAGE_BYTES))
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return []
        rows = found.get("data") if isinstance(found, Mapping) else None
        models = [row for row in rows if isinstance(row, Mapping) and row.get("id")] if isinstance(rows, list) else []
        aliases = [row["aliases"] if isinstance(row.get("aliases"), list) else [] for row in models]
        return [[str(row["id"]), *map(str, also)] for row, also in zip(models, aliases, strict=True)]


class Call:
    """One call of the app-server."""

    def __init__(
        self,
        calls: ChatCalls,
        planned: Plan,
        facts: ServerFacts,
        headers: Mapping[str, str],
        liveness: Liveness,
        told: AnswerEvents,
        send: Send,
    ) -> None:
        self._calls, self._plan, self._facts, self._headers = calls, planned, facts, headers
        self._liveness, self._told, self._send = liveness, told, send
        self._server = calls.server(facts, planned.prompt)
        self._pending: list[Piece] = []
        self._sent_at = 0.0
        self._prose, self._reasoned, self._filtered = True, False, False
        self._answered_by: str | None = None
        self._held: str | None = ""  # the beginning of the text, None once it has been shown

    async def run(self) -> None:
        planned, liveness = self._plan, self._liveness
        if self._facts.context and planned.prompt > self._facts.context * CHARS_A_TOKEN:
            prompt = f"at least {planned.prompt // CHARS_A_TOKEN:,}"
            raise server_requests.overflow(self._server.name, self._server.model, prompt, f"{self._facts.context:,}")
        liveness.way, liveness.cut = planned.way, False
        answer = await self._ask(planned.body, prose=planned.again is None)
        usage, reply = self._usage(answer), planned.read(answer)
        if planned.again is not None and not planned.fits(reply) and not (liveness.cut and answer_in(reply.text).cut):
            liveness.cut = False
            second = await self._ask_again({**planned.body, **planned.again}, "asked again for the schema")
            if second is not None:
                usage, found = added(usage, self._usage(second)), planned.read(second)
                # The first text may have an answer in it that its reader can put right.
                reply = found if found.calls or found.text.strip() else reply
        if liveness.cut and planned.short is not None and self._begun(reply):
            reply, usage = await self._shorter(planned.short, reply, usage)
        text, calls = self._checked(reply)
        liveness.reads(reply.done)
        for call in calls:
            liveness.ends_item(made(call))
        await self._send(self._told.ends(text, calls, usage))

    def _begun(self, reply: Reply) -> bool:
        if reply.calls:
            return not is_json(reply.calls[-1].arguments)
        return bool(reply.text.strip()) and not self._plan.fits(reply)

    async def _shorter(
        self, short: Mapping[str, Any], begun: Reply, usage: dict[str, Any] | None
    ) -> tuple[Reply, dict[str, Any] | None]:
        """Return a short reply in place of one that was cut off, which is kept where the server gives none."""
        planned, written = self._plan, self._liveness.tokens
        self._liveness.cut = False
        second = await self._ask_again({**planned.body, **short}, "cut off, and asked again for a short one")
        if second is not None:
            used, found = self._usage(second), planned.read(second)
            # The count comes at the end of an answer; one that was not waited for had the same prompt.
            usage = added(used, usage or _written(used, written))
            if planned.fits(found):
                return found, usage
            joined = continued(answer_in(begun.text).text, found.text, planned.is_answer)
            if joined.problem is None:
                return Reply(joined.text), usage
        self._liveness.cut = True
        return begun, usage

    async def _ask_again(self, body: Mapping[str, Any], why: str) -> ChatAnswer | None:
        """None where the server does not take it. why: for the turn's record. Raises Problem."""
        self._liveness.way = f"{self._liveness.way}; {why}"
        try:
            return await self._ask(body, prose=True)
        except Problem as problem:
            if problem.kind not in ("bad_request", "server_error"):
                raise
            log.warning("gateway.not_asked_again", server=self._server.name, why=problem.message)
            return None

    def _checked(self, reply: Reply) -> tuple[str, tuple[Any, ...]]:
        """Return the text and the calls of a reply. Raises Problem for one without either."""
        if self._plan.answering and reply.calls:
            reply = self._without_calls(reply)
        text = self._plan.answer(reply) or reply.text
        if text != reply.text:
            self._liveness.way = f"{self._liveness.way}; the answer was taken out of a text"
        if self._liveness.cut and reply.calls and not is_json(reply.calls[-1].arguments):
            self._liveness.unanswered += [(call.name, call.arguments) for call in reply.calls]
            why = self._liveness.length().message
            if self._repeats.found is not None:
                why = f"the model wrote the same again and again: {server_requests.shown(self._repeats.found)!r}"
            raise Problem("length", f"{why}; it was cut off in a call of {reply.calls[-1].name}")
        if text.strip() or reply.calls:
            return text, tuple(with_own_ids(list(reply.calls), set(self._plan.used)))
        model = f"{self._server.model} on {self._server.name}"
        if self._liveness.cut:
            told = f"{model} wrote {self._liveness.tokens:,} tokens of reasoning and no answer"
            raise Problem("length", f"{told}; lower its effort, or serve it with a larger context")
        if self._filtered:
            raise Problem(
                "policy", f"the content filter of {self._server.name} stopped the answer of {self._server.model}"
            )
        if self._reasoned:
            told = "wrote reasoning alone, and neither an answer nor a call of a tool"
            remedy = "its server may take the answer for reasoning: start it without a reasoning parser"
            raise Problem("invalid_output", f"{model} {told}; {remedy}, or lower the effort")
        raise Problem("invalid_output", f"{model} ended its answer without a word and without a call of a tool")

    def _without_calls(self, reply: Reply) -> Reply:
        """The text of a reply without calls. Raises Problem: further calls would be paid for without end."""
        self._liveness.unanswered += [(call.name, call.arguments) for call in reply.calls]
        if reply.text.strip():
            return Reply(reply.text)
        names = ", ".join(dict.fromkeys(call.name for call in reply.calls))
        model = f"{self._server.model} on {self._server.name}"
        raise Problem("endless_calls", f"{model} has to answer, and goes on calling tools ({names[:100]})")

    async def _ask(self, body: Mapping[str, Any], *, prose: bool) -> ChatAnswer:
        """Pieces are told as they come. prose: the answer may be prose; otherwise waiting for it is bounded. Raises
        Problem."""
        self._prose, self._repeats = prose, Repeats()
        answer = ChatAnswer(thinks=bool(self._facts.reasoning), tools=self._plan.offered)
        self._held = ""
        self._liveness.requested()
        try:
            async with self._calls.post(body, self._headers) as response:
                await self._read(answer, response)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise server_requests.away(self._server.name, error) from None
        except aiohttp.ClientPayloadError:
            raise self._server.cut(self._liveness.tokens) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise self._server.cut(self._liveness.tokens, server_requests.reason(error)) from None
        await self._tell(answer.end())
        await self._send_pending()
        self._liveness.cut = self._liveness.cut or answer.finish == "length"
        self._reasoned, self._filtered = answer.reasoned, answer.finish == "content_filter"
        return answer

    async def _read(self, answer: ChatAnswer, response: aiohttp.ClientResponse) -> None:
        if response.status >= 300:
            raise await self._refused(response)
        body = await body_of(response.content, self._liveness.heard)
        if body.kind == "events" or (body.kind is None and response.content_type == server_requests.STREAM):
            await self._stream(answer, body.parts)
        elif body.kind == "json":
            await self._whole(answer, response, body.parts)
        else:
            raise self._another(response, (await beginning(body.parts, ERROR_BYTES)).decode(errors="replace"))

    def _another(self, response: aiohttp.ClientResponse, text: str) -> Problem:
        return server_requests.wrong_api(masked(str(response.url)), response.content_type, text)

    async def _refused(self, response: aiohttp.ClientResponse) -> Problem:
        if response.status < 400:
            return server_requests.redirected(self._server.name, response.headers.get("location", ""))
        body = await beginning(response.content, ERROR_BYTES)
        return self._server.of_status(response.status, response.headers, body)

    async def _whole(self, answer: ChatAnswer, response: aiohttp.ClientResponse, parts: AsyncIterator[bytes]) -> None:
        body = await beginning(parts, BODY_BYTES, self._liveness.heard)
        found = chunks_in(body)
        if found is None:
            raise self._server.cut(0, "its JSON is not whole")
        told = [one for one in found if isinstance(one, Mapping) and (one.get("choices") or one.get("error"))]
        if not told:
            raise self._another(response, body[:500].decode(errors="replace"))
        for one in told:
            await self._take(answer, one)
        answer.finish = answer.finish or "stop"

    async def _stream(self, answer: ChatAnswer, parts: AsyncIterator[bytes]) -> None:
        """Take an answer piece by piece, until it ends or is too long. Raises Problem where it ends too early."""
        done = False
        try:
            async with asyncio.timeout(None) as after:
                async for data in events(parts):
                    if data == DONE:
                        done = True
                        break
                    if data is None or not await self._take(answer, _loaded(data)):
                        self._liveness.heard()
                    if self._liveness.too_long or self._repeats.found is not None:
                        self._liveness.cut = True
                        return
                    if not self._prose and not answer.pieces and is_prose(answer.text):
                        return
                    if answer.finish is not None and after.when() is None:
                        after.reschedule(asyncio.get_running_loop().time() + AFTER_SECONDS)
        except TimeoutError:
            done = True  # it said that it has ended, and leaves the connection open
        except aiohttp.ClientError:
            if answer.finish is None:
                raise
        if not done and answer.finish is None and not self._is_whole(answer):
            raise self._server.cut(self._liveness.tokens)

    def _is_whole(self, answer: ChatAnswer) -> bool:
        """Whether an answer is complete by what it says: some servers end a stream without a word."""
        reply = self._plan.read(answer)
        if reply.calls:
            return all(call.arguments and is_json(call.arguments) for call in reply.calls)
        return self._plan.answer(reply) is not None

    async def _take(self, answer: ChatAnswer, chunk: Any) -> bool:
        pieces = answer.take(chunk)
        if answer.error is not None:
            raise self._server.of_error(answer.error)
        if pieces:
            if answer.model is not None and answer.model != self._answered_by:
                await self._calls.require_served(self._facts, answer.model)
                self._answered_by = answer.model
                if not same_model(self._facts.model, answer.model):
                    self._liveness.reads([f"answered by {answer.model}"])
            await self._tell(pieces)
        return bool(pieces)

    async def _tell(self, pieces: list[Piece]) -> None:
        """Report pieces to the liveness, and send them on, some together: each costs the app-server a parse."""
        for kind, text in pieces:
            if kind == "held":
                self._liveness.reasons(text)
                continue
            if kind == "reasoning":
                self._liveness.reasons(text)
            else:
                self._liveness.writes(text)
            self._repeats.add(text)
            if text and kind == "reasoning":
                self._pending.append(Piece(kind, text))
            elif text and kind == "text" and self._plan.live:
                self._pending += self._shown(text)
        if self._pending and time.monotonic() - self._sent_at >= TOGETHER_SECONDS:
            await self._send_pending()

    def _shown(self, text: str) -> list[Piece]:
        """A text that begins as a call does is not shown: it goes on as a call, or as a whole."""
        if self._plan.offered and self._held is not None:
            self._held += text
            if may_be_call(self._held, self._plan.offered):
                return []
            text, self._held = self._held, None
        return [Piece("text", text)]

    async def _send_pending(self) -> None:
        self._sent_at = time.monotonic()
        pending, self._pending = self._pending, []
        for kind, together in groupby(pending, itemgetter(0)):
            text = "".join(text for _, text in together)
            await self._send(self._told.reasons(text) if kind == "reasoning" else self._told.writes(text))

    def _usage(self, answer: ChatAnswer) -> dict[str, Any] | None:
        # A model that reasons out of sight writes more than is seen; of any other, a token is at least half a letter.
        most = 2 * self._plan.body["max_tokens"] if self._facts.reasoning else 1_000 + 8 * self._liveness.tokens
        usage = usage_of(answer.usage, self._plan.prompt, most)
        if usage is None:
            log.warning("gateway.no_usage", model=self._facts.model, server=self._server.name)
        else:
            self._liveness.counts += 1
            self._calls.counted(self._facts.model, self._plan.prompt, usage["input_tokens"])
            self._liveness.context = usage["input_tokens"]
        return usage


def _written(same: Mapping[str, Any] | None, tokens: int) -> dict[str, Any] | None:
    """Return the tokens of a call with the prompt of another one, whose tokens are known."""
    if same is None:
        return None
    read = same["input_tokens"]
    known = {"output_tokens": tokens, "total_tokens": read + tokens}
    return {**same, "input_tokens_details": {"cached_tokens": 0}, **known}


def is_prose(text: str) -> bool:
    return len(text) > PROSE_CHARS and "{" not in text


def _loaded(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return None

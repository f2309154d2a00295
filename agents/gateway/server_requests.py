"""HTTP requests to a model server with limits of time and size; its errors become ones that the app-server knows."""

from __future__ import annotations

import asyncio
import json
import os
import re
import ssl
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import orjson

from chordesk.agents.calls.call_reader import MadeCall, OfferedTools
from chordesk.agents.calls.call_texts import calls_in
from chordesk.agents.gateway.stream import DONE, ChatAnswer, Piece, beginning, body_of, chunks_in, events
from chordesk.agents.providers.completions import OVERFLOW, kind_of_status
from chordesk.agents.providers.liveness import failure
from chordesk.agents.providers.provider_limits import NO_CREDIT, limit_of
from chordesk.models.answers import Failure
from chordesk.models.errors import KeyRefused, ServerAway, WrongApi
from chordesk.models.text import SHORTEST_SECRET, redacted
from chordesk.models.urls import HIDDEN, is_loopback, masked

PAGE_BYTES = 4 * 1024 * 1024  # of what is read of one answer
CONNECT_SECONDS = 5.0
STREAM = "text/event-stream"
SHOWN_CHARS = 200
PAUSES = (0.2, 0.6)  # seconds before a page is asked for again, whose answer is one of these
_PASSING = frozenset({500, 502, 504})
TEXT_CHARS = 400  # of an answer's text, beyond which the rest is not waited for
_TITLE = re.compile(r"<title[^>]*>([^<]{1,100})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Page:
    """One answer, whole. content: None where it is not JSON."""

    code: int
    text: str
    content: Any = None
    kind: str = ""
    location: str = ""

    @property
    def is_page(self) -> bool:
        return "text/html" in self.kind or self.text.lstrip()[:1] == "<"

    @property
    def error(self) -> str:
        return _shown_answer(told_error(self.content) or self.text)


@dataclass(slots=True)
class Answer:
    """An answer of chat completions, as far as it came."""

    chat: ChatAnswer = field(default_factory=ChatAnswer)
    error: str = ""  # the server's error, or empty
    page: Page | None = None  # the whole of such an answer
    timings: Mapping[str, Any] = field(default_factory=dict)
    pieces: int = 0  # parts of a stream, 0 for one JSON
    length: int = 0  # characters of all else
    # first, last: seconds from the request to the first token and to the last one
    first: float | None = None
    last: float | None = None
    reasoned: bool = False  # some of it was reasoning, which is not in the text
    late: bool = False  # the time was over before the answer's end
    cut: bool = False  # its text got too long, and the rest was not awaited

    @property
    def answered(self) -> bool:
        return not self.late and not self.error

    @property
    def text(self) -> str:
        return self.chat.text

    @property
    def usage(self) -> Any:
        return self.chat.usage

    @property
    def made(self) -> list[MadeCall]:
        """The calls, also those that stand in the text or the reasoning."""
        found, tools = self.chat.calls, self.chat.tools
        for text in (self.chat.raw, self.chat.reasoning):
            if not found and tools and (told := calls_in(text, tools)) is not None:
                found = told.calls
        return found

    @property
    def calls(self) -> list[tuple[str, str]]:
        return [(call.name, call.arguments) for call in self.made]

    def take(self, chunk: Any) -> bool:
        pieces = self.chat.take(chunk)
        if isinstance(chunk, Mapping):
            self.error = self.error or (_shown_answer(told_error(chunk)) if "error" in chunk else "")
            if isinstance(chunk.get("timings"), Mapping):
                self.timings = chunk["timings"]
        self._add(pieces)
        self.pieces += bool(pieces)
        return bool(pieces)

    def end(self) -> None:
        self._add(self.chat.end())

    def _add(self, pieces: Iterable[Piece]) -> None:
        for kind, text in pieces:
            self.reasoned = self.reasoned or kind == "reasoning"
            self.length += len(text) if kind in ("text", "call") else 0


class ModelServer:
    """A model server at a base URL, within one session. key: hidden in whatever it answers, since servers quote keys,
    and what they say is kept and shown."""

    def __init__(self, session: aiohttp.ClientSession, url: str, key: str | None = None) -> None:
        self._session, self.url, self._key = session, url.rstrip("/"), key
        self.root = self.url.removesuffix("/v1")
        self.name = masked(self.url)

    async def page(self, path: str, body: Mapping[str, Any] | None = None, seconds: float = 5.0) -> Page:
        """Return what a URL answers: to a GET, or to a POST with a body. What passes by itself is tried again. Raises
        ServerAway."""
        for pause in PAUSES:
            if (found := await self._page(path, body, seconds)).code not in _PASSING:
                return found
            await asyncio.sleep(pause)
        return await self._page(path, body, seconds)

    async def _page(self, path: str, body: Mapping[str, Any] | None, seconds: float) -> Page:
        method = "GET" if body is None else "POST"
        try:
            async with asyncio.timeout(seconds), self._session.request(
                method, path, json=body, allow_redirects=False
            ) as answer:  # fmt: skip
                raw = await _read(answer, self._key) if answer.content_type != STREAM else ""  # which may have no end
                where = without_key(answer.headers.get("location", ""), self._key)
                return Page(answer.status, raw, loaded(raw), answer.content_type, urljoin(path, where) if where else "")
        except TimeoutError:
            raise ServerAway(f"the model server at {self.name} did not answer within {seconds:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise self.away(error) from None

    async def chat(self, body: Mapping[str, Any], seconds: float) -> Answer:
        """As a stream. Raises ServerAway where the server cannot be reached."""
        answer = Answer(ChatAnswer(tools=OfferedTools.of(body.get("tools") or ())))
        began = time.monotonic()
        try:
            async with asyncio.timeout(seconds), self._session.post(
                f"{self.url}/chat/completions", json={**body, "stream": True}, allow_redirects=False
            ) as response:  # fmt: skip
                await _take(response, answer, began, self._key)
        except TimeoutError:
            answer.late = True
        except aiohttp.ClientConnectorError as error:
            raise self.away(error) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            answer.error = f"the answer broke off: {_shown_answer(str(error)) or type(error).__name__}"
        answer.end()
        return answer

    def away(self, error: Exception) -> ServerAway:
        return ServerAway(f"the model server at {self.name} cannot be reached: {_shown_answer(reason(error))}")

    def refusal(self, page: Page) -> KeyRefused | WrongApi | ServerAway | None:
        if page.code in (401, 403):
            return KeyRefused(f"the model server at {self.name} refuses the key: {page.code} {page.error}")
        if 300 <= page.code < 400:
            where = masked(page.location) or "nowhere"
            return WrongApi(
                f"{self.name} redirects to {where}, and the desk follows no redirect",
                remedy="set DESK_PROVIDER_URL to the server's own base URL, which may be there",
            )
        if page.code in (429, 502, 503, 504):
            text = f"the model server at {self.name} is not ready: {page.code} {page.error}"
            return ServerAway(text, remedy="wait until it is ready, then try again")
        if page.is_page:
            title = _TITLE.search(page.text)
            shown = f" ({_shown_answer(title.group(1))})" if title else ""
            return WrongApi(f"{self.name} answers with a page for browsers{shown}, not with an API")
        return None


@asynccontextmanager
async def reaching(url: str, key: str | None, ca_file: Path | None = None) -> AsyncIterator[ModelServer]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
    trust = ssl.create_default_context(cafile=ca_file) if ca_file is not None else True
    # llama.cpp closes a connection after a stream without a word, and a request on it would be lost.
    connector = aiohttp.TCPConnector(ssl=trust, force_close=True)
    async with aiohttp.ClientSession(
        headers=headers, timeout=timeout, connector=connector, proxy=proxy_of(url)
    ) as session:
        yield ModelServer(session, url, key)


def loaded(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


async def _take(response: aiohttp.ClientResponse, answer: Answer, began: float, key: str | None) -> None:
    body = await body_of(response.content)
    if response.status >= 300 or body.kind != "events":
        raw = without_key((await beginning(body.parts, PAGE_BYTES)).decode(errors="replace"), key)
        page = Page(response.status, raw, loaded(raw), response.content_type)
        chunks = chunks_in(raw.encode()) if page.code < 300 else None
        if chunks and all(isinstance(one, Mapping) and one.get("choices") for one in chunks[:1]):
            for chunk in chunks:
                answer.take(chunk)
        else:
            answer.error, answer.page = f"{page.code} {page.error}".rstrip(), page
        answer.pieces, answer.first = 0, time.monotonic() - began
        answer.last = answer.first
        return
    size = 0
    async for data in events(body.parts):
        if data is None:
            continue
        if data == DONE:
            return
        size += len(data)
        if size > PAGE_BYTES or answer.length > TEXT_CHARS:
            answer.cut = True
            return
        if answer.take(loaded(without_key(data.decode(errors="replace"), key))):
            answer.last = time.monotonic() - began
            answer.first = answer.first if answer.first is not None else answer.last


async def _read(response: aiohttp.ClientResponse, key: str | None) -> str:
    return without_key((await beginning(response.content, PAGE_BYTES)).decode(errors="replace"), key)


def without_key(text: str, key: str | None) -> str:
    return text.replace(key, HIDDEN) if key and len(key) >= SHORTEST_SECRET else text


def proxy_of(url: str) -> str | None:
    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_loopback(host) or proxy_bypass(host):
        return None
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    return f"http://{proxy}" if proxy and "://" not in proxy else proxy


def is_proxy(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https", "socks5", "socks5h") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _shown_answer(text: str) -> str:
    hidden: str = redacted(" ".join(text.split()), ())
    return hidden[:SHOWN_CHARS]


# Failures of a model's server, as the gateway finds them, and their way through the app-server.
#
# The app-server rewords most errors of a provider, tries many of them again by itself, and tells none of the numbers of
# an overflow. One code of a failed answer it passes on word for word and only once: so the failure travels as the
# message of such an answer, and is read out of the turn's error again.

CODE = "invalid_prompt"  # measured, 0.163: neither retried nor reworded
_MARK = '{"chordesk_failure":'
PROBLEM_CHARS = 300
SHOWN_MODELS = 20

_OF_CONTEXT = re.compile(r"context[ _-]?(?:length|size|window)?\D{0,40}?(\d[\d,]{0,14})(?![\d,]*\d)", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.,])\d[\d,]{0,14}(?![\w.,]*\d)")
_NO_MODEL = re.compile(
    r"model.{0,200}(not found|does not exist|not exist|not loaded|try pulling|no such|unknown)", re.I
)
_LARGER = (
    "serve it with a larger context (llama-server -c, OLLAMA_CONTEXT_LENGTH, vLLM --max-model-len), or choose a model "
    "with one"
)
CHAT_BASE = "set DESK_PROVIDER_URL to the base URL of chat completions, such as http://127.0.0.1:11434/v1"


class Problem(Exception):
    """A call that has failed. kind: of the failure."""

    def __init__(self, kind: str, message: str, reset_seconds: float | None = None) -> None:
        super().__init__(message)
        self.kind, self.message, self.reset_seconds = kind, message, reset_seconds
        self.plan: Mapping[str, str] = {}  # headers of the refused answer that tell a plan's windows

    def told(self, key: str | None = None) -> str:
        return orjson.dumps({"chordesk_failure": [self.kind, self.shown(key), self.reset_seconds]}).decode()

    def shown(self, key: str | None) -> str:
        text: str = redacted(self.message, [key] if key else ())
        return text


def failure_in(message: str) -> Failure | None:
    """Return the failure that the gateway told the app-server, None for any other message of a failed turn."""
    if not message.startswith(_MARK):
        return None
    try:
        kind, text, reset = orjson.loads(message)["chordesk_failure"]
    except (orjson.JSONDecodeError, ValueError):
        return None  # cut off on its way
    return failure(kind, text, reset)


def overflow(server: str, model: str, prompt: str, context: str, said: str = "") -> Problem:
    """prompt, context: empty where they are not known. said: what the server says, for where a figure is missing."""
    which = f"a prompt of {prompt} tokens" if prompt else "the prompt"
    size = f", {context} tokens" if context else ""
    told = f" ({shown(said)})" if said and not (prompt and context) else ""
    return Problem("context_window", f"{which} does not fit the context of {model} on {server}{size}{told}; {_LARGER}")


def names_of(models: Sequence[str]) -> str:
    more = f" and {len(models) - SHOWN_MODELS} more" if len(models) > SHOWN_MODELS else ""
    return (", ".join(models[:SHOWN_MODELS]) or "none") + more


def away(server: str, error: Exception) -> Problem:
    if isinstance(error, aiohttp.ClientSSLError):
        why = getattr(error, "certificate_error", None) or error.os_error
        if "WRONG_VERSION_NUMBER" in str(why):  # what a server without TLS answers to its greeting
            return Problem("unreachable", f"{server} speaks no TLS: set DESK_PROVIDER_URL to it with http://")
        text = f"the certificate of {server} is not trusted: {why}"
        return Problem("bad_request", f"{text}; set DESK_CODEX_CA_FILE to a PEM of the roots that it needs")
    text = f"no model server answers at {server}: {reason(error)}; start it, or set DESK_PROVIDER_URL to one that runs"
    return Problem("unreachable", text)


def reason(error: Exception) -> str:
    number = getattr(error, "errno", None)
    return os.strerror(number) if isinstance(number, int) and number > 0 else str(error) or type(error).__name__


def wrong_api(url: str, kind: str, body: str) -> Problem:
    text = f"{url} answered {kind or 'without a content type'}, which is no answer of a model ({shown(body)!r})"
    return Problem("bad_request", f"{text}; set DESK_PROVIDER_URL to the base URL of an API, which mostly ends in /v1")


def redirected(server: str, location: str) -> Problem:
    text = f"{server} redirects to {masked(location) or 'nowhere'}, and the desk follows no redirect"
    return Problem("bad_request", f"{text}; set DESK_PROVIDER_URL to the server's own base URL, which may be there")


class Server:
    """One model on one server, as failures name it. name: the server's URL without a login. models: the server's
    models. context: tokens. prompt: tokens of the request, estimated."""

    def __init__(
        self, name: str, model: str, models: Iterable[str] = (), context: int | None = None, prompt: int = 0
    ) -> None:
        self.name, self.model, self.models = name, model, tuple(models)
        self.context, self.prompt = context, prompt

    def of_status(self, status: int, headers: Mapping[str, str], body: bytes) -> Problem:
        text = body.decode(errors="replace")
        error = error_in(body)
        if error is None and ("html" in headers.get("content-type", "") or text.lstrip()[:1] == "<"):
            if status < 500:
                return wrong_api(f"{self.name} ({status})", headers.get("content-type", ""), text)
            error = {"message": "a page for browsers, as of a proxy whose server is away"}
        return self.of_error(error or {"message": text}, status, loaded(body), headers)

    def of_error(
        self,
        error: Mapping[str, Any],
        status: int | None = None,
        content: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Problem:
        """content: the whole body, whose times may stand beside its error; headers: of the answer."""
        said = str(error.get("message") or orjson.dumps(error, default=str).decode())
        names = f"{error.get('type')} {error.get('code')}"
        if status in (None, 400, 413, 422, 500) and (OVERFLOW.search(names) or OVERFLOW.search(said)):
            return self._overflow(error, said)
        code = status if status is not None else _count(error.get("code"))
        if code in (400, 404, 422, None) and _NO_MODEL.search(said):
            return self.no_model(said)
        limit = limit_of(code or (429 if "rate_limit" in names else 0), said, [error, content], headers)
        kind = limit.kind if limit is not None else kind_of_status(code or 500)
        if kind == "not_found":
            return Problem(kind, f"{self.name} has no such address ({code}: {shown(said)}); {CHAT_BASE}")
        reset = limit.reset_seconds if limit is not None else None
        told = f"{code}: " if code is not None else ""
        return Problem(kind, f"{self.model} on {self.name}: {told}{shown(said)}{_REMEDY.get(kind, '')}", reset)

    def no_model(self, said: str) -> Problem:
        has = f"it has {names_of(self.models)}" if self.models else "what it has is not known"
        text = f"{self.name} has no model {self.model} ({shown(said)}); {has}"
        return Problem(
            "not_found", f"{text}: set DESK_MODEL to one of those, or get this one (ollama pull, for instance)"
        )

    def of_endpoint(self, status: int, body: bytes) -> Problem:
        error = error_in(body) or {}
        said = str(error.get("message") or "")
        if "model" in said.lower() or error.get("code") == "model_not_found":
            return Problem(
                "not_found", f"{self.name} has no model {self.model} ({shown(said)}); set DESK_MODEL to another"
            )
        text = f"{self.name} has no Responses API at /responses ({status} {shown(said)})".replace(" )", ")")
        chat = "for a server of chat completions set DESK_PROVIDER=local"
        if not _VERSIONED.search(self.name):
            return Problem("not_found", f"{text}; set DESK_PROVIDER_URL={self.name.rstrip('/')}/v1, or {chat} with it")
        return Problem("not_found", f"{text}; {chat}")

    def other_model(self, now: str) -> Problem:
        text = f"{now} answers on {self.name} in place of {self.model}: the server was started anew with another model"
        return Problem("not_found", f"{text}; start it with {self.model}, or set DESK_MODEL={now}")

    def cut(self, tokens: int, why: str = "") -> Problem:
        text = f"{self.name} broke off the answer of {self.model} after {tokens:,} tokens"
        return Problem("stream_cut", f"{text}{f' ({shown(why)})' if why else ''}; look at the server's own log")

    def _overflow(self, error: Mapping[str, Any], said: str) -> Problem:
        prompt, context = _count(error.get("n_prompt_tokens")), _count(error.get("n_ctx"))
        numbers = [found for text in _NUMBER.findall(said) if (found := int(text.replace(",", ""))) >= 16]
        if context is None:
            context = self.context if self.context in numbers else _context_in(said, numbers) or self.context
        if prompt is None:
            larger = [number for number in numbers if context is None or number > context]
            prompt = max(larger, default=None)
        told = f"{prompt:,}" if prompt is not None else f"about {self.prompt:,}" if self.prompt else ""
        return overflow(self.name, self.model, told, f"{context:,}" if context is not None else "", said)


def _context_in(said: str, numbers: list[int]) -> int | None:
    """The number beside the word context, unless a smaller one shows that it is the prompt's."""
    near = _OF_CONTEXT.search(said)
    named = int(near[1].replace(",", "")) if near is not None else None
    smaller = [number for number in numbers if named is not None and number < named]
    return min(numbers) if smaller and named == max(numbers) else named


_VERSIONED = re.compile(r"/v\d\w*(?:/|$)")  # the base URL of an API mostly ends in its version
KEY_REMEDY = "check DESK_PROVIDER_KEY"
CREDIT_REMEDY = "this does not pass by itself: pay the provider or change the plan, or choose another model"
_REMEDY = {
    "unauthorized": f"; {KEY_REMEDY}",
    "overloaded": "; it may still load its model",
    NO_CREDIT: f"; {CREDIT_REMEDY}",
}


def error_in(body: Any) -> Mapping[str, Any] | None:
    content = loaded(body) if isinstance(body, bytes) else body
    if not isinstance(content, Mapping):
        return None
    error = content.get("error") or content.get("detail") or content.get("message")
    if isinstance(error, Mapping):
        return error
    return {"message": error if isinstance(error, str) else json.dumps(error)} if error else None


def told_error(content: Any) -> str:
    found = error_in(content)
    return str(found.get("message") or json.dumps(found)) if found is not None else ""


def shown(text: str) -> str:
    return " ".join(text[: 4 * PROBLEM_CHARS].split())[:PROBLEM_CHARS]


def _count(value: Any) -> int | None:
    return value if type(value) is int and value > 0 else None

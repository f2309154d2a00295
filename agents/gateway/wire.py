"""Requests to a model server: each is bounded in time and size, follows no redirect, and fails with an error that says
what is wrong and what to set."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from chordesk.models.errors import KeyRefused, ServerAway, WrongApi
from chordesk.models.masking import SHORTEST_SECRET, redacted
from chordesk.models.urls import HIDDEN, is_loopback, masked

PAGE_BYTES = 4 * 1024 * 1024  # of what is read of one answer
CONNECT_SECONDS = 5.0
STREAM = "text/event-stream"
SHOWN_CHARS = 200
TEXT_CHARS = 400  # of an answer's text, beyond which the rest is not waited for
_TITLE = re.compile(r"<title[^>]*>([^<]{1,100})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Page:
    """One answer, whole. content: None where it is no JSON."""

    code: int
    text: str
    content: Any = None
    kind: str = ""
    location: str = ""

    @property
    def is_page(self) -> bool:
        """Return whether it is a page for people."""
        return "text/html" in self.kind or self.text.lstrip()[:1] == "<"

    @property
    def error(self) -> str:
        """Return what the server says is wrong, in one line."""
        return _shown(told_error(self.content) or self.text)


@dataclass(slots=True)
class Answer:
    """An answer of chat completions, as far as it came.

    error: what the server says is wrong, empty when nothing is; page: the whole of such an answer. late: the time was
    over before the answer's end. cut: its text got too long, and the rest was not waited for. pieces: parts of a
    stream, 0 when it came as one JSON. first, last: seconds from the request to the first token and to the last one.
    calls: name and arguments of each tool call.
    """

    error: str = ""
    page: Page | None = None
    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    finish: str | None = None
    usage: Any = None
    timings: Mapping[str, Any] = field(default_factory=dict)
    pieces: int = 0
    first: float | None = None
    last: float | None = None
    late: bool = False
    cut: bool = False

    @property
    def answered(self) -> bool:
        return not self.late and not self.error

    @property
    def length(self) -> int:
        """Return the characters of its text and of what calls are made with."""
        return len(self.text) + sum(len(arguments) for _, arguments in self.calls)

    @property
    def spoken(self) -> str:
        """Return the text without reasoning in it."""
        if "<think>" not in self.text:
            return self.text.strip()
        before, _, rest = self.text.partition("<think>")
        return (before + rest.partition("</think>")[2]).strip()


class ModelServer:
    """A model server at a base URL, within one session. key: hidden in whatever it answers, since servers quote keys,
    and what they say is kept and shown."""

    def __init__(self, session: aiohttp.ClientSession, url: str, key: str | None = None) -> None:
        self._session, self.url, self._key = session, url.rstrip("/"), key
        self.root = self.url.removesuffix("/v1")
        self.name = masked(self.url)

    async def page(self, path: str, body: Mapping[str, Any] | None = None, seconds: float = 5.0) -> Page:
        """Return what a URL answers: to a GET, or to a POST with a body. Raises ServerAway."""
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
        """Return the answer to a request for chat completions, as a stream. Raises ServerAway where the server cannot
        be reached."""
        answer, began = Answer(), time.monotonic()
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
            answer.error = f"the answer broke off: {_shown(str(error)) or type(error).__name__}"
        return answer

    def away(self, error: Exception) -> ServerAway:
        return ServerAway(f"the model server at {self.name} cannot be reached: {_reason(error)}")

    def refusal(self, page: Page) -> KeyRefused | WrongApi | ServerAway | None:
        """Return what is wrong with a server that answers so, None when nothing is known to be."""
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
            shown = f" ({_shown(title.group(1))})" if title else ""
            return WrongApi(f"{self.name} answers with a page for browsers{shown}, not with an API")
        return None


@asynccontextmanager
async def reaching(url: str, key: str | None, ca_file: Path | None = None) -> AsyncIterator[ModelServer]:
    """Yield the server at a base URL, with the key in each request. ca_file: PEM of its trust roots."""
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
    """Return the value of a JSON text, None where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def told_error(content: Any) -> str:
    """Return the message of an error, wherever in the JSON a server puts it; empty where there is none."""
    if not isinstance(content, Mapping):
        return ""
    found = content.get("error") or content.get("detail") or content.get("message") or ""
    if isinstance(found, Mapping):
        found = found.get("message") or json.dumps(found)
    return found if isinstance(found, str) else json.dumps(found)


async def _take(response: aiohttp.ClientResponse, answer: Answer, began: float, key: str | None) -> None:
    if response.status >= 300 or response.content_type != STREAM:
        raw = await _read(response, key)
        _whole(answer, Page(response.status, raw, loaded(raw), response.content_type))
        answer.first = answer.last = time.monotonic() - began
        return
    size = 0
    async for line in response.content:
        size += len(line)
        data = line.strip()
        if not data.startswith(b"data:"):
            continue
        data = data.removeprefix(b"data:").strip()
        if data == b"[DONE]":
            return
        if size > PAGE_BYTES or answer.length > TEXT_CHARS:
            answer.cut = True
            return
        if _add(answer, loaded(without_key(data.decode(errors="replace"), key))):
            answer.last = time.monotonic() - began
            answer.first = answer.first if answer.first is not None else answer.last


def _whole(answer: Answer, page: Page) -> None:
    if page.code >= 300 or not _choices(page.content):
        answer.error, answer.page = f"{page.code} {page.error}".rstrip(), page
        return
    _add(answer, page.content)
    answer.pieces = 0


def _add(answer: Answer, chunk: Any) -> bool:
    """Add a part of an answer, and return whether it had a token."""
    if not isinstance(chunk, Mapping):
        return False
    answer.error = answer.error or (_shown(told_error(chunk)) if "error" in chunk else "")
    answer.usage = chunk.get("usage") or answer.usage
    if isinstance(chunk.get("timings"), Mapping):
        answer.timings = chunk["timings"]
    for choice in _choices(chunk)[:1]:
        answer.finish = choice.get("finish_reason") or answer.finish
        delta = choice.get("delta") or choice.get("message")
        if isinstance(delta, Mapping) and _add_delta(answer, delta):
            answer.pieces += 1
            return True
    return False


def _add_delta(answer: Answer, delta: Mapping[str, Any]) -> bool:
    text = delta.get("content")
    reasoning = delta.get("reasoning_content") or delta.get("reasoning")
    calls = delta.get("tool_calls")
    answer.text += text if isinstance(text, str) else ""
    answer.reasoning += reasoning if isinstance(reasoning, str) else ""
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, Mapping) else None
        if isinstance(function, Mapping):
            _add_call(answer, call.get("index"), function)
    return bool(text or reasoning or calls)


def _add_call(answer: Answer, place: Any, function: Mapping[str, Any]) -> None:
    name, arguments = function.get("name") or "", function.get("arguments") or ""
    arguments = arguments if isinstance(arguments, str) else json.dumps(arguments)
    known = len(answer.calls)
    place = place if isinstance(place, int) and 0 <= place <= known else known if name else known - 1
    if place == known:
        answer.calls.append((str(name), arguments))
    elif place >= 0:
        before = answer.calls[place]
        answer.calls[place] = (before[0] or str(name), before[1] + arguments)


def _choices(content: Any) -> list[Mapping[str, Any]]:
    choices = content.get("choices") if isinstance(content, Mapping) else None
    return [one for one in choices if isinstance(one, Mapping)] if isinstance(choices, list) else []


async def _read(response: aiohttp.ClientResponse, key: str | None) -> str:
    parts, size = [], 0
    async for part in response.content.iter_chunked(65_536):
        parts.append(part)
        size += len(part)
        if size > PAGE_BYTES:
            break
    return without_key(b"".join(parts).decode(errors="replace"), key)


def without_key(text: str, key: str | None) -> str:
    """Return a server's words without the key that was sent to it."""
    return text.replace(key, HIDDEN) if key and len(key) >= SHORTEST_SECRET else text


def proxy_of(url: str) -> str | None:
    """Return the proxy of the environment for a URL; it has no business between us and loopback. aiohttp would look for
    it at each request, and for a login in ~/.netrc."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_loopback(host) or proxy_bypass(host):
        return None
    proxies = getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")


def _shown(text: str) -> str:
    """Return a server's own words as they are quoted: in one line, without what looks like a key."""
    hidden: str = redacted(" ".join(text.split()), ())
    return hidden[:SHOWN_CHARS]


def _reason(error: Exception) -> str:
    system = getattr(error, "os_error", None)
    return _shown(str(getattr(system, "strerror", None) or error)) or type(error).__name__

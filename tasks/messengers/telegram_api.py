"""Telegram's Bot API over HTTP: one POST of JSON for each call. The token is part of the address, so no address and no
error of the library is ever shown as it is."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson

from chordesk.models.text import without_secrets
from chordesk.models.urls import HIDDEN

MOST_BYTES = 4_000_000  # of an answer; a hundred updates of the longest messages are 2 MB
CALL_SECONDS = 20.0
CHAT_SECONDS, ALL_SECONDS = 1.0, 1 / 30  # between two messages to one chat, and to all, as Telegram allows
WAIT_SECONDS = 5.0  # after a 429 that does not say how long
LONGEST_WAIT_SECONDS = 3600.0
_LONGEST = 300


@dataclass(frozen=True, slots=True)
class Refusal(Exception):
    """A call that failed. status: of HTTP, 0 without an answer; known: the call surely had no effect; wait: seconds
    that Telegram asks for."""

    why: str
    status: int = 0
    known: bool = True
    wait: float | None = None

    def __str__(self) -> str:
        return self.why


class BotApi:
    """Calls of one bot, for one event loop."""

    def __init__(self, base: str, token: str) -> None:
        self._base, self._token = base, token
        self._session: aiohttp.ClientSession | None = None
        self._chats: dict[str, float] = {}  # when each chat may have its next message, on the monotonic clock
        self._next = 0.0
        self._waits_until = 0.0  # after a 429

    async def __aenter__(self) -> BotApi:
        self._session = aiohttp.ClientSession(
            trust_env=False, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=True, read_bufsize=2**16
        )
        return self

    async def __aexit__(self, *_error: object) -> None:
        assert self._session is not None
        await self._session.close()

    async def call(self, method: str, seconds: float = CALL_SECONDS, **given: Any) -> Any:
        """Return a call's result. Raises Refusal."""
        if (left := self._waits_until - time.monotonic()) > 0:
            raise Refusal("Telegram asked to wait", 429, wait=left)
        status, body = await self._posted(method, seconds, given)
        answer = _object(body)
        if status == 200 and answer is not None and answer.get("ok") is True:
            return answer.get("result")
        raise self._refused(status, answer)

    async def to_chat(self, method: str, chat: str, **given: Any) -> Any:
        """The same for a message to a chat, no sooner than Telegram allows."""
        now = time.monotonic()
        at = max(now, self._next, self._chats.get(chat, 0.0))
        self._next, self._chats[chat] = at + ALL_SECONDS, at + CHAT_SECONDS
        if len(self._chats) > 1000:
            self._chats = {name: until for name, until in self._chats.items() if until > now}
        await asyncio.sleep(at - now)
        return await self.call(method, chat_id=int(chat), **given)

    async def _posted(self, method: str, seconds: float, given: dict[str, Any]) -> tuple[int, bytes]:
        assert self._session is not None
        timeout = aiohttp.ClientTimeout(total=seconds, connect=10.0)
        headers = {"Content-Type": "application/json"}
        status, url = 0, f"{self._base}/bot{self._token}/{method}"
        try:
            async with self._session.post(
                url, data=orjson.dumps(given), headers=headers, timeout=timeout, allow_redirects=False
            ) as response:
                status = response.status
                body = bytearray()
                async for piece in response.content.iter_chunked(2**16):
                    body += piece
                    if len(body) > MOST_BYTES:
                        raise Refusal(f"an answer of more than {MOST_BYTES:,} bytes", status, known=False)
                return status, bytes(body)
        except aiohttp.ClientConnectorError as error:
            raise Refusal(self._masked(f"no connection: {error}")) from None
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise Refusal(self._masked(why), status, known=False) from None

    def _refused(self, status: int, answer: dict[str, Any] | None) -> Refusal:
        told = (answer or {}).get("description")
        why = self._masked(told if isinstance(told, str) else f"HTTP {status}, and not an answer of the Bot API")
        if status != 429:
            # What it answers by an error of its own did not happen; what has no sense may be a proxy's.
            return Refusal(why, status, known=400 <= status < 500 or (answer is not None and status != 200))
        given = (answer or {}).get("parameters")
        seconds = given.get("retry_after") if isinstance(given, dict) else None
        sound = isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds > 0
        wait = min(float(seconds), LONGEST_WAIT_SECONDS) if sound and seconds is not None else WAIT_SECONDS
        self._waits_until = time.monotonic() + wait
        return Refusal(why, status, wait=wait)

    def _masked(self, text: str) -> str:
        secret = self._token.partition(":")[2]
        for piece in (self._token, secret):
            text = text.replace(piece, HIDDEN)
        return " ".join(without_secrets(text).split())[:_LONGEST]


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(body)  # orjson refuses halves of characters, which a person may have sent
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None

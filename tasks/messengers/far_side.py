"""A messenger's service over HTTP: one POST of JSON for each call. No token is ever shown, neither in an address nor in
an error of the library."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson

from chordesk.models.text import without_secrets
from chordesk.models.urls import HIDDEN

MOST_BYTES = 4_000_000  # of an answer; a hundred updates of the longest messages are 2 MB
CALL_SECONDS = 20.0
CHAT_SECONDS, ALL_SECONDS = 1.0, 1 / 30  # between two messages to one chat, and to all, as the services allow
WAIT_SECONDS = 5.0  # after a 429 that does not say how long
LONGEST_WAIT_SECONDS = 3600.0
_LONGEST = 300


@dataclass(frozen=True, slots=True)
class Refusal(Exception):
    """A call that failed. status: of HTTP, 0 without an answer; known: the call surely had no effect; wait: seconds
    that the service asks for."""

    why: str
    status: int = 0
    known: bool = True
    wait: float | None = None

    def __str__(self) -> str:
        return self.why


class FarSide:
    """Calls of one bot, for one event loop. shown: the service's name for people; secrets: what no error may show."""

    def __init__(self, shown: str, base: str, *secrets: str) -> None:
        self._shown, self._base, self._secrets = shown, base, secrets
        self._session: aiohttp.ClientSession | None = None
        self._chats: dict[str, float] = {}  # when each chat may have its next message, on the monotonic clock
        self._next = 0.0
        self._waits_until = 0.0  # after a 429

    async def __aenter__(self) -> FarSide:
        self._session = aiohttp.ClientSession(
            trust_env=False, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=True, read_bufsize=2**16
        )
        return self

    async def __aexit__(self, *_error: object) -> None:
        assert self._session is not None
        await self._session.close()

    @property
    def session(self) -> aiohttp.ClientSession:
        assert self._session is not None
        return self._session

    async def turn(self, chat: str) -> None:
        """Wait until a chat may have its next message."""
        now = time.monotonic()
        at = max(now, self._next, self._chats.get(chat, 0.0))
        self._next, self._chats[chat] = at + ALL_SECONDS, at + CHAT_SECONDS
        if len(self._chats) > 1000:
            self._chats = {name: until for name, until in self._chats.items() if until > now}
        await asyncio.sleep(at - now)

    def must_not_wait(self) -> None:
        """Raises Refusal while the service asked to wait."""
        if (left := self._waits_until - time.monotonic()) > 0:
            raise Refusal(f"{self._shown} asked to wait", 429, wait=left)

    def asked_to_wait(self, why: str, seconds: object) -> Refusal:
        """Return the refusal of a 429, and let nothing be sent meanwhile."""
        sound = isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds < float("inf")
        wait = min(float(seconds), LONGEST_WAIT_SECONDS) if sound else WAIT_SECONDS  # type: ignore[arg-type]
        self._waits_until = time.monotonic() + wait
        return Refusal(why, 429, wait=wait)

    async def posted(
        self, url: str, seconds: float, given: Mapping[str, Any], headers: Mapping[str, str]
    ) -> tuple[int, bytes, Mapping[str, str]]:
        """Return status, body and headers of an answer. Raises Refusal without one."""
        timeout = aiohttp.ClientTimeout(total=seconds, connect=10.0)
        sent = {"Content-Type": "application/json; charset=utf-8", **headers}
        status = 0
        try:
            async with self.session.post(
                url, data=orjson.dumps(given), headers=sent, timeout=timeout, allow_redirects=False
            ) as response:
                status = response.status
                body = bytearray()
                async for piece in response.content.iter_chunked(2**16):
                    body += piece
                    if len(body) > MOST_BYTES:
                        raise Refusal(f"an answer of more than {MOST_BYTES:,} bytes", status, known=False)
                return status, bytes(body), response.headers
        except aiohttp.ClientConnectorError as error:
            raise Refusal(self.masked(f"no connection: {error}")) from None
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise Refusal(self.masked(why), status, known=False) from None

    def masked(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        return " ".join(without_secrets(text).split())[:_LONGEST]


def object_of(body: bytes | str) -> dict[str, Any] | None:
    """Return the JSON object of a body, None for what is none."""
    try:
        found = json.loads(body)  # orjson refuses halves of characters, which a person may have sent
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None

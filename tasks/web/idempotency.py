"""Writes that may be sent again: with the header Idempotency-Key, a request acts once and has one answer.

A key belongs to one request: method, path and body. The first request with it claims it in Redis and acts; each later
one gets its answer. A request of two at once waits for the other's answer. A service that died before it answered
leaves its claim behind, and the key is refused until it expires: what the request did is not known, so it is not done
again.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Annotated, Any, TypeVar

import orjson
import redis
import redis.asyncio
import structlog
from fastapi import Depends, Header, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from chordesk.models.errors import RedisDown
from chordesk.models.settings import Settings
from chordesk.tasks.redis_clients import redis_url, wrong_url
from chordesk.tasks.web.problems import LONGEST_VALUE, answer, problem, problem_for
from chordesk.tasks.web.security import SAFE_METHODS, Headers, JsonRoute

log = structlog.get_logger(__name__)

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
KEY_RULE = r"^[0-9A-Za-z_.-]{8,64}$"
_RULE = re.compile(KEY_RULE.strip("^$"))
KEPT_SECONDS = 24 * 3600
WAIT_SECONDS = 5.0  # for the answer of a request with the same key that is under way
LOOK_SECONDS = 0.05
REDIS_SECONDS = 1.0

IdempotencyKey = Annotated[
    Annotated[str, Field(pattern=KEY_RULE)] | SkipJsonSchema[None],
    Header(
        alias=HEADER,
        description="a new key for each intention, such as a UUID: the same request with the same key acts once, and "
        "has the same answer for a day; another request with it is refused",
    ),
]
F = TypeVar("F", bound=Callable[..., Any])


def decided_once(endpoint: F) -> F:
    """Mark a write of which the desk itself makes sure that it is harmless to repeat, such as a halt or an answer to an
    approval: without Redis it is done all the same, and a failure of a service is not its answer for ever."""
    endpoint.decided_once = True  # type: ignore[attr-defined]
    return endpoint


class KeptAnswers:
    """The claims and answers by key, in the desk's Redis. For one event loop; making one does no I/O."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._made: redis.asyncio.Redis | None = None

    async def claim(self, key: str, request: str) -> dict[str, Any] | None:
        """Claim a key for a request; return None, or what is kept of it already: `request`, and its answer, for which
        it waits a while if it is being made. Raises RedisDown."""
        claimed = orjson.dumps({"request": request})
        until = asyncio.get_running_loop().time() + WAIT_SECONDS
        while True:
            try:
                if await self._client().set(_name(key), claimed, nx=True, ex=KEPT_SECONDS):
                    return None
                found = await self._client().get(_name(key))
            except redis.RedisError as error:
                raise _down(error) from None
            if found is None:
                continue  # it was released just now
            kept = dict(orjson.loads(found))
            if kept["request"] != request or "status" in kept or asyncio.get_running_loop().time() >= until:
                return kept
            await asyncio.sleep(LOOK_SECONDS)

    async def keep(self, key: str, request: str, given: Response) -> None:
        """Keep the answer of a claimed key. A failure is logged: the write is done, and its caller has the answer."""
        kept = {"request": request, "status": given.status_code, "type": given.media_type, "body": _text(given)}
        await self._quietly(self._client().set(_name(key), orjson.dumps(kept), ex=KEPT_SECONDS))

    async def release(self, key: str) -> None:
        """Forget a claim whose request did nothing."""
        await self._quietly(self._client().delete(_name(key)))

    async def _quietly(self, command: Any) -> None:
        try:
            await command
        except redis.RedisError as error:
            log.warning("api.answer_not_kept", error=type(error).__name__)

    def _client(self) -> redis.asyncio.Redis:
        """Return the client. Raises SettingError for an address that it cannot use."""
        if self._made is None:
            address = redis_url(self._settings)
            limits = {"socket_timeout": REDIS_SECONDS, "socket_connect_timeout": REDIS_SECONDS}
            try:
                self._made = redis.asyncio.from_url(address, retry=Retry(NoBackoff(), 0), **limits)
            except (TypeError, ValueError, redis.RedisError):
                raise wrong_url(address) from None
        return self._made


def _name(key: str) -> str:
    return f"desk:answer:{key}"


def _text(given: Response) -> str:
    return bytes(given.body).decode()


def _down(error: redis.RedisError) -> RedisDown:
    return RedisDown(
        f"the {HEADER} cannot be kept, so nothing was done: Redis does not answer ({type(error).__name__})",
        remedy="start the services with `desk up`; without the header the request is done and not remembered",
    )


class OnceRoute(APIRoute):
    """A route whose writes keep the header's promise, and describe it."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **given: Any) -> None:
        if not set(given.get("methods") or SAFE_METHODS) <= SAFE_METHODS:
            given["dependencies"] = [*(given.get("dependencies") or ()), Depends(_described)]
        super().__init__(path, endpoint, **given)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        repeatable = getattr(self.endpoint, "decided_once", False)

        async def once(request: Request) -> Response:
            headers = Headers(request.scope)
            if request.method in SAFE_METHODS or HEADER.lower() not in headers:
                return await handle(request)
            key = headers.only(HEADER.lower())
            if not _RULE.fullmatch(key):
                return _wrong_key(key)
            kept: KeptAnswers = request.app.state.kept
            asked = await _fingerprint(request)
            try:
                found = await kept.claim(key, asked)
            except RedisDown:
                if repeatable:
                    return await handle(request)
                raise
            if found is not None:
                return _again(found, asked)
            try:
                given = await handle(request)
            except RequestValidationError:  # a request that is wrong in itself has done nothing
                await kept.release(key)
                raise
            except Exception as error:
                failed = problem_for(error)
                if repeatable and failed.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                    await kept.release(key)
                else:
                    await kept.keep(key, asked, answer(failed))
                raise
            await kept.keep(key, asked, given)
            return given

        return once


class WriteRoute(JsonRoute, OnceRoute):
    """A route that accepts only JSON as a body, and acts once for each Idempotency-Key."""


def _described(idempotency_key: IdempotencyKey = None) -> None:
    """Describe the header: the route itself reads it."""


def _wrong_key(key: str) -> Response:
    detail = f"header.{HEADER}={key!r:.{LONGEST_VALUE}}: is not one key of 8 to 64 letters, digits, _, . and -"
    return answer(problem(HTTPStatus.UNPROCESSABLE_ENTITY, "wrong_request", detail, "send a UUID, once"))


async def _fingerprint(request: Request) -> str:
    """Return a digest of what is asked for; spaces and the order of a body's fields make no difference."""
    body = await request.body()
    with contextlib.suppress(ValueError):  # what is no JSON is refused later
        body = orjson.dumps(orjson.loads(body), option=orjson.OPT_SORT_KEYS)
    asked = f"{request.method} {request.url.path}?{request.url.query}\n".encode()
    return hashlib.sha256(asked + body).hexdigest()


def _again(found: dict[str, Any], asked: str) -> Response:
    """Return the kept answer, or the problem of a key that has none for this request."""
    if found["request"] != asked:
        detail = f"this {HEADER} came with another request before"
        return answer(problem(HTTPStatus.CONFLICT, "key_reused", detail, "send a new key with a new request"))
    if "status" not in found:
        detail = "the request with this key is still being answered, or the service ended before it had answered"
        remedy = "look whether it was done; if it was not, send it with a new key"
        return answer(problem(HTTPStatus.CONFLICT, "still_answering", detail, remedy))
    headers = {REPLAYED: "true"}
    return Response(found["body"], status_code=found["status"], headers=headers, media_type=found["type"])

"""Writes that may be sent again: with the header Idempotency-Key, a request acts once and has one answer.

A key belongs to one request: method, path and body. The first request with it claims it in the database and acts; each
later one gets its answer. A request of two at once waits for the other's answer. A service that died before it answered
leaves its claim behind, and the key is refused until it expires: what the request did is not known, so it is not done
again.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import hashlib
import re
import time
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Annotated, Any, TypeVar

import orjson
import structlog
from fastapi import Depends, Header, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema
from sqlalchemy import Executable, Table, delete, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import col

from chordesk.models.database.store import Store
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runtime import KeptAnswer
from chordesk.tasks.web.problems import LONGEST_VALUE, answer, problem, problem_for
from chordesk.tasks.web.security import SAFE_METHODS, Headers, JsonRoute

log = structlog.get_logger(__name__)

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
KEY_RULE = r"^[0-9A-Za-z_.-]{8,64}$"
_RULE = re.compile(KEY_RULE.strip("^$"))
KEPT = dt.timedelta(days=1)
WAIT_SECONDS = 5.0  # for the answer of a request with the same key that is under way
LOOK_SECONDS = 0.05
_ANSWER: Table = KeptAnswer.__table__  # type: ignore[attr-defined]

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
    approval: without the database it is done all the same, and a failure of a service is not its answer for ever."""
    endpoint.decided_once = True  # type: ignore[attr-defined]
    return endpoint


class KeptAnswers:
    """The claims and answers by key, in the database."""

    def __init__(self, store: Store) -> None:
        self._store = store
        insert = sqlite.insert if store.is_sqlite else postgresql.insert
        self._claim = insert(_ANSWER).on_conflict_do_nothing().returning(_ANSWER.c.key)

    async def claim(self, key: str, request: str) -> KeptAnswer | None:
        """None, or what is kept of the key already, waited for a while if it is being made. Raises SQLAlchemyError."""
        until = time.monotonic() + WAIT_SECONDS
        while (kept := await asyncio.to_thread(self._claimed, key, request)) is not None:
            if kept.request != request or kept.status is not None or time.monotonic() >= until:
                break
            await asyncio.sleep(LOOK_SECONDS)
        return kept

    async def keep(self, key: str, given: Response) -> None:
        """Keep the answer of a claimed key. A failure is logged: the write is done, and its caller has the answer."""
        answered = {"status": given.status_code, "media_type": given.media_type, "body": bytes(given.body).decode()}
        await self._quietly(update(KeptAnswer).where(col(KeptAnswer.key) == key).values(**answered))

    async def release(self, key: str) -> None:
        await self._quietly(delete(KeptAnswer).where(col(KeptAnswer.key) == key))

    def _claimed(self, key: str, request: str) -> KeptAnswer | None:
        with self._store.read() as session:
            found = session.get(KeptAnswer, key)
        now = utcnow()
        if found is not None and found.claimed_at > now - KEPT:
            return found
        with self._store.session() as session:
            session.connection().execute(delete(KeptAnswer).where(col(KeptAnswer.claimed_at) <= now - KEPT))
            new = KeptAnswer(key=key, request=request, claimed_at=now)
            claimed = session.connection().execute(self._claim, new.model_dump()).first()
            return None if claimed is not None else session.get(KeptAnswer, key)

    async def _quietly(self, statement: Executable) -> None:
        try:
            await asyncio.to_thread(self._write, statement)
        except SQLAlchemyError as error:
            log.warning("api.answer_not_kept", error=type(error).__name__)

    def _write(self, statement: Executable) -> None:
        with self._store.session() as session:
            session.connection().execute(statement)


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
            except SQLAlchemyError:
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
                    await kept.keep(key, answer(failed))
                raise
            await kept.keep(key, given)
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
    with contextlib.suppress(ValueError):  # what is not JSON is refused later
        body = orjson.dumps(orjson.loads(body), option=orjson.OPT_SORT_KEYS)
    asked = f"{request.method} {request.url.path}?{request.url.query}\n".encode()
    return hashlib.sha256(asked + body).hexdigest()


def _again(found: KeptAnswer, asked: str) -> Response:
    if found.request != asked:
        detail = f"this {HEADER} came with another request before"
        return answer(problem(HTTPStatus.CONFLICT, "key_reused", detail, "send a new key with a new request"))
    if found.status is None:
        detail = "the request with this key is still being answered, or the service ended before it had answered"
        remedy = "look whether it was done; if it was not, send it with a new key"
        return answer(problem(HTTPStatus.CONFLICT, "still_answering", detail, remedy))
    headers = {REPLAYED: "true"}
    return Response(found.body, status_code=found.status, headers=headers, media_type=found.media_type)

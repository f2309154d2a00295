"""A program's request that acts: once for each key, with the promise of the header Idempotency-Key."""

from __future__ import annotations

import asyncio
import hashlib
import json
from http import HTTPStatus
from typing import Any

from fastapi import Response
from fastapi.concurrency import run_in_threadpool
from fastapi.encoders import jsonable_encoder
from fastapi.responses import JSONResponse

from chordesk.tasks.web.context import ServiceContext
from chordesk.tasks.web.idempotency import KeptAnswers, acted, again, claimed
from chordesk.tasks.web.problems import Problem
from chordesk.tasks.web.programs.actions import Action, act
from chordesk.tasks.web.programs.messages import DecideRequest, StopRun

# A program that leaves takes its connection along, and not the answer that is being made: the key promises to have it.
_ACTING: set[asyncio.Task[Response]] = set()


async def answered(context: ServiceContext, kept: KeptAnswers, asked: Action) -> dict[str, Any]:
    """Return the `result` or the `problem` of a request; with a key that was used for it before, those of then. Raises
    DeskError."""
    if asked.key is None:
        return {"result": await run_in_threadpool(act, context, asked)}
    request = _digest(asked)
    found = await claimed(kept, asked.key, request)
    if found is not None:
        return _of(again(found, request))

    async def done() -> Response:
        return JSONResponse(jsonable_encoder(await run_in_threadpool(act, context, asked)))

    repeatable = isinstance(asked, DecideRequest | StopRun)
    acting = asyncio.create_task(acted(kept, asked.key, request, done, repeatable=repeatable))
    _ACTING.add(acting)
    acting.add_done_callback(_over)
    return _of(await asyncio.shield(acting))


def _over(acting: asyncio.Task[Response]) -> None:
    _ACTING.discard(acting)
    if not acting.cancelled():
        acting.exception()  # it is the kept answer; its program may have left


def _of(given: Response) -> dict[str, Any]:
    if given.status_code >= HTTPStatus.BAD_REQUEST:
        return {"problem": Problem.model_validate_json(bytes(given.body))}
    return {"result": json.loads(bytes(given.body))}


def _digest(asked: Action) -> str:
    """Return a digest of what is asked for, whatever its id in this connection."""
    body = asked.model_dump_json(exclude={"id", "key"})
    return hashlib.sha256(f"ws {body}".encode()).hexdigest()

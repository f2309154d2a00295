"""Routes of the page's login: a code for a session, what it is, and its end."""

from __future__ import annotations

import datetime as dt
from http import HTTPStatus
from typing import Annotated

import structlog
from fastapi import APIRouter, Request
from pydantic import Field, StrictBool

from chordesk.models.answers import Frozen
from chordesk.tasks.web.context import Context
from chordesk.tasks.web.page.sessions import NewSession
from chordesk.tasks.web.security import Headers, JsonRoute, bearer

log = structlog.get_logger(__name__)
router = APIRouter(tags=["session"], route_class=JsonRoute)


class LoginRequest(Frozen):
    """code: the fragment of the link that `desk page` prints."""

    code: Annotated[str, Field(min_length=1, max_length=200)]


class LogoutRequest(Frozen):
    """all: end every session of this desk, not only the one that asks."""

    all: StrictBool = False


class SessionState(Frozen):
    """The person's name and the end of the session that asks; both null for the API token, which has none."""

    by: str | None = None
    until: dt.datetime | None = None


class LoggedOut(Frozen):
    """all: whether every session of this desk has ended."""

    all: bool


@router.post("/session", status_code=HTTPStatus.CREATED)
async def begin(context: Context, asked: LoginRequest) -> NewSession:
    """Log the page in with a one-time code. The only route that needs no token."""
    begun = await context.sessions.begin(asked.code)
    log.info("api.session", by=begun.by)
    return begun


@router.get("/session")
async def session(context: Context, request: Request) -> SessionState:
    """Show the session that asks: the person's name and its end."""
    found = await context.sessions.find(bearer(Headers(request.scope)))
    return SessionState(by=found.by, until=found.until) if found is not None else SessionState()


@router.post("/session/end")
async def end(context: Context, request: Request, asked: LogoutRequest) -> LoggedOut:
    """Log out: end the session that asks, or all of them."""
    log.info("api.session_end", all=asked.all)
    if asked.all:
        await context.sessions.end_all()
    else:
        await context.sessions.end(bearer(Headers(request.scope)))
    return LoggedOut(all=asked.all)

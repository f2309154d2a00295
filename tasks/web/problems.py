"""Error responses in one shape (RFC 9457), and the mapping of the desk's own errors to them."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import Field
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match

from chordesk.models.answers import Frozen
from chordesk.models.database.store import is_lost
from chordesk.models.errors import (
    CodexError,
    DatabaseDown,
    DeskError,
    HistoryTrimmed,
    NotFound,
    NotWaiting,
    OrderError,
    ServiceError,
    TooManyCodes,
    UsageError,
    WrongCode,
    kind_of,
)

log = structlog.get_logger(__name__)

MEDIA_TYPE = "application/problem+json"
LONGEST_VALUE = 80
# The first that an error is an instance of.
_STATUS: tuple[tuple[type[DeskError], HTTPStatus], ...] = (
    (NotFound, HTTPStatus.NOT_FOUND),
    (UsageError, HTTPStatus.CONFLICT),
    (OrderError, HTTPStatus.CONFLICT),
    (NotWaiting, HTTPStatus.CONFLICT),
    (HistoryTrimmed, HTTPStatus.GONE),
    (WrongCode, HTTPStatus.FORBIDDEN),
    (TooManyCodes, HTTPStatus.TOO_MANY_REQUESTS),
    (ServiceError, HTTPStatus.SERVICE_UNAVAILABLE),
    (CodexError, HTTPStatus.BAD_GATEWAY),
)


class Problem(Frozen):
    """The reason why a request failed (RFC 9457). kind: an identifier for programs; remedy: what the caller can do.

    trimmed and last: for events that are no longer kept, the last sequence that was deleted and the newest one.
    """

    type: str = "about:blank"
    title: str
    status: int = Field(ge=400, le=599)
    kind: str
    detail: str
    remedy: str = ""
    trimmed: int | None = None
    last: int | None = None


def problem(status: HTTPStatus, kind: str, detail: str, remedy: str = "") -> Problem:
    return Problem(title=status.phrase, status=status.value, kind=kind, detail=detail, remedy=remedy)


def problem_of(error: DeskError) -> Problem:
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), HTTPStatus.INTERNAL_SERVER_ERROR)
    found = problem(status, kind_of(error), str(error.args[0]), error.remedy)
    if isinstance(error, HistoryTrimmed):
        return found.model_copy(update={"trimmed": error.trimmed, "last": error.last})
    return found


def fault(error: Exception) -> Problem:
    remedy = "see the service's log"
    return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal_error", type(error).__name__, remedy)


def answer(found: Problem, headers: dict[str, str] | None = None) -> JSONResponse:
    body = found.model_dump(exclude_none=True)
    return JSONResponse(body, status_code=found.status, headers=headers, media_type=MEDIA_TYPE)


def add_handlers(app: FastAPI, routes: Sequence[BaseRoute]) -> None:
    """Answer whatever a route raises with a problem. routes: all that the app has."""
    app.state.routes = routes
    for kind in (DeskError, RequestValidationError, HTTPException, SQLAlchemyError, Exception):
        app.add_exception_handler(kind, _respond)


async def _respond(request: Request, error: Exception) -> JSONResponse:
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    if isinstance(error, HTTPException) and error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(_methods(request))
    return answer(problem_for(error), headers)


def _methods(request: Request) -> list[str]:
    routes = [route for route in request.app.state.routes if route.matches(request.scope)[0] is not Match.NONE]
    return sorted({method for route in routes for method in route.methods})


def problem_for(error: Exception) -> Problem:
    if isinstance(error, DeskError):
        return problem_of(error)
    if isinstance(error, RequestValidationError):
        detail, remedy = "; ".join(_wrong(item) for item in error.errors()), "see /openapi.json for what is allowed"
        return problem(HTTPStatus.UNPROCESSABLE_ENTITY, "wrong_request", detail, remedy)
    if isinstance(error, HTTPException):
        status = HTTPStatus(error.status_code)
        return problem(status, status.name.lower(), error.detail)
    return _database_problem(error) if isinstance(error, SQLAlchemyError) else fault(error)


def _database_problem(error: SQLAlchemyError) -> Problem:
    if not isinstance(error, PoolTimeout) and not is_lost(error):
        log.error("api.database", exc_info=error)
        return fault(error)
    log.warning("api.database_lost", error=f"{type(error).__name__}: {error}".splitlines()[0])
    return problem_of(DatabaseDown("the database does not answer"))


def _wrong(item: Any) -> str:
    """Return one validation error: its place, the value unless it is a whole body, and what is allowed."""
    where = ".".join(str(part) for part in item["loc"])
    given = item.get("input")
    shown = f"={given!r:.{LONGEST_VALUE}}" if isinstance(given, (str, int, float, bool)) else ""
    lacks = _LACKING.get(str(item["loc"][-1]), "") if item.get("type") == "missing" else ""
    return f"{where}{shown}: {item['msg']}{lacks}"


# What a field is for that a newcomer's request seldom has.
_LACKING = {"by": ', the name of the person who asks, for the record, such as "by": "ada"'}

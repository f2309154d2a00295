"""The one shape of every error, and how the desk's own errors become it."""

from __future__ import annotations

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

from models.errors import (
    DatabaseDown,
    DeskError,
    HistoryTrimmed,
    NotFound,
    NotWaiting,
    OrderError,
    ServiceError,
    UsageError,
    kind_of,
)
from models.research import Frozen
from tasks.persistence import is_lost

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
    (ServiceError, HTTPStatus.SERVICE_UNAVAILABLE),
)


class Problem(Frozen):
    """Why a request was not answered (RFC 9457). kind: a word for programs; remedy: what the caller can do.

    trimmed and last: of events that are kept no longer, the last sequence that is gone and the newest one.
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
    """An error of the desk; what it says is meant for people and holds no secret."""
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), HTTPStatus.INTERNAL_SERVER_ERROR)
    found = problem(status, kind_of(error), str(error.args[0]), error.remedy)
    if isinstance(error, HistoryTrimmed):
        return found.model_copy(update={"trimmed": error.trimmed, "last": error.last})
    return found


def fault(error: Exception) -> Problem:
    """A fault of ours. Its words may hold anything, so that the log alone has them."""
    remedy = "the service's log says more"
    return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal_error", type(error).__name__, remedy)


def answer(found: Problem, headers: dict[str, str] | None = None) -> JSONResponse:
    body = found.model_dump(exclude_none=True)
    return JSONResponse(body, status_code=found.status, headers=headers, media_type=MEDIA_TYPE)


def add_handlers(app: FastAPI) -> None:
    """Whatever a route raises is answered with a problem."""
    app.add_exception_handler(DeskError, _of_desk)
    app.add_exception_handler(RequestValidationError, _of_request)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(SQLAlchemyError, _of_database)
    app.add_exception_handler(Exception, _of_anything)


async def _of_desk(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, DeskError)
    return answer(problem_of(error))


async def _of_request(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    said = "; ".join(_wrong(item) for item in error.errors())
    return answer(problem(HTTPStatus.UNPROCESSABLE_ENTITY, "wrong_request", said, "/openapi.json says what is allowed"))


def _wrong(item: Any) -> str:
    """One slip: where, the value unless it is a whole body, and what is allowed."""
    where = ".".join(str(part) for part in item["loc"])
    given = item.get("input")
    shown = f"={given!r:.{LONGEST_VALUE}}" if isinstance(given, (str, int, float, bool)) else ""
    return f"{where}{shown}: {item['msg']}"


async def _of_http(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    return answer(problem(status, status.name.lower(), error.detail), dict(error.headers or {}))


async def _of_database(_request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, PoolTimeout) and not is_lost(error):
        log.error("api.database", exc_info=error)
        return answer(fault(error))
    log.warning("api.database_lost", error=f"{type(error).__name__}: {error}".splitlines()[0])
    return answer(problem_of(DatabaseDown("the database does not answer")))


async def _of_anything(_request: Request, error: Exception) -> JSONResponse:
    """The server logs it with its traceback."""
    return answer(fault(error))

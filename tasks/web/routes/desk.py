"""Routes of the desk itself: its standing, its fleet and settings at a glance, and the page's login."""

from __future__ import annotations

import datetime as dt
from http import HTTPStatus
from typing import Annotated, Any

import redis
import structlog
from fastapi import APIRouter, Query, Request
from pydantic import Field, StrictBool

from chordesk.models.answers import Frozen
from chordesk.models.errors import DeskError
from chordesk.models.settings.running_desk import snapshot, standing_of
from chordesk.models.settings.sources import load
from chordesk.models.tables.columns import utcnow
from chordesk.tasks.reading.desk_status import RedisState, redis_state
from chordesk.tasks.reading.overview import Glance, glance
from chordesk.tasks.reading.setting_values import describe
from chordesk.tasks.web.context import Context, FleetPart, KeptChecks, KeptStatus, KeptWorkers
from chordesk.tasks.web.page.assets import page_tag
from chordesk.tasks.web.page.sessions import NewSession
from chordesk.tasks.web.schemas import ServiceStatus
from chordesk.tasks.web.security import Headers, JsonRoute, bearer

router = APIRouter(tags=["desk"], route_class=JsonRoute)


class DeskGlance(Glance):
    """The desk now. page: the tag of the page's files, which an upgrade changes. running: a `desk up` runs on its home,
    and the standing is its own. queues: None where Redis does not answer, then `redis_trouble` is why. fleet: the
    workers as they were last asked, seconds ago."""

    page: str
    running: bool
    queues: RedisState | None
    redis_trouble: str | None
    fleet: KeptWorkers


@router.get("/")
def desk(context: Context) -> ServiceStatus:
    """Show the running desk: live or preview, broker, account, model, market, day, settings.

    Without a `desk up`, those of this service.
    """
    theirs = context.running_desk()
    settings = theirs or context.settings
    return ServiceStatus(
        home=str(context.settings.home),
        running=theirs is not None,
        standing=standing_of(settings),
        settings=snapshot(settings),
        differs=context.differing(theirs),
    )


@router.get("/desk")
def at_a_glance(context: Context, fleet: FleetPart) -> DeskGlance:
    """Show the desk at a glance: running runs, approvals, equity, queues, parked models, the next scheduled runs.

    Only the workers are not asked anew each time: their answers have an age.
    """
    theirs = context.running_desk()
    workers = fleet.workers()
    queues, trouble = _queues(context)
    with context.store.read() as session:
        found = glance(session, theirs or context.settings, utcnow())
    return DeskGlance(
        **dict(found), page=page_tag(), running=theirs is not None, queues=queues, redis_trouble=trouble, fleet=workers
    )  # fmt: skip


def _queues(context: Context) -> tuple[RedisState | None, str | None]:
    try:
        return redis_state(context.settings), None
    except (DeskError, redis.RedisError) as error:
        return None, str(error.args[0]) if isinstance(error, DeskError) else type(error).__name__


fleet_router = APIRouter(tags=["desk"], route_class=JsonRoute)

Whole = Annotated[bool, Query(description="also the checks that run a turn or read all prices; a model's turn costs")]
STATUS_SECONDS = 4.0  # for a first answer; a part that is away takes about two


class SettingRow(Frozen):
    """One setting. value: masked where it is a secret or holds a login; belongs_to: what has to agree on it; source:
    the variable, file or running desk that it came from, or `default`."""

    name: str
    variable: str
    value: Any
    belongs_to: str
    source: str
    help: str


@fleet_router.get("/status")
def status(fleet: FleetPart) -> KeptStatus:
    """Show workers, app-servers, queues, turns in flight, parked models, the oldest step and the last sweep.

    The answers are a few seconds old at most. The first request waits until all were asked.
    """
    kept = fleet.status.look(STATUS_SECONDS)
    return KeptStatus(age=kept.age, refreshing=kept.refreshing, status=kept.value)


@fleet_router.get("/settings")
def settings() -> list[SettingRow]:
    """List every setting as a command would have it: value, owner, origin. Secrets are masked."""
    return [SettingRow.model_validate(row) for row in describe(load(agree=False))]


@fleet_router.get("/doctor")
def doctor(fleet: FleetPart, whole: Whole = False) -> KeptChecks:
    """Show the checks of `desk doctor`, a minute old at most; with `whole` the costly ones too.

    Costly checks run a turn, start an app-server or read all prices, and are at most an hour old; while they run, the
    answer has the others.
    """
    return fleet.checks(whole=whole)


log = structlog.get_logger(__name__)
session_router = APIRouter(tags=["session"], route_class=JsonRoute)


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


@session_router.post("/session", status_code=HTTPStatus.CREATED)
async def begin(context: Context, asked: LoginRequest) -> NewSession:
    """Log the page in with a one-time code. This route needs no token."""
    begun = await context.sessions.begin(asked.code)
    log.info("api.session", by=begun.by)
    return begun


@session_router.get("/session")
async def session(context: Context, request: Request) -> SessionState:
    """Show the session that asks: the person's name and its end."""
    found = await context.sessions.find(bearer(Headers(request.scope)))
    return SessionState(by=found.by, until=found.until) if found is not None else SessionState()


@session_router.post("/session/end")
async def end(context: Context, request: Request, asked: LogoutRequest) -> LoggedOut:
    """Log out: end the session that asks, or all of them."""
    log.info("api.session_end", all=asked.all)
    if asked.all:
        await context.sessions.end_all()
    else:
        await context.sessions.end(bearer(Headers(request.scope)))
    return LoggedOut(all=asked.all)

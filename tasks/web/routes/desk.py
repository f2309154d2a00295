"""Routes of the desk itself: its standing, its fleet and settings at a glance, and the page's login."""

from __future__ import annotations

import datetime as dt
import json
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

import redis
import structlog
from fastapi import APIRouter, Path, Query, Request
from pydantic import Field, StrictBool, StringConstraints

from chordesk.models import features
from chordesk.models.answers import Frozen
from chordesk.models.errors import DeskError
from chordesk.models.exchanges import EXCHANGES, MONEY, clock_of
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import differing, snapshot, standing_of
from chordesk.models.settings.sources import load
from chordesk.models.settings.types import TIME_RULE
from chordesk.models.tables.columns import utcnow
from chordesk.tasks import life, schedules
from chordesk.tasks.engine import kinds, requests
from chordesk.tasks.reading import run_parts
from chordesk.tasks.reading.desk_status import Glance, RedisState, glance, redis_state
from chordesk.tasks.reading.setting_values import describe, shown
from chordesk.tasks.schedule_days import EVERY
from chordesk.tasks.schedules import NAME_RULE, Entry
from chordesk.tasks.web.context import Context, FleetPart, KeptChecks, KeptWorkers, kept_status_type
from chordesk.tasks.web.idempotency import WriteRoute
from chordesk.tasks.web.page.assets import page_tag
from chordesk.tasks.web.page.page_sessions import NewSession
from chordesk.tasks.web.schemas import ServiceStatus, StopRequest
from chordesk.tasks.web.security import Headers, JsonRoute, bearer
from chordesk.tasks.workflows.runs import Person

router = APIRouter(tags=["desk"], route_class=JsonRoute)


# With what features add to it.
if TYPE_CHECKING:
    from chordesk.tasks.web.context import KeptStatus
else:
    KeptStatus = kept_status_type()


class PageView(Frozen):
    """A view of the page that a feature has. module: its file; part: its component, null for the one of its name;
    point: what it does with a price of a chart, words: with words that a person types; null for nothing."""

    path: str
    name: str
    module: str
    feature: str
    part: str | None
    menu: bool
    key: str | None
    point: str | None
    words: str | None


class PagePart(Frozen):
    """A part of a run's view that a feature has, under its name in `GET /runs/RUN`. kinds: of runs that have it in
    place of candidates; other runs have it where it is not empty."""

    name: str
    module: str
    part: str
    feature: str
    kinds: list[str]


class ExchangeGlance(Frozen):
    """What the page shows figures by. place, zone: of the desk's exchange. currency: in which its account counts.
    currencies: of listings, by the suffixes of their symbols; coins: what pairs are priced in."""

    place: str
    zone: str
    currency: str
    currencies: dict[str, str]
    coins: list[str]


class DeskGlance(Glance):
    """The desk now. page: the tag of the page's files, which an upgrade changes. home: what figures are shown by.
    kinds: of runs; views, run_parts: of the page; all with those of features that are on. running: a `desk up` runs on
    its home, and the standing is its own. queues: None where Redis does not answer, then `redis_trouble` is why. fleet:
    the workers as they were last asked, seconds ago."""

    page: str
    home: ExchangeGlance
    kinds: list[str]
    views: list[PageView]
    run_parts: list[PagePart]
    running: bool
    queues: RedisState | None
    redis_trouble: str | None
    fleet: KeptWorkers


@router.get("/")
def desk(context: Context) -> ServiceStatus:
    """Show the desk: live or preview, broker, account, model, market, day, settings.

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
    """Show runs in work, approvals, equity, queues, parked models, the next scheduled runs.

    Only the workers are not asked anew each time: their answers have an age.
    """
    theirs = context.running_desk()
    workers = fleet.workers()
    queues, trouble = _queues(context)
    with context.store.read() as session:
        found = glance(session, theirs or context.settings, utcnow())
    return DeskGlance(
        **dict(found), page=page_tag(), home=_home(theirs or context.settings), kinds=list(kinds.run_kinds()),
        views=_views(), run_parts=_run_parts(),
        running=theirs is not None, queues=queues, redis_trouble=trouble, fleet=workers,
    )  # fmt: skip


def _home(settings: Settings) -> ExchangeGlance:
    own = EXCHANGES[settings.exchange]
    return ExchangeGlance(
        place="UTC" if own.zone == "UTC" else own.place,
        zone=own.zone,
        currency=settings.currency,
        currencies={suffix: row.currency for row in EXCHANGES.values() for suffix in row.suffixes},
        coins=MONEY.split("|"),
    )


@cache
def _views() -> list[PageView]:
    """Return the views as the service found them: the checks load all of a package, and one that is left out for a part
    of another process would vanish from the page of this one, where it works."""
    return [
        PageView(
            path=one.path, name=one.name, module=one.module, feature=feature.name, part=one.part or None,
            menu=one.menu, key=one.key or None, point=one.point or None,
            words=one.words or None,
        )
        for feature, one in features.views()
    ]  # fmt: skip


def _run_parts() -> list[PagePart]:
    found = ((part, part.shown.page.partition(":")) for part in run_parts.parts("run", "detail") if part.shown.page)
    return [
        PagePart(name=one.name, module=module, part=part, feature=one.of.name, kinds=list(one.shown.kinds))
        for one, (module, _, part) in found
    ]


def _queues(context: Context) -> tuple[RedisState | None, str | None]:
    try:
        return redis_state(context.settings), None
    except (DeskError, redis.RedisError) as error:
        return None, str(error.args[0]) if isinstance(error, DeskError) else type(error).__name__


fleet_router = APIRouter(tags=["desk"], route_class=JsonRoute)
schedule_router = APIRouter(tags=["desk"], route_class=WriteRoute)
EntryName = Annotated[str, StringConstraints(pattern=f"^{NAME_RULE}$")]
EntryPath = Annotated[str, Path(pattern=f"^{NAME_RULE}$")]

Whole = Annotated[bool, Query(description="also the checks that run a turn or read all prices; a model's turn costs")]
STATUS_SECONDS = 4.0  # for a first answer; a part that is away takes about two


class SettingRow(Frozen):
    """One setting. value: masked where it is a secret or holds a login; belongs_to: what has to agree on it; source:
    the variable, file or running desk that it came from, or `default`. in_force: what the desk was started with, where
    that is another value: a restart takes over the new one."""

    name: str
    group: str
    variable: str
    value: Any
    belongs_to: str
    source: str
    help: str
    in_force: Any = None


@fleet_router.get("/status")
def status(fleet: FleetPart) -> KeptStatus:
    """Show workers, app-servers, queues, turns, parked models, the oldest step, the last sweep.

    The answers are a few seconds old at most. The first request waits until all were asked.
    """
    kept = fleet.status.look(STATUS_SECONDS)
    return KeptStatus(age=kept.age, refreshing=kept.refreshing, status=kept.value)


@fleet_router.get("/settings")
def settings(context: Context) -> list[SettingRow]:
    """List every setting: value, owner, origin. Secrets are masked."""
    found, started = load(agree=False), context.running_desk() or context.settings
    changed = differing(snapshot(found.settings), snapshot(started))
    return [
        SettingRow(**row, in_force=shown(row["name"], getattr(started, row["name"]), started))
        if row["name"] in changed
        else SettingRow(**row)
        for row in describe(found)
    ]


class ScheduledEntry(Entry):
    """An entry of the schedule. asked: what `GET /spending` takes to forecast a run of it. next: its next start, null
    where it is off; only a beat that runs keeps it. last: when beat sent it last, null where that is not known.
    elsewhere: its time as texts show it, null where it is by the desk's own exchange. outside: that its minutes from
    the open or close lead out of the session, null where they do not."""

    asked: str
    next: dt.datetime | None
    last: dt.datetime | None
    elsewhere: str | None
    outside: str | None


class Schedule(Frozen):
    """The schedule by time of day. beat: whether a beat runs, null where Redis does not answer; why: why nothing starts
    by itself now, null where it does. clock: of the times, such as New York time. kinds, exchanges: what can be
    scheduled, and by whose sessions."""

    beat: bool | None
    why: str | None
    clock: str
    kinds: list[str]
    exchanges: list[str]
    entries: list[ScheduledEntry]


ScheduleDays = Annotated[
    str, StringConstraints(max_length=40), Field(description="sessions, mon,wed, week-first, month-last, or a date")
]
Given = Annotated[list[Annotated[str, StringConstraints(max_length=4000)]], Field(max_length=20)]


class EntryBody(Frozen):
    """given: NAME=VALUE of the fields that `POST /runs` takes, beside those that the entry has."""

    by: Person
    at: Annotated[str, StringConstraints(pattern=f"^(?:{TIME_RULE})$")] | None = None
    enabled: StrictBool | None = None
    days: ScheduleDays | None = None
    given: Given | None = None


class NewEntry(Frozen):
    by: Person
    name: EntryName
    kind: Annotated[str, StringConstraints(max_length=40)] = "screen"
    at: Annotated[str, StringConstraints(pattern=f"^(?:{TIME_RULE})$")]
    exchange: Annotated[str, StringConstraints(max_length=40)] | None = None  # by code or city; null: the desk's own
    days: ScheduleDays = EVERY
    given: Given = Field(default_factory=list, description="NAME=VALUE of the fields that `POST /runs` takes")


class RemovedEntry(Frozen):
    """entry: what the settings have of the name, null where it is gone."""

    entry: Entry | None


@schedule_router.get("/schedule")
def schedule(context: Context) -> Schedule:
    """Show the schedule: each entry with its next start, and whether beat keeps it."""
    queues, trouble = _queues(context)
    now = utcnow()
    sent = {one.name: one.last for one in queues.beat.entries} if queues is not None else {}
    with context.store.read() as session:
        found = [
            ScheduledEntry(
                **dict(one),
                asked=json.dumps({**(one.request or {}), "kind": one.kind, "by": f"schedule {one.name}"}),
                next=schedules.next_start(session, one, now),
                elsewhere=schedules.elsewhere(one, context.settings),
                outside=schedules.outside(one),
                last=sent.get(one.name),
            )
            for one in schedules.entries(session, context.settings)
        ]
    beat = queues.beat.running if queues is not None else None
    lives = [f"beat is {one}" for one in life.of_desk(context.settings) if one.role == "beat"]
    absent = "no beat runs: `desk up` or `desk beat` starts one"
    why = None if beat else "; ".join(lives) or absent if beat is False else trouble
    return Schedule(
        beat=beat,
        why=why,
        clock=clock_of(context.settings.exchange),
        kinds=requests.startable(),
        exchanges=list(EXCHANGES),
        entries=found,
    )


@schedule_router.post("/schedule", status_code=HTTPStatus.CREATED)
def add_entry(context: Context, body: NewEntry) -> Entry:
    """Add an entry; beat takes it over within seconds."""
    by = f"{body.by} via the API"
    with context.store.session() as session:
        return schedules.add(
            session, context.settings, body.name, body.kind, body.at, by, body.exchange, body.days, body.given
        )


@schedule_router.post("/schedule/{name}")
def change_entry(context: Context, name: EntryPath, body: EntryBody) -> Entry:
    """Change the time or days of an entry or what it takes, or switch it on or off."""
    with context.store.session() as session:
        wanted = schedules.Change(**body.model_dump(exclude={"by"}))
        return schedules.change(session, context.settings, name, f"{body.by} via the API", wanted)


@schedule_router.post("/schedule/{name}/remove")
def remove_entry(context: Context, name: EntryPath, body: StopRequest) -> RemovedEntry:
    """Remove an entry; one of the settings is as they say from then on."""
    with context.store.session() as session:
        left = schedules.remove(session, context.settings, name, f"{body.by} via the API")
    return RemovedEntry(entry=left)


@fleet_router.get("/doctor")
def doctor(fleet: FleetPart, whole: Whole = False) -> KeptChecks:
    """Show the checks of `desk doctor`; with `whole` the costly ones too.

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
    """The person's name and the end of the session that asks, and the name of its device, where it stays; all null for
    the API token, which has none."""

    by: str | None = None
    until: dt.datetime | None = None
    device: str | None = None


class LoggedOut(Frozen):
    """all: whether every session of this desk has ended."""

    all: bool


@session_router.post("/session", status_code=HTTPStatus.CREATED)
async def begin(context: Context, asked: LoginRequest) -> NewSession:
    """Log the page in with a one-time code. This route needs no token."""
    begun = await context.sessions.begin(asked.code)
    log.info("api.session", by=begun.by, device=begun.device)
    return begun


@session_router.get("/session")
async def session(context: Context, request: Request) -> SessionState:
    """Show the session that asks: the person's name and its end."""
    found = await context.sessions.find(bearer(Headers(request.scope)))
    if found is None:
        return SessionState()
    return SessionState(by=found.by, until=found.until, device=found.device)


@session_router.post("/session/end")
async def end(context: Context, request: Request, asked: LogoutRequest) -> LoggedOut:
    """Log out: end the session that asks, or all of them."""
    log.info("api.session_end", all=asked.all)
    if asked.all:
        await context.sessions.end_all()
    else:
        await context.sessions.end(bearer(Headers(request.scope)))
    return LoggedOut(all=asked.all)

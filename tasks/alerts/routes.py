"""Routes of alerts: what there is, what fired, and what a person writes, switches and removes."""

from __future__ import annotations

import datetime as dt
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import Field, StrictBool, StringConstraints

from chordesk.models.answers import Frozen
from chordesk.tasks.alerts.adding import add_alert
from chordesk.tasks.alerts.display import AlertRow, FiringRow, alert_row, alert_rows, firing_rows, left_alone
from chordesk.tasks.alerts.firing import actions
from chordesk.tasks.web.context import Context
from chordesk.tasks.web.idempotency import WriteRoute
from chordesk.tasks.workflows.runs import Person
from chordesk.tools.alerts import keeping
from chordesk.tools.alerts.conditions import KINDS, LONGEST

router = APIRouter(tags=["alerts"], route_class=WriteRoute)
Named = Annotated[str, StringConstraints(pattern=f"^{keeping.NAME.pattern}$")]
NamePath = Annotated[str, Path(pattern=f"^{keeping.NAME.pattern}$")]
Symbols = Annotated[list[Annotated[str, StringConstraints(max_length=40)]], Field(max_length=keeping.MOST_SYMBOLS)]


class ConditionKind(Frozen):
    """A kind of condition. usage: how it is written; on: the subjects that it may be on, the first by default."""

    name: str
    usage: str
    purpose: str
    on: list[str]


class WatchlistRow(Frozen):
    name: str
    symbols: list[str]
    by: str
    changed_at: dt.datetime


class Alerts(Frozen):
    """away: why no market is looked at now, null where one is. conditions, actions: what an alert may be and do."""

    alerts: list[AlertRow]
    away: str | None
    watchlists: list[WatchlistRow]
    conditions: list[ConditionKind]
    actions: list[str]


class NewAlert(Frozen):
    """An alert. when: a condition in words; on: its subject, as `desk alerts add` takes it; given: NAME=VALUE of the
    fields of the run that it starts."""

    by: Person
    name: Named
    when: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST)]
    on: Annotated[str, StringConstraints(max_length=60)] | None = None
    for_minutes: int = Field(default=0, ge=0, le=1_950)
    hours: Annotated[str, StringConstraints(max_length=20)] = "session"
    rearm: Annotated[str, StringConstraints(max_length=20)] = "outside"
    cooldown_minutes: int = Field(default=60, ge=1, le=43_200)
    expires: dt.date | None = None
    action: Annotated[str, StringConstraints(max_length=40)] = "notify"
    given: Annotated[list[Annotated[str, StringConstraints(max_length=4000)]], Field(max_length=20)] = Field(
        default_factory=list
    )
    most_per_day: int = Field(default=5, ge=0, le=100)


class Switch(Frozen):
    by: Person
    enabled: StrictBool


class By(Frozen):
    by: Person


class WatchlistBody(Frozen):
    by: Person
    symbols: Symbols = Field(default_factory=list)


@router.get("/alerts")
def alerts(context: Context) -> Alerts:
    """Show alerts with what each has seen, watch lists, and what an alert may be."""
    with context.store.read() as session:
        return Alerts(
            alerts=alert_rows(session),
            away=left_alone(session),
            watchlists=[WatchlistRow(**one.model_dump()) for one in keeping.watchlists(session)],
            conditions=[
                ConditionKind(name=one.name, usage=one.usage, purpose=one.purpose, on=list(one.on))
                for one in KINDS.values()
            ],
            actions=actions(),
        )


@router.get("/alerts/firings")
def firings(
    context: Context,
    name: Annotated[str | None, Query(pattern=f"^{keeping.NAME.pattern}$")] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> list[FiringRow]:
    """List what fired, the newest first, with the runs that were started."""
    with context.store.read() as session:
        return firing_rows(session, name, limit)


@router.post("/alerts", status_code=HTTPStatus.CREATED)
def add(context: Context, body: NewAlert) -> AlertRow:
    """Add an alert; its first look arms it."""
    fields = body.model_dump(exclude={"by", "given"})
    draft = keeping.Draft(**fields, by=f"{body.by} via the API")
    market = context.desk.account_market()
    with context.store.session() as session:
        return alert_row(session, add_alert(session, context.settings, draft, body.given, market))


@router.post("/alerts/watchlists/{name}")
def watch(context: Context, name: NamePath, body: WatchlistBody) -> WatchlistRow:
    """Add symbols to a watch list, or begin it."""
    by, market = f"{body.by} via the API", context.desk.account_market()
    with context.store.session() as session:
        row, _ = keeping.watch(session, context.settings, name, body.symbols, by, market)
        return WatchlistRow(**row.model_dump())


@router.post("/alerts/watchlists/{name}/remove")
def unwatch(context: Context, name: NamePath, body: WatchlistBody) -> WatchlistRow | None:
    """Remove symbols from a watch list, or without any the list."""
    with context.store.session() as session:
        left = keeping.unwatch(session, context.settings, name, body.symbols, f"{body.by} via the API")
        return WatchlistRow(**left.model_dump()) if left is not None else None


@router.post("/alerts/{name}")
def change(context: Context, name: NamePath, body: Switch) -> AlertRow:
    """Switch an alert on or off."""
    by = f"{body.by} via the API"
    with context.store.session() as session:
        return alert_row(session, keeping.switch(session, context.settings, name, by, enabled=body.enabled))


@router.post("/alerts/{name}/remove")
def remove(context: Context, name: NamePath, body: By) -> By:
    """Remove an alert; its firings stay."""
    with context.store.session() as session:
        keeping.remove(session, context.settings, name, f"{body.by} via the API")
    return body

"""Alerts as a terminal and a program see them: what each is on, what it has seen, and its firings."""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text
from sqlmodel import Session, col, select

from chordesk.models.alerts.tables import AlertsAlert, AlertsPass, AlertsState
from chordesk.models.answers import Frozen
from chordesk.models.tables.columns import utcnow
from chordesk.models.text import SHORT_ID, one_line, utc_seconds
from chordesk.tasks.cli.output import table
from chordesk.tools.alerts import keeping
from chordesk.tools.alerts.past import Trial

MOST_STATES = 20


class SymbolState(Frozen):
    """What an alert has seen of a symbol. state: armed, waits (on the other side of nothing yet, or it has fired and is
    not back), or unseen with why; last_at: market time of the last look."""

    symbol: str
    state: str
    why: str | None
    value: float | None
    last_at: dt.datetime | None
    fired: int


class AlertRow(Frozen):
    """An alert with its states. state: on, off, expired, or the commonest of its symbols."""

    name: str
    subject: str
    condition: str
    action: str
    state: str
    fired: int
    last_fired: dt.datetime | None
    for_minutes: int
    hours: str
    rearm: str
    cooldown_minutes: int
    expires_at: dt.datetime | None
    request: dict[str, object]
    most_per_day: int
    enabled: bool
    by: str
    changed_at: dt.datetime
    symbols: list[SymbolState]


class FiringRow(Frozen):
    """One firing. run_id: the run that it started; note: why it started none."""

    id: str
    alert: str
    symbol: str
    why: str
    value: float | None
    reference: float | None
    market_at: dt.datetime
    at: dt.datetime
    action: str
    state: str
    run_id: str | None
    note: str | None


def alert_rows(session: Session) -> list[AlertRow]:
    states: dict[str, list[AlertsState]] = defaultdict(list)
    for one in session.exec(select(AlertsState).order_by(col(AlertsState.alert), col(AlertsState.symbol))).all():
        states[one.alert].append(one)
    return [alert_row(session, one, states[one.name]) for one in keeping.listed(session)]


def alert_row(session: Session, row: AlertsAlert, states: Sequence[AlertsState] | None = None) -> AlertRow:
    if states is None:
        states = session.exec(select(AlertsState).where(AlertsState.alert == row.name)).all()
    seen = [_symbol(one) for one in states]
    last = next(iter(keeping.firings(session, row.name, 1)), None)
    return AlertRow(
        **row.model_dump(include=set(AlertRow.model_fields) - {"state", "fired", "last_fired", "symbols"}),
        state=_state(row, seen), fired=sum(one.fired for one in states),
        last_fired=last.created_at if last is not None else None, symbols=seen,
    )  # fmt: skip


def _symbol(row: AlertsState) -> SymbolState:
    unseen = row.unknown_since is not None
    why = f"since {row.unknown_since}: {row.unknown_why}" if unseen else None
    return SymbolState(
        symbol=row.symbol, state="unseen" if unseen else "armed" if row.armed else "waits", why=why,
        value=row.last_value, last_at=row.last_at, fired=row.fired,
    )  # fmt: skip


def _state(row: AlertsAlert, seen: Sequence[SymbolState]) -> str:
    if row.expires_at is not None and row.expires_at <= utcnow():
        return "expired"
    if not row.enabled:
        return "off"
    counts = Counter(one.state for one in seen)
    if not counts:
        return "not looked at yet"
    if len(seen) == 1:
        return next(iter(counts))
    return ", ".join(f"{count} {state}" for state, count in counts.most_common())


def firing_rows(session: Session, name: str | None, most: int) -> list[FiringRow]:
    return [
        FiringRow(**one.model_dump(include=set(FiringRow.model_fields) - {"at"}), at=one.created_at)
        for one in keeping.firings(session, name, most)
    ]


def left_alone(session: Session) -> str | None:
    """Return why no market is looked at now; None where it is."""
    row = session.get(AlertsPass, "alerts")
    if row is None or row.left_until is None or row.left_until <= utcnow():
        return None
    return f"the market was away and is asked again at {utc_seconds(row.left_until)}: {row.left_why}"


def alert_lines(rows: Sequence[AlertRow], away: str | None) -> RenderableType:
    heads = ("Alert", "On", "When", "Does", "State", "Fired", "Last")
    found = [
        (
            one.name, one.subject, one_line(one.condition, 40), one.action, one.state, str(one.fired),
            utc_seconds(one.last_fired) if one.last_fired else "never",
        )
        for one in rows
    ]  # fmt: skip
    unseen = [(row.name, each) for row in rows for each in row.symbols if each.state == "unseen"]
    notes = [f"{name} sees no data of {each.symbol or 'its rows'} {each.why}" for name, each in unseen[:MOST_STATES]]
    return Group(
        table(heads, found),
        *(Text(one_line(line, 200), style="yellow") for line in [*notes, *([away] if away else [])]),
    )


def alert_text(row: AlertRow) -> RenderableType:
    given = " ".join(f"{name}={value}" for name, value in row.request.items())
    lasts = f", for {row.for_minutes} minutes" if row.for_minutes else ""
    rearm = f"{row.cooldown_minutes} minutes later" if row.rearm == "cooldown" else row.rearm
    lines = [
        f"{row.name}: {row.condition} on {row.subject}{lasts}; {row.state}",
        f"does {row.action} {given}".rstrip() + f"; at most {row.most_per_day} runs a day",
        f"hours {row.hours}; armed again {rearm}; by {row.by}, {utc_seconds(row.changed_at)}"
        + (f"; until {utc_seconds(row.expires_at)}" if row.expires_at else ""),
    ]
    states = [
        (one.symbol or row.subject, one.state, "" if one.value is None else f"{one.value:,.4g}",
         utc_seconds(one.last_at) if one.last_at else "", str(one.fired), one_line(one.why or "", 80))
        for one in row.symbols[:MOST_STATES]
    ]  # fmt: skip
    more = [f"and {len(row.symbols) - MOST_STATES} more"] if len(row.symbols) > MOST_STATES else []
    return Group(*lines, table(("Symbol", "State", "Value", "Seen at", "Fired", "Why"), states), *more)


def firing_lines(rows: Sequence[FiringRow]) -> RenderableType:
    heads = ("At", "Alert", "Why", "Does", "Run", "Note")
    return table(
        heads,
        [
            (utc_seconds(one.at), one.alert, one_line(one.why, 70), one.action,
             one.run_id[:SHORT_ID] if one.run_id else "", one_line(one.note or "", 60))
            for one in rows
        ],
    )  # fmt: skip


def trial_lines(found: Trial) -> RenderableType:
    heads = ("Session", "Symbol", "Why", *(f"{count} later" for count in found.horizons))
    rows = [
        (
            str(one.day),
            one.symbol,
            one_line(one.why, 60),
            *("" if each is None else f"{each:+.1%}" for each in one.after),
        )
        for one in found.firings
    ]
    return Group(
        Text(found.said, style="bold"),
        *([table(heads, rows)] if rows else []),
        *(Text(one_line(line, 200), style="yellow") for line in found.notes),
    )

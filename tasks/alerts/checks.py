"""The alerts' line of `desk doctor`: what they are on is there, and somebody looks."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence

from sqlmodel import Session, select

from chordesk.models.alerts.tables import AlertsAlert, AlertsPass, AlertsState
from chordesk.models.database.store import current
from chordesk.models.errors import DeskError, MarketError
from chordesk.models.settings import Settings
from chordesk.models.tables.columns import utcnow
from chordesk.models.text import utc_seconds
from chordesk.tasks.doctor.check import Check, CheckContext, CheckEntry, ok, warn
from chordesk.tools.alerts import keeping
from chordesk.tools.alerts.conditions import condition_of
from chordesk.tools.market.protocol import ClosedSet, MarketData

NAME = "alerts"
LATE = dt.timedelta(minutes=15)  # a pass comes each five minutes while all exchanges are closed
SHOWN = 5
REMEDY = "`desk alerts show NAME` has what each has seen; write it anew on what the market has, or remove it"


def alerts(context: CheckContext) -> Check:
    """Check that alerts which are on look at something that the market has, and that a pass looked lately."""
    desk, settings = context.desk, context.settings
    is_at, newest = current(settings.database)
    if is_at != newest:
        return ok("not looked at: the database is not made or not up to date")
    with desk.store.read() as session:
        on = [one for one in keeping.listed(session) if one.enabled and not _over(one)]
        if not on:
            return ok("no alert is on")
        troubles = list(_troubles(session, settings, on, desk.account_market()))
        row = session.get(AlertsPass, NAME)
    if troubles:
        more = f"; and {len(troubles) - SHOWN} more" if len(troubles) > SHOWN else ""
        return warn("; ".join(troubles[:SHOWN]) + more, REMEDY)
    if not context.embedded and (why := _unlooked(on, row)) is not None:
        return warn(why, "start the desk, `desk up`, or a worker of the queue ops: it looks each minute")
    return ok(f"{len(on)} on, of things that the market has")


def _over(one: AlertsAlert) -> bool:
    return one.expires_at is not None and one.expires_at <= utcnow()


def _unlooked(on: Sequence[AlertsAlert], row: AlertsPass | None) -> str | None:
    """Return since when nobody has looked; None where somebody did, or an alert is new."""
    now = utcnow()
    if row is not None and row.ended_at is not None:
        late = now - row.ended_at > LATE
        return f"nobody has looked since {utc_seconds(row.ended_at)}" if late else None
    return "nobody has looked yet" if all(now - one.changed_at > LATE for one in on) else None


def _troubles(session: Session, settings: Settings, on: Sequence[AlertsAlert], market: MarketData) -> Iterator[str]:
    told = {(one.alert, one.symbol): one for one in session.exec(select(AlertsState)).all() if one.unknown_since}
    for alert in on:
        try:
            condition_of(alert.condition)
            symbols = keeping.symbols_of(session, settings, alert, market)
        except DeskError as error:
            yield f"{alert.name}: {error.args[0]}"
            continue
        if not symbols:
            yield f"{alert.name} looks at nothing: {alert.subject} has no symbol"
        unknown = set(market.unknown([one for one in symbols if one])) if isinstance(market, ClosedSet) else set()
        for symbol in symbols:
            if symbol in unknown:
                yield f"{alert.name}: the {market.name} market does not carry {symbol}"
            elif (state := told.get((alert.name, symbol))) is not None:
                why = _left(alert, symbol, market) or f"no data since {state.unknown_since}: {state.unknown_why}"
                yield f"{alert.name} on {symbol or alert.subject}: {why}"


def _left(alert: AlertsAlert, symbol: str, market: MarketData) -> str | None:
    """Return that a symbol has left the market, of one whose price an alert is on."""
    if not symbol or condition_of(alert.condition).kind.looks not in ("price", "bars"):
        return None
    try:
        return keeping.gone(symbol, market)
    except MarketError:
        return None


CHECK = CheckEntry("alerts", alerts, 15)

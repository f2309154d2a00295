"""Alerts and watch lists as they are kept: written, listed, switched and removed, each change in the audit log."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Sequence

from pydantic import Field
from sqlmodel import Session, col, delete, select

from chordesk.models.alerts.tables import AlertsAlert, AlertsFiring, AlertsState, AlertsWatchlist
from chordesk.models.answers import Frozen, spelled
from chordesk.models.errors import MarketError, NotFound, UsageError
from chordesk.models.settings import Settings
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Position
from chordesk.models.text import one_line
from chordesk.tools.alerts.conditions import Condition, condition_of
from chordesk.tools.market.clock import day_of
from chordesk.tools.market.prices import STALE_DAYS, share_of
from chordesk.tools.market.protocol import ClosedSet, MarketData, Prefetching
from chordesk.tools.market.universe import is_symbol, resolve_universe
from chordesk.tools.orders import audit
from chordesk.tools.risk.exposure import underlying_of

NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
NAME_REMEDY = "use a small letter, then small letters, digits and hyphens, at most 40: aapl-dip"
MOST_ALERTS, MOST_LISTS, MOST_SYMBOLS, MOST_YEARS = 200, 50, 1_000, 100
LIST = "watchlist:"
WHOLE = ("holdings", "universe", "account", "desk")


class Draft(Frozen):
    """What a person writes. when: a condition in words; on: its subject, the condition's own by default; expires: a
    day, up to whose end it lasts."""

    name: str
    when: str
    on: str | None = None
    for_minutes: int = Field(default=0, ge=0, le=1_950)
    hours: str = "session"
    rearm: str = "outside"
    cooldown_minutes: int = Field(default=60, ge=1, le=43_200)
    expires: dt.date | None = None
    action: str = "notify"
    request: dict[str, object] = Field(default_factory=dict)
    most_per_day: int = Field(default=5, ge=0, le=100)
    by: str


def add(session: Session, settings: Settings, draft: Draft, market: MarketData) -> AlertsAlert:
    """Write an alert. Its action was checked by who calls. Raises UsageError for what it could never see."""
    _require_name(draft.name)
    if session.get(AlertsAlert, draft.name) is not None:
        raise UsageError(f"there is an alert {draft.name} already", remedy="remove it first, or choose another name")
    if len(listed(session)) >= MOST_ALERTS:
        raise UsageError(f"there are {MOST_ALERTS} alerts, and no more fit", remedy="remove one first")
    condition = condition_of(draft.when)
    subject = _subject(session, settings, draft.on, condition, market)
    _require_terms(draft, condition)
    written_on = day_of(market.clock.now(), subject if is_symbol(subject) else "")
    row = AlertsAlert(
        name=draft.name, subject=subject, condition=condition.said, written_on=written_on,
        for_minutes=draft.for_minutes, hours=draft.hours, rearm=draft.rearm, cooldown_minutes=draft.cooldown_minutes,
        expires_at=_end_of(draft.expires), action=draft.action, request=draft.request,
        most_per_day=draft.most_per_day, by=draft.by,
    )  # fmt: skip
    session.add(row)
    facts = row.model_dump(mode="json", include={"name", "subject", "condition", "action", "by"})
    audit.record(session, settings, "alert_added", **facts)
    session.flush()
    return row


def _require_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise UsageError(f"{one_line(name, 60)!r} is no name", remedy=NAME_REMEDY)


def _require_terms(draft: Draft, condition: Condition) -> None:
    for what, given, known in (
        ("--hours", draft.hours, ("session", "always")),
        ("--rearm", draft.rearm, ("outside", "cooldown", "once")),
    ):
        if given not in known:
            raise UsageError(f"{what} {one_line(given, 40)!r} is none", remedy=f"choose among {', '.join(known)}")
    if draft.for_minutes and condition.kind.looks != "price":
        reason = f"{condition.kind.name} does not last: only a price can hold for {draft.for_minutes} minutes"
        raise UsageError(reason, remedy="leave --for out")
    if draft.expires is not None:
        today, leave = utcnow().date(), "or leave --expires out"
        if draft.expires < today:
            raise UsageError(f"it would have expired on {draft.expires}", remedy=f"give a later day, {leave}")
        if draft.expires.year > today.year + MOST_YEARS:
            reason = f"it would expire on {draft.expires}, in more than {MOST_YEARS} years"
            raise UsageError(reason, remedy=f"give an earlier day, {leave}")


def _end_of(day: dt.date | None) -> dt.datetime | None:
    return dt.datetime.combine(day, dt.time(), dt.UTC) + dt.timedelta(days=1) if day is not None else None


def _subject(session: Session, settings: Settings, given: str | None, condition: Condition, market: MarketData) -> str:
    kind = condition.kind
    text = (given or "").strip()
    if not text:
        if kind.on[0] == "symbol":
            raise UsageError(f"{kind.name} is on something", remedy=f"name {_choices(kind.on)}")
        return kind.on[0]
    what = "watchlist" if text.startswith(LIST) else text if text in WHOLE else "symbol"
    if what not in kind.on:
        raise UsageError(f"{kind.name} is not on {one_line(text, 40)!r}", remedy=f"it is on {_choices(kind.on)}")
    if what == "watchlist":
        watchlist(session, text.removeprefix(LIST))
    elif what == "symbol":
        text = spelled(text)
        _require_symbol(text, condition, market)
    elif what == "universe" and market.clock.day is None and not isinstance(market, Prefetching):
        reason = f"the {market.name} market gives one symbol at a time: a look at the universe would take too long"
        raise UsageError(reason, remedy="write a watch list: `desk watchlist add`")
    return text


def _choices(on: Iterable[str]) -> str:
    names = {"symbol": "a symbol", "watchlist": f"{LIST}NAME"}
    return ", ".join(names.get(one, one) for one in on)


def _require_symbol(symbol: str, condition: Condition, market: MarketData) -> None:
    """Raise UsageError for a symbol that the market does not have, or that has left it."""
    known_symbols([symbol], market)
    if condition.kind.looks not in ("price", "bars"):
        return
    remedy = "choose another symbol, or a DESK_MARKET that has its prices"
    try:
        if (why := gone(symbol, market)) is not None:
            raise UsageError(f"{symbol} {why}", remedy=remedy)
        market.quote(symbol)
    except MarketError as error:
        reason = f"the {market.name} market has no price of {symbol}: {error.args[0]}"
        raise UsageError(reason, remedy=error.remedy or remedy) from None


def gone(symbol: str, market: MarketData) -> str | None:
    """Return that a symbol has left the market, with its last day; None where it has not. Raises MarketError."""
    last, now = market.bars(symbol, 1).dates[-1], day_of(market.clock.now(), symbol)
    return f"has left the market: its last price is of {last}" if (now - last).days > STALE_DAYS else None


def known_symbols(texts: Iterable[str], market: MarketData) -> list[str]:
    """Return symbols as they are written, each once, of any exchange. Raises UsageError for what is none, and for what
    a market that knows all of its symbols does not have."""
    found = list(dict.fromkeys(spelled(text.strip()) for text in texts))
    if strange := [one for one in found if not is_symbol(one)]:
        remedy = "write it as Yahoo does: AAPL, AZN.L, BTC-USD"
        raise UsageError(f"{one_line(strange[0], 40)!r} is no symbol", remedy=remedy)
    if unknown := market.unknown(found) if isinstance(market, ClosedSet) else []:
        reason = f"the {market.name} market does not carry {one_line(', '.join(unknown), 120)}"
        raise UsageError(reason, remedy="leave them out, or choose another DESK_MARKET")
    return found


def listed(session: Session) -> Sequence[AlertsAlert]:
    return session.exec(select(AlertsAlert).order_by(col(AlertsAlert.name))).all()


def alert(session: Session, name: str) -> AlertsAlert:
    row = session.get(AlertsAlert, name)
    if row is None:
        known = ", ".join(one.name for one in listed(session)) or "none"
        raise NotFound(f"there is no alert {one_line(name, 60)!r}", remedy=f"`desk alerts list` has {known}")
    return row


def switch(session: Session, settings: Settings, name: str, by: str, *, enabled: bool) -> AlertsAlert:
    """Switch an alert on or off. One that is switched on begins afresh: its first look arms it."""
    row = alert(session, name)
    if enabled and row.expires_at is not None and row.expires_at <= utcnow():
        raise UsageError(f"{name} expired on {row.expires_at:%Y-%m-%d}", remedy="write it anew")
    if enabled and not row.enabled:
        _forget(session, name)
    row.enabled, row.by, row.changed_at = enabled, by, utcnow()
    session.add(row)
    audit.record(session, settings, "alert_changed", name=name, enabled=enabled, by=by)
    return row


def remove(session: Session, settings: Settings, name: str, by: str) -> None:
    """Remove an alert; its firings stay."""
    session.delete(alert(session, name))
    session.execute(delete(AlertsState).where(col(AlertsState.alert) == name))
    audit.record(session, settings, "alert_removed", name=name, by=by)


def _forget(session: Session, name: str) -> None:
    """Forget what was seen, and keep how often it fired: a slot is used once."""
    for state in session.exec(select(AlertsState).where(AlertsState.alert == name)).all():
        state.armed, state.held_at, state.seen, state.last_at, state.fired_at = False, None, None, None, None
        state.unknown_since, state.unknown_why, state.unknown_told = None, None, False
        state.version += 1
        session.add(state)


def firings(session: Session, name: str | None, most: int) -> Sequence[AlertsFiring]:
    rows = select(AlertsFiring).order_by(col(AlertsFiring.id).desc()).limit(most)
    return session.exec(rows.where(AlertsFiring.alert == name) if name is not None else rows).all()


def symbols_of(session: Session, settings: Settings, row: AlertsAlert, market: MarketData) -> list[str]:
    """Return the symbols that an alert looks at; one empty text where it is on the account or the desk."""
    if row.subject.startswith(LIST):
        found = session.get(AlertsWatchlist, row.subject.removeprefix(LIST))
        return list(found.symbols) if found is not None else []
    if row.subject == "holdings":
        own = select(Position.symbol).where(Position.account == settings.account, Position.quantity != 0)
        return sorted({share_of(market, underlying_of(symbol)) for symbol in session.exec(own).all()})
    if row.subject == "universe":
        return resolve_universe(settings.universe, market)
    return [""] if row.subject in WHOLE else [row.subject]


def watchlist(session: Session, name: str) -> AlertsWatchlist:
    row = session.get(AlertsWatchlist, name)
    if row is None:
        known = ", ".join(one.name for one in watchlists(session)) or "none"
        reason = f"there is no watch list {one_line(name, 60)!r}"
        raise NotFound(reason, remedy=f"`desk watchlist list` has {known}")
    return row


def watchlists(session: Session) -> Sequence[AlertsWatchlist]:
    return session.exec(select(AlertsWatchlist).order_by(col(AlertsWatchlist.name))).all()


def watch(
    session: Session, settings: Settings, name: str, symbols: Sequence[str], by: str, market: MarketData
) -> tuple[AlertsWatchlist, list[str]]:
    """Add symbols to a list, which is made if there is none. Returns those that it had already, too."""
    _require_name(name)
    if not symbols:
        raise UsageError("no symbol is given", remedy="name symbols: desk watchlist add tech AAPL MSFT")
    if len(symbols) > MOST_SYMBOLS:
        raise UsageError(
            f"{len(symbols):,} symbols are given, and a watch list holds {MOST_SYMBOLS:,}",
            remedy="an alert on `universe` looks at all of DESK_UNIVERSE",
        )
    wanted = known_symbols(symbols, market)
    row = session.get(AlertsWatchlist, name)
    if row is None and len(watchlists(session)) >= MOST_LISTS:
        raise UsageError(f"there are {MOST_LISTS} watch lists, and no more fit", remedy="remove one first")
    row = row or AlertsWatchlist(name=name, by=by)
    again = [one for one in wanted if one in row.symbols]
    whole = [*row.symbols, *(one for one in wanted if one not in row.symbols)]
    if len(whole) > MOST_SYMBOLS:
        reason = f"{name} would have {len(whole):,} symbols, and a watch list holds {MOST_SYMBOLS:,}"
        raise UsageError(reason, remedy="begin another list, or remove some first")
    row.symbols, row.by, row.changed_at = whole, by, utcnow()
    session.add(row)
    audit.record(session, settings, "watchlist_changed", name=name, symbols=len(whole), by=by)
    return row, again


def unwatch(session: Session, settings: Settings, name: str, symbols: Sequence[str], by: str) -> AlertsWatchlist | None:
    """Remove symbols from a list, or without any the list. Returns what is left of it."""
    row = watchlist(session, name)
    gone = {spelled(one) for one in symbols}
    if strange := sorted(gone - {*row.symbols}):
        raise NotFound(
            f"{name} has no {one_line(strange[0], 40)!r}", remedy=f"it has {one_line(', '.join(row.symbols), 200)}"
        )
    left = [one for one in row.symbols if one not in gone] if symbols else []
    if not left:
        users = [one.name for one in listed(session) if one.subject == f"{LIST}{name}"]
        if users:
            raise UsageError(f"the alert {users[0]} is on {name}", remedy=f"`desk alerts remove {users[0]}` first")
        session.delete(row)
    else:
        row.symbols, row.by, row.changed_at = left, by, utcnow()
        session.add(row)
    audit.record(session, settings, "watchlist_changed", name=name, symbols=len(left), by=by)
    return row if left else None

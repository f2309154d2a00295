"""Equity marks: an account's equity on each session day, which losses are measured from."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal

from sqlmodel import Session, col, select

from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import EquityMark
from chordesk.tools.decimals import exact
from chordesk.tools.market.clock import exchange_day


@dataclass(frozen=True, slots=True)
class EquityLevels:
    """Levels that losses are measured from, in account currency. opening: equity at the last observation of the
    session before, or at today's first where that session has none; since: which of the two, as words."""

    opening: float | None
    high_water: float | None
    since: str = ""


def equity_levels(
    session: Session, account: str, equity: float | None, now: dt.datetime, previous: dt.date | None, *, keep: bool
) -> EquityLevels:
    """Return the levels of now's day, this observation included; `keep` writes them.

    previous: the market's session before now's day, None when it is not known. Later days than now's, which a replay
    that was set back has seen, do not count. The caller holds the account's row, so that two observations at once do
    not both make the day's mark.
    """
    day = exchange_day(now)
    mark = session.get(EquityMark, (account, day), populate_existing=True)
    before = session.exec(
        select(EquityMark)
        .where(col(EquityMark.account) == account, col(EquityMark.day) < day)
        .order_by(col(EquityMark.day).desc())
        .limit(1)
    ).first()
    last = before.last if before is not None and before.day == previous else None
    since = f"today's first mark, for the session before ({previous or 'not known'}) has none"
    if last is not None:
        since = f"the last mark of {previous}"
    if mark is None and equity is None:
        return EquityLevels(last, before.high_water if before else None, since)
    known = [before.high_water] if before else []
    if equity is not None:
        known.append(equity)
    if mark is None:
        opening = known[-1] if last is None else last
        mark = EquityMark(account=account, day=day, opening=opening, last=opening, high_water=opening)
    marks = EquityLevels(mark.opening, max(mark.high_water, *known) if known else mark.high_water, since)
    if keep and equity is not None:
        mark.last, mark.high_water, mark.updated_at = equity, marks.high_water or equity, utcnow()
        session.add(mark)
        session.flush()
    return marks


def shift_marks(session: Session, account: str, by: Decimal) -> None:
    """Move every mark by money that came or went without being earned or lost, such as a deposit or a withdrawal."""
    for mark in session.exec(select(EquityMark).where(col(EquityMark.account) == account)):
        mark.opening = float(exact(mark.opening) + by)
        mark.last = float(exact(mark.last) + by)
        mark.high_water = float(exact(mark.high_water) + by)
        session.add(mark)

"""Equity marks: an account's equity on each session day, which losses are measured from."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal

from sqlmodel import Session, col, select

from models.tables.columns import utcnow
from models.tables.orders import EquityMark
from tools.decimals import exact
from tools.market.clock import exchange_day


@dataclass(frozen=True, slots=True)
class EquityLevels:
    """Levels that losses are measured from. opening: equity at the last observation before today, or at today's
    first where there was none; account currency."""

    opening: float | None
    high_water: float | None


def equity_levels(
    session: Session, account: str, equity: float | None, now: dt.datetime, *, keep: bool
) -> EquityLevels:
    """Return the levels of now's day, this observation included; `keep` writes them.

    Later days than now's, which a replay that was set back has seen, do not count. The caller holds the account's row,
    so that two observations at once do not both make the day's mark.
    """
    day = exchange_day(now)
    mark = session.get(EquityMark, (account, day), populate_existing=True)
    before = session.exec(
        select(EquityMark)
        .where(col(EquityMark.account) == account, col(EquityMark.day) < day)
        .order_by(col(EquityMark.day).desc())
        .limit(1)
    ).first()
    if mark is None and equity is None:
        return EquityLevels(before.last, before.high_water) if before else EquityLevels(None, None)
    known = [before.high_water] if before else []
    if equity is not None:
        known.append(equity)
    if mark is None:
        opening = before.last if before else max(known)
        mark = EquityMark(account=account, day=day, opening=opening, last=opening, high_water=opening)
    marks = EquityLevels(mark.opening, max(mark.high_water, *known) if known else mark.high_water)
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

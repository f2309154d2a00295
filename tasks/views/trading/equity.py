"""An account's equity over time, from the marks of its session days."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from sqlmodel import Session, col, select

from chordesk.models.answers import Frozen
from chordesk.models.tables.orders import EquityMark
from chordesk.tools.decimals import exact


class EquityDay(Frozen):
    """Equity on one session day of the market, in account currency.

    opening: at the last mark of the session before, or at the day's first where that has none; equity: at its last
    mark; change and change_share: since the opening; high_water: the highest so far; drawdown: the fall from it, as a
    fraction of it. Shares are None where they would be of nothing.
    """

    day: dt.date
    opening: float
    equity: float
    change: float
    change_share: float | None
    high_water: float
    drawdown: float | None
    marked_at: dt.datetime


class EquityNow(EquityDay):
    """The newest day. current: it is the market's day; otherwise the account has no mark of that day yet."""

    current: bool


class EquityCurve(Frozen):
    """days: in ascending order, at most as many as were asked for; deepest: the largest drawdown among them, None
    without a day."""

    account: str
    days: list[EquityDay]
    deepest: float | None


def equity_now(session: Session, account: str, day: dt.date) -> EquityNow | None:
    """Return the account's newest day up to the market's, which is `day`; None without a mark."""
    marks = _marks(session, account, 1, day)
    return EquityNow(**dict(_day(marks[0])), current=marks[0].day == day) if marks else None


def equity_curve(session: Session, account: str, most: int) -> EquityCurve:
    """Return the account's last days. What was paid in or out has moved earlier marks, so it is neither gain nor
    loss."""
    days = [_day(mark) for mark in reversed(_marks(session, account, most))]
    falls = [one.drawdown for one in days if one.drawdown is not None]
    return EquityCurve(account=account, days=days, deepest=max(falls, default=None))


def _marks(session: Session, account: str, most: int, until: dt.date | None = None) -> Sequence[EquityMark]:
    query = select(EquityMark).where(col(EquityMark.account) == account)
    if until is not None:
        query = query.where(col(EquityMark.day) <= until)
    return session.exec(query.order_by(col(EquityMark.day).desc()).limit(most)).all()


def _day(mark: EquityMark) -> EquityDay:
    equity, opening, high = exact(mark.last), exact(mark.opening), exact(mark.high_water)
    return EquityDay(
        day=mark.day,
        opening=mark.opening,
        equity=mark.last,
        change=float(equity - opening),
        change_share=float((equity - opening) / opening) if opening > 0 else None,
        high_water=mark.high_water,
        drawdown=float((high - equity) / high) if high > 0 else None,
        marked_at=mark.updated_at,
    )

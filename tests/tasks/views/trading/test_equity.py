"""Equity by session day: change, drawdown and what is missing."""

from __future__ import annotations

import datetime as dt

from chordesk.models.database.store import Store
from chordesk.models.tables.orders import EquityMark
from chordesk.tasks.reading.accounts import equity_curve, equity_now

DAY = dt.date(2010, 8, 12)


def add(store: Store, *rows: tuple[int, float, float, float], account: str = "paper") -> None:
    """Marks as (days after DAY, opening, last, high)."""
    with store.session() as session:
        for after, opening, last, high in rows:
            day = DAY + dt.timedelta(days=after)
            session.add(EquityMark(account=account, day=day, opening=opening, last=last, high_water=high))


def test_a_curve_is_in_order_and_has_the_deepest_fall(store: Store) -> None:
    add(store, (1, 110.0, 88.0, 110.0), (0, 100.0, 110.0, 110.0), (4, 88.0, 99.0, 110.0))
    add(store, (0, 1.0, 1.0, 1.0), account="alpaca-live")
    with store.read() as session:
        found = equity_curve(session, "paper", 10)
        assert [one.equity for one in found.days] == [110.0, 88.0, 99.0]
        assert [one.change for one in found.days] == [10.0, -22.0, 11.0]
        assert ([one.drawdown for one in found.days], found.deepest) == ([0.0, 0.2, 0.1], 0.2)
        assert [one.equity for one in equity_curve(session, "paper", 2).days] == [88.0, 99.0]
        assert (equity_curve(session, "none", 2).days, equity_curve(session, "none", 2).deepest) == ([], None)


def test_today_is_the_newest_day_that_is_not_later_than_the_markets(store: Store) -> None:
    add(store, (0, 100.0, 110.0, 110.0), (1, 110.0, 0.0, 110.0))
    with store.read() as session:
        today, before, later = (equity_now(session, "paper", DAY + dt.timedelta(days=n)) for n in (0, -1, 7))
    assert (today is not None and (today.equity, today.current)) == (110.0, True)
    assert before is None
    assert (later is not None and (later.equity, later.current, later.drawdown)) == (0.0, False, 1.0)


def test_shares_of_nothing_are_none(store: Store) -> None:
    add(store, (0, 0.0, -5.0, 0.0))
    with store.read() as session:
        (day,) = equity_curve(session, "paper", 1).days
    assert (day.change, day.change_share, day.drawdown) == (-5.0, None, None)

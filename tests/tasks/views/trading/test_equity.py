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


def test_books_that_are_ahead_of_a_replay_or_behind_the_market_name_their_day(store: Store) -> None:
    add(store, (0, 100.0, 110.0, 110.0), (1, 110.0, 0.0, 110.0))
    with store.read() as session:
        found = [equity_now(session, "paper", DAY + dt.timedelta(days=n)) for n in (0, 1, 7)]
        until = equity_curve(session, "paper", 10, DAY)
    newest = DAY + dt.timedelta(days=1)
    assert [one and (one.day, one.equity, one.current) for one in found] == [
        (newest, 0.0, False), (newest, 0.0, True), (newest, 0.0, False),
    ]  # fmt: skip
    assert ([one.day for one in until.days], until.deepest) == ([DAY], 0.0)


def test_shares_of_nothing_are_none(store: Store) -> None:
    add(store, (0, 0.0, -5.0, 0.0))
    with store.read() as session:
        (day,) = equity_curve(session, "paper", 1).days
    assert (day.change, day.change_share, day.drawdown) == (-5.0, None, None)

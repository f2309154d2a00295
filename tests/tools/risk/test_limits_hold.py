"""Whatever is asked for, in whatever order, on whatever prices: the gross limit, the daily count and a halt hold."""

from __future__ import annotations

import datetime as dt
import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as rules
from hypothesis import strategies as st
from sqlmodel import col, select

from chordesk.models.states import ORDER_FINAL, ORDER_WORKING, OrderState
from chordesk.models.tables.orders import Fill, Order
from chordesk.tools.decimals import exact
from chordesk.tools.orders import halting
from tests.examples import examples
from tests.tools.orders.desk import Desk, action, make_desk
from tests.tools.orders.tape import Tape

SYMBOLS = ("AAA", "BBB", "CCC")
GROSS, A_DAY = 2_000.0, 4
OPEN_TO = {"max_symbol_share": 1, "max_daily_loss": 1, "max_drawdown": 1, "max_orders_per_minute": 1_000}
SENT = frozenset({*ORDER_WORKING, *ORDER_FINAL} - {OrderState.DENIED})
CLEARED = SENT | {OrderState.PREVIEWED}
QUIET = (HealthCheck.function_scoped_fixture, HealthCheck.too_slow)

PRICES = st.lists(st.sampled_from([19.99, 50.0, 65.37]), min_size=3, max_size=3)
BUYS = st.builds(
    action,
    st.sampled_from(SYMBOLS),
    st.sampled_from(["open", "add"]),
    notional=st.sampled_from([200.0, 700.0, 1_500.0]),
)
SELLS = st.builds(
    action, st.sampled_from(SYMBOLS), st.sampled_from(["reduce", "close"]), quantity=st.sampled_from([1.0, 4.0, 14.0])
)
EVENTS = st.one_of(
    st.just(("nothing", None)),
    st.tuples(st.just("prices"), PRICES),
    st.just(("next day", None)),
    st.tuples(st.just("halt"), st.sampled_from(["row", "file"])),
    st.just(("resume", None)),
)
DECISIONS = st.lists(st.one_of(BUYS, BUYS, BUYS, SELLS), min_size=1, max_size=4)
STEPS = st.lists(st.tuples(EVENTS, DECISIONS), min_size=3, max_size=6)
QUIETLY = ("nothing", None)
BUY = [action(symbol, notional=700.0) for symbol in SYMBOLS]
SMALL = [action(symbol, notional=200.0) for symbol in SYMBOLS]
_homes = itertools.count()


@pytest.mark.long
@rules(max_examples=examples(6), deadline=None, suppress_health_check=QUIET)
@given(steps=STEPS, live=st.booleans())
@example(steps=[(QUIETLY, BUY), (QUIETLY, BUY)], live=True)
@example(steps=[(QUIETLY, BUY)], live=False)
@example(steps=[(QUIETLY, SMALL), (QUIETLY, SMALL), (("next day", None), SMALL)], live=True)
@example(steps=[(QUIETLY, [*SMALL, *SMALL])], live=False)
@example(steps=[(("halt", "row"), SMALL), (("resume", None), SMALL), (("halt", "file"), SMALL)], live=True)
def test_no_sequence_of_intents_passes_the_limits(
    template_db: Path, tmp_path: Path, steps: list[Any], live: bool
) -> None:
    market = Tape(dict.fromkeys(SYMBOLS, 50.0))
    limits = {"max_gross_notional": GROSS, "max_trades_per_day": A_DAY}
    desk = make_desk(template_db, tmp_path / str(next(_homes)), market, trader_live=live, **OPEN_TO, **limits)
    halted = False
    for (kind, value), asked in steps:
        if kind == "prices":
            market.prices = dict(zip(SYMBOLS, value, strict=True))
        elif kind == "next day":
            market.clock.at += dt.timedelta(days=3 if market.clock.at.weekday() == 4 else 1)
        elif kind == "halt":
            halted = True
            _halt(desk, value)
        elif kind == "resume":
            halted = False
            with desk.store.session() as session:
                halting.resume(session, desk.settings, "paper", "a test")
            halting.remove_file(desk.settings)
        _decide(desk, asked, halted)
    desk.store.close()


def _halt(desk: Desk, how: str) -> None:
    if how == "file":
        halting.write_file(desk.settings, "a test", "a test")
        return
    halting.halt(desk.store, "paper", "a test", "a test")


def _decide(desk: Desk, asked: list[dict[str, Any]], halted: bool) -> None:
    assert isinstance(desk.market, Tape)
    prices, before = desk.market.prices, desk.positions()
    outcomes = desk.run(*asked)
    cleared = [row for row in outcomes if row.state in CLEARED]
    if halted:
        assert cleared == []
        assert desk.positions() == before
        return
    # What was held, with every cleared buy on top and no sell filled.
    gross = sum((exact(abs(count)) * exact(prices[symbol]) for symbol, count in before.items()), exact(0))
    bought = [exact(row.quantity or 0) * exact(row.price or 0) for row in cleared if row.side == "buy"]
    if bought:
        assert gross + sum(bought, exact(0)) <= exact(GROSS)
    assert len([row for row in cleared if row.side == "buy"]) <= A_DAY  # a sale only reduces, and does not count
    _check_count(desk)


def _check_count(desk: Desk) -> None:
    with desk.store.read() as session:
        orders = session.exec(select(Order).where(col(Order.state).in_([state.value for state in SENT]))).all()
        fills = session.exec(select(Fill)).all()
    by_day: dict[dt.date, int] = {}
    for order in (one for one in orders if one.side == "buy"):
        by_day[order.market_at.date()] = by_day.get(order.market_at.date(), 0) + 1
    assert all(count <= A_DAY for count in by_day.values())
    assert {fill.order_id for fill in fills} <= {order.id for order in orders}

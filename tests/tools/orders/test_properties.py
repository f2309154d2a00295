"""Whatever a trader asks for, the limits hold: random decisions on a market that moves, against a real database."""

from __future__ import annotations

import datetime as dt
import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as rules
from hypothesis import strategies as st
from sqlmodel import col, delete, select

from chordesk.models.states import OrderState
from chordesk.models.tables.orders import Account, Fill, Order, OrderCheck, Position, Preview
from chordesk.tools.decimals import exact
from chordesk.tools.ledger import ensure_account
from tests.examples import examples
from tests.tools.orders.desk import Desk, Outcome, action, make_desk
from tests.tools.orders.tape import Tape

SYMBOLS = ("AAA", "BBB", "CCC")
CASH = 10_000.0
SENT = (OrderState.PREVIEWED, OrderState.FILLED, OrderState.REJECTED, OrderState.EXPIRED, OrderState.SUBMITTED)
PRICES = st.integers(100, 50_000).map(lambda cents: cents / 100)
KINDS = st.sampled_from(["open", "add", "reduce", "close", "hold"])
AMOUNTS = st.one_of(
    st.fixed_dictionaries({"quantity": st.floats(0.1, 200, allow_nan=False)}),
    st.fixed_dictionaries({"notional": st.floats(1, 20_000, allow_nan=False)}),
)


@st.composite
def actions(draw: st.DrawFn) -> dict[str, Any]:
    limit = draw(st.one_of(st.none(), PRICES))
    extra: dict[str, Any] = {"orderType": "limit", "limitPrice": limit} if limit else {}
    return action(draw(st.sampled_from(SYMBOLS)), draw(KINDS), **draw(AMOUNTS), **extra)


DECISIONS = st.lists(
    st.tuples(
        st.lists(actions(), min_size=1, max_size=5),
        st.lists(PRICES, min_size=3, max_size=3),  # quotes
        st.lists(st.one_of(st.none(), PRICES), min_size=3, max_size=3),  # next opens
        st.booleans(),  # live
    ),
    min_size=1,
    max_size=3,
)
_homes = itertools.count()


@pytest.mark.long
@rules(
    max_examples=examples(15),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(decisions=DECISIONS, share=st.sampled_from([0.1, 0.5, 1.0]), bps=st.sampled_from([0.0, 25.0]))
def test_no_decisions_break_cash_share_or_long_only(
    template_db: Path, tmp_path: Path, decisions: list[Any], share: float, bps: float
) -> None:
    market = Tape({})
    desk = make_desk(
        template_db,
        tmp_path / str(next(_homes)),
        market,
        max_symbol_share=share,
        max_order_notional=6_000,
        slippage_bps=bps,
        commission_per_share=0.005,
        starting_cash=CASH,
    )
    with desk.store.session() as session:
        ensure_account(session, "paper", CASH)
    for asked, quotes, opens, live in decisions:
        market.prices = dict(zip(SYMBOLS, quotes, strict=True))
        market.opens = dict(zip(SYMBOLS, opens, strict=True))
        market.clock.at += dt.timedelta(days=1)
        while market.clock.at.weekday() >= 5:
            market.clock.at += dt.timedelta(days=1)
        cash, held = desk.cash(), desk.positions()
        decision = desk.decide(*asked)
        outcomes = desk.process(decision, trader_live=live)
        _check_previews(outcomes, market, cash, held, share)
        _check_books(desk, cash, decision)
        assert desk.process(decision, trader_live=live) == outcomes
    desk.store.close()


def _check_previews(outcomes: list[Outcome], market: Tape, cash: float, held: dict[str, float], share: float) -> None:
    """Check that the cleared orders, taken together and with no sell filled, fit the cash and the share of each
    symbol."""
    equity = exact(cash) + sum(exact(count) * exact(market.prices[symbol]) for symbol, count in held.items())
    cleared = [row for row in outcomes if row.state in SENT]
    buys = [row for row in cleared if row.side == "buy"]
    assert sum(exact(row.notional or 0) for row in buys) <= exact(cash)
    for symbol in SYMBOLS:
        for last in (row for row in buys if row.symbol == symbol):
            before = sum(
                exact(row.quantity or 0) for row in buys if row.symbol == symbol and row.ordinal <= last.ordinal
            )
            exposure = (exact(held.get(symbol, 0)) + before) * exact(last.price or 0)
            assert exposure <= exact(share) * equity
        sells = sum(exact(row.quantity or 0) for row in cleared if row.symbol == symbol and row.side == "sell")
        assert sells <= exact(held.get(symbol, 0))
    assert all((row.notional or 0) <= 6_000 for row in cleared)


def _check_books(desk: Desk, cash_before: float, decision: str) -> None:
    assert desk.cash() >= 0
    assert all(count > 0 for count in desk.positions().values())
    with desk.store.read() as session:
        fills = session.exec(select(Fill).join(Order).where(col(Order.decision_id) == decision)).all()
        everything = session.exec(select(Fill)).all()
    bought = sum(fill.quantity * fill.price for fill in fills if fill.side == "buy")
    sold = sum(fill.quantity * fill.price for fill in fills if fill.side == "sell")
    assert bought <= cash_before + sold + 1e-6
    for symbol in SYMBOLS:
        shares = sum(fill.quantity * (1 if fill.side == "buy" else -1) for fill in everything if fill.symbol == symbol)
        assert shares == desk.positions().get(symbol, 0)


EXTREME = st.floats(1e-300, 1e300, allow_nan=False, allow_infinity=False)


@rules(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(amount=EXTREME, limit=st.one_of(st.none(), EXTREME), by=st.sampled_from(["quantity", "notional"]))
@example(amount=1.0, limit=1e24, by="quantity")  # more digits than the usual context of decimal rounds
def test_absurd_figures_are_denied_and_break_nothing(
    shared_desk: Desk, amount: float, limit: float | None, by: str
) -> None:
    extra = {"orderType": "limit", "limitPrice": limit} if limit else {}
    with shared_desk.store.session() as session:
        for table in (OrderCheck, Preview, Fill, Order, Position, Account):
            session.exec(delete(table))
    (outcome,) = shared_desk.run(action("AAA", **{by: amount}, **extra))
    assert outcome.state in (OrderState.DENIED, OrderState.PREVIEWED)
    if outcome.state == OrderState.PREVIEWED:
        assert (outcome.notional or 0) <= shared_desk.settings.max_order_notional

"""Cash and positions by fills."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as rules
from hypothesis import strategies as st
from sqlmodel import delete

from chordesk.models.errors import OrderError
from chordesk.models.orders import AccountView, BrokerFill
from chordesk.models.tables.columns import new_id, utcnow
from chordesk.models.tables.orders import Account, BookedSettlement, BooksMark, Fill, Position
from chordesk.tools import ledger
from chordesk.tools.decimals import exact, money, plain
from chordesk.tools.ledger import apply_fill, books_of, ensure_account, keep_marks, value
from tests.examples import examples
from tests.tools.ledger_rows import add, filled_order
from tests.tools.orders.desk import Desk
from tests.tools.orders.tape import Tape

NewDesk = Callable[..., Desk]
AT = dt.datetime(2010, 8, 13, 13, 30, tzinfo=dt.UTC)


def _fill(desk: Desk, side: str, quantity: float, price: float, commission: float = 0.0) -> None:
    fill = BrokerFill(quantity=quantity, price=price, commission=commission, at=AT)
    with desk.store.session() as session:
        ensure_account(session, "paper", 1_000.0)
        apply_fill(session, "paper", "AAA", side, fill)


def _view(desk: Desk, market: Tape | None = None) -> AccountView:
    with desk.store.read() as session:
        return value(session, market or Tape({"AAA": 12.0}), "paper")


@pytest.mark.parametrize(
    ("fills", "cash", "quantity", "cost"),
    [
        ([("buy", 10, 10.0)], 900.0, 10, 10.0),
        ([("buy", 10, 10.0), ("buy", 30, 14.0)], 480.0, 40, 13.0),
        ([("buy", 10, 10.0), ("sell", 4, 20.0)], 980.0, 6, 10.0),
        ([("buy", 10, 10.0), ("sell", 10, 20.0)], 1100.0, None, None),
        ([("buy", 10, 10.0), ("sell", 15, 20.0)], 1200.0, -5, 20.0),
        ([("sell", 10, 10.0), ("sell", 10, 20.0)], 1300.0, -20, 15.0),
        ([("sell", 10, 10.0), ("buy", 4, 5.0)], 1080.0, -6, 10.0),
    ],
)
def test_a_fill_moves_cash_shares_and_average_cost(new_desk: NewDesk, fills, cash, quantity, cost) -> None:
    desk = new_desk()
    for fill in fills:
        _fill(desk, *fill)
    view = _view(desk)
    assert view.cash == cash
    if quantity is None:
        assert view.positions == []
        assert view.equity == cash
    else:
        (held,) = view.positions
        assert (held.quantity, held.average_cost, held.market_price) == (quantity, cost, 12.0)
        assert view.equity == cash + quantity * 12


def test_commission_comes_out_of_cash_and_not_out_of_cost(new_desk: NewDesk) -> None:
    desk = new_desk()
    _fill(desk, "buy", 10, 10.0, commission=0.1)
    view = _view(desk)
    assert (view.cash, view.positions[0].average_cost) == (899.9, 10)


def test_equity_is_unknown_while_a_position_has_no_price(new_desk: NewDesk) -> None:
    desk = new_desk()
    _fill(desk, "buy", 1, 10.0)
    view = _view(desk, Tape({}))
    assert view.equity is None
    assert (view.positions[0].market_price, view.positions[0].priced_at) == (None, None)


def test_an_account_is_opened_once(new_desk: NewDesk) -> None:
    desk = new_desk()
    for cash in (500.0, 900.0):
        with desk.store.session() as session:
            assert ensure_account(session, "paper", cash).cash == 500
    with pytest.raises(OrderError, match="no account 'other'"), desk.store.read() as session:
        value(session, Tape({}), "other")


FILLS = st.tuples(st.sampled_from(["buy", "sell"]), st.integers(1, 99), st.integers(1, 999_999))


@rules(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(fills=st.lists(FILLS, max_size=6))
def test_the_books_balance_to_the_last_decimal(new_desk: NewDesk, fills: list[tuple[str, int, int]]) -> None:
    desk = new_desk()
    with desk.store.session() as session:
        session.exec(delete(Position))
        session.exec(delete(Account))
        ensure_account(session, "paper", 1_000.0)
        for side, quantity, ticks in fills:
            fill = BrokerFill(quantity=quantity, price=ticks / 10_000, commission=0, at=AT)
            apply_fill(session, "paper", "AAA", side, fill)
    signs = {"buy": 1, "sell": -1}
    shares = sum(signs[side] * quantity for side, quantity, _ in fills)
    spent = sum(signs[side] * quantity * ticks for side, quantity, ticks in fills)
    view = _view(desk)
    assert sum(held.quantity for held in view.positions) == shares
    assert exact(view.cash) == 1_000 - exact(spent) / 10_000
    desk.store.close()


@pytest.mark.parametrize(
    ("value", "text"), [(100.0, "100"), (1e22, "1" + "0" * 22), (0.1, "0.1"), (-0.0, "0"), (1e-7, "0.0000001")]
)
def test_plain_numbers_have_no_exponent(value: float, text: str) -> None:
    assert plain(value) == text


@pytest.mark.parametrize(("value", "text"), [(1234.5, "1,234.50"), (1e6, "1,000,000.00"), (18.9811, "18.9811")])
def test_money_reads_like_money(value: float, text: str) -> None:
    assert money(value) == text


MOVES = st.lists(
    st.tuples(
        st.sampled_from(["buy", "sell", "split", "dividend", "expired"]),
        st.sampled_from(["AAA", "BBB"]),
        st.integers(-60, 60).filter(bool),
        st.integers(1, 9_999).map(lambda cents: cents / 100),
        st.integers(0, 20),  # market days
        st.integers(0, 3),  # real minutes since the one before
        st.booleans(),  # whether marks are kept after it
    ),
    max_size=25,
)


@rules(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(MOVES, st.integers(0, 20))
def test_books_from_a_mark_are_those_from_the_first_fill(new_desk: NewDesk, moves: list[Any], day: int) -> None:
    """To the cent, at any market time, in whatever order it passed."""
    desk, booked = new_desk(), utcnow() - dt.timedelta(hours=3)
    with pytest.MonkeyPatch.context() as patched, desk.store.session() as session:
        patched.setattr(ledger, "ROWS_A_MARK", 3)
        ensure_account(session, "paper", 1_000.0)
        order = add(session, filled_order(session)).id
        for kind, symbol, quantity, price, market_day, minutes, keeps in moves:
            booked, at = booked + dt.timedelta(minutes=minutes), AT + dt.timedelta(days=market_day)
            common = {"account": "paper", "symbol": symbol, "price": price, "created_at": booked}
            if kind in ("buy", "sell"):
                fill = {"side": kind, "quantity": abs(quantity), "commission": 0.01, "filled_at": at}
                session.add(Fill(order_id=order, **common, **fill))
            else:
                session.add(BookedSettlement(id=new_id(), kind=kind, quantity=quantity, settled_at=at, **common))
            session.flush()
            if keeps:
                keep_marks(session, "paper")
        times = [None, AT + dt.timedelta(days=day)]
        marked = [books_of(session, "paper", 0.0, at) for at in times]
        held = books_of(session, "paper", 0.0, times[1], "AAA").held.get("AAA")
        session.exec(delete(BooksMark))
        whole = [books_of(session, "paper", 0.0, at) for at in times]
        session.rollback()
    assert [(one.cash, one.held) for one in marked] == [(one.cash, one.held) for one in whole]
    assert held == whole[1].held.get("AAA")
    assert all(one.rows <= other.rows for one, other in zip(marked, whole, strict=True))

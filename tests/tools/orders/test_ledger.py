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

from chordesk.models.errors import MarketError, OrderError
from chordesk.models.money import Duty, FxRate, Money
from chordesk.models.orders import AccountView, BrokerFill
from chordesk.models.tables.columns import new_id, utcnow
from chordesk.models.tables.orders import Account, BookedSettlement, BooksMark, Fill, Position
from chordesk.tools import books
from chordesk.tools.books import books_of, keep_marks
from chordesk.tools.decimals import exact, money, plain
from chordesk.tools.ledger import apply_fill, ensure_account, gains_of, value
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


class _Pounds(Tape):
    """A market that also knows what a pound is worth, if it is told so."""

    def __init__(self, price: float, rate: float | None) -> None:
        super().__init__({"AZN.L": price})
        self.money, self._rate = Money(), rate

    def rate(self, currency: str) -> FxRate:
        if self._rate is None:
            raise MarketError("no rate of GBPUSD is known: that of fx.csv is of 2010-08-02")
        return FxRate(currency, "USD", self._rate, AT, "fx.csv")

    def newest(self, currency: str) -> FxRate | None:
        return None


def _in_pounds(desk: Desk, *fills: tuple[str, float, float, float], duties: tuple[Duty, ...] = ()) -> None:
    with desk.store.session() as session:
        ensure_account(session, "paper", 1_000.0)
        for side, quantity, price, rate in fills:
            terms = {"quantity": quantity, "price": price, "commission": 1.0, "at": AT, "duties": duties}
            fill = BrokerFill.model_validate({**terms, "currency": "GBP", "rate": rate})
            apply_fill(session, "paper", "AZN.L", side, fill)


def test_a_fill_in_pounds_moves_dollars_at_its_rate_and_its_gain_has_two_parts(new_desk: NewDesk) -> None:
    desk = new_desk()
    _in_pounds(desk, ("buy", 10, 5.0, 1.5), ("buy", 10, 7.0, 1.3), duties=(Duty("stamp duty", 0.25),))
    view = _view(desk, _Pounds(8.0, 1.25))
    assert exact(view.cash) == 1_000 - 75 - 91 - exact(2.5)  # two commissions and duties of 1.25 each
    (held,) = view.positions
    assert (held.average_cost, held.currency, held.cost_base) == (6.0, "GBP", 8.3)  # 166 dollars for 20
    assert exact(view.equity or 0) == exact(view.cash) + 200  # 20 at 8 pounds of 1.25
    assert gains_of(held) == (50, -16)  # 2 pounds each at 1.25, and 120 pounds that cost 166 dollars are 150
    _in_pounds(desk, ("sell", 20, 8.0, 1.25))
    assert exact(_view(desk).cash) == 1_000 - 166 + 200 - exact(3.5)


def test_equity_is_unknown_while_a_currency_has_no_rate(new_desk: NewDesk) -> None:
    desk = new_desk()
    _in_pounds(desk, ("buy", 10, 5.0, 1.5))
    for market, why in ((_Pounds(8.0, None), "of 2010-08-02"), (Tape({"AZN.L": 8.0}), "no rate of GBPUSD was read")):
        view = _view(desk, market)
        assert view.equity is None
        assert why in (view.positions[0].missing or "")
        assert gains_of(view.positions[0]) is None


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
        patched.setattr(books, "ROWS_A_MARK", 3)
        ensure_account(session, "paper", 1_000.0)
        order = add(session, filled_order(session)).id
        for kind, symbol, quantity, price, market_day, minutes, keeps in moves:
            booked, at = booked + dt.timedelta(minutes=minutes), AT + dt.timedelta(days=market_day)
            common = {"account": "paper", "symbol": symbol, "price": price, "created_at": booked}
            if symbol == "BBB":
                common |= {"currency": "GBP", "rate": 1.3 + minutes / 100}
            if kind in ("buy", "sell"):
                fill = {
                    "side": kind,
                    "quantity": abs(quantity),
                    "commission": 0.01,
                    "filled_at": at,
                    "duties": [["stamp duty", 0.05]],
                }
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
    assert [(one.cash, one.held, one.bases) for one in marked] == [(one.cash, one.held, one.bases) for one in whole]
    assert held == whole[1].held.get("AAA")
    assert all(one.rows <= other.rows for one, other in zip(marked, whole, strict=True))

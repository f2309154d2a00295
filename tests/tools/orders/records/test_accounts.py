"""Marks that losses are measured from: of every look, moved by money that came or went."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable

import pytest
from sqlmodel import col, select

from chordesk.models.errors import FencedOff
from chordesk.models.orders import DenialCode, Denied
from chordesk.models.states import OrderState
from chordesk.models.tables.orders import EquityMark, Submitter
from chordesk.tools.orders import accounts
from chordesk.tools.orders.accounts import FencingLease
from chordesk.tools.orders.flow import maintain_orders, process_decision
from chordesk.tools.orders.reconciliation import reconcile
from tests.fakes.alpaca import Alpaca
from tests.tools.orders.desk import Desk, action
from tests.tools.orders.tape import Tape

NewDesk = Callable[..., Desk]
WIDE = {"max_symbol_share": 1, "max_gross_notional": 1e9, "max_symbol_notional": 1e9, "max_drawdown": 0.15}


@pytest.fixture
def desk(alpaca: Alpaca, new_desk: NewDesk) -> Desk:
    return new_desk(Tape({"AAA": 100.0}), broker="alpaca-paper")


def marks(desk: Desk) -> list[tuple[float, float, float]]:
    """(opening, last, high water) by day."""
    with desk.store.read() as session:
        rows = session.exec(select(EquityMark).order_by(col(EquityMark.day))).all()
    return [(row.opening, row.last, row.high_water) for row in rows]


@pytest.mark.both_databases
def test_a_high_between_two_orders_counts(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0, "BBB": 50.0})
    desk = new_desk(market, **WIDE)
    desk.hold("AAA", 500, 100.0)
    maintain_orders(desk.context())
    market.prices["AAA"] = 300.0
    maintain_orders(desk.context())
    market.prices["AAA"] = 200.0
    maintain_orders(desk.context())
    assert marks(desk) == [(150_000, 200_000, 250_000)]
    (order,) = desk.run(action("BBB", quantity=1))
    assert (order.denied.code, order.denied.measured) == (DenialCode.DRAWDOWN, "20.0000% lost")


def test_no_mark_while_the_exchange_is_shut_or_a_position_has_no_price(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0})
    desk = new_desk(market)
    desk.hold("AAA", 5, 100.0)
    market.clock.at = market.clock.at.replace(hour=17)
    maintain_orders(desk.context())
    market.clock.at += dt.timedelta(hours=22)
    assert market.clock.is_open()
    del market.prices["AAA"]
    maintain_orders(desk.context())
    assert marks(desk) == []
    market.prices["AAA"] = 100.0
    maintain_orders(desk.context())
    assert marks(desk) == [(100_500, 100_500, 100_500)]


@pytest.mark.parametrize("moved", [50_000, -50_000])
def test_money_that_comes_or_goes_is_neither_gain_nor_loss(desk: Desk, alpaca: Alpaca, moved: int) -> None:
    maintain_orders(desk.context())
    desk.market.clock.at += dt.timedelta(days=1)  # type: ignore[attr-defined]
    maintain_orders(desk.context())
    assert marks(desk) == [(100_000,) * 3] * 2
    alpaca.cash += moved
    assert reconcile(desk.store, desk.settings, desk.broker, "a test").agreed
    maintain_orders(desk.context())
    assert marks(desk) == [(100_000 + moved,) * 3] * 2


def test_an_account_taken_over_is_measured_from_what_it_brought(desk: Desk, alpaca: Alpaca) -> None:
    maintain_orders(desk.context())
    assert marks(desk) == [(100_000,) * 3]
    alpaca.hold("AAA", 100, 90)
    alpaca.cash -= 19_000
    assert not reconcile(desk.store, desk.settings, desk.broker, "a test").agreed
    reconcile(desk.store, desk.settings, desk.broker, "a test", adopt=True)
    assert marks(desk) == [(90_000,) * 3], "19000 went and shares for 9000 came"


def test_an_unexplained_difference_makes_no_mark(desk: Desk, alpaca: Alpaca) -> None:
    alpaca.hold("AAA", 100, 90)
    maintain_orders(desk.context())
    assert marks(desk) == []


def _lost(desk: Desk, price: float) -> Denied | None:
    """The denial of a purchase after the price of what is held has changed."""
    desk.market.prices["AAA"] = price  # type: ignore[attr-defined]
    return desk.run(action("BBB", quantity=1))[0].denied


@pytest.mark.parametrize(("days", "since"), [(1, "the last mark of 2010-08-12"), (6, "today's first mark")])
def test_a_days_loss_is_measured_from_the_session_before_and_no_other(new_desk: NewDesk, days: int, since: str) -> None:
    """A fall of six sessions is not one of today; the account is then measured from today's first mark."""
    market = Tape({"AAA": 100.0, "BBB": 50.0})
    desk = new_desk(market, **{**WIDE, "max_drawdown": 1, "starting_cash": 1_000})
    desk.hold("AAA", 1_000, 100.0)
    maintain_orders(desk.context())  # a Thursday
    market.clock.at += dt.timedelta(days=days)
    denied = _lost(desk, 96.0)
    if days == 1:
        assert denied.code == DenialCode.DAILY_LOSS
        assert f"at {since}" in denied.reason
        return
    assert denied is None
    later = _lost(desk, 93.0)
    assert later is not None
    assert later.code == DenialCode.DAILY_LOSS
    assert f"at {since}, for the session before (2010-08-17) has none" in later.reason


def test_the_session_before_monday_is_friday(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0, "BBB": 50.0})
    market.clock.at += dt.timedelta(days=1)
    desk = new_desk(market, **{**WIDE, "max_drawdown": 1, "starting_cash": 1_000})
    desk.hold("AAA", 1_000, 100.0)
    maintain_orders(desk.context())
    market.clock.at += dt.timedelta(days=3)
    denied = _lost(desk, 96.0)
    assert "at the last mark of 2010-08-13" in denied.reason


@pytest.mark.both_databases
def test_tokens_only_grow_and_only_the_last_one_is_in_force(new_desk: NewDesk) -> None:
    store = new_desk().store
    assert [accounts.take(store, "paper", name) for name in ("one", "two", "three")] == [1, 2, 3]
    assert accounts.take(store, "alpaca-paper", "elsewhere") == 1
    with store.session() as session:
        accounts.require(session, "paper", 3)
        with pytest.raises(FencedOff, match=r"token 2 of account paper is no longer in force.*3, taken by three"):
            accounts.require(session, "paper", 2)
        with pytest.raises(FencedOff, match="the one that is: none"):
            accounts.require(session, "alpaca-live", 1)


@pytest.mark.both_databases
def test_takers_at_the_same_time_get_tokens_of_their_own(new_desk: NewDesk) -> None:
    store = new_desk().store
    tokens: list[int] = []
    threads = [threading.Thread(target=lambda: tokens.append(accounts.take(store, "paper", "one"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(tokens) == list(range(1, 9))


@pytest.mark.both_databases
def test_a_lease_is_taken_once_and_never_again_by_itself(new_desk: NewDesk) -> None:
    store = new_desk().store
    old, new = FencingLease(store, "paper", "old"), FencingLease(store, "paper", "new")
    assert (old.acquire(), old.acquire(), new.acquire()) == (1, 1, 2)
    old.mark_reconciled()
    for _ in range(2):
        with pytest.raises(FencedOff, match="taken by new"):
            old.acquire()
    with store.session() as session:
        accounts.release(session, "paper")
    assert old.acquire() == 4
    assert old.seconds_since_reconciled() is None, "somebody else traded meanwhile"
    with pytest.raises(FencedOff, match="taken by old"):
        new.acquire()


@pytest.mark.both_databases
def test_two_trade_workers_by_mistake_and_the_older_one_sends_nothing(new_desk: NewDesk) -> None:
    desk = new_desk()
    assert desk.run(action())[0].state == OrderState.FILLED
    newer = FencingLease(desk.store, "paper", "the newer worker")
    newer.acquire()
    decision = desk.decide(action("BBB"))
    with pytest.raises(FencedOff, match="the newer worker"):
        desk.process(decision)
    assert [row.symbol for row in desk.orders()] == ["AAA"], "who is fenced off leaves the decision as it is"
    done = process_decision(desk.store, desk.settings, desk.market, desk.broker, decision, newer)
    assert [row.state for row in desk.outcomes(done)] == [OrderState.FILLED]
    assert sorted((row.symbol, row.fence or 0) for row in desk.orders()) == [("AAA", 1), ("BBB", 2)]


@pytest.mark.both_databases
def test_fenced_off_between_two_orders_the_second_is_not_sent(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0, "BBB": 50.0})
    desk = new_desk(market)

    def another() -> None:
        market.on_fill = None
        accounts.take(desk.store, "paper", "another")

    market.on_fill = another
    with pytest.raises(FencedOff):
        desk.run(action("AAA"), action("BBB"))
    assert [(row.symbol, row.state) for row in desk.orders()] == [("AAA", "filled"), ("BBB", "approved")]
    with desk.store.read() as session:
        assert session.get_one(Submitter, "paper").owner == "another"

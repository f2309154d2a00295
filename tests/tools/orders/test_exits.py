"""Exits through the funnel: soon after the purchase, at an old price, at none, and by a person's command."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from typing import Any

import pytest
from sqlmodel import select

from chordesk.models.orders import DenialCode
from chordesk.models.states import OrderState
from chordesk.models.tables.orders import Preview
from chordesk.tools.orders import approvals, halting, kill_switch
from chordesk.tools.orders.accounts import FencingLease
from chordesk.tools.orders.flow import maintain_orders
from chordesk.tools.orders.submitting import SubmissionContext, cancel
from tests.tools.orders.desk import Desk, Outcome, action
from tests.tools.orders.tape import Tape
from tests.tools.risk.test_options import PUT, Options, option

NewDesk = Callable[..., Desk]
DAY = dt.timedelta(days=1)


class Hollow(Tape):
    """A tape with holes: names that it prices no more are still positions."""

    def lose(self, symbol: str) -> None:
        del self.prices[symbol]


def _code(outcome: Outcome) -> DenialCode | None:
    return outcome.denied.code if outcome.denied else None


def _hole(market: Tape, age: dt.timedelta = DAY) -> None:
    market.quoted_at = market.clock.now() - age


def test_a_name_just_bought_can_be_sold_and_not_bought_again(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0})
    market.clock.at = market.clock.at.replace(hour=11)
    desk = new_desk(market, cooldown_hours=24, max_trades_per_day=1, max_orders_per_minute=1)
    assert desk.run(action())[0].state == OrderState.FILLED
    market.clock.at += dt.timedelta(minutes=1)
    again, sold = desk.run(action(kind="add"), action(kind="close"), ratings={"AAA": "INSUFFICIENT"})
    assert _code(again) == DenialCode.NOT_TRADABLE
    assert sold.state == OrderState.FILLED, sold
    assert desk.positions() == {}
    assert _code(desk.run(action())[0]) == DenialCode.COOLDOWN


def test_a_held_position_is_closed_without_a_verdict_and_nothing_is_opened_so(new_desk: NewDesk) -> None:
    desk = new_desk()
    desk.hold("AAA", 10)
    desk.hold("BBB", 10)
    closed, opened = desk.run(action(kind="close"), action("BBB", kind="add"), ratings={})
    assert closed.state == OrderState.FILLED, closed
    assert _code(opened) == DenialCode.NO_VERDICT
    over = desk.run(action("BBB", kind="close", quantity=11), ratings={})[0]
    assert over.state == OrderState.DENIED


def test_at_an_old_price_a_name_is_sold_within_the_collar_and_not_bought(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0})
    desk = new_desk(market)
    desk.hold("AAA", 10)
    _hole(market)
    bought, sold = desk.run(action(kind="add"), action(kind="close"))
    assert _code(bought) == DenialCode.QUOTE_STALE
    assert (sold.state, sold.order_type, sold.limit_price) == (OrderState.FILLED, "limit", 95.0)
    assert "the last price of AAA is 100.00 of 2010-08-11" in (desk.orders()[1].message or "")
    with desk.store.read() as session:
        payload = json.loads(session.exec(select(Preview)).one().payload)
    assert (payload["orderType"], payload["limitPrice"], payload["unpriced"]) == ("limit", "95", None)


def test_beyond_the_collar_of_the_old_price_it_is_not_sold(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0}, opens={"AAA": 94.99})
    desk = new_desk(market)
    desk.hold("AAA", 10)
    _hole(market)
    (sold,) = desk.run(action(kind="close"))
    assert (sold.state, desk.positions()) == (OrderState.SUBMITTED, {"AAA": 10})
    assert "limit 95.00 not met by 94.99" in (sold.message or "")
    cancel(desk.context(), sold.order_id)
    (asked,) = desk.run(action(kind="close", orderType="limit", limitPrice=94.99))
    assert _code(asked) == DenialCode.COLLAR


def test_an_option_is_bought_back_at_the_market_by_a_limit(new_desk: NewDesk) -> None:
    desk = new_desk(Options({"AAA": 100.0, PUT: 2.0}), stock_only=False, options_mode="both", max_symbol_share=1)
    desk.hold(PUT, -1, 2.0)
    (closed,) = desk.run(option("close", "buy", orderType="market", limitPrice=None), instrument="option")
    assert (closed.state, closed.order_type, closed.limit_price) == (OrderState.FILLED, "limit", 2.1)


def _unpriced(new_desk: NewDesk, **settings: Any) -> tuple[Desk, Outcome]:
    market = Hollow({"AAA": 100.0, "BBB": 50.0})
    desk = new_desk(market, **settings)
    desk.hold("AAA", 10, 80.0)
    market.lose("AAA")
    opened, sold = desk.run(action(kind="add"), action(kind="close"))
    assert _code(opened) == DenialCode.UNPRICED
    return desk, sold


def test_where_no_price_is_known_an_exit_waits_for_a_person(new_desk: NewDesk) -> None:
    desk, sold = _unpriced(new_desk, approval="auto")
    assert (sold.state, sold.price) == (OrderState.APPROVAL_PENDING, 80.0)
    assert "no price is known (unknown symbol AAA)" in (sold.message or "")
    with desk.store.session() as session:
        approvals.decide(session, desk.settings, str(sold.order_id), True, "somebody", None)
    maintain_orders(desk.context())
    order = desk.orders()[-1]
    assert (order.state, order.message) == ("submitted", "no price to fill at: unknown symbol AAA")
    assert isinstance(desk.market, Tape)
    desk.market.prices["AAA"] = 60.0
    maintain_orders(desk.context())
    assert (desk.orders()[-1].state, desk.positions()) == ("filled", {})


def test_an_amount_of_money_cannot_be_given_back_without_a_price(new_desk: NewDesk) -> None:
    market = Hollow({"AAA": 100.0})
    desk = new_desk(market)
    desk.hold("AAA", 10)
    market.lose("AAA")
    assert _code(desk.run(action(kind="close", notional=500.0))[0]) == DenialCode.UNPRICED


def test_flattening_sells_at_an_old_price_within_the_collar_and_else_at_the_market(
    new_desk: NewDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kill_switch, "FILL_SECONDS", 0.0)
    market = Tape({"AAA": 100.0, "BBB": 50.0})
    desk = new_desk(market)
    desk.hold("AAA", 7, 100.0)
    desk.hold("GONE", 2, 10.0)
    _hole(market)
    halting.halt(desk.store, "paper", "fire", "somebody")
    lease = FencingLease(desk.store, "paper", "desk halt")
    closed, gone = desk.flatten(
        SubmissionContext(desk.store, desk.settings, market, desk.broker, lease), "somebody", "fire"
    )[0]
    assert (closed.state, closed.order_type, closed.limit_price) == (OrderState.FILLED, "limit", 95.0)
    assert "instead of at the market" in (desk.orders()[0].message or "")
    assert (gone.order_type, gone.limit_price, gone.price) == ("market", None, 10.0)
    assert desk.positions() == {"GONE": 2}

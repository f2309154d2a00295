"""Denials as they reach the order's row: drafting, pricing, sizing, the rules' context, and stale previews."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from sqlmodel import col, select, update

from chordesk.models.orders import DenialCode
from chordesk.models.states import OrderState, RunState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Order, Preview
from chordesk.models.tables.runs import Run
from tests.tools.orders.desk import Desk, action, denied
from tests.tools.orders.tape import NEW_YORK, Tape, TapeClock

NewDesk = Callable[..., Desk]
PREVIEWED = OrderState.PREVIEWED


MALFORMED: list[tuple[Any, str]] = [
    (action(side="sell"), "side sell contradicts the action open"),
    (action(kind="close", side="buy"), "close with a buy of 10 contradicts the 0 shares held"),
    (action(side=None), "side none contradicts"),
    (action(quantity=10, notional=1000), "both of quantity and notional"),
    (action(quantity=None), "neither of quantity and notional"),
    (action(orderType=None), "no order type"),
    (action(orderType="limit"), "without a limit price"),
    (action(limitPrice=100.0), "market order with a limit price"),
    (action(quantity=-5), "quantity"),
    (action(quantity="many"), "quantity"),
    (action(kind="hodl"), "action"),
    (action(action=["open"]), "action"),
    (action(extra=1), "extra"),
    ({"symbol": "AAA"}, "Field required"),
    ("buy everything", "Field required"),
    (action(notional=99.99), "less than one share"),
    (action(quantity=0.99), "less than one share"),
]


def test_a_malformed_action_is_a_denied_row(new_desk: NewDesk) -> None:
    *refused, last = new_desk(trader_live=False).run(
        *(bad for bad, _ in MALFORMED), action("BBB"), ratings={"AAA": "BUY", "BBB": "BUY"}
    )
    for outcome, (_, why) in zip(refused, MALFORMED, strict=True):
        assert why in denied(outcome, DenialCode.MALFORMED)
    assert last.state == PREVIEWED


def test_just_well_formed(new_desk: NewDesk) -> None:
    desk = new_desk(trader_live=False)
    one, floor, limit, lower = desk.run(
        action(notional=100.0),
        action("BBB", quantity=10.9),
        action("CCC", orderType="limit", limitPrice=20.0),
        action("bbb", notional=149.99),
    )
    assert [row.state for row in (one, floor, limit, lower)] == [PREVIEWED] * 4
    assert [row.quantity for row in (one, floor, lower)] == [1, 10, 2]
    assert floor.message == "10.9 shares requested; whole shares are traded: 10"
    assert lower.symbol == "BBB"


def test_a_symbol_without_a_verdict_of_its_runs_is_denied(new_desk: NewDesk) -> None:
    desk = new_desk(trader_live=False)
    desk.run(action("CCC"))  # another run's verdict does not count
    inside, outside = desk.run(action("AAA"), action("CCC"), ratings={"AAA": "BUY"})
    assert inside.state == PREVIEWED
    assert "no verdict on CCC" in denied(outside, DenialCode.NO_VERDICT)


def test_a_verdict_of_the_parent_run_counts_and_the_own_one_comes_first(new_desk: NewDesk) -> None:
    desk = new_desk(trader_live=False)
    desk.decide(ratings={"AAA": "BUY", "BBB": "BUY"})
    with desk.store.read() as session:
        parent = session.exec(select(Run.id)).one()
    own = {"BBB": "PASS"}
    aaa, bbb = desk.process(desk.decide(action("AAA"), action("BBB"), ratings=own, parent=parent))
    assert aaa.state == PREVIEWED
    denied(bbb, DenialCode.NOT_TRADABLE)


@pytest.mark.parametrize(
    ("rating", "opens", "reduces"),
    [
        ("BUY", True, True),
        ("HOLD", True, True),
        ("CAUTION", True, True),
        ("PASS", False, True),
        ("INSUFFICIENT", False, True),
    ],
)
def test_each_rating_allows_its_actions(new_desk: NewDesk, rating: str, opens: bool, reduces: bool) -> None:
    desk = new_desk(trader_live=False)
    desk.hold("AAA", 10)
    rated = {"AAA": rating, "BBB": rating}
    sell, buy = desk.run(action("AAA", kind="close"), action("BBB"), ratings=rated)
    assert (buy.state == PREVIEWED) is opens
    assert (sell.state == PREVIEWED) is reduces
    for row, allowed in ((buy, opens), (sell, reduces)):
        if not allowed:
            assert f"verdict of {rating}" in denied(row, DenialCode.NOT_TRADABLE)


def test_what_rests_on_a_caution_is_previewed_and_never_sent(new_desk: NewDesk) -> None:
    desk = new_desk()
    held, sent = desk.run(action("AAA"), action("BBB"), ratings={"AAA": "CAUTION", "BBB": "HOLD"})
    assert (held.state, sent.state, desk.positions()) == (PREVIEWED, OrderState.FILLED, {"BBB": 10})
    assert "a mandate of `desk arm --caution`" in held.message


def test_unpriced(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0})
    desk = new_desk(market, trader_live=False)
    inside, unknown = desk.run(action("AAA"), action("NOPE"))
    assert inside.state == PREVIEWED
    assert "unknown symbol NOPE" in denied(unknown, DenialCode.UNPRICED)
    market.quoted_at = market.clock.at + dt.timedelta(seconds=1)
    assert "later than now" in denied(desk.run(action("AAA"))[0], DenialCode.UNPRICED)
    market.quoted_at = market.clock.at
    assert desk.run(action("AAA"))[0].state == PREVIEWED


def test_cooldown_is_per_symbol_in_market_time(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0, "BBB": 50.0})
    desk = new_desk(market, cooldown_hours=24)
    assert desk.run(action("AAA"))[0].state == OrderState.FILLED
    market.clock.at += dt.timedelta(days=1, seconds=-1)
    again, other = desk.run(action("AAA", kind="add"), action("BBB"))
    assert "1 s of market time remain" in denied(again, DenialCode.COOLDOWN)
    assert other.state == OrderState.FILLED
    market.clock.at += dt.timedelta(seconds=1)
    assert desk.run(action("AAA", kind="add"))[0].state == OrderState.FILLED


def test_a_second_order_on_a_symbol_in_one_decision_waits(new_desk: NewDesk) -> None:
    first, second = new_desk(cooldown_hours=24, trader_live=False).run(action("AAA"), action("AAA", kind="add"))
    assert first.state == PREVIEWED
    denied(second, DenialCode.COOLDOWN)


def test_a_preview_that_was_never_sent_starts_no_cooldown(new_desk: NewDesk) -> None:
    desk = new_desk(cooldown_hours=24, trader_live=False)
    assert desk.run(action("AAA"))[0].state == PREVIEWED
    assert desk.run(action("AAA"))[0].state == PREVIEWED


def test_an_account_trades_on_no_day_before_its_last_trade(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0, "BBB": 100.0})
    desk = new_desk(market)
    assert desk.run(action("AAA"))[0].state == OrderState.FILLED
    market.clock.at -= dt.timedelta(days=7)
    reason = denied(desk.run(action("BBB"))[0], DenialCode.MARKET_CLOSED)
    assert "account paper has traded on 2010-08-12: 2010-08-05 is over for it" in reason
    market.clock.at += dt.timedelta(days=8)
    assert desk.run(action("BBB"))[0].state == OrderState.FILLED


def test_a_preview_of_a_later_day_bars_no_earlier_one(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0})
    desk = new_desk(market, trader_live=False)
    assert desk.run(action("AAA"))[0].state == PREVIEWED
    market.clock.at -= dt.timedelta(days=7)
    assert desk.run(action("AAA"))[0].state == PREVIEWED


def test_notional_counts_the_higher_of_quote_and_limit(new_desk: NewDesk) -> None:
    desk = new_desk(trader_live=False, max_order_notional=1_000)
    inside, over, limit = desk.run(
        action(quantity=10),
        action("BBB", quantity=21),
        action("CCC", quantity=10, orderType="limit", limitPrice=100.01),
    )
    assert inside.state == PREVIEWED
    denied(over, DenialCode.NOTIONAL_PER_ORDER)
    denied(limit, DenialCode.NOTIONAL_PER_ORDER)


def test_a_position_without_a_price_stops_buys_and_not_sells(new_desk: NewDesk) -> None:
    desk = new_desk(trader_live=False)
    desk.hold("GONE", 5)
    desk.hold("AAA", 5)
    buy, sell = desk.run(action("BBB"), action("AAA", kind="reduce", quantity=5))
    assert "no price for GONE" in denied(buy, DenialCode.SHARE_PER_SYMBOL)
    assert sell.state == PREVIEWED


@pytest.mark.parametrize(
    ("clock", "open_"),
    [
        (TapeClock(dt.datetime(2010, 8, 12, 9, 30, tzinfo=NEW_YORK)), True),
        (TapeClock(dt.datetime(2010, 8, 12, 9, 29, 59, tzinfo=NEW_YORK)), False),
        (TapeClock(fails=True), False),
    ],
)
def test_market_hours(new_desk: NewDesk, clock: TapeClock, open_: bool) -> None:
    outcome = new_desk(Tape({"AAA": 100.0}, clock=clock)).run(action())[0]
    if open_:
        assert outcome.state == OrderState.FILLED
    else:
        denied(outcome, DenialCode.MARKET_CLOSED)


@pytest.mark.parametrize(("minutes", "fresh"), [(14.5, True), (15.5, False)])
def test_a_preview_ages_in_real_time_while_the_replay_stands_still(
    new_desk: NewDesk, minutes: float, fresh: bool
) -> None:
    desk = new_desk()
    decision = desk.decide(action())
    desk.process(decision, trader_live=False)
    with desk.store.session() as session:
        session.exec(update(Preview).values(created_at=utcnow() - dt.timedelta(minutes=minutes)))
    outcome = desk.process(decision)[0]
    if fresh:
        assert outcome.state == OrderState.FILLED
    else:
        denied(outcome, DenialCode.PREVIEW_STALE)


@pytest.mark.parametrize(
    "alter",
    [
        update(Order).values(quantity=11.0),
        update(Order).values(side="sell"),
        update(Order).values(limit_price=90.0),
        update(Order).values(stop_price=103.0),
        update(Order).values(trail_percent=5.0),
        update(Order).values(time_in_force="gtc"),
        update(Order).values(symbol="BBB"),
        update(Preview).values(price=99.0),
        update(Preview).values(notional=1.0),
        update(Preview).values(payload=Preview.payload + " "),  # type: ignore[operator]
        update(Preview).values(payload_hash="0" * 64),
    ],
)
def test_an_altered_order_is_not_sent(new_desk: NewDesk, alter: Any) -> None:
    desk = new_desk()
    decision, same = desk.decide(action()), desk.decide(action())
    desk.process(decision, trader_live=False)
    desk.process(same, trader_live=False)
    with desk.store.session() as session:
        table = alter.table.c
        key = table.order_id if "order_id" in table else table.id
        session.exec(alter.where(key.in_(select(col(Order.id)).where(col(Order.decision_id) == decision))))
    denied(desk.process(decision)[0], DenialCode.PREVIEW_ALTERED)
    assert desk.process(same)[0].state == OrderState.FILLED
    assert len(desk.fills()) == 1


def test_nothing_more_of_a_run_is_submitted_once_it_is_being_stopped(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0, "BBB": 50.0, "CCC": 20.0})
    desk = new_desk(market)

    def stop() -> None:
        market.on_fill = None
        with desk.store.session() as session:
            session.execute(update(Run).values(state=RunState.STOPPING))

    market.on_fill = stop
    first, *others = desk.run(action(), action("BBB"), action("CCC"))
    assert first.state == OrderState.FILLED
    for outcome in others:
        denied(outcome, DenialCode.RUN_STOPPED)
        assert outcome.denied.measured == "stopping"
    assert desk.positions() == {"AAA": 10}


@pytest.mark.parametrize("state", [state for state in RunState if state != RunState.RUNNING])
def test_only_a_running_run_submits(new_desk: NewDesk, state: RunState) -> None:
    desk = new_desk()
    (outcome,) = desk.run(action(), state=state)
    assert str(state) in denied(outcome, DenialCode.RUN_STOPPED)
    assert desk.fills() == []
    assert [row.state for row in desk.run(action(), state=RunState.RUNNING)] == [OrderState.FILLED]


def test_an_order_that_was_sent_before_its_run_was_stopped_is_still_asked_for(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0}, opens={"AAA": None})
    desk = new_desk(market)
    decision = desk.decide(action())
    assert [row.state for row in desk.process(decision)] == [OrderState.SUBMITTED]
    with desk.store.session() as session:
        session.execute(update(Run).values(state=RunState.STOPPED))
    market.opens = {}
    assert [row.state for row in desk.process(decision)] == [OrderState.FILLED]

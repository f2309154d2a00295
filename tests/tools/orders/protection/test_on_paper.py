"""Protective orders through the funnel, with the paper broker."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable

from sqlmodel import select

from chordesk.models.orders import DenialCode
from chordesk.models.tables.orders import Preview
from chordesk.models.tables.runs import Run
from chordesk.models.tables.runtime import Notice
from chordesk.tools.orders import halting
from chordesk.tools.orders.flow import cancel_open
from tests.tools.brokers.sessions import DAYS, FLAT, Sessions, sessions
from tests.tools.orders.desk import Desk, action
from tests.tools.orders.protection.watch import a_pass, covered, sizes, stops
from tests.tools.orders.tape import Tape

NewDesk = Callable[..., Desk]


def protected(new_desk: NewDesk, market: Sessions | Tape | None = None, rule: str = "stop:8%") -> Desk:
    """A desk that holds 10 AAA, bought at 100: in a market of past days at its second day's open, and it is 15:55."""
    market = market or Tape({"AAA": 100.0})
    desk = new_desk(market, protect=rule)
    desk.run(action())
    if isinstance(market, Sessions):
        market.go(DAYS[1])
        a_pass(desk)
    assert (desk.orders()[0].state, desk.positions()) == ("filled", {"AAA": 10})
    return desk


def test_a_fill_gets_a_stop_of_its_own_lineage(new_desk: NewDesk) -> None:
    desk = protected(new_desk)
    bought, stop = desk.orders()
    assert (stop.order_type, stop.side, stop.quantity, stop.stop_price) == ("stop", "sell", 10, 92)
    assert (stop.time_in_force, stop.action, stop.state, stop.protects) == ("gtc", "close", "submitted", bought.id)
    assert (stop.run_id, stop.decision_id, stop.verdict_id) == (bought.run_id, bought.decision_id, bought.verdict_id)
    with desk.store.read() as session:
        preview = session.exec(select(Preview).where(Preview.order_id == stop.id)).one()
    fields = json.loads(preview.payload)
    assert (fields["protects"], fields["stopPrice"], fields["timeInForce"]) == (bought.id, "92", "gtc")
    a_pass(desk)
    assert len(desk.orders()) == 2


def test_with_live_trading_off_the_preview_states_it_and_nothing_is_placed(new_desk: NewDesk) -> None:
    desk = new_desk(sessions(FLAT), protect="stop:8%")
    (order,) = desk.process(desk.decide(action()), trader_live=False)
    assert (order.state, order.protection) == ("previewed", "sell 10, stop 92.00, gtc")
    assert len(desk.orders()) == 1


def test_another_rule_than_was_previewed_is_decided_anew(new_desk: NewDesk) -> None:
    desk = new_desk(sessions(FLAT), protect="stop:8%")
    decision = desk.decide(action())
    desk.process(decision, trader_live=False)
    (order,) = desk.process(decision, protect="trail:8%")
    assert (order.denied.code, order.denied.measured) == (DenialCode.PREVIEW_STALE, "protect stop:8%")


def test_a_position_that_grows_has_one_stop_for_all_of_it_at_its_new_cost(new_desk: NewDesk) -> None:
    desk = protected(new_desk, sessions(FLAT, (110, 111, 109, 110), FLAT))
    assert isinstance(desk.market, Sessions)
    desk.run(action(kind="add"))
    desk.market.go(DAYS[2])
    a_pass(desk)
    assert desk.positions() == {"AAA": 20}
    assert sizes(desk) == [("AAA", 20, 96.6)]  # 8 % below 105
    covered(desk)
    assert [order.state for order in desk.orders() if order.protects] == ["cancelled", "submitted"]
    assert stops(desk)[0].protects == desk.orders()[2].id


def test_a_trail_that_is_placed_anew_goes_on_where_it_stood(new_desk: NewDesk) -> None:
    desk = protected(new_desk, sessions((100, 120, 100, 118), FLAT, FLAT), "trail:10%")
    desk.run(action(kind="reduce", quantity=4.0))
    assert sizes(desk) == [("AAA", 6, 108.0)]


def test_a_sale_goes_before_the_stop_and_the_rest_is_protected(new_desk: NewDesk) -> None:
    desk = protected(new_desk)
    (sold,) = desk.run(action(kind="reduce", quantity=4.0))
    assert (sold.state, desk.positions()) == ("filled", {"AAA": 6})
    assert sizes(desk) == [("AAA", 6, 92)]
    (closed,) = desk.run(action(kind="close", quantity=6.0))
    assert (closed.state, desk.positions(), stops(desk)) == ("filled", {}, [])
    a_pass(desk)
    assert stops(desk) == []


def test_a_sale_that_does_not_fill_gives_the_stop_back(new_desk: NewDesk) -> None:
    desk = protected(new_desk)
    (sale,) = desk.run(action(kind="close", orderType="limit", limitPrice=104.0))
    assert sale.state == "submitted"
    assert [order.state for order in desk.orders() if order.protects] == ["cancelled"]
    desk.market.clock.at += dt.timedelta(days=1)
    a_pass(desk)
    assert desk.outcomes([sale.order_id])[0].state == "expired"
    assert [order.state for order in desk.orders() if order.protects] == ["cancelled", "submitted"]
    covered(desk)


def test_a_change_of_the_rule_moves_the_stop_and_none_leaves_it(new_desk: NewDesk) -> None:
    desk = protected(new_desk)
    desk.settings = desk.settings.model_copy(update={"protect": "stop:5%"})
    a_pass(desk)
    assert sizes(desk) == [("AAA", 10, 95)]
    desk.settings = desk.settings.model_copy(update={"protect": "none"})
    a_pass(desk)
    assert sizes(desk) == [("AAA", 10, 95)]
    desk.run(action(kind="reduce", quantity=4.0))
    assert stops(desk) == []


def test_a_position_that_no_order_opened_is_protected_by_a_run_of_the_desks_own(new_desk: NewDesk) -> None:
    desk = new_desk(sessions(FLAT), protect="stop:8%")
    desk.hold("AAA", 7, 50.0)
    a_pass(desk)
    (stop,) = stops(desk)
    assert (stop.quantity, stop.stop_price, stop.protects, stop.verdict_id) == (7, 46, stop.id, None)
    with desk.store.read() as session:
        run = session.get_one(Run, stop.run_id)
    assert (run.kind, run.provider, run.state) == ("protect", "desk", "done")


def test_a_short_position_is_bought_back_above_its_cost(new_desk: NewDesk) -> None:
    desk = new_desk(sessions((100, 101, 99, 100), (100, 109, 100, 101)), protect="stop:8%", allow_short=True)
    desk.run(action(side="sell"))
    assert isinstance(desk.market, Sessions)
    desk.market.go(DAYS[1])
    a_pass(desk)
    assert [(row.side, row.quantity, row.stop_price) for row in stops(desk)] == [("buy", 10, 108)]
    desk.market.go(DAYS[2])
    a_pass(desk)
    assert (desk.positions(), [fill.price for fill in desk.fills()]) == ({}, [100, 108])


def test_a_halt_leaves_stops_and_places_none(new_desk: NewDesk) -> None:
    desk = protected(new_desk)
    halting.halt(desk.store, "paper", "a test", "somebody")
    assert cancel_open(desk.context()) == []
    assert a_pass(desk)["unprotected"] == 0
    assert sizes(desk) == [("AAA", 10, 92)]
    desk.hold("BBB", 3, 50.0)
    assert [a_pass(desk)["unprotected"] for _ in range(2)] == [1, 1]
    with desk.store.read() as session:
        notices = session.exec(select(Notice).where(Notice.kind == "halt")).all()
    assert [row.facts["bare"] for row in notices if "bare" in row.facts] == ["3 BBB"], "once"
    assert sizes(desk) == [("AAA", 10, 92)]
    with desk.store.session() as session:
        halting.resume(session, desk.settings, "paper", "somebody", reduce_only=True)
    assert a_pass(desk)["unprotected"] == 0
    assert sizes(desk) == [("AAA", 10, 92), ("BBB", 3, 46)]

"""Facts of the rules come from the desk's own rows: each one, as it reaches an order."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import col, select, update

from chordesk.models.errors import MarketError, MarketUnavailable
from chordesk.models.market import Listing, Quote
from chordesk.models.orders import DenialCode
from chordesk.models.states import OrderState, TradingState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Account, EquityMark, Fill, Order, Position, Trading
from chordesk.models.tables.runs import Run, Verdict, VerdictReport
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.replay.market import ReplayMarket, replay_data
from chordesk.tools.orders.checking import SizedOrder, evaluate
from chordesk.tools.orders.snapshots import symbols_of, take_snapshot, with_facts
from tests.tools.brokers.sessions import DAYS, FLAT, sessions
from tests.tools.ledger_rows import add_candidate, add_report, add_run
from tests.tools.orders.desk import Desk, action, denied
from tests.tools.orders.tape import Tape

NewDesk = Callable[..., Desk]
PREVIEWED = OrderState.PREVIEWED
DAY = dt.timedelta(days=1)


class Sectors(Tape):
    """Tape that names a symbol's sector, and carries some symbols only."""

    sectors: dict[str, str | None]
    failing: frozenset[str] = frozenset()

    def listing(self, symbol: str) -> Listing:
        if symbol in self.failing:
            raise MarketUnavailable(f"no answer on {symbol}")
        if symbol not in self.sectors:
            raise MarketError(f"unknown symbol {symbol}")
        return Listing(symbol=symbol, sector=self.sectors[symbol])


def write(desk: Desk, statement: Any) -> None:
    with desk.store.session() as session:
        session.exec(statement)


def send(desk: Desk, symbol: str, state: OrderState, **changes: Any) -> str:
    """An order of an earlier decision, as it is once it was sent; its id."""
    (outcome,) = desk.process(desk.decide(action(symbol)), trader_live=False)
    assert outcome.state == PREVIEWED
    values = {"state": state.value, "sent_at": utcnow(), "updated_at": utcnow(), **changes}
    write(desk, update(Order).where(col(Order.id) == str(outcome.order_id)).values(**values))
    return str(outcome.order_id)


def bought(order: Order, quantity: float) -> Fill:
    return Fill(
        order_id=order.id,
        account=order.account,
        symbol=order.symbol,
        side="buy",
        quantity=quantity,
        price=100.0,
        commission=0,
        filled_at=order.market_at,
    )


def test_a_verdict_is_as_old_as_the_oldest_report_that_it_rests_on(new_desk: NewDesk) -> None:
    """One over the portfolio may rest on reports of earlier runs: a new run does not make them young."""
    market = Tape({"AAA": 100.0})
    desk = new_desk(market, trader_live=False)
    now = market.clock.now()
    for age, fresh in ((dt.timedelta(hours=24), True), (dt.timedelta(hours=24, seconds=1), False)):
        decision = desk.decide(action("AAA"))
        with desk.store.session() as session:
            verdict = session.exec(select(Verdict).order_by(col(Verdict.created_at).desc())).first()
            assert verdict is not None
            for at, role in ((now, "quick"), (now - age, "risk")):
                run = add_run(session, at)
                report = add_report(session, run, add_candidate(session, run, "AAA"), role)
                session.add(VerdictReport(verdict_id=verdict.id, report_id=report.id))
        (outcome,) = desk.process(decision)
        if fresh:
            assert outcome.state == PREVIEWED
        else:
            denied(outcome, DenialCode.VERDICT_STALE)


def test_the_age_of_a_verdict_is_that_of_its_run(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0})
    desk = new_desk(market, trader_live=False)
    now = market.clock.now()
    ages = [(now - DAY, True), (now - DAY - dt.timedelta(seconds=1), False), (now + dt.timedelta(seconds=1), False)]
    for at, fresh in ages:
        (outcome,) = desk.run(action("AAA"), market_now=at)
        if fresh:
            assert outcome.state == PREVIEWED
        else:
            denied(outcome, DenialCode.VERDICT_STALE)


def test_the_verdict_of_the_run_that_was_started_from_has_that_runs_age(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0})
    desk = new_desk(market, trader_live=False)
    desk.decide(ratings={"AAA": "BUY"}, market_now=market.clock.now() - 2 * DAY)
    with desk.store.read() as session:
        parent = session.exec(select(Run.id)).one()
    denied(desk.process(desk.decide(action("AAA"), ratings={}, parent=parent))[0], DenialCode.VERDICT_STALE)


class Passing(Tape):
    """Time goes by while it is asked, as with every live market; a quote is of the moment at which it is fetched."""

    def quote(self, symbol: str) -> Quote:
        self.clock.at += dt.timedelta(seconds=1)
        return super().quote(symbol)


def test_a_quote_that_is_fetched_for_the_check_is_not_later_than_the_check(new_desk: NewDesk) -> None:
    outcomes = new_desk(Passing({"AAA": 100.0, "BBB": 50.0}), trader_live=False).run(action("AAA"), action("BBB"))
    assert [outcome.state for outcome in outcomes] == [PREVIEWED, PREVIEWED]


def replayed(new_desk: NewDesk, home: Path, **settings: Any) -> Desk:
    return new_desk(ReplayMarket(replay_data(home), ReplayClock(dt.date(2010, 8, 12))), trader_live=False, **settings)


def test_a_name_that_did_not_trade_on_the_replays_day_is_denied_with_the_date_of_its_price(
    new_desk: NewDesk, tmp_path: Path
) -> None:
    silent, traded = replayed(new_desk, tmp_path).run(action("MSFT"), action("AAPL"), market="replay")
    assert denied(silent, DenialCode.QUOTE_STALE) == (
        "the last price of MSFT is of 2010-08-11 16:00 EDT, and an order needs one of the last 15 min"
    )
    assert (silent.denied.measured, silent.denied.limit) == ("23 h 55 min old", "at most 15 min old")
    assert traded.state == PREVIEWED


def test_a_name_in_which_nobody_trades_is_not_bought_but_sold(new_desk: NewDesk) -> None:
    market = sessions(*[FLAT] * 6)
    market.volumes = [1e6, 1e6, 0, 0, 0, 0, 0]
    market.go(DAYS[6])
    desk = new_desk(market)
    desk.hold("AAA", 10, 100.0)
    (bought,) = desk.run(action(kind="add"))
    assert "no volume in its last 5 sessions" in denied(bought, DenialCode.NO_VOLUME)
    assert desk.run(action(kind="close"))[0].state == "submitted"
    market.go(DAYS[5])
    assert new_desk(market).run(action())[0].state == "submitted"


def test_a_name_that_the_market_lacks_is_not_listed(new_desk: NewDesk) -> None:
    market = Sectors({"AAA": 100.0, "BBB": 50.0, "CCC": 20.0})
    market.sectors, market.failing = {"AAA": None, "CCC": None}, frozenset({"CCC"})
    desk = new_desk(market, trader_live=False)
    desk.hold("CCC", 10)
    listed, unlisted, silent, given_back = desk.run(
        action("AAA"), action("BBB"), action("CCC", kind="add"), action("CCC", kind="close")
    )
    assert (listed.state, given_back.state) == (PREVIEWED, PREVIEWED)
    assert "does not carry BBB" in denied(unlisted, DenialCode.NOT_LISTED)
    assert "does not answer whether" in denied(silent, DenialCode.NOT_LISTED)


def test_a_sector_counts_what_is_held_and_what_this_decision_took(new_desk: NewDesk) -> None:
    market = Sectors({"AAA": 100.0, "BBB": 50.0, "CCC": 20.0, "DDD": 10.0})
    market.sectors = {"AAA": "tech", "BBB": "tech", "CCC": "oil", "DDD": None}
    desk = new_desk(market, trader_live=False, max_sector_share=0.1, starting_cash=90_000)
    desk.hold("AAA", 100)  # 10,000 of an equity of 100,000, all of tech
    tech, oil, unknown = desk.run(action("BBB", quantity=1), action("CCC", quantity=500), action("DDD", quantity=1))
    assert "the sector tech" in denied(tech, DenialCode.SHARE_PER_SECTOR)
    assert oil.state == PREVIEWED
    assert "which is not known" in denied(unknown, DenialCode.SHARE_PER_SECTOR)


@pytest.mark.parametrize("state", [OrderState.SUBMITTED, OrderState.PARTIALLY_FILLED, OrderState.APPROVAL_PENDING])
def test_an_open_order_is_not_given_twice(new_desk: NewDesk, state: OrderState) -> None:
    desk = new_desk(trader_live=False)
    first = send(desk, "AAA", state)
    again, other = desk.run(action("AAA"), action("BBB"))
    assert first in denied(again, DenialCode.DUPLICATE)
    assert other.state == PREVIEWED
    write(desk, update(Order).where(col(Order.id) == first).values(state=OrderState.CANCELLED.value))
    assert desk.run(action("AAA"))[0].state == PREVIEWED


@pytest.mark.parametrize("state", [OrderState.SUBMITTING, OrderState.UNKNOWN])
def test_an_order_without_an_answer_blocks_what_opens_on_its_symbol(new_desk: NewDesk, state: OrderState) -> None:
    desk = new_desk(trader_live=False)
    desk.hold("AAA", 20)
    first = send(desk, "AAA", state)
    add, sell, other = desk.run(action("AAA", kind="add"), action("AAA", kind="close"), action("BBB"))
    assert first in denied(add, DenialCode.UNRESOLVED)
    assert (sell.state, other.state) == (PREVIEWED, PREVIEWED)
    write(desk, update(Order).where(col(Order.id) == first).values(side="sell"))
    assert first in denied(desk.run(action("AAA", kind="close"))[0], DenialCode.DUPLICATE)


def test_the_filled_part_of_an_open_order_is_not_reserved_twice(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0, "BBB": 50.0}, opens={"AAA": None})
    desk = new_desk(market, trader_live=False, starting_cash=2_000, max_symbol_share=1)
    sent = send(desk, "AAA", OrderState.PARTIALLY_FILLED)  # 10 at 100
    desk.hold("AAA", 4)
    with desk.store.session() as session:
        order = session.get_one(Order, sent)
        session.add(bought(order, 4.0))
    over, inside = desk.run(action("BBB", quantity=29), action("BBB", quantity=28))
    denied(over, DenialCode.BUYING_POWER)  # 600 of the 2,000 are still reserved
    assert inside.state == PREVIEWED


def test_the_rate_counts_what_was_sent_within_a_minute_of_real_time(new_desk: NewDesk) -> None:
    desk = new_desk(trader_live=False, max_orders_per_minute=3)
    old = send(desk, "AAA", OrderState.FILLED, sent_at=utcnow() - dt.timedelta(seconds=61))
    for _ in range(2):
        send(desk, "AAA", OrderState.FILLED)
    first, second = desk.run(action("BBB"), action("CCC"))
    assert first.state == PREVIEWED
    assert "3 orders" in denied(second, DenialCode.ORDER_RATE)
    write(desk, update(Order).where(col(Order.id) == old).values(sent_at=utcnow()))
    denied(desk.run(action("BBB"))[0], DenialCode.ORDER_RATE)


def test_the_daily_count_is_of_the_exchanges_day(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0, "BBB": 50.0, "CCC": 20.0})
    desk = new_desk(market, trader_live=False, max_trades_per_day=3)
    send(desk, "AAA", OrderState.REJECTED)
    send(desk, "AAA", OrderState.FILLED)
    first, second = desk.run(action("BBB"), action("CCC"))
    assert first.state == PREVIEWED
    assert "order 4" in (second.denied.measured if second.denied else "")
    denied(second, DenialCode.TRADES_PER_DAY)
    market.clock.at += DAY
    assert [row.state for row in desk.run(action("BBB"), action("CCC"))] == [PREVIEWED] * 2


def test_refusals_in_a_row_end_with_a_fill_a_day_or_a_resume(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0, "BBB": 50.0})
    desk = new_desk(market, trader_live=False, max_consecutive_rejections=2)
    desk.hold("BBB", 10)
    send(desk, "AAA", OrderState.REJECTED)
    assert desk.run(action("AAA"))[0].state == PREVIEWED
    send(desk, "AAA", OrderState.REJECTED)
    buy, sell = desk.run(action("AAA"), action("BBB", kind="close"))
    denied(buy, DenialCode.CONSECUTIVE_REJECTIONS)
    assert sell.state == PREVIEWED
    with desk.store.session() as session:
        session.add(Trading(account="paper", state=TradingState.ACTIVE.value, why="", by="somebody"))
    assert desk.run(action("AAA"))[0].state == PREVIEWED
    write(desk, update(Trading).values(since=utcnow() - DAY))
    denied(desk.run(action("AAA"))[0], DenialCode.CONSECUTIVE_REJECTIONS)
    market.clock.at += DAY
    assert desk.run(action("AAA"))[0].state == PREVIEWED
    market.clock.at -= DAY
    write(desk, update(Trading).values(since=utcnow() - DAY))
    with desk.store.session() as session:
        newest = session.exec(select(Order).where(col(Order.state) == "rejected").order_by(col(Order.updated_at))).all()
        newest[-1].state = OrderState.FILLED.value
    assert desk.run(action("AAA"))[0].state == PREVIEWED


def _give(desk: Desk, cash: float, price: float) -> Any:
    """Cash of so much, and as many shares fewer that equity is 1,000 shares at the price."""
    with desk.store.session() as session:
        session.exec(update(Position).values(quantity=1_000 - cash / price))
    return update(Account).values(cash=cash)


def test_drawdown_is_measured_from_the_highest_look_of_any_day_before(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0, "BBB": 50.0})
    market.clock.at -= 3 * DAY  # a Monday
    desk = new_desk(market, trader_live=False, max_daily_loss=1, starting_cash=50_000)
    desk.hold("AAA", 500)  # 100,000 in all
    assert desk.run(action("BBB"))[0].state == PREVIEWED
    for price in (90.0, 80.0, 70.0):
        market.clock.at += DAY
        market.prices["AAA"] = price
        assert desk.run(action("BBB"))[0].state == PREVIEWED  # 85,000 is 15 % down
    market.prices["AAA"] = 69.99
    assert "100,000.00 at its highest" in denied(desk.run(action("BBB"))[0], DenialCode.DRAWDOWN)
    market.clock.at -= 10 * DAY  # a replay that is set back has not seen the high
    assert desk.run(action("BBB"))[0].state == PREVIEWED


def test_a_look_that_only_asks_writes_no_mark(new_desk: NewDesk) -> None:
    desk = new_desk(trader_live=False)
    (outcome,) = desk.run(action("AAA"))
    with desk.store.session() as session:
        session.exec(EquityMark.__table__.delete())  # type: ignore[attr-defined]
        order = session.get_one(Order, str(outcome.order_id))
        taken = take_snapshot(desk.market, symbols_of(session, [order], "paper"))
        snapshot = with_facts(taken, desk.store, desk.settings, desk.market, order)
        assert isinstance(evaluate(session, order, snapshot, desk.settings, "tape", "paper", dry=True), SizedOrder)
        assert session.exec(select(EquityMark)).all() == []
        assert isinstance(evaluate(session, order, snapshot, desk.settings, "tape", "paper"), SizedOrder)
        assert len(session.exec(select(EquityMark)).all()) == 1


def test_two_decisions_at_once_share_the_days_last_order(new_desk: NewDesk) -> None:
    desk = new_desk(Tape({"AAA": 100.0, "BBB": 50.0}), max_trades_per_day=1)
    decisions = [desk.decide(action("AAA")), desk.decide(action("BBB"))]
    with ThreadPoolExecutor(2) as pool:
        outcomes = [row for rows in pool.map(desk.process, decisions) for row in rows]
    assert sorted(row.state.value for row in outcomes) == ["denied", "filled"]
    assert {row.denied.code for row in outcomes if row.denied} == {DenialCode.TRADES_PER_DAY}
    assert len(desk.fills()) == 1

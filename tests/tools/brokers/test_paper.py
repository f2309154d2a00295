"""The paper broker against a tape."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from chordesk.models.errors import MarketError
from chordesk.models.market import Quote
from chordesk.models.orders import AccountView, BrokerAnswer, HeldPosition, OrderTicket
from chordesk.models.tables.orders import Preview
from chordesk.tools.books import Books
from chordesk.tools.brokers.paper_settlements import settlements
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.protocol import Bars
from chordesk.tools.market.replay.market import ReplayData, ReplayMarket
from chordesk.tools.orders.reconciliation import reconcile
from tests.tools.orders.desk import Desk, action
from tests.tools.orders.tape import Tape

NewDesk = Callable[..., Desk]
PUT, CALL = "AAA100820P00090000", "AAA100820C00090000"
EXPIRY = dt.date(2010, 8, 20)


@dataclass
class Deep(Tape):
    """Tape that also has volumes, closes, and prices of option contracts."""

    volumes: dict[str, float] = field(default_factory=dict)
    closes: dict[str, dict[dt.date, float]] = field(default_factory=dict)
    options: dict[str, float] = field(default_factory=dict)

    def bars(self, symbol: str, sessions: int) -> Bars:
        today = self.clock.now().date()
        rows = self.closes.get(symbol) or {today: self.prices[symbol]}
        days = [day for day in sorted(rows) if day <= today][-sessions:]
        if not days:
            raise MarketError(f"no bars of {symbol}")
        close = np.array([rows[day] for day in days])
        volume = np.full(len(days), self.volumes.get(symbol, 1e9))
        return Bars(symbol, days, False, close, close, close, close, volume)

    def option_quote(self, contract: str) -> Quote:
        if contract not in self.options:
            raise MarketError(f"no price of {contract}")
        return Quote(symbol=contract, price=self.options[contract], at=self.clock.now(), source=self.name)


def a_ticket(market: Tape | ReplayMarket, **changes: Any) -> OrderTicket:
    base = {
        "order_id": uuid.UUID(int=7),
        "account": "paper",
        "symbol": "AAA",
        "action": "open",
        "side": "buy",
        "quantity": 10,
        "placed_at": market.clock.now(),
        "order_type": "limit" if "limit_price" in changes else "market",
        "multiplier": 100 if "contract" in changes else 1,
    }
    return OrderTicket.model_validate({**base, **changes})


@pytest.fixture
def ask(new_desk: NewDesk) -> Callable[..., BrokerAnswer]:
    def asked(
        market: Tape | ReplayMarket, cash: float = 1e6, held: float = 0, bps: float = 0, fee: float = 0, **ticket: Any
    ) -> BrokerAnswer:
        desk = new_desk(market, slippage_bps=bps, commission_per_share=fee)
        order = a_ticket(market, **ticket)
        positions = [HeldPosition(symbol=order.traded, quantity=held, average_cost=1)] if held else []
        account = AccountView(account="paper", cash=cash, equity=None, positions=positions)
        at = market.clock.now()
        preview = Preview(order_id="x", payload="", payload_hash="", price=1, priced_at=at, notional=1)
        answer = desk.broker.submit(order, preview, account)
        if market.clock.is_open():
            assert desk.broker.lookup(order, preview, account) == answer
        return answer

    return asked


Ask = Callable[..., BrokerAnswer]


@pytest.fixture
def lookup(new_desk: NewDesk) -> Ask:
    def looked_up(market: ReplayMarket, **ticket: Any) -> BrokerAnswer:
        account = AccountView(account="paper", cash=1e6, equity=None, positions=[])
        preview = Preview(order_id="x", payload="", payload_hash="", price=1, priced_at=market.clock.now(), notional=1)
        answer = new_desk(market).broker.lookup(a_ticket(market, **ticket), preview, account)
        assert answer is not None
        return answer

    return looked_up


def _tape() -> Tape:
    return Tape({"AAA": 100.0}, opens={"AAA": 101.0})


@pytest.mark.parametrize(
    ("side", "held", "bps", "price"),
    [
        ("buy", 0, 0, 101.0),
        ("sell", 10, 0, 101.0),
        ("buy", 0, 5, 101.0505),
        ("sell", 10, 5, 100.9495),
        ("buy", 0, 0.001, 101.0001),
    ],
)
def test_slippage_and_rounding_are_against_the_order(
    ask: Ask, side: str, held: float, bps: float, price: float
) -> None:
    answer = ask(_tape(), held=held, bps=bps, fee=0.02, side=side)
    (fill,) = answer.fills
    assert (answer.status, fill.price, fill.quantity, fill.commission) == ("filled", price, 10, 0.2)
    assert fill.at == dt.datetime.fromisoformat("2010-08-12T15:55-04:00")
    assert answer.broker_order_id == f"paper-{uuid.UUID(int=7)}"


@pytest.mark.parametrize(
    ("side", "limit", "status"),
    [
        ("buy", 101.0505, "filled"),
        ("buy", 101.0504, "submitted"),
        ("sell", 100.9495, "filled"),
        ("sell", 100.9496, "submitted"),
    ],
)
def test_a_limit_holds_after_slippage(ask: Ask, side: str, limit: float, status: str) -> None:
    answer = ask(_tape(), held=10, bps=5, side=side, limit_price=limit)
    assert answer.status == status
    assert bool(answer.fills) is (status == "filled")
    if status == "submitted":
        assert answer.message is not None
        assert "not met by" in answer.message


def test_a_name_that_does_not_trade_gets_no_fill_and_the_answer_names_why(
    data: ReplayData, ask: Ask, lookup: Ask
) -> None:
    """MSFT has no bar of 2010-08-12, the session in which an order of the day before would fill."""
    market = ReplayMarket(data, ReplayClock(dt.date(2010, 8, 11)))
    assert ask(market, symbol="MSFT").message == "waits for the open of the next session"
    answer = lookup(market.on(ReplayClock(dt.date(2010, 8, 12))), symbol="MSFT", placed_at=market.clock.now())
    assert (answer.status, answer.fills) == ("expired", [])
    assert answer.message == "MSFT has no price in the session of 2010-08-12"


def test_where_prices_go_on_a_limit_rests_until_its_day_is_over(ask: Ask) -> None:
    market = Deep({"AAA": 100.0})
    placed = market.clock.now().replace(hour=12)
    market.clock.at = placed
    assert ask(market, limit_price=99.0).status == "submitted"
    market.prices["AAA"] = 98.5
    assert ask(market, limit_price=99.0).fills[0].price == 98.5
    market.prices["AAA"] = 100.0
    market.clock.at = placed.replace(hour=16)
    assert ask(market, limit_price=99.0, placed_at=placed).status == "rejected"  # closed: nothing is taken any more


@pytest.mark.parametrize(("cash", "status"), [(1_010.1, "filled"), (1_010.09, "rejected")])
def test_a_buy_that_cash_does_not_cover_at_the_fill_price_is_rejected(ask: Ask, cash: float, status: str) -> None:
    answer = ask(_tape(), cash=cash, fee=0.01)
    assert answer.status == status
    if status == "rejected":
        assert answer.message == "10 AAA at 101.00 need 1,010.10, 1,010.09 is free"


def test_a_sale_of_what_is_held_needs_no_cash(ask: Ask) -> None:
    assert ask(_tape(), cash=0, held=10, side="sell").status == "filled"
    assert ask(_tape(), cash=0, held=9, side="sell").status == "rejected"


@pytest.mark.parametrize(("hour", "status"), [(9, "rejected"), (15, "filled"), (16, "rejected")])
def test_nothing_is_taken_while_the_exchange_is_closed(ask: Ask, hour: int, status: str) -> None:
    market = _tape()
    market.clock.at = market.clock.at.replace(hour=hour, minute=0)
    answer = ask(market)
    assert answer.status == status
    if status == "rejected":
        assert f"the exchange is closed at 2010-08-12 {hour:02}:00 EDT" in (answer.message or "")


@pytest.mark.parametrize(("volume", "status", "filled"), [(100, "filled", 10), (99, "partially_filled", 9)])
def test_an_order_takes_a_share_of_the_volume_at_most(ask: Ask, volume: float, status: str, filled: int) -> None:
    answer = ask(Deep({"AAA": 100.0}, volumes={"AAA": volume}))
    assert (answer.status, [fill.quantity for fill in answer.fills]) == (status, [filled])
    assert ask(Deep({"AAA": 100.0}, volumes={"AAA": 9})).status == "submitted"


def test_a_part_stays_open_and_expires_with_its_day(new_desk: NewDesk) -> None:
    market = Deep({"AAA": 100.0}, volumes={"AAA": 40})
    desk = new_desk(market)
    decision = desk.decide(action())
    assert desk.process(decision)[0].state == "partially_filled"
    assert (desk.positions(), desk.cash()) == ({"AAA": 4}, 99_600)
    assert desk.process(decision)[0].state == "partially_filled"
    market.volumes = {"AAA": 60}
    assert [fill.quantity for fill in desk.process(decision)[0].fills] == [4, 2]
    market.clock.at += dt.timedelta(days=1)
    (ended,) = desk.process(decision)
    assert (ended.state, [fill.quantity for fill in ended.fills]) == ("expired", [4, 2])
    assert (desk.positions(), desk.cash()) == ({"AAA": 6}, 99_400)


def test_a_cancel_keeps_what_was_filled(new_desk: NewDesk) -> None:
    market = Deep({"AAA": 100.0}, volumes={"AAA": 40})
    desk = new_desk(market)
    (order,) = desk.run(action())
    answer = desk.broker.cancel(a_ticket(market, order_id=order.order_id))
    assert answer is not None
    assert (answer.status, [fill.quantity for fill in answer.fills]) == ("cancelled", [4])


OPTION = {"contract": PUT, "side": "sell", "quantity": 2, "limit_price": 1.0}


@pytest.mark.parametrize(("cash", "status"), [(18_000, "filled"), (17_999.99, "rejected")])
def test_a_put_is_written_against_its_strike_in_full(ask: Ask, cash: float, status: str) -> None:
    answer = ask(Deep({"AAA": 100.0}, options={PUT: 1.2}), cash=cash, **OPTION)
    assert answer.status == status
    if status == "filled":
        assert [(fill.quantity, fill.price) for fill in answer.fills] == [(2, 1.2)]


def test_cash_behind_a_written_put_is_not_free(ask: Ask) -> None:
    market = Deep({"AAA": 100.0}, options={PUT: 1.2})
    assert ask(market, cash=27_000, held=-1, **OPTION).status == "filled"
    assert ask(market, cash=26_999, held=-1, **OPTION).status == "rejected"


def test_a_call_is_not_written_without_its_shares(ask: Ask) -> None:
    answer = ask(Deep({"AAA": 100.0}, options={CALL: 1.2}), **{**OPTION, "contract": CALL})
    assert answer.status == "rejected"
    assert answer.message == f"2 {CALL} sold would leave a written call without its 100 shares"


def test_where_no_contract_is_priced_an_option_is_rejected_with_that_reason(ask: Ask) -> None:
    answer = ask(_tape(), **OPTION)
    assert (answer.status, answer.message) == (
        "rejected",
        "not available: the tape market has no option quotes; configure DESK_MARKET=yahoo for them",
    )


def _written(new_desk: NewDesk, close: float) -> tuple[Desk, Deep]:
    """A desk that has written two puts at a strike of 90, the day after they ended at this close."""
    market = Deep({"AAA": 100.0}, options={PUT: 1.5})
    desk = new_desk(
        market,
        stock_only=False,
        options_mode="both",
        max_order_notional=1e6,
        max_symbol_notional=1e6,
        max_symbol_share=1,
        max_sector_share=1,
        allow_short=True,
    )
    put = action(contract=PUT, side="sell", quantity=2.0, orderType="limit", limitPrice=1.5)
    (order,) = desk.run(put, instrument="option")
    assert (order.state, order.denied) == ("filled", None)
    assert (desk.positions(), desk.cash()) == ({PUT: -2}, 100_300)
    market.closes = {"AAA": {EXPIRY: close}}
    market.clock.at = dt.datetime(2010, 8, 20, 15, 55, tzinfo=market.clock.at.tzinfo)
    assert reconcile(desk.store, desk.settings, desk.broker, "a test").differences == []  # it is not over yet
    market.clock.at += dt.timedelta(days=3)
    return desk, market


@pytest.mark.parametrize(
    ("close", "positions", "cash"), [(89.99, {"AAA": 200}, 100_300 - 18_000), (90.0, {}, 100_300), (101.0, {}, 100_300)]
)
def test_a_put_is_assigned_at_its_strike_or_ends(
    new_desk: NewDesk, close: float, positions: dict[str, float], cash: float
) -> None:
    desk, _ = _written(new_desk, close)
    found = reconcile(desk.store, desk.settings, desk.broker, "a test")
    assert (found.agreed, {row["kind"] for row in found.differences}) == (True, {"settlement"})
    assert (desk.positions(), desk.cash()) == (positions, cash)
    again = reconcile(desk.store, desk.settings, desk.broker, "a test")
    assert (again.agreed, again.differences) == (True, [])
    assert (desk.positions(), desk.cash()) == (positions, cash)


@pytest.mark.parametrize(
    ("close", "positions", "gain"), [(90.01, {}, 9_000), (90.0, {"AAA": 100}, 0), (70.0, {"AAA": 100}, 0)]
)
def test_a_covered_call_is_assigned_at_its_strike_or_ends(
    new_desk: NewDesk, close: float, positions: dict[str, float], gain: float
) -> None:
    market = Deep({"AAA": 85.0}, options={CALL: 1.5})
    desk = new_desk(market, stock_only=False, options_mode="both", max_symbol_share=1)
    desk.hold("AAA", 100, 85.0)
    written = action(contract=CALL, side="sell", quantity=1.0, orderType="limit", limitPrice=1.5)
    (order,) = desk.run(written, instrument="option")
    assert (order.state, order.denied, order.notional) == ("filled", None, 9_000)
    assert (desk.positions(), desk.cash()) == ({"AAA": 100, CALL: -1}, 100_150)
    market.closes = {"AAA": {EXPIRY: close}}
    market.clock.at = dt.datetime(2010, 8, 23, 15, 55, tzinfo=market.clock.at.tzinfo)
    found = reconcile(desk.store, desk.settings, desk.broker, "a test")
    assert (found.agreed, {row["kind"] for row in found.differences}) == (True, {"settlement"})
    assert (desk.positions(), desk.cash()) == (positions, 100_150 + gain)


def test_an_earlier_close_does_not_stand_for_the_last_days(new_desk: NewDesk) -> None:
    desk, market = _written(new_desk, 89.0)
    market.closes = {"AAA": {EXPIRY - dt.timedelta(days=1): 89.0}}
    found = reconcile(desk.store, desk.settings, desk.broker, "a test")
    assert (found.agreed, found.differences, desk.positions()) == (True, [], {PUT: -2})
    market.closes = {"AAA": {EXPIRY - dt.timedelta(days=1): 89.0, EXPIRY: 101.0}}
    reconcile(desk.store, desk.settings, desk.broker, "a test")
    assert (desk.positions(), desk.cash()) == ({}, 100_300)


@pytest.mark.parametrize(("day", "session"), [("100821", (2010, 8, 20)), ("100402", (2010, 4, 1))])
def test_a_contract_that_ends_on_a_day_without_a_session_goes_by_the_one_before(
    day: str, session: tuple[int, int, int]
) -> None:
    market = Deep({"AAA": 100.0}, closes={"AAA": {dt.date(*session): 101.0}})
    market.clock.at = dt.datetime(2010, 8, 23, 15, 55, tzinfo=market.clock.at.tzinfo)
    books = Books(Decimal(0), {f"AAA{day}P00090000": (Decimal(-2), Decimal(1))})
    (leg,) = settlements(books, market, 1, {})
    assert (leg.kind, leg.quantity) == ("expired", 2)

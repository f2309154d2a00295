"""Paper orders on contracts at the quotes of the run's chain: the ask for a buy, the bid for a sale, whatever it is."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest
from sqlmodel import select

from chordesk.models.errors import MarketError
from chordesk.models.market import ChainRow, Quote
from chordesk.models.tables.orders import Order, Preview
from chordesk.tools.books import Books
from chordesk.tools.brokers.paper_settlements import settlements
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.replay.market import ModelledReplay, ReplayData, ReplayMarket
from chordesk.tools.orders.reconciliation import reconcile
from tests.tools.orders.desk import Desk, Outcome, action
from tests.tools.orders.tape import Tape

NewDesk = Callable[..., Desk]
PUT, LOWER = "AAA100918P00090000", "AAA100918P00085000"
ALLOWED: dict[str, Any] = {
    "stock_only": False, "options_mode": "both", "max_symbol_share": 1, "max_order_notional": 1e6,
    "max_symbol_notional": 1e6, "starting_cash": 1e6, "max_price_collar": 0.2,
}  # fmt: skip
NOTE = "filled at modelled quotes, which no market gave"


@dataclass
class Quoted(Tape):
    """A tape with a bid and an ask for each contract; None where there is none."""

    sides: dict[str, tuple[float | None, float | None]] = field(default_factory=dict)

    def option_quote(self, contract: str) -> Quote:
        if contract not in self.sides:
            raise MarketError(f"no price of {contract}")
        bid, ask = self.sides[contract]
        price = ((bid or 0.0) + (ask or 0.0)) / 2
        return Quote(symbol=contract, price=price, at=self.clock.now(), source="far", bid=bid, ask=ask)


def quoted() -> Quoted:
    return Quoted({"AAA": 92.0}, sides={PUT: (1.9, 2.1), LOWER: (0.7, 0.8)})


def order(contract: str, limit: float, side: str = "sell", quantity: float = 1.0, **more: Any) -> dict[str, Any]:
    changes = {"side": side, "quantity": quantity, "orderType": "limit", "limitPrice": limit, "contract": contract}
    return action(**{**changes, **more})


def run(desk: Desk, *actions: Any) -> list[Outcome]:
    return desk.run(*actions, instrument="option")


def test_a_sale_meets_the_bid_and_a_buy_the_ask(new_desk: NewDesk) -> None:
    """Exactly: the spread is what slippage stands for, and a limit at the bid is met."""
    desk = new_desk(quoted(), **{**ALLOWED, "slippage_bps": 50})
    (sold,) = run(desk, order(PUT, 1.9))
    assert (sold.state, [fill.price for fill in desk.fills()]) == ("filled", [1.9])
    (bought,) = run(desk, order(PUT, 2.1, "buy", kind="close"))
    assert (bought.state, [fill.price for fill in desk.fills()]) == ("filled", [1.9, 2.1])
    assert desk.positions() == {}


def test_a_limit_inside_the_spread_waits(new_desk: NewDesk) -> None:
    desk = new_desk(quoted(), **ALLOWED)
    (waiting,) = run(desk, order(PUT, 2.0))
    assert (waiting.state, desk.fills()) == ("submitted", [])
    assert "limit 2.00 not met by 1.90" in (waiting.message or "")


def test_without_a_bid_nothing_is_sold(new_desk: NewDesk) -> None:
    market = quoted()
    market.sides[LOWER] = (None, 0.05)
    desk = new_desk(market, **{**ALLOWED, "max_price_collar": 1.0})
    (waiting,) = run(desk, order(LOWER, 0.03))
    assert (waiting.state, desk.fills()) == ("submitted", [])
    assert f"no price to fill at: {LOWER} has no bid" in (waiting.message or "")


def test_legs_meet_their_own_sides(new_desk: NewDesk) -> None:
    desk = new_desk(quoted(), **{**ALLOWED, "slippage_bps": 50})
    legs = [f"sell 1 {PUT}", f"buy 1 {LOWER}"]
    (done,) = run(desk, action(side="sell", quantity=1.0, orderType="limit", limitPrice=1.1, legs=legs))
    assert done.state == "filled"
    assert {(fill.symbol, fill.price) for fill in desk.fills()} == {(PUT, 1.9), (LOWER, 0.8)}


def modelled(data: ReplayData, day: dt.date) -> ModelledReplay:
    return ModelledReplay(data, ReplayClock(day), 0.04)


def a_put(market: ModelledReplay, symbol: str = "MMM") -> ChainRow:
    """The put nearest below the spot that expires next month."""
    today = market.clock.now().date()
    chain = market.chain(symbol, today + dt.timedelta(days=1), today + dt.timedelta(days=45))
    below = [row for row in chain.rows if row.contract.kind == "put" and float(row.contract.strike) < chain.spot]
    return max(below, key=lambda row: (-row.contract.expiry.toordinal(), row.contract.strike))


def test_a_modelled_put_is_sold_and_labelled(data: ReplayData, new_desk: NewDesk) -> None:
    market = modelled(data, dt.date(2010, 5, 5))
    desk, put = new_desk(market, replay_options="modelled", **ALLOWED), a_put(market)
    assert put.bid is not None
    (sold,) = run(desk, order(put.contract.symbol, put.bid, symbol="MMM"))
    assert (sold.state, sold.message) == ("filled", NOTE)
    assert [(fill.price, fill.filled_at) for fill in desk.fills()] == [(put.bid, market.clock.now())]
    with desk.store.read() as session:
        (payload,) = session.exec(select(Preview.payload).join(Order)).all()
    assert json.loads(payload)["market"] == "replay, option quotes modelled"
    found = reconcile(desk.store, desk.settings, desk.broker, "a test")
    assert (found.agreed, found.differences) == (True, [])
    # A share's order on the same desk is at real prices, and says so.
    desk.run(action("XOM"))
    with desk.store.read() as session:
        markets = {json.loads(text)["market"] for text in session.exec(select(Preview.payload)).all()}
    assert markets == {"replay, option quotes modelled", "replay"}


def test_a_contract_that_the_chain_lacks_is_not_ordered(data: ReplayData, new_desk: NewDesk) -> None:
    market = modelled(data, dt.date(2010, 5, 5))
    desk = new_desk(market, replay_options="modelled", **ALLOWED)
    (denied,) = run(desk, order("MMM100618P00085100", 1.0, symbol="MMM"))
    assert "strikes near 85.1 are 2.5 apart" in denied.denied.reason
    assert desk.fills() == []


def test_a_modelled_put_ends_by_the_real_close(data: ReplayData) -> None:
    """At its expiry the share's own close decides, as for any contract: assigned below the strike, worthless above."""
    before = modelled(data, dt.date(2010, 5, 5))
    put = a_put(before)
    after = modelled(data, next(day for day in data.sessions if day > put.contract.expiry))
    bars = after.bars("MMM", 30)
    close = dict(zip(bars.dates, bars.close.tolist(), strict=True))[put.contract.expiry]
    in_the_money = close < float(put.contract.strike)
    books = Books(Decimal(0), {put.contract.symbol: (Decimal(-1), Decimal(1))})
    assert settlements(books, before, 1, {}) == []
    found = [(leg.kind, leg.symbol, leg.quantity) for leg in settlements(books, after, 1, {})]
    ended = ("assigned" if in_the_money else "expired", put.contract.symbol, 1.0)
    assert found == [ended, *([("delivered", "MMM", 100.0)] if in_the_money else [])]


@pytest.mark.parametrize("setting", ["none", "modelled"])
def test_a_plain_replay_sells_no_contract(data: ReplayData, new_desk: NewDesk, setting: str) -> None:
    """The market decides, not the setting: without chains there is no quote, and so no order."""
    market = ReplayMarket(data, ReplayClock(dt.date(2010, 5, 5)))
    desk = new_desk(market, replay_options=setting, **ALLOWED)
    (denied,) = run(desk, order("MMM100618P00085000", 1.0, symbol="MMM"))
    assert denied.denied is not None
    assert desk.fills() == []

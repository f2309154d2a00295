from __future__ import annotations

import datetime as dt

from chordesk.models.database.store import Store
from chordesk.models.tables.orders import Account, Fill, Position
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.replay.market import ReplayData, ReplayMarket
from tests.tools.conftest import Call, MakeContext
from tests.tools.ledger_rows import filled_order

NOW = ReplayClock(dt.date(2010, 8, 12)).now()
BEFORE = NOW - dt.timedelta(days=3)


def position(symbol: str, quantity: float, cost: float, at: dt.datetime = BEFORE) -> Position:
    return Position(account="paper", symbol=symbol, quantity=quantity, average_cost=cost, filled_at=at)


def hold(store: Store, cash: float, *positions: Position) -> None:
    with store.session() as session:
        session.add(Account(name="paper", cash=cash))
        session.flush()
        session.add_all(positions)


def test_cash_and_positions_at_market_prices(
    market: ReplayMarket, store: Store, make_context: MakeContext, call: Call
) -> None:
    hold(store, 1000.0, position("MMM", 10, 80.0), position("AAPL", 2, 240.5))
    answer = call(make_context(market, store), "portfolio_get")
    apple, mmm = market.quote("AAPL").price, market.quote("MMM").price
    equity = 1000 + 2 * apple + 10 * mmm
    held = [
        {
            "symbol": symbol, "quantity": quantity, "averageCost": cost, "marketPrice": price,
            "priceDate": "2010-08-12", "marketValue": round(quantity * price, 2),
            "share": round(quantity * price / equity, 4),
        }
        for symbol, quantity, cost, price in (("AAPL", 2.0, 240.5, apple), ("MMM", 10.0, 80.0, mmm))
    ]  # fmt: skip
    cash = {"account": "paper", "cash": 1000.0, "equity": round(equity, 2), "buyingPower": 1000.0}
    assert answer.payload["portfolio"] == {**cash, "positions": held}
    assert answer.payload["missing"] == []
    assert not answer.has_data  # it is about us, not about a symbol


def test_an_account_that_is_not_open_states_its_opening_cash(
    market: ReplayMarket, store: Store, make_context: MakeContext, call: Call
) -> None:
    answer = call(make_context(market, store, starting_cash=5000.0), "portfolio_get")
    portfolio = answer.payload["portfolio"]
    assert (portfolio["cash"], portfolio["equity"], portfolio["buyingPower"]) == (5000.0, 5000.0, 5000.0)
    assert answer.payload["missing"][0]["reason"].startswith("not opened yet")


def test_a_position_without_a_price_leaves_equity_unknown(
    market: ReplayMarket, store: Store, make_context: MakeContext, call: Call
) -> None:
    hold(store, 1000.0, position("WYE", 5, 40.0), position("AAPL", 1, 200.0))
    answer = call(make_context(market, store), "portfolio_get")
    portfolio = answer.payload["portfolio"]
    wyeth = portfolio["positions"][1]
    names = ("marketPrice", "priceDate", "marketValue", "share")
    assert [wyeth[name] for name in names] == [None, None, None, None]
    assert (portfolio["equity"], portfolio["cash"]) == (None, 1000.0)
    assert portfolio["positions"][0]["share"] is None
    assert answer.payload["missing"] == [
        {"symbol": "WYE", "what": "marketPrice", "reason": "WYE has not traded since 2009-10-15"}
    ]


def test_a_price_of_an_earlier_session_has_its_day_and_is_missing(
    market: ReplayMarket, store: Store, make_context: MakeContext, call: Call
) -> None:
    """MSFT has no bar of the replay's day: its last price is of the day before, and no price of today."""
    hold(store, 1000.0, position("AAPL", 1, 200.0), position("MSFT", 10, 20.0))
    answer = call(make_context(market, store), "portfolio_get")
    apple, microsoft = answer.payload["portfolio"]["positions"]
    last = market.bars("MSFT", 1).close[-1]
    assert (apple["priceDate"], microsoft["priceDate"]) == ("2010-08-12", "2010-08-11")
    assert (microsoft["marketPrice"], microsoft["marketValue"]) == (round(last, 4), round(10 * last, 2))
    reason = "no bar of 2010-08-12, the market's latest session; the last is of 2010-08-11"
    assert answer.payload["missing"] == [{"symbol": "MSFT", "what": "marketPrice", "reason": reason}]


def test_what_was_traded_after_now_is_not_seen(
    data: ReplayData, store: Store, make_context: MakeContext, call: Call
) -> None:
    """A replay that is set back to a day before the account's last fill has the account of that day."""
    today, tomorrow = (ReplayMarket(data, ReplayClock(dt.date(2010, 8, day))) for day in (12, 13))
    opening = dt.datetime(2010, 8, 13, 13, 30, tzinfo=dt.UTC)
    hold(store, 10_000.0 - 10 * 247.0, position("AAPL", 10, 247.0, opening))
    with store.session() as session:
        session.get_one(Account, "paper").opening_cash = 10_000.0
        order = filled_order(session)
        session.add(order)
        session.flush()
        terms = {"account": "paper", "symbol": "AAPL", "side": "buy", "quantity": 10, "price": 247.0}
        session.add(Fill(order_id=order.id, commission=0.0, filled_at=opening, **terms))
    now = call(make_context(today, store), "portfolio_get").payload["portfolio"]
    assert (now["cash"], now["equity"], now["positions"]) == (10_000, 10_000, [])
    later = call(make_context(tomorrow, store), "portfolio_get").payload["portfolio"]
    assert (later["cash"], later["positions"][0]["averageCost"]) == (10_000 - 2470, 247.0)
    assert later["equity"] == round(10_000 - 2470 + 10 * tomorrow.quote("AAPL").price, 2)

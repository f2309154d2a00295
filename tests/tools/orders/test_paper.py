"""The paper broker against a tape."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

import pytest

from models.order_tables import Preview
from models.orders import AccountView, BrokerAnswer, HeldPosition, OrderTicket
from models.settings import Settings
from tests.tools.orders.tape import Tape
from tools.brokers.paper import build_broker


def ask(
    market: Tape, cash: float = 1e6, held: float = 0, bps: float = 0, fee: float = 0, **ticket: Any
) -> BrokerAnswer:
    base = {
        "order_id": uuid.UUID(int=7),
        "account": "paper",
        "symbol": "AAA",
        "action": "open",
        "side": "buy",
        "quantity": 10,
        "placed_at": market.clock.now(),
        "order_type": "limit" if "limit_price" in ticket else "market",
    }
    positions = [HeldPosition(symbol="AAA", quantity=held, average_cost=1)] if held else []
    account = AccountView(account="paper", cash=cash, equity=None, positions=positions)
    broker = build_broker(Settings(slippage_bps=bps, commission_per_share=fee), market)
    preview = Preview(order_id="x", payload="", payload_hash="", price=1, priced_at=market.clock.now(), notional=1)
    order = OrderTicket.model_validate({**base, **ticket})
    answer = broker.submit(order, preview, account)
    assert broker.lookup(order, preview, account) == answer
    return answer


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
def test_slippage_and_rounding_are_against_the_order(side: str, held: float, bps: float, price: float) -> None:
    answer = ask(_tape(), held=held, bps=bps, fee=0.02, side=side)
    (fill,) = answer.fills
    assert (answer.status, fill.price, fill.quantity, fill.commission) == ("filled", price, 10, 0.2)
    assert fill.at == dt.datetime.fromisoformat("2010-08-13T09:30-04:00")
    assert answer.broker_order_id == f"paper-{uuid.UUID(int=7)}"


@pytest.mark.parametrize(
    ("side", "limit", "status"),
    [
        ("buy", 101.0505, "filled"),
        ("buy", 101.0504, "expired"),
        ("sell", 100.9495, "filled"),
        ("sell", 100.9496, "expired"),
    ],
)
def test_a_limit_holds_after_slippage(side: str, limit: float, status: str) -> None:
    answer = ask(_tape(), held=10, bps=5, side=side, limit_price=limit)
    assert answer.status == status
    assert bool(answer.fills) is (status == "filled")
    if status == "expired":
        assert answer.message is not None
        assert "not met by" in answer.message


@pytest.mark.parametrize(("cash", "status"), [(1_010.1, "filled"), (1_010.09, "rejected")])
def test_a_buy_that_cash_does_not_cover_at_the_fill_price_is_rejected(cash: float, status: str) -> None:
    answer = ask(_tape(), cash=cash, fee=0.01)
    assert answer.status == status
    if status == "rejected":
        assert answer.message == "10 AAA at 101.00 need 1,010.10, 1,010.09 is free"


def test_a_sale_of_what_is_held_needs_no_cash() -> None:
    assert ask(_tape(), cash=0, held=10, side="sell").status == "filled"
    assert ask(_tape(), cash=0, held=9, side="sell").status == "rejected"


def test_without_a_further_session_an_order_rests() -> None:
    answer = ask(Tape({"AAA": 100.0}, opens={"AAA": None}))
    assert (answer.status, answer.fills) == ("submitted", [])
    assert answer.message == "the market has no further session to fill AAA in"


def test_a_day_order_does_not_outlive_its_day() -> None:
    market = _tape()
    placed = market.clock.now()
    assert ask(market, placed_at=placed.astimezone(dt.UTC)).status == "filled"
    market.clock.at += dt.timedelta(days=1)
    assert ask(market, placed_at=placed).status == "expired"

"""Orders with legs at Alpaca: one order of class mleg, whose legs fill under ids of their own."""

from __future__ import annotations

from typing import Any

import pytest

from chordesk.models.market import OrderLeg
from chordesk.models.orders import AccountView, HeldPosition, OrderTicket
from chordesk.tools.brokers.alpaca import AlpacaBroker
from tests.fakes.alpaca import Alpaca
from tests.tools.brokers.alpaca_orders import PREVIEW, VIEW, a_ticket, ask, send

PUT, LOWER = "AAPL261218P00180000", "AAPL261218P00170000"


def a_spread(side: str = "sell", **changes: Any) -> OrderTicket:
    legs = (OrderLeg(contract=PUT, side="sell", ratio=1), OrderLeg(contract=LOWER, side="buy", ratio=2))
    base = {"side": side, "quantity": 3, "legs": legs, "multiplier": 100, "order_type": "limit", "limit_price": 1.2}
    return a_ticket(**{**base, **changes})


@pytest.mark.parametrize(("side", "limit"), [("sell", "-1.2"), ("buy", "1.2")])
def test_it_is_sent_as_one_order_with_a_signed_net_limit(
    alpaca: Alpaca, broker: AlpacaBroker, side: str, limit: str
) -> None:
    ticket = a_spread(side)
    assert send(broker, ticket).status == "submitted"
    (row,) = alpaca.orders.values()
    assert (row["order_class"], row["qty"], row["limit_price"], row["symbol"], row["side"]) == (
        "mleg",
        "3",
        limit,
        "",
        "",
    )
    assert [(leg["symbol"], leg["side"], leg["qty"], leg["position_intent"]) for leg in row["legs"]] == [
        (PUT, "sell", "3", "sell_to_open"), (LOWER, "buy", "6", "buy_to_open"),
    ]  # fmt: skip


def test_a_leg_against_a_position_closes_it(alpaca: Alpaca, broker: AlpacaBroker) -> None:
    held = HeldPosition(symbol=LOWER, quantity=-6, average_cost=1)
    view = AccountView(account="alpaca-paper", cash=0, equity=None, positions=[held])
    broker.submit(a_spread(), PREVIEW, view)
    (row,) = alpaca.orders.values()
    assert [leg["position_intent"] for leg in row["legs"]] == ["sell_to_open", "buy_to_close"]


def test_its_fills_are_those_of_its_legs(alpaca: Alpaca, broker: AlpacaBroker) -> None:
    ticket = a_spread()
    send(broker, ticket)
    assert [(row.client_id, row.symbol, row.quantity, row.filled) for row in broker.state().open_orders] == [
        (str(ticket.order_id), "AAPL", 9, 0)
    ]
    alpaca.fill_legs(str(ticket.order_id), {PUT: 3.0, LOWER: 0.9})
    answer = ask(broker, ticket)
    assert answer.status == "filled"
    assert [(fill.id, fill.symbol, fill.side, fill.quantity, fill.price) for fill in answer.fills] == [
        (f"{PUT}/3", PUT, "sell", 3, 3.0), (f"{LOWER}/6", LOWER, "buy", 6, 0.9),
    ]  # fmt: skip
    state = broker.state()
    assert {(row.client_id, row.symbol, row.fill.quantity) for row in state.fills} == {
        (str(ticket.order_id), PUT, 3), (str(ticket.order_id), LOWER, 6),
    }  # fmt: skip
    assert {row.symbol: row.quantity for row in state.positions} == {PUT: -3, LOWER: 6}


def test_other_legs_are_no_answer(alpaca: Alpaca, broker: AlpacaBroker) -> None:
    ticket = a_spread()
    send(broker, ticket)
    (row,) = alpaca.orders.values()
    row["legs"][1]["qty"] = "7"
    with pytest.raises(Exception, match="legs differ"):
        broker.lookup(ticket, PREVIEW, VIEW)

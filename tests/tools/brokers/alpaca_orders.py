"""Orders for the Alpaca broker, and what is read of its answers."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

from chordesk.models.orders import AccountView, BrokerAnswer, OrderTicket
from chordesk.models.tables.orders import Preview
from chordesk.tools.brokers.alpaca import AlpacaBroker
from tests.fakes.alpaca import KEY, SECRET

VIEW = AccountView(account="alpaca-paper", cash=0, equity=None, positions=[])
PREVIEW = Preview(order_id="x", payload="", payload_hash="", price=1, priced_at=dt.datetime.now(dt.UTC), notional=1)
PUT = "AAPL261218P00180000"
CREDENTIALS = {"ALPACA_API_KEY": KEY, "ALPACA_SECRET_KEY": SECRET}


def a_ticket(**changes: Any) -> OrderTicket:
    base = {
        "order_id": uuid.uuid4(),
        "account": "alpaca-paper",
        "symbol": "AAPL",
        "action": "open",
        "side": "buy",
        "quantity": 10,
        "placed_at": dt.datetime.now(dt.UTC),
        "order_type": "market",
    }
    return OrderTicket.model_validate({**base, **changes})


def send(broker: AlpacaBroker, ticket: OrderTicket) -> BrokerAnswer:
    return broker.submit(ticket, PREVIEW, VIEW)


def ask(broker: AlpacaBroker, ticket: OrderTicket) -> BrokerAnswer:
    answer = broker.lookup(ticket, PREVIEW, VIEW)
    assert answer is not None
    return answer


def figures(answer: BrokerAnswer) -> list[tuple[str | None, float, float]]:
    return [(fill.id, fill.quantity, fill.price) for fill in answer.fills]

"""A broker over HTTP: one request and one answer, each within a time limit, and nothing that is sent twice."""

from __future__ import annotations

import datetime as dt
import http.client
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from chordesk.plugins import (
    AccountFill,
    AccountView,
    BrokerAnswer,
    BrokerFill,
    BrokerOrder,
    BrokerPosition,
    BrokerState,
    MarketData,
    OrderTicket,
    Preview,
    ServiceError,
    Settings,
    Store,
    broker_keys,
)

SECONDS = 10.0  # the limit of a request
TAKES: Mapping[str, tuple[str, ...]] = {"market": ("day",), "limit": ("day", "gtc"), "stop": ("gtc",)}
STATES = {"open": "submitted", "done": "filled", "cancelled": "cancelled", "expired": "expired"}
Row = dict[str, Any]


class Unanswered(ServiceError):
    """A request without an answer that can be used: what became of it is not known."""

    remedy = "nothing is sent again; the order is looked up until it is known"


def build(settings: Settings, market: MarketData, store: Store, environ: Mapping[str, str]) -> ToyBroker:
    (key,) = broker_keys(settings.broker, environ).values()
    return ToyBroker(settings.broker, environ.get("TOY_BROKER_PLACE", "127.0.0.1:8099"), key)


class ToyBroker:
    """An account at the toy exchange. The order's id there is the desk's: the exchange takes each once."""

    real_money = False

    def __init__(self, name: str, place: str, key: str) -> None:
        self.name = name
        self._place, self._key = place, key

    def submit(self, ticket: OrderTicket, preview: Preview, account: AccountView) -> BrokerAnswer:
        if ticket.is_option or ticket.time_in_force not in TAKES.get(ticket.order_type, ()):
            return _rejected("the toy exchange takes no such order")
        status, row = self._ask("POST", "/orders", _wanted(ticket))
        if status == 422:
            return _rejected(str(row["reason"]))
        if status == 409:  # the exchange has it
            status, row = self._ask("GET", f"/orders/{ticket.order_id}")
        return _answer(ticket, _known(status, row))

    def lookup(self, ticket: OrderTicket, preview: Preview, account: AccountView) -> BrokerAnswer | None:
        status, row = self._ask("GET", f"/orders/{ticket.order_id}")
        return None if status == 404 else _answer(ticket, _known(status, row))

    def cancel(self, ticket: OrderTicket) -> BrokerAnswer | None:
        status, row = self._ask("GET", f"/orders/{ticket.order_id}")
        if status == 404:
            return None
        _answer(ticket, _known(status, row))  # raises for another's order, which is not to be cancelled
        status, row = self._ask("DELETE", f"/orders/{ticket.order_id}")
        return None if status == 404 else _answer(ticket, _known(status, row))

    def state(self) -> BrokerState:
        status, row = self._ask("GET", "/account")
        found = _known(status, row)
        try:
            currency = found["currency"]
            blocked = "the exchange takes no orders on the account" if found["blocked"] else None
            return BrokerState(
                account=self.name,
                cash=_number(found["cash"]),
                equity=None,
                positions=[
                    BrokerPosition(symbol=one["symbol"], quantity=_number(one["quantity"]), average_cost=one["cost"])
                    for one in found["positions"]
                ],
                open_orders=[_open(one) for one in found["orders"]],
                fills=[_account_fill(one, fill) for one in found["today"] for fill in one["fills"]],
                blocked=blocked if currency == "USD" else f"the account is kept in {currency}, not in USD",
            )
        except (KeyError, TypeError, ValueError) as error:
            raise Unanswered(f"the account cannot be read: {type(error).__name__}") from None

    def _ask(self, method: str, path: str, body: Row | None = None) -> tuple[int, Row]:
        connection = http.client.HTTPConnection(self._place, timeout=SECONDS)
        try:
            connection.request(method, path, json.dumps(body), {"X-Key": self._key})
            answer = connection.getresponse()
            return answer.status, dict(json.loads(answer.read()))
        except (OSError, http.client.HTTPException, ValueError, TypeError) as error:
            raise Unanswered(f"no answer of the toy exchange: {type(error).__name__}") from None
        finally:
            connection.close()


def _wanted(ticket: OrderTicket) -> Row:
    names = ("symbol", "side", "quantity", "order_type", "time_in_force", "limit_price", "stop_price")
    return {"id": str(ticket.order_id), **{name: getattr(ticket, name) for name in names}}


def _known(status: int, row: Row) -> Row:
    if status != 200:
        raise Unanswered(f"the toy exchange answered HTTP {status}: {row.get('reason', 'no reason')}")
    return row


def _answer(ticket: OrderTicket, row: Row) -> BrokerAnswer:
    """An end is told with all its fills alone: until the list has them the order works."""
    try:
        if wrong := [name for name, value in _wanted(ticket).items() if row[name] != value]:
            raise Unanswered(f"an answer about another order than {ticket.order_id}: {', '.join(wrong)} differ")
        fills = [_fill(fill) for fill in row["fills"]]
        known = sum((Decimal(str(fill.quantity)) for fill in fills), Decimal(0))
        state = "partially_filled" if fills else "submitted"
        if known == Decimal(str(row["filled"])) and row["state"] != "open":
            state = STATES[row["state"]]
        return BrokerAnswer.model_validate({"status": state, "broker_order_id": row["number"], "fills": fills})
    except (KeyError, TypeError, ValueError) as error:
        raise Unanswered(f"the order cannot be read: {type(error).__name__}") from None


def _fill(fill: Row) -> BrokerFill:
    return BrokerFill(
        id=fill["number"],
        quantity=_number(fill["quantity"]),
        price=_number(fill["price"]),
        commission=_number(fill["fee"]),
        at=dt.datetime.fromisoformat(fill["at"]),
    )


def _open(row: Row) -> BrokerOrder:
    terms = {"client_id": row["id"], "broker_order_id": row["number"], "symbol": row["symbol"], "side": row["side"]}
    return BrokerOrder.model_validate({**terms, "quantity": row["quantity"], "filled": row["filled"]})


def _account_fill(row: Row, fill: Row) -> AccountFill:
    names = {"client_id": row["id"], "broker_order_id": row["number"], "symbol": row["symbol"], "side": row["side"]}
    return AccountFill.model_validate({**names, "fill": _fill(fill)})


def _number(value: Any) -> float:
    if value is None:
        raise ValueError("a figure is missing")
    return float(value)


def _rejected(why: str) -> BrokerAnswer:
    return BrokerAnswer(status="rejected", broker_order_id=None, fills=[], message=why)

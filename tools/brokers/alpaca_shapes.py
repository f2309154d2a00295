"""Alpaca's mappings and the desk's nouns: requests, answers, fills, positions, settlements. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from models.orders import (
    AccountFill,
    BrokerAnswer,
    BrokerFill,
    BrokerOrder,
    BrokerPosition,
    OrderTicket,
    Settlement,
)
from tools.decimals import exact, plain

FILLS = "FILL"
SETTLEMENTS = "OPASN,OPEXC,OPEXP,OPTRD"
_KINDS = {"OPASN": "assigned", "OPEXC": "exercised", "OPEXP": "expired", "OPTRD": "delivered"}
_NEW_YORK = ZoneInfo("America/New_York")
_CLOSE = dt.time(16)
_ENDED = {"canceled": "cancelled", "replaced": "cancelled", "expired": "expired", "rejected": "rejected"}
_INTENTS = {
    ("open", "buy"): "buy_to_open",
    ("add", "buy"): "buy_to_open",
    ("open", "sell"): "sell_to_open",
    ("add", "sell"): "sell_to_open",
    ("reduce", "buy"): "buy_to_close",
    ("close", "buy"): "buy_to_close",
    ("reduce", "sell"): "sell_to_close",
    ("close", "sell"): "sell_to_close",
}


def request_fields(ticket: OrderTicket) -> dict[str, Any]:
    """Fields of the client's order request; the client order id is the desk's own order id, always."""
    fields: dict[str, Any] = {
        "symbol": ticket.traded,
        "qty": ticket.quantity,
        "side": ticket.side,
        "time_in_force": ticket.time_in_force,
        "client_order_id": str(ticket.order_id),
    }
    if ticket.order_type == "limit":
        fields["limit_price"] = ticket.limit_price
    if ticket.contract is not None:
        fields["position_intent"] = _INTENTS[ticket.action, ticket.side]
    return fields


def number(value: Any) -> Decimal:
    """A figure of Alpaca's, which are strings mostly. Raises ValueError for nothing: no figure is not 0."""
    if value in (None, ""):
        raise ValueError("a figure is missing")
    found = Decimal(str(value))
    if not found.is_finite():
        raise ValueError("a figure is no number")
    return found


def filled_of(order: Any) -> Decimal:
    """How much of an order is filled; the one figure that may be empty, before the first fill."""
    return Decimal(0) if order.filled_qty in (None, "") else number(order.filled_qty)


def unlike(ticket: OrderTicket, order: Any) -> list[str]:
    """In what an order of Alpaca's is not the ticket's."""
    pairs = {
        "client_order_id": (str(ticket.order_id), str(order.client_order_id)),
        "symbol": (ticket.traded, str(order.symbol)),
        "side": (ticket.side, str(getattr(order.side, "value", order.side))),
        "qty": (exact(ticket.quantity), number(order.qty)),
    }
    return [name for name, (ours, theirs) in pairs.items() if ours != theirs]


def listed_fill(row: Mapping[str, Any]) -> tuple[str, Decimal, BrokerFill]:
    """(broker order id, quantity filled with it, fill) of an account activity of type FILL."""
    total = number(row["cum_qty"])
    fill = BrokerFill(
        id=plain(total),
        quantity=float(number(row["qty"])),
        price=float(number(row["price"])),
        commission=0.0,
        at=dt.datetime.fromisoformat(str(row["transaction_time"])),
    )
    return str(row["order_id"]), total, fill


def streamed_fill(update: Any) -> tuple[str, Decimal, BrokerFill] | None:
    """The same of a trade update; None when it tells of no fill."""
    if str(getattr(update.event, "value", update.event)) not in ("fill", "partial_fill"):
        return None
    if not update.qty or not update.price:
        return None
    total = number(update.order.filled_qty)
    fill = BrokerFill(id=plain(total), quantity=update.qty, price=update.price, commission=0.0, at=update.timestamp)
    return str(update.order.id), total, fill


def unbroken(fills: Mapping[Decimal, BrokerFill]) -> list[BrokerFill]:
    """The fills, by the quantity filled with each, as far as each follows the one before without a gap.

    Two sources name one fill differently, but both say how much of the order was filled with it: that is its id.
    """
    found: list[BrokerFill] = []
    before = Decimal(0)
    for total in sorted(fills):
        if total - before != exact(fills[total].quantity):
            break
        found.append(fills[total])
        before = total
    return found


def answer_of(order: Any, fills: list[BrokerFill]) -> BrokerAnswer:
    """What Alpaca says of an order. Its end is told only with all the fills it had: until then it works on."""
    status = str(order.status.value)
    filled, known = filled_of(order), sum((exact(fill.quantity) for fill in fills), Decimal(0))
    message = None
    if known != filled:
        message = f"Alpaca says {status} and {plain(filled)} filled; its list of fills has {plain(known)} so far"
    elif status == "replaced":
        message = f"replaced at the broker by order {order.replaced_by}"
    told = "partially_filled" if fills else "submitted"
    if known == filled:
        told = "filled" if status == "filled" else _ENDED.get(status, told)
    return BrokerAnswer.model_validate(
        {"status": told, "broker_order_id": str(order.id), "fills": fills, "message": message}
    )


def position_of(row: Any) -> BrokerPosition:
    quantity = abs(number(row.qty)) * (-1 if row.side.value == "short" else 1)
    return BrokerPosition(
        symbol=str(row.symbol), quantity=float(quantity), average_cost=float(abs(number(row.avg_entry_price)))
    )


def open_order_of(row: Any) -> BrokerOrder:
    return BrokerOrder(
        client_id=str(row.client_order_id),
        broker_order_id=str(row.id),
        symbol=str(row.symbol),
        side=row.side.value,
        quantity=float(number(row.qty or 0)),  # one that a stranger placed by its worth has none
        filled=float(filled_of(row)),
    )


def account_fill(row: Mapping[str, Any], client_ids: Mapping[str, str]) -> AccountFill:
    order_id, _, fill = listed_fill(row)
    # The list names short sales by a side of their own.
    side = "buy" if str(row["side"]).startswith("buy") else "sell"
    return AccountFill.model_validate(
        {
            "client_id": client_ids.get(order_id),
            "broker_order_id": order_id,
            "symbol": str(row["symbol"]),
            "side": side,
            "fill": fill,
        }
    )


def settlements_of(rows: Iterable[Mapping[str, Any]]) -> list[Settlement]:
    """Option events. The legs of one may share an id, so the type and the symbol belong to it."""
    found = []
    for row in rows:
        kind = _KINDS.get(str(row.get("activity_type")))
        if kind is None or str(row.get("status", "executed")) != "executed":
            continue
        day = dt.date.fromisoformat(str(row["date"])[:10])
        fields = {
            "id": f"{row['id']}/{row['activity_type']}/{row['symbol']}",
            "kind": kind,
            "symbol": str(row["symbol"]),
            "quantity": float(number(row["qty"])),
            "price": float(number(row["price"])) if kind == "delivered" else 0.0,
            "at": dt.datetime.combine(day, _CLOSE, _NEW_YORK),
        }
        found.append(Settlement.model_validate(fields))
    return found


def blocked_of(account: Any) -> str | None:
    """Why the account takes no orders."""
    names = ("trading_blocked", "account_blocked", "trade_suspended_by_user")
    said = [name for name in names if getattr(account, name, None)]
    status = getattr(account.status, "value", str(account.status))
    if status != "ACTIVE":
        said.append(f"status {status}")
    return f"Alpaca says of the account: {', '.join(said)}" if said else None

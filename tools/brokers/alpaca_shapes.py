"""Alpaca's mappings and the desk's nouns: requests, answers, fills, positions, settlements. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from chordesk.models.exchanges import HOME
from chordesk.models.market import OrderLeg, parse_contract
from chordesk.models.order_terms import OrderType
from chordesk.models.orders import (
    AccountFill,
    AccountView,
    BrokerAnswer,
    BrokerFill,
    BrokerOrder,
    BrokerPosition,
    OrderTicket,
    Settlement,
)
from chordesk.tools.decimals import exact, plain
from chordesk.tools.market.clock import usual_close
from chordesk.tools.market.home import foreign

FILLS = "FILL"
SETTLEMENTS = "OPASN,OPEXC,OPEXP,OPTRD"
_KINDS = {"OPASN": "assigned", "OPEXC": "exercised", "OPEXP": "expired", "OPTRD": "delivered"}
_ENDED = {"canceled": "cancelled", "replaced": "cancelled", "expired": "expired", "rejected": "rejected"}
# The prices of each type's request. A trailing stop is moved by the broker: where it starts is the broker's to find.
_PRICES: Mapping[OrderType, tuple[str, ...]] = {
    "market": (),
    "limit": ("limit_price",),
    "stop": ("stop_price",),
    "stop_limit": ("limit_price", "stop_price"),
    "trailing_stop": ("trail_percent",),
}
_INTENTS = {"open": "open", "add": "open", "reduce": "close", "close": "close"}


def request_fields(ticket: OrderTicket) -> dict[str, Any]:
    """Return the fields of the client's order request; the client order id is the desk's own order id, always."""
    fields: dict[str, Any] = {
        "symbol": ticket.traded,
        "qty": ticket.quantity,
        "side": ticket.side,
        "time_in_force": ticket.time_in_force,
        "client_order_id": str(ticket.order_id),
    }
    fields |= {name: getattr(ticket, name) for name in _PRICES[ticket.order_type]}
    if ticket.contract is not None:
        fields["position_intent"] = f"{ticket.side}_to_{_INTENTS[ticket.action]}"
    return fields


def package_fields(ticket: OrderTicket, account: AccountView) -> dict[str, Any]:
    """One order of class mleg. Alpaca's limit is what a unit costs, negative for what it brings."""
    held = {row.symbol: exact(row.quantity) for row in account.positions}
    limit = exact(ticket.limit_price or 0)
    return {
        "order_class": "mleg",
        "qty": ticket.quantity,
        "time_in_force": ticket.time_in_force,
        "client_order_id": str(ticket.order_id),
        "limit_price": float(limit if ticket.side == "buy" else -limit),
        "legs": [
            {
                "symbol": leg.contract,
                "ratio_qty": leg.ratio,
                "side": leg.side,
                "position_intent": f"{leg.side}_to_{_intent(leg, held.get(leg.contract, Decimal(0)))}",
            }
            for leg in ticket.legs
        ],
    }


def _intent(leg: OrderLeg, held: Decimal) -> str:
    return "close" if held * leg.signed < 0 else "open"


def legs_in(order: Any) -> list[Any]:
    return list(getattr(order, "legs", None) or [])


def number(value: Any) -> Decimal:
    """Return a figure of Alpaca's, which are strings mostly. Raises ValueError for nothing: no figure is not 0."""
    if value in (None, ""):
        raise ValueError("a figure is missing")
    found = Decimal(str(value))
    if not found.is_finite():
        raise ValueError("a figure is no number")
    return found


def filled_of(order: Any) -> Decimal:
    """How much of an order is filled, of all its legs together; empty before the first fill."""
    if legs_in(order):
        return sum((filled_of(leg) for leg in legs_in(order)), Decimal(0))
    return Decimal(0) if order.filled_qty in (None, "") else number(order.filled_qty)


def unlike(ticket: OrderTicket, order: Any) -> list[str]:
    if ticket.legs:
        return _unlike_package(ticket, order)
    pairs = {
        "client_order_id": (str(ticket.order_id), str(order.client_order_id)),
        "symbol": (ticket.traded, str(order.symbol)),
        "side": (ticket.side, str(getattr(order.side, "value", order.side))),
        "qty": (exact(ticket.quantity), number(order.qty)),
        "type": (ticket.order_type, str(getattr(order.type, "value", order.type))),
        "time_in_force": (ticket.time_in_force, str(getattr(order.time_in_force, "value", order.time_in_force))),
    }
    return [name for name, (ours, theirs) in pairs.items() if ours != theirs]


def _unlike_package(ticket: OrderTicket, order: Any) -> list[str]:
    ours = {(leg.contract, leg.side, exact(leg.ratio * ticket.quantity)) for leg in ticket.legs}
    theirs = {(str(leg.symbol), str(getattr(leg.side, "value", leg.side)), number(leg.qty)) for leg in legs_in(order)}
    pairs = {
        "client_order_id": (str(ticket.order_id), str(order.client_order_id)),
        "qty": (exact(ticket.quantity), number(order.qty)),
        "legs": (ours, theirs),
    }
    return [name for name, (one, other) in pairs.items() if one != other]


def leg_fills(order: Any, listed: Iterable[tuple[str, Decimal, BrokerFill]]) -> list[BrokerFill]:
    """Return the fills of an order's legs from (leg's order id, quantity filled with it, fill), each as far as no gap
    comes before it."""
    rows = list(listed)
    found: list[BrokerFill] = []
    for leg in legs_in(order):
        own = {total: fill for order_id, total, fill in rows if order_id == str(leg.id) and total <= filled_of(leg)}
        symbol, side = str(leg.symbol), str(getattr(leg.side, "value", leg.side))
        found += [
            fill.model_copy(update={"id": f"{symbol}/{fill.id}", "symbol": symbol, "side": side})
            for fill in unbroken(own)
        ]
    return found


def listed_fill(row: Mapping[str, Any]) -> tuple[str, Decimal, BrokerFill]:
    """Return (broker order id, quantity filled with it, fill) of an account activity of type FILL."""
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
    if str(getattr(update.event, "value", update.event)) not in ("fill", "partial_fill"):
        return None
    if not update.qty or not update.price:
        return None
    total = number(update.order.filled_qty)
    fill = BrokerFill(id=plain(total), quantity=update.qty, price=update.price, commission=0.0, at=update.timestamp)
    return str(update.order.id), total, fill


def unbroken(fills: Mapping[Decimal, BrokerFill]) -> list[BrokerFill]:
    """Return the fills, by the quantity filled with each, as far as each follows the one before without a gap. Two
    sources name one fill differently, but both carry how much of the order was filled with it: that is its id."""
    found: list[BrokerFill] = []
    before = Decimal(0)
    for total in sorted(fills):
        if total - before != exact(fills[total].quantity):
            break
        found.append(fills[total])
        before = total
    return found


def answer_of(order: Any, fills: list[BrokerFill]) -> BrokerAnswer:
    """Its end is reported only with all the fills it had: until then it is working."""
    status = str(order.status.value)
    filled, known = filled_of(order), sum((exact(fill.quantity) for fill in fills), Decimal(0))
    message = None
    if known != filled:
        message = f"Alpaca reports {status} and {plain(filled)} filled; its list of fills has {plain(known)} so far"
    elif status == "replaced":
        message = f"replaced at the broker by order {order.replaced_by}"
    state = "partially_filled" if fills else "submitted"
    if known == filled:
        state = "filled" if status == "filled" else _ENDED.get(status, state)
    return BrokerAnswer.model_validate(
        {"status": state, "broker_order_id": str(order.id), "fills": fills, "message": message}
    )


def position_of(row: Any) -> BrokerPosition:
    quantity = abs(number(row.qty)) * (-1 if row.side.value == "short" else 1)
    return BrokerPosition(
        symbol=str(row.symbol), quantity=float(quantity), average_cost=float(abs(number(row.avg_entry_price)))
    )


def open_order_of(row: Any) -> BrokerOrder:
    if legs_in(row):
        first = parse_contract(str(legs_in(row)[0].symbol))
        return BrokerOrder(
            client_id=str(row.client_order_id),
            broker_order_id=str(row.id),
            symbol=first.underlying if first else str(legs_in(row)[0].symbol),
            side="sell" if number(row.limit_price or 0) < 0 else "buy",
            quantity=float(sum((number(leg.qty) for leg in legs_in(row)), Decimal(0))),
            filled=float(filled_of(row)),
        )
    return BrokerOrder(
        client_id=str(row.client_order_id),
        broker_order_id=str(row.id),
        symbol=str(row.symbol),
        side=row.side.value,
        quantity=float(number(row.qty or 0)),  # an order placed elsewhere by its value in dollars has no quantity
        filled=float(filled_of(row)),
    )


def account_fill(row: Mapping[str, Any], client_ids: Mapping[str, str]) -> AccountFill:
    order_id, _, fill = listed_fill(row)
    # The list names short sales by a side of their own.
    traded = {"symbol": str(row["symbol"]), "side": "buy" if str(row["side"]).startswith("buy") else "sell"}
    ids = {"client_id": client_ids.get(order_id), "broker_order_id": order_id}
    return AccountFill.model_validate({**ids, **traded, "fill": fill})


def settlements_of(rows: Iterable[Mapping[str, Any]]) -> list[Settlement]:
    """Return option events. The legs of one may share an id, so the type and the symbol belong to it."""
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
            "at": usual_close(day, HOME),
        }
        found.append(Settlement.model_validate(fields))
    return found


_LISTED = {"exchange": "exchange", "kind": "asset_class"}


def blocked_of(account: Any, positions: Sequence[Any] = ()) -> str | None:
    """Return why the desk may not open at this account: as Alpaca says, or for what is not US dollars in New York."""
    names = ("trading_blocked", "account_blocked", "trade_suspended_by_user")
    reasons = [name for name in names if getattr(account, name, None)]
    status = getattr(account.status, "value", str(account.status))
    if status != "ACTIVE":
        reasons.append(f"status {status}")
    reasons += [found] if (found := foreign("its cash", currency=getattr(account, "currency", None))) else []
    for row in positions:
        stated = {ours: getattr(getattr(row, theirs, None), "value", None) for ours, theirs in _LISTED.items()}
        reasons += [found] if (found := foreign(str(row.symbol), **stated)) else []
    return f"Alpaca reports of the account: {', '.join(reasons)}" if reasons else None

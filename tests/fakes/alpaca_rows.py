"""JSON of Alpaca's trading API for an order, a fill and a position."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

Row = dict[str, Any]


def now() -> str:
    return dt.datetime.now(dt.UTC).isoformat()


def moment(row: Row) -> dt.datetime:
    at = dt.datetime.fromisoformat(row.get("transaction_time") or row["date"])
    return at if at.tzinfo else at.replace(tzinfo=dt.UTC)


def new_order(wanted: Row) -> Row:
    at = now()
    return {
        "id": str(uuid.uuid4()),
        "client_order_id": wanted["client_order_id"],
        "created_at": at,
        "updated_at": at,
        "submitted_at": at,
        "symbol": wanted["symbol"],
        "asset_class": "us_option" if len(wanted["symbol"]) > 15 else "us_equity",
        "qty": format(Decimal(str(wanted["qty"])).normalize(), "f"),
        "filled_qty": "0",
        "filled_avg_price": None,
        "order_class": "",
        "order_type": wanted["type"],
        "type": wanted["type"],
        "side": wanted["side"],
        "position_intent": wanted.get("position_intent"),
        "time_in_force": wanted["time_in_force"],
        "limit_price": str(wanted["limit_price"]) if wanted.get("limit_price") else None,
        "legs": None,
        "stop_price": str(wanted["stop_price"]) if wanted.get("stop_price") else None,
        "trail_percent": str(wanted["trail_percent"]) if wanted.get("trail_percent") else None,
        "hwm": None,
        "status": "accepted",
        "extended_hours": False,
        "replaced_by": None,
    }


def new_package(wanted: Row) -> Row:
    """An order of class mleg: the parent has neither symbol nor side, and each leg an id of its own."""
    parent = {**new_order({**wanted, "symbol": "", "side": ""}), "asset_class": "", "order_class": "mleg"}
    legs = []
    for leg in wanted["legs"]:
        quantity = Decimal(str(leg["ratio_qty"])) * Decimal(str(wanted["qty"]))
        row = new_order({**wanted, **leg, "qty": quantity, "type": "", "limit_price": None})
        legs.append({**row, "client_order_id": str(uuid.uuid4()), "order_class": "mleg", "ratio_qty": leg["ratio_qty"]})
    return {**parent, "legs": legs}


def activity(row: Row, event: str, quantity: Decimal, price: Decimal) -> Row:
    at = dt.datetime.now(dt.UTC)
    return {
        "id": f"{at:%Y%m%d%H%M%S%f}"[:17] + f"::{uuid.uuid4()}",
        "activity_type": "FILL",
        "transaction_time": at.isoformat(),
        "type": event,
        "price": str(price),
        "qty": str(quantity),
        "side": row["side"],
        "symbol": row["symbol"],
        "leaves_qty": str(Decimal(row["qty"]) - Decimal(row["filled_qty"])),
        "cum_qty": row["filled_qty"],
        "order_id": row["id"],
        "order_status": row["status"],
    }


def position(symbol: str, held: Decimal, average: Decimal) -> Row:
    return {
        "asset_id": str(uuid.uuid5(uuid.NAMESPACE_OID, symbol)),
        "symbol": symbol,
        "exchange": "NASDAQ",
        "asset_class": "us_option" if len(symbol) > 15 else "us_equity",
        "avg_entry_price": str(average),
        "qty": str(held),
        "side": "long" if held > 0 else "short",
        "cost_basis": str(held * average),
    }


_PRICES = {
    "market": set(),
    "limit": {"limit_price"},
    "stop": {"stop_price"},
    "stop_limit": {"limit_price", "stop_price"},
    "trailing_stop": {"trail_percent"},
}


def unfit(wanted: Row) -> str | None:
    """Why Alpaca does not take an order, as it documents its types and times in force."""
    legs = wanted.get("order_class") == "mleg"
    kind, lasts, option = wanted["type"], wanted["time_in_force"], legs or len(wanted["symbol"]) > 15
    if legs and kind not in ("market", "limit"):
        return f"invalid order type {kind} for a mleg order"
    given = {name for name in ("limit_price", "stop_price", "trail_percent") if wanted.get(name) is not None}
    if kind not in _PRICES or (option and kind == "trailing_stop"):
        return f"invalid order type {kind}"
    if given != _PRICES[kind]:
        return f"{kind} orders require {sorted(_PRICES[kind])}, given {sorted(given)}"
    times = {"day"} if option else {"day", "gtc"} if "stop" in kind else {"day", "gtc", "ioc", "opg", "cls", "fok"}
    return None if lasts in times else f"invalid time_in_force {lasts} for a {kind} order"

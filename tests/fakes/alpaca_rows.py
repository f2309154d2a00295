"""What Alpaca's trading API says of an order, a fill and a position."""

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
        "status": "accepted",
        "extended_hours": False,
        "replaced_by": None,
    }


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

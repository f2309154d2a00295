"""Previews: an order in canonical form, its SHA-256, and whether it still may be sent."""

from __future__ import annotations

import datetime as dt
import hashlib
import json

from models.columns import utcnow
from models.order_tables import Order, Preview
from models.orders import DenialCode, Denied
from tools.decimals import exact, plain
from tools.risk import deny

VALID_FOR = dt.timedelta(minutes=15)


def canonical(order: Order, price: float, priced_at: dt.datetime, market: str, broker: str) -> str:
    """The order as it would be sent: JSON of sorted keys without spaces, numbers as plain decimal text, times in UTC.

    The same order at the same market time has the same text, to the byte. expiresAt is market time.
    """
    quantity = exact(order.quantity or 0)
    fields = {
        "account": order.account,
        "action": order.action,
        "broker": broker,
        "clientOrderId": order.id,
        "decisionId": order.decision_id,
        "expiresAt": _moment(order.market_at + VALID_FOR),
        "limitPrice": None if order.limit_price is None else plain(order.limit_price),
        "market": market,
        "notional": plain(quantity * exact(price)),
        "orderType": order.order_type,
        "price": plain(price),
        "pricedAt": _moment(priced_at),
        "quantity": plain(quantity),
        "side": order.side,
        "symbol": order.symbol,
        "timeInForce": "day",
        "verdictId": order.verdict_id,
    }
    return json.dumps(fields, sort_keys=True, separators=(",", ":"))


def _moment(moment: dt.datetime) -> str:
    return moment.astimezone(dt.UTC).isoformat()


def digest(payload: str) -> str:
    """SHA-256 of the canonical text, 64 hex digits."""
    return hashlib.sha256(payload.encode()).hexdigest()


def make_preview(order: Order, price: float, priced_at: dt.datetime, market: str, broker: str) -> Preview:
    """The preview of a sized order, not yet added to a session."""
    payload = canonical(order, price, priced_at, market, broker)
    return Preview(
        order_id=order.id,
        payload=payload,
        payload_hash=digest(payload),
        price=price,
        priced_at=priced_at,
        notional=float(exact(order.quantity or 0) * exact(price)),
    )


def verify(order: Order, preview: Preview | None, market: str, broker: str, now: dt.datetime) -> Denied | None:
    """Why a preview may not be sent: it is not what was checked, or it is too old in market time or in real time."""
    if preview is None:
        return deny(
            DenialCode.PREVIEW_ALTERED, "the order has no preview", "no preview", "the preview that was checked"
        )
    expected = canonical(order, preview.price, preview.priced_at, market, broker)
    if expected != preview.payload or digest(preview.payload) != preview.payload_hash:
        reason = "the order, its preview or its hash is not what was checked"
        return deny(DenialCode.PREVIEW_ALTERED, reason, digest(expected), preview.payload_hash)
    # A clock that was set back makes a preview of the future, which is no fresher.
    age = max(abs(now - order.market_at), utcnow() - preview.created_at)
    if age > VALID_FOR:
        minutes = VALID_FOR / dt.timedelta(minutes=1)
        reason = "the preview is too old to be sent; decide anew"
        return deny(
            DenialCode.PREVIEW_STALE, reason, f"{age / dt.timedelta(minutes=1):.1f} min old", f"at most {minutes:g} min"
        )
    return None

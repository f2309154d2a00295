"""Previews: an order in canonical form, its SHA-256, and whether it still may be sent."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from dataclasses import dataclass

from sqlmodel import Session

from models.columns import utcnow
from models.order_tables import Order, Preview
from models.orders import DenialCode, Denied
from models.settings import Settings
from tools.decimals import exact, plain
from tools.orders.context import Sized
from tools.orders.mandates import PAYLOAD_KEY, in_force
from tools.orders.notional import notional_of
from tools.risk import deny


@dataclass(frozen=True, slots=True)
class Terms:
    """What a preview is bound to besides the order itself. mandate: version of the one in force, verified; None
    without one."""

    market: str
    broker: str
    mandate: int | None
    valid_for: dt.timedelta


def terms_of(session: Session, settings: Settings, market: str, broker: str) -> Terms:
    found = in_force(session, settings, broker)
    version = None if isinstance(found, Denied) else found.version
    return Terms(market, broker, version, dt.timedelta(minutes=settings.preview_minutes))


def canonical(order: Order, price: float, priced_at: dt.datetime, terms: Terms) -> str:
    """The order as it would be sent: JSON of sorted keys without spaces, numbers as plain decimal text, times in UTC.

    The same order at the same market time has the same text, to the byte. expiresAt is market time.
    """
    fields = {
        "account": order.account,
        "action": order.action,
        "broker": terms.broker,
        "clientOrderId": order.id,
        "contract": order.contract,
        "decisionId": order.decision_id,
        "expiresAt": _moment(order.market_at + terms.valid_for),
        "limitPrice": None if order.limit_price is None else plain(order.limit_price),
        "market": terms.market,
        "multiplier": plain(order.multiplier),
        "notional": plain(notional_of(order, price)),
        "orderType": order.order_type,
        "price": plain(price),
        "pricedAt": _moment(priced_at),
        "quantity": plain(order.quantity or 0),
        "side": order.side,
        "symbol": order.symbol,
        "timeInForce": "day",
        "verdictId": order.verdict_id,
        PAYLOAD_KEY: terms.mandate,
    }
    return json.dumps(fields, sort_keys=True, separators=(",", ":"))


def _moment(moment: dt.datetime) -> str:
    return moment.astimezone(dt.UTC).isoformat()


def digest(payload: str) -> str:
    """SHA-256 of the canonical text, 64 hex digits."""
    return hashlib.sha256(payload.encode()).hexdigest()


def preview(order: Order, sized: Sized, at: dt.datetime, terms: Terms) -> Preview:
    """The preview of a cleared order, not yet added to a session; the order takes the size that was checked.

    at: market time. A role's dry run and the workflow both come here, so that they cannot differ.
    """
    order.quantity, order.market_at = sized.ticket.quantity, at
    payload = canonical(order, sized.price, sized.priced_at, terms)
    return Preview(
        order_id=order.id,
        payload=payload,
        payload_hash=digest(payload),
        price=sized.price,
        priced_at=sized.priced_at,
        notional=float(notional_of(order, sized.price)),
    )


def verify(order: Order, found: Preview | None, terms: Terms, now: dt.datetime) -> Denied | None:
    """Why a preview may not be sent: it is not what was checked, another mandate is in force, or it is too old in
    market time or in real time."""
    if found is None:
        return deny(
            DenialCode.PREVIEW_ALTERED, "the order has no preview", "no preview", "the preview that was checked"
        )
    made_under = _mandate_of(found.payload)
    expected = canonical(
        order, found.price, found.priced_at, Terms(terms.market, terms.broker, made_under, terms.valid_for)
    )
    noted = exact(found.notional) == exact(float(notional_of(order, found.price)))
    if expected != found.payload or digest(found.payload) != found.payload_hash or not noted:
        reason = "the order, its preview or its hash is not what was checked"
        return deny(DenialCode.PREVIEW_ALTERED, reason, digest(expected), found.payload_hash)
    if made_under != terms.mandate:
        measured, limit = f"mandate {made_under or 'none'}", f"mandate {terms.mandate or 'none'}"
        return deny(DenialCode.PREVIEW_STALE, "another mandate is in force than was previewed", measured, limit)
    # A clock that was set back makes a preview of the future, which is no fresher.
    age = max(abs(now - order.market_at), utcnow() - found.created_at)
    if age > terms.valid_for:
        old, most = (f"{span / dt.timedelta(minutes=1):.3g} min" for span in (age, terms.valid_for))
        reason = "the preview is too old to be sent; decide anew"
        return deny(DenialCode.PREVIEW_STALE, reason, f"{old} old", f"at most {most}")
    return None


def _mandate_of(payload: str) -> int | None:
    try:
        version = json.loads(payload)[PAYLOAD_KEY]
    except (ValueError, TypeError, KeyError):
        return None  # altered text, which the comparison finds
    return version if isinstance(version, int) else None


def moved(found: Preview, price: float, collar: float) -> Denied | None:
    """Whether the price has moved too far from the previewed one to send the order. collar: as a fraction."""
    away = abs(exact(price) - exact(found.price)) / exact(found.price)
    if away <= exact(collar):
        return None
    reason = f"the price moved from {plain(found.price)} to {plain(price)} since the preview; decide anew"
    return deny(DenialCode.PRICE_MOVED, reason, f"{away:.4%} away", f"at most {exact(collar):.2%}")

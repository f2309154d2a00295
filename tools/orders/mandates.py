"""Whether a mandate lets an order go to a broker that moves real money. Only ever verified here, never written."""

from __future__ import annotations

import base64
import datetime as dt
import json
from dataclasses import dataclass
from decimal import Decimal

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from pydantic import ValidationError
from sqlmodel import Session, col, func, select

from models.columns import utcnow
from models.mandates import MandateTerms, signed_bytes
from models.order_tables import Fill, Mandate, Order, Preview
from models.orders import DenialCode, Denied
from models.settings import Settings
from models.store import writes
from tools.decimals import exact, money
from tools.orders.notional import notional_of

CLOCKS_APART = dt.timedelta(minutes=2)  # a person's clock and a worker's may differ by as much
PAYLOAD_KEY = "mandateVersion"  # in a preview's canonical text


@dataclass(frozen=True, slots=True)
class Used:
    """What was sent under a mandate so far, whatever became of it. notional in account currency."""

    orders: int
    notional: Decimal


def in_force(session: Session, settings: Settings, broker: str) -> MandateTerms | Denied:
    """The newest mandate of a broker if it holds now, else why not. Older ones never hold again."""
    newest = select(Mandate).where(col(Mandate.broker) == broker).order_by(col(Mandate.version).desc()).limit(1)
    if writes(session):
        newest = newest.with_for_update(read=True)
    row = session.exec(newest.execution_options(populate_existing=True)).first()
    if row is None:
        return _none(f"no mandate was ever armed for {broker}", "none")
    if row.disarmed_at is not None:
        by = row.disarmed_by or "somebody"
        return _none(f"mandate {row.version} was disarmed by {by} at {row.disarmed_at:%Y-%m-%d %H:%M} UTC", "disarmed")
    terms = _verified(row, settings.mandate_public_key)
    if isinstance(terms, Denied):
        return terms
    now = utcnow()
    if now >= terms.expires_at:
        return _none(f"mandate {terms.version} ended at {terms.expires_at:%Y-%m-%d %H:%M} UTC", "expired")
    if now < terms.armed_at - CLOCKS_APART:
        return _none(f"mandate {terms.version} begins at {terms.armed_at:%Y-%m-%d %H:%M} UTC", "not begun")
    return terms


def _verified(row: Mandate, public_key: str | None) -> MandateTerms | Denied:
    if public_key is None:
        return _none("DESK_MANDATE_PUBLIC_KEY is not set, so no mandate can be verified", "no public key")
    try:
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public_key, validate=True))
        key.verify(base64.b64decode(row.signature, validate=True), signed_bytes(row.document))
    except (InvalidSignature, ValueError):
        return _none(f"mandate {row.version} is not signed by the key of DESK_MANDATE_PUBLIC_KEY", "bad signature")
    try:
        terms = MandateTerms.model_validate_json(row.document)
    except ValidationError:
        return _none(f"mandate {row.version} cannot be read by this version", "unreadable")
    if (terms.version, terms.broker) != (row.version, row.broker):
        said = f"mandate {row.version} of {row.broker} holds the document of {terms.version} of {terms.broker}"
        return _none(said, "another's document")
    return terms


def _none(reason: str, measured: str) -> Denied:
    remedy = "a person arms one with `desk arm`"
    return Denied(code=DenialCode.NO_MANDATE, reason=f"{reason}; {remedy}", measured=measured, limit="a valid mandate")


def used_of(session: Session, broker: str, version: int, besides: str | None = None) -> Used:
    """What was sent under a mandate, at the price of the preview or of the dearest fill, whichever is higher; `besides`
    is the id of an order that is not counted."""
    rows = session.exec(
        select(Order, Preview, func.max(Fill.price))
        .join(Preview, col(Preview.order_id) == col(Order.id))
        .join(Fill, col(Fill.order_id) == col(Order.id), isouter=True)
        .where(col(Order.account) == broker, col(Order.fence).is_not(None), col(Order.id) != (besides or ""))
        .group_by(col(Order.id), col(Preview.id))
    ).all()
    sent = [
        _counted(order, preview, dearest or 0.0)
        for order, preview, dearest in rows
        if json.loads(preview.payload).get(PAYLOAD_KEY) == version
    ]
    return Used(len(sent), sum(sent, Decimal(0)))


def _counted(order: Order, preview: Preview, price: float) -> Decimal:
    """What an order takes of a mandate: its quantity at the preview's price or this one, whichever is higher."""
    return max(exact(preview.notional), notional_of(order, price))


def check(session: Session, settings: Settings, order: Order, preview: Preview, price: float) -> Denied | None:
    """Why the mandate in force does not let this order go as previewed, None when it does. price: the one found now.

    Asked in the transaction that moves the order to `submitting`, of every broker with real money, so that a disarm
    comes wholly before or after.
    """
    terms = in_force(session, settings, order.account)
    if isinstance(terms, Denied):
        return terms
    if not terms.allows(order.symbol):
        listed = ", ".join(terms.symbols)
        return _beyond(terms, f"{order.symbol} is not among its symbols", order.symbol, f"one of {listed}")
    used = used_of(session, order.account, terms.version, order.id)
    if used.orders + 1 > terms.max_orders:
        return _beyond(terms, "its orders are used up", f"order {used.orders + 1}", f"at most {terms.max_orders}")
    own = _counted(order, preview, price)
    total = used.notional + own
    if total > terms.max_notional:
        reason = f"{money(own)} more would be more than it allows"
        return _beyond(terms, reason, f"notional {money(total)} in all", f"at most {money(terms.max_notional)}")
    return None


def _beyond(terms: MandateTerms, reason: str, measured: str, limit: str) -> Denied:
    said = f"mandate {terms.version}: {reason}"
    return Denied(code=DenialCode.MANDATE_EXCEEDED, reason=said, measured=measured, limit=limit)

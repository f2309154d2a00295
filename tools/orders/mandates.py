"""Mandates for brokers that move real money: verified here, never written; and the notional of an order that they
bound."""

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

from chordesk.models.answers import Rating
from chordesk.models.database.store import writes
from chordesk.models.market import legs_of
from chordesk.models.money import FxRate
from chordesk.models.orders import DenialCode, Denied, MandateTerms, signed_bytes
from chordesk.models.settings import Settings
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Fill, Mandate, Order, Preview
from chordesk.models.tables.runs import Verdict
from chordesk.models.text import utc
from chordesk.tools.decimals import exact, money
from chordesk.tools.ledger import account_money
from chordesk.tools.risk.codes import deny
from chordesk.tools.risk.exposure import converted, unit_notional, worst_case


def notional_of(order: Order, price: float, fx: FxRate | None = None) -> Decimal:
    """Return quantity x the notional of one share or contract, in account currency; price: per share, which fx turns
    into that currency where it is not in it.

    A sold option counts its strike, not its premium: that is what a person or a mandate lets the desk buy or sell
    shares for. An order with legs counts its worst case. Positions do not count, so that the same order has the same
    notional at any time.
    """
    if order.legs:
        net = exact(order.limit_price or 0)
        return converted(worst_case(legs_of(order.legs), order.side or "", exact(order.quantity or 0), net), fx)
    traded = order.contract or order.symbol
    return converted(exact(order.quantity or 0) * unit_notional(traded, order.side or "", exact(price)), fx)


CLOCK_TOLERANCE = dt.timedelta(minutes=2)  # a person's clock and a worker's may differ by as much
PAYLOAD_KEY = "mandateVersion"  # in a preview's canonical text


@dataclass(frozen=True, slots=True)
class MandateUsage:
    """Orders sent under a mandate so far, whatever their outcome. notional in account currency."""

    orders: int
    notional: Decimal


def in_force(session: Session, settings: Settings, broker: str) -> MandateTerms | Denied:
    """Return the newest mandate of a broker if it holds now, else the denial. Older ones never hold again."""
    newest = select(Mandate).where(col(Mandate.broker) == broker).order_by(col(Mandate.version).desc()).limit(1)
    if writes(session):
        newest = newest.with_for_update(read=True)
    row = session.exec(newest.execution_options(populate_existing=True)).first()
    if row is None:
        return _no_mandate(f"no mandate was ever armed for {broker}", "none")
    if row.disarmed_at is not None:
        by = f"{row.disarmed_by or 'a person'} at {utc(row.disarmed_at)}"
        return _no_mandate(f"mandate {row.version} was disarmed by {by}", "disarmed")
    terms = _verified(row, settings.mandate_public_key)
    if isinstance(terms, Denied):
        return terms
    now = utcnow()
    if now >= terms.expires_at:
        return _no_mandate(f"mandate {terms.version} ended at {utc(terms.expires_at)}", "expired")
    if now < terms.armed_at - CLOCK_TOLERANCE:
        return _no_mandate(f"mandate {terms.version} begins at {utc(terms.armed_at)}", "not begun")
    return terms


def hold_of(session: Session, settings: Settings, order: Order) -> str | None:
    """Return why an order is previewed and not sent: it opens on a verdict of CAUTION, and no mandate sends such ones.
    None where it may be sent."""
    verdict = session.get(Verdict, order.verdict_id) if order.verdict_id else None
    if order.action not in ("open", "add") or verdict is None or verdict.rating != Rating.CAUTION:
        return None
    terms = in_force(session, settings, order.account)
    if not isinstance(terms, Denied) and terms.caution:
        return None
    return "the verdict is CAUTION: it is previewed, and sent under a mandate of `desk arm --caution` alone"


def _verified(row: Mandate, public_key: str | None) -> MandateTerms | Denied:
    if public_key is None:
        return _no_mandate("DESK_MANDATE_PUBLIC_KEY is not set, so no mandate can be verified", "no public key")
    try:
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public_key, validate=True))
        key.verify(base64.b64decode(row.signature, validate=True), signed_bytes(row.document))
    except (InvalidSignature, ValueError):
        return _no_mandate(
            f"mandate {row.version} is not signed by the key of DESK_MANDATE_PUBLIC_KEY", "bad signature"
        )
    try:
        terms = MandateTerms.model_validate_json(row.document)
    except ValidationError:
        return _no_mandate(f"mandate {row.version} cannot be read by this version", "unreadable")
    if (terms.version, terms.broker) != (row.version, row.broker):
        reason = f"mandate {row.version} of {row.broker} holds the document of {terms.version} of {terms.broker}"
        return _no_mandate(reason, "another's document")
    return terms


def _no_mandate(reason: str, measured: str) -> Denied:
    return deny(DenialCode.NO_MANDATE, f"{reason}; a person arms one with `desk arm`", measured, "a valid mandate")


def usage_of(session: Session, broker: str, version: int, besides: str | None = None) -> MandateUsage:
    """Return the use of a mandate by sent orders, each at its preview's price or its dearest fill, whichever is higher;
    the order `besides` is not counted."""
    rows = session.exec(
        select(Order, Preview, func.max(Fill.price))
        .join(Preview, col(Preview.order_id) == col(Order.id))
        .join(Fill, col(Fill.order_id) == col(Order.id), isouter=True)
        .where(col(Order.account) == broker, col(Order.fence).is_not(None), col(Order.id) != (besides or ""))
        .where(col(Order.protects).is_(None))  # what closes a position was counted when it was opened
        .group_by(col(Order.id), col(Preview.id))
    ).all()
    sent = [
        _counted_notional(order, preview, dearest or 0.0)
        for order, preview, dearest in rows
        if json.loads(preview.payload).get(PAYLOAD_KEY) == version
    ]
    return MandateUsage(len(sent), sum(sent, Decimal(0)))


def _counted_notional(order: Order, preview: Preview, price: float) -> Decimal:
    """Return an order's share of a mandate: its quantity at the preview's price or this one, whichever is higher, both
    at the preview's rate."""
    own = notional_of(order, price)
    return max(exact(preview.notional), own if preview.rate is None else own * exact(preview.rate))


def check(session: Session, settings: Settings, order: Order, preview: Preview, price: float) -> Denied | None:
    """Return the reason for which the mandate in force does not allow this order as previewed, None when it does.
    price: the current one. Called in the transaction that moves the order to `submitting`, for every broker with real
    money, so that a disarm comes wholly before or after."""
    terms = in_force(session, settings, order.account)
    if isinstance(terms, Denied):
        return terms
    if not terms.allows(order.symbol):
        listed = ", ".join(terms.symbols)
        return _exceeded(terms, f"{order.symbol} is not among its symbols", order.symbol, f"one of {listed}")
    used = usage_of(session, order.account, terms.version, order.id)
    if used.orders + 1 > terms.max_orders:
        return _exceeded(terms, "its orders are used up", f"order {used.orders + 1}", f"at most {terms.max_orders}")
    own = _counted_notional(order, preview, price)
    total = used.notional + own
    if total > terms.max_notional:
        base = account_money(session, settings, order.account).base
        reason, most = f"{money(own, base)} more would be more than it allows", money(terms.max_notional, base)
        return _exceeded(terms, reason, f"notional {money(total, base)} in all", f"at most {most}")
    return None


def _exceeded(terms: MandateTerms, reason: str, measured: str, limit: str) -> Denied:
    return deny(DenialCode.MANDATE_EXCEEDED, f"mandate {terms.version}: {reason}", measured, limit)

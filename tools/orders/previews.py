"""Previews: an order in canonical form, its SHA-256, and the check before it is sent."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlmodel import Session

from chordesk.models.market import MODELLED, legs_of, plain_name
from chordesk.models.money import Duty, FxRate
from chordesk.models.order_terms import parse_protection
from chordesk.models.orders import DenialCode, Denied
from chordesk.models.settings import REPLAYING, Settings
from chordesk.models.states import OrderState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Order, Preview
from chordesk.tools.decimals import exact, plain
from chordesk.tools.market.price_steps import Terms
from chordesk.tools.orders import approvals, audit
from chordesk.tools.orders.booking import advance
from chordesk.tools.orders.checking import SizedOrder
from chordesk.tools.orders.mandates import PAYLOAD_KEY, in_force, notional_of
from chordesk.tools.orders.stops import ProtectiveStop, preview_of
from chordesk.tools.position_plans import plan_of
from chordesk.tools.rates import preview_rate
from chordesk.tools.risk.codes import deny

_UNPRICED = "unpriced"  # in a preview's canonical text


@dataclass(frozen=True, slots=True)
class PreviewTerms:
    """Conditions that a preview is bound to besides the order."""

    market: str
    broker: str
    mandate: int | None  # version of the one in force, verified; None without one
    protect: str  # the rule of DESK_PROTECT
    valid_for: dt.timedelta
    options: str | None = None  # the market of option quotes, where it is another
    traded: Terms | None = None  # of the listing; without them those that its symbol alone tells


def terms_of(
    session: Session, settings: Settings, market: str, broker: str, traded: Terms | None = None
) -> PreviewTerms:
    found = in_force(session, settings, broker)
    version = None if isinstance(found, Denied) else found.version
    valid_for = dt.timedelta(minutes=settings.preview_minutes)
    modelled = settings.replay_options == MODELLED and plain_name(market) in REPLAYING
    options = f"{market}, option quotes {MODELLED}" if modelled else None
    return PreviewTerms(market, broker, version, settings.protect, valid_for, options, traded)


def canonical(
    order: Order,
    price: float,
    priced_at: dt.datetime,
    terms: PreviewTerms,
    unpriced: str | None = None,
    fx: FxRate | None = None,
    duties: Sequence[Duty] = (),
) -> str:
    """Return the order as it would be sent: JSON of sorted keys without spaces, numbers as plain decimal text, times in
    UTC. The same order at the same market time has the same text, to the byte. expiresAt is market time; unpriced is
    why no price is known, and then `price` is what the position cost on average; fx: the rate of a price that is not in
    the account's currency, as notional and duties are."""
    fields = {
        "account": order.account,
        "action": order.action,
        "broker": terms.broker,
        "clientOrderId": order.id,
        "contract": order.contract,
        "decisionId": order.decision_id,
        "expiresAt": _moment(order.market_at + terms.valid_for),
        "legs": [str(leg) for leg in legs_of(order.legs)] or None,
        "limitPrice": None if order.limit_price is None else plain(order.limit_price),
        "market": terms.options or terms.market if order.contract or order.legs else terms.market,
        "multiplier": plain(order.multiplier),
        "notional": plain(notional_of(order, price, fx)),
        "orderType": order.order_type,
        "plan": order.plan,
        "price": plain(price),
        "pricedAt": _moment(priced_at),
        "protection": _protection(order, price, terms),
        "protects": order.protects,
        "quantity": plain(order.quantity or 0),
        "side": order.side,
        "stopPrice": None if order.stop_price is None else plain(order.stop_price),
        "symbol": order.symbol,
        "timeInForce": order.time_in_force,
        "trailPercent": None if order.trail_percent is None else plain(order.trail_percent),
        _UNPRICED: unpriced,
        "verdictId": order.verdict_id,
        PAYLOAD_KEY: terms.mandate,
        **_rated(fx),
        **({"duties": [[name, plain(amount)] for name, amount in duties]} if duties else {}),
    }
    return json.dumps(fields, sort_keys=True, separators=(",", ":"))


def _rated(fx: FxRate | None) -> dict[str, str]:
    """Return the keys of a price that is not in the account's currency, none of any other."""
    if fx is None:
        return {}
    return {"currency": fx.currency, "rate": plain(fx.rate), "rateAt": _moment(fx.at), "rateSource": fx.source}


def _protection(order: Order, price: float, terms: PreviewTerms) -> Mapping[str, Any] | None:
    if order.contract is not None or not order.quantity:
        return None
    side = "sell" if order.side == "buy" else "buy"
    bare = ProtectiveStop(order.symbol, side, exact(order.quantity), None, exact(price), None, terms=terms.traded)
    return preview_of(terms.protect, order.action, bare, plan_of(order))


def _moment(moment: dt.datetime) -> str:
    return moment.astimezone(dt.UTC).isoformat()


def digest(payload: str) -> str:
    return hashlib.sha256(payload.encode()).hexdigest()


def preview(order: Order, sized: SizedOrder, at: dt.datetime, terms: PreviewTerms) -> Preview:
    """Return the preview of a cleared order, not yet added to a session; the order takes the size that was checked. at:
    market time. A role's dry run and the workflow both call this, so that they cannot differ."""
    order.quantity, order.market_at = sized.ticket.quantity, at
    order.order_type, order.limit_price = sized.ticket.order_type, sized.ticket.limit_price
    order.stop_price = sized.ticket.stop_price
    fx = sized.fx
    payload = canonical(order, sized.price, sized.priced_at, terms, sized.unpriced, fx, sized.duties)
    return Preview(
        order_id=order.id,
        payload=payload,
        payload_hash=digest(payload),
        price=sized.price,
        priced_at=sized.priced_at,
        notional=float(notional_of(order, sized.price, fx)),
        currency=fx.currency if fx is not None else None,
        rate=fx.rate if fx is not None else None,
        rate_at=fx.at if fx is not None else None,
        rate_source=fx.source if fx is not None else None,
        duties=[list(duty) for duty in sized.duties] or None,
    )


def write_preview(
    session: Session,
    settings: Settings,
    order: Order,
    sized: SizedOrder,
    at: dt.datetime,
    terms: PreviewTerms,
    note: str | None = None,
) -> Preview:
    made = preview(order, sized, at, terms)
    advance(session, order, OrderState.PREVIEWED, message=note)
    session.add(made)
    session.flush()
    audit.record(session, settings, "previewed", order=order.id, payload=made.payload, payload_hash=made.payload_hash)
    return made


def verify(order: Order, found: Preview | None, terms: PreviewTerms, now: dt.datetime) -> Denied | None:
    """Return the reason for which a preview may not be sent: it is altered, another mandate is in force, or it is
    too old in market time or in real time."""
    if found is None:
        reason, limit = "the order has no preview", "the preview that was checked"
        return deny(DenialCode.PREVIEW_ALTERED, reason, "no preview", limit)
    made_under, made_with = _mandate_of(found.payload), _rule_of(found.payload, terms.protect)
    of_its_time = replace(terms, mandate=made_under, protect=made_with)
    fx = preview_rate(found, "")
    duties = [Duty(*duty) for duty in found.duties or ()]
    expected = canonical(order, found.price, found.priced_at, of_its_time, unpriced_of(found), fx, duties)
    noted = exact(found.notional) == exact(float(notional_of(order, found.price, fx)))
    hashed = digest(found.payload) == found.payload_hash
    if hashed and noted and (stops := _other_stops(expected, found.payload)) is not None:
        reason = "the stop of its fill is another than was previewed, by the price steps of now; decide anew"
        return deny(DenialCode.PREVIEW_STALE, reason, f"stop {stops[0]}", f"stop {stops[1]}")
    if expected != found.payload or not hashed or not noted:
        reason = "the order, its preview or its hash is not what was checked"
        return deny(DenialCode.PREVIEW_ALTERED, reason, digest(expected), found.payload_hash)
    if made_under != terms.mandate:
        measured, limit = f"mandate {made_under or 'none'}", f"mandate {terms.mandate or 'none'}"
        return deny(DenialCode.PREVIEW_STALE, "another mandate is in force than was previewed", measured, limit)
    if made_with != terms.protect:
        reason = "the order is protected in another way than was previewed; decide anew"
        return deny(DenialCode.PREVIEW_STALE, reason, f"protect {made_with}", f"protect {terms.protect}")
    # A clock that was set back makes a preview of the future, which is not fresher.
    age = max(abs(now - order.market_at), utcnow() - found.created_at)
    if age > terms.valid_for:
        old, most = (f"{span / dt.timedelta(minutes=1):.3g} min" for span in (age, terms.valid_for))
        reason = "the preview is too old to be sent; decide anew"
        return deny(DenialCode.PREVIEW_STALE, reason, f"{old} old", f"at most {most}")
    return None


def _other_stops(expected: str, payload: str) -> tuple[str, str] | None:
    """Return the prices of the stop of both, where they differ in nothing else; None where they do, or are equal."""
    now, then = (_field_of(text, "protection") for text in (expected, payload))
    if not isinstance(now, dict) or not isinstance(then, dict):
        return None
    stops = str(now.get("stopPrice")), str(then.get("stopPrice"))
    return stops if expected.replace(_stop_text(stops[0]), _stop_text(stops[1])) == payload != expected else None


def _stop_text(price: str) -> str:
    return f'"stopPrice":"{price}","timeInForce":"gtc"'  # of a protection: an order's own stop comes elsewhere


def _mandate_of(payload: str) -> int | None:
    version = _field_of(payload, PAYLOAD_KEY)
    return version if isinstance(version, int) else None


def _rule_of(payload: str, now: str) -> str:
    """Return the rule of DESK_PROTECT that a payload was made with; the one of now where it names no protection and
    needs none."""
    try:
        fields = json.loads(payload)
        found, opens = fields["protection"], fields["action"] in ("open", "add") and fields["contract"] is None
        rule = found["rule"] if found else "none" if opens else now
        parse_protection(rule)
    except (ValueError, TypeError, KeyError):
        return now  # altered text, which the comparison finds
    return str(rule)


def unpriced_of(found: Preview) -> str | None:
    why = _field_of(found.payload, _UNPRICED)
    return why if isinstance(why, str) else None


def _field_of(payload: str, name: str) -> object:
    try:
        return json.loads(payload)[name]
    except (ValueError, TypeError, KeyError):
        return None  # altered text, which the comparison finds


def waits_for_person(settings: Settings, real_money: bool, found: Preview) -> bool:
    """Return whether an order as previewed waits for a person: by the policy, or because no price of it is known."""
    return unpriced_of(found) is not None or approvals.needs_person(settings, real_money, found.notional)


def price_moved(found: Preview, price: float, collar: float) -> Denied | None:
    """Return a denial when the price has moved too far from the previewed one. collar: as a fraction. A preview that
    knew no price is what a person approved without one."""
    if unpriced_of(found) is not None:
        return None
    away = abs(exact(price) - exact(found.price)) / exact(found.price)
    if away <= exact(collar):
        return None
    reason = f"the price moved from {plain(found.price)} to {plain(price)} since the preview; decide anew"
    return deny(DenialCode.PRICE_MOVED, reason, f"{away:.4%} away", f"at most {exact(collar):.2%}")

"""Shares without a standing stop although DESK_PROTECT asks for one, and what is in its way."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal

from sqlmodel import Session, col, select

from chordesk.models.orders import Denied
from chordesk.models.settings import Settings
from chordesk.models.states import OrderState, TradingState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Order
from chordesk.tools.decimals import plain
from chordesk.tools.orders.checks import mandates
from chordesk.tools.orders.halt import halting
from chordesk.tools.orders.stops.holdings import ShareHolding, holdings, left_of, working_protection

# After a refusal of the broker it is not asked again about the same symbol for so long.
REFUSED_FOR = dt.timedelta(minutes=15)
_UNANSWERED = (OrderState.SUBMITTING.value, OrderState.UNKNOWN.value)


@dataclass(frozen=True, slots=True)
class Unprotected:
    """Shares that ought to be protected and are not, with the reason. free: those among them that a stop could hold."""

    symbol: str
    quantity: float
    free: float
    why: str


def unprotected(session: Session, settings: Settings) -> list[Unprotected]:
    """Return the account's positions in shares without a standing stop for their whole quantity, by symbol; none while
    DESK_PROTECT is `none`."""
    if settings.protect == "none":
        return []
    found = (_uncovered(session, settings, holding) for holding in holdings(session, settings.account))
    return [row for row in found if row is not None]


def _uncovered(session: Session, settings: Settings, holding: ShareHolding) -> Unprotected | None:
    stops = working_protection(session, settings.account, holding.symbol)
    standing = sum((left_of(session, stop) for stop in stops if stop.state not in _UNANSWERED), Decimal(0))
    lacking, bound = abs(holding.held) - standing, abs(holding.held) - holding.free
    if lacking <= 0:
        return None
    reasons = [f"the broker's answer on stop {stop.id} is not known" for stop in stops if stop.state in _UNANSWERED]
    if lacking > bound and not reasons:
        reasons.append(obstacle(session, settings, holding.symbol) or "the next pass over the orders places it")
    if bound:
        reasons.append(f"{plain(bound)} are in other orders, bound by written calls or no whole share")
    free = max(lacking - bound, Decimal(0))
    return Unprotected(holding.symbol, float(lacking), float(free), "; ".join(reasons))


def obstacle(session: Session, settings: Settings, symbol: str) -> str | None:
    """Return why no protective order may be sent now, None when one may."""
    if not settings.trader_live:
        return "live trading is off (TRADER_LIVE is not 1)"
    state, why = halting.trading_state(session, settings, settings.account)
    if state is TradingState.HALTED:
        return f"trading is halted: {why or 'no reason given'}"
    last = session.exec(
        select(Order)
        .where(col(Order.account) == settings.account, col(Order.symbol) == symbol, col(Order.protects).is_not(None))
        .order_by(col(Order.updated_at).desc())
        .limit(1)
    ).first()
    if last is not None and last.state == OrderState.REJECTED and utcnow() - last.updated_at < REFUSED_FOR:
        minutes = f"{REFUSED_FOR / dt.timedelta(minutes=1):.0f} min"
        return f"the broker refused order {last.id}: {last.message}; it is asked again after {minutes}"
    if not settings.real_money:
        return None
    found = mandates.in_force(session, settings, settings.account)
    if isinstance(found, Denied):
        return found.reason
    return None if found.allows(symbol) else f"mandate {found.version} does not name {symbol}"

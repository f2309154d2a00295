"""Rules on amounts: of one order, one symbol, one sector, all together, and of free cash."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

from chordesk.models.orders import DenialCode, Denied, OrderTicket, RiskContext, RiskLimits
from chordesk.tools.decimals import exact, money, plain
from chordesk.tools.risk.cover import ZERO
from chordesk.tools.risk.denials import deny
from chordesk.tools.risk.exposure import (
    added_risk,
    cash_needed,
    covers,
    exposures,
    free_cash,
    notional_of,
    opening_only,
    opening_quantity,
    price_of,
)

_SECURED = "sell a put against free cash, or a call against 100 free shares"


@opening_only
def notional_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    notional, most = notional_of(ticket, context), exact(limits.max_order_notional)
    if notional <= most:
        return None
    price = money(price_of(ticket, context))
    reason = f"{plain(ticket.quantity)} {ticket.traded} at {price} is more than one order may be"
    return deny(DenialCode.NOTIONAL_PER_ORDER, reason, f"notional {money(notional)}", f"at most {money(most)}")


def _unpriced(context: RiskContext) -> str:
    names = ", ".join(held.symbol for held in context.account.positions if held.market_price is None)
    return f"no price for {names or 'a position'}"


@opening_only
def share_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    limit = f"at most {exact(limits.max_symbol_share):.2%} of equity"
    found = exposures(ticket, context)
    if context.account.equity is None or found is None:
        reason = f"the account's equity is not known: {_unpriced(context)}"
        return deny(DenialCode.SHARE_PER_SYMBOL, reason, "equity unknown", limit)
    equity, exposure = exact(context.account.equity), found[ticket.symbol]
    if exposure <= exact(limits.max_symbol_share) * equity:
        return None
    reason = f"{ticket.symbol} would be {money(exposure)} of an equity of {money(equity)}"
    return deny(DenialCode.SHARE_PER_SYMBOL, reason, _share(exposure, equity), limit)


def _share(exposure: Decimal, equity: Decimal) -> str:
    return f"{exposure / equity:.4%} of equity" if equity > 0 else "no equity"


@opening_only
def symbol_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    most, found = exact(limits.max_symbol_notional), exposures(ticket, context)
    limit = f"at most {money(most)}"
    if found is None:
        return deny(DenialCode.NOTIONAL_PER_SYMBOL, _unpriced(context), "exposure unknown", limit)
    if found[ticket.symbol] <= most:
        return None
    reason = f"{ticket.symbol} would be more than may be in one symbol"
    return deny(DenialCode.NOTIONAL_PER_SYMBOL, reason, f"exposure {money(found[ticket.symbol])}", limit)


@opening_only
def gross_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    most, found = exact(limits.max_gross_notional), exposures(ticket, context)
    limit = f"at most {money(most)}"
    if found is None:
        return deny(DenialCode.GROSS_NOTIONAL, _unpriced(context), "exposure unknown", limit)
    gross = sum(found.values(), ZERO)
    if gross <= most:
        return None
    reason = f"with this order and what is open the account would hold {money(gross)}"
    return deny(DenialCode.GROSS_NOTIONAL, reason, f"gross {money(gross)}", limit)


@opening_only
def sector_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    """Deny too much in one sector. An unknown sector counts as the worst case: it may be that of any other symbol."""
    share = exact(limits.max_sector_share)
    if share >= 1:
        return None
    limit, found = f"at most {share:.2%} of equity", exposures(ticket, context)
    if context.account.equity is None or found is None:
        return deny(DenialCode.SHARE_PER_SECTOR, _unpriced(context), "equity unknown", limit)
    sector, exposure = _largest_sector(ticket.symbol, found, context.sectors)
    equity = exact(context.account.equity)
    if exposure <= share * equity:
        return None
    unknown = sum((amount for other, amount in found.items() if context.sectors.get(other) is None), ZERO)
    counted = f", {money(unknown)} in symbols of an unknown sector counted in," if unknown else ""
    reason = f"{sector} would be {money(exposure)}{counted} of an equity of {money(equity)}"
    return deny(DenialCode.SHARE_PER_SECTOR, reason, _share(exposure, equity), limit)


def _largest_sector(
    symbol: str, found: Mapping[str, Decimal], sectors: Mapping[str, str | None]
) -> tuple[str, Decimal]:
    """Return the sector that an order on `symbol` may fill, with the exposure of every symbol that is or may be in
    it."""
    own = sectors.get(symbol)
    known = {name for name in map(sectors.get, found) if name is not None}

    def within(names: Iterable[str | None]) -> Decimal:
        return sum((amount for other, amount in found.items() if sectors.get(other) in names), ZERO)

    if own is not None:
        return f"the sector {own}", within((own, None))
    worst = max((within((name, None)) for name in known), default=within((None,)))
    return f"the sector of {symbol}, which is not known,", worst


def buying_power_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    return None if ticket.is_option else _cash_denial(ticket, context, limits, DenialCode.BUYING_POWER)


@opening_only
def cash_secured_rule(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
    """Deny every opening option order but a put sold with the cash for its assignment put aside, and a call sold with
    its shares put aside."""
    if not ticket.is_option:
        return None
    if ticket.side == "buy" and not ticket.legs:
        reason = f"to buy {ticket.contract} opens what is not secured by cash or shares"
        return deny(DenialCode.CASH_SECURED, reason, "buy to open", _SECURED)
    before, after = covers(ticket, context)
    if after.naked > before.naked:
        sold = f"{plain(ticket.quantity)} {ticket.contract}" if ticket.contract else f"calls of {len(ticket.legs)} legs"
        reason = f"to sell {sold} needs 100 shares of {ticket.symbol} for each call"
        measured = f"{plain(after.naked - before.naked)} without shares that are free"
        return deny(DenialCode.CASH_SECURED, reason, measured, _SECURED)
    return _cash_denial(ticket, context, limits, DenialCode.CASH_SECURED)


def _option_cash(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Decimal:
    """Return the cash that an option order may cost at worst, commission included."""
    commission = exact(ticket.whole) * exact(limits.commission_per_share)
    if ticket.legs:
        return added_risk(ticket, context) + commission
    before, after = covers(ticket, context)
    return max(after.cash - before.cash, ZERO) + commission


def _cash_denial(ticket: OrderTicket, context: RiskContext, limits: RiskLimits, code: DenialCode) -> Denied | None:
    opening = opening_quantity(ticket, context)
    if not ticket.is_option and not opening:
        return None
    if ticket.is_option:
        need = _option_cash(ticket, context, limits)
    else:
        need = cash_needed(ticket.traded, ticket.side, opening, price_of(ticket, context), limits)
    free = free_cash(context.account)
    if free is None:
        reason = "free cash is not known: a short position has no price or is a call without cover"
        return deny(code, reason, "free cash unknown", f"{money(need)} needed")
    left = free - sum((exact(reservation.cash) for reservation in context.reservations), ZERO)
    if need <= left:
        return None
    what = (
        f"{plain(ticket.quantity)} of {len(ticket.legs)} legs" if ticket.legs else f"{plain(opening)} {ticket.traded}"
    )
    reason = f"{what} may need more than the cash that is free"
    return deny(code, reason, f"needs {money(need)}", f"{money(left)} free")

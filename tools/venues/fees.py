"""Fees of a venue by its own formula, exact to the cent where it rounds."""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal

from chordesk.models.errors import UsageError
from chordesk.tools.venues.markets import FeeTerms

_CENT = Decimal("0.01")


def taker_fee(terms: FeeTerms, price: float, contracts: float) -> float:
    """Return the fee for taking `contracts` at a price from 0 to 1, in the venue's currency.

    Kalshi: 0.07 * C * P * (1 - P), rounded up to the cent. Polymarket: C * rate * (p * (1 - p)) ** exponent.
    """
    return _fee(terms, terms.rate, price, contracts)


def fee_per_share(terms: FeeTerms, price: float) -> float:
    """Return the taker's fee of one share before any rounding, which an order of many shares approaches."""
    return float(terms.rate * (price * (1 - price)) ** terms.exponent)


def _fee(terms: FeeTerms, rate: float, price: float, contracts: float) -> float:
    if not 0 <= price <= 1:
        raise UsageError(f"price {price:g} is not from 0 to 1", remedy="give the price of a share that pays 1")
    if not contracts >= 0:
        raise UsageError(f"{contracts:g} contracts cannot be bought", remedy="give 0 or more")
    if not terms.cents:
        return float(rate * contracts * (price * (1 - price)) ** terms.exponent)
    # In binary fractions 0.07 * 100 * 0.5 * 0.5 lies above 1.75, and would be rounded up to 1.76.
    exact, one = Decimal(str(price)), Decimal(1)
    spread = (exact * (one - exact)) ** Decimal(str(terms.exponent))
    return float((Decimal(str(rate)) * Decimal(str(contracts)) * spread).quantize(_CENT, ROUND_CEILING))

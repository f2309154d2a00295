"""Figures of one written option: return on capital, break-even, probability of profit."""

from __future__ import annotations

from dataclasses import dataclass

from chordesk.tools.pricing.black_scholes import DAYS_A_YEAR, Terms, beyond


@dataclass(frozen=True, slots=True)
class WrittenReturns:
    """roc: premium / capital, weekly and annual by days to expiry without compounding, all fractions. break_even: price
    of the share at expiry. capital: the strike for a put that cash secures, the share's price for a covered call."""

    roc: float
    weekly: float
    annual: float
    break_even: float


def written_returns(terms: Terms, premium: float, days: int) -> WrittenReturns | None:
    """Return them for a premium per share and calendar days to expiry; None on the last day."""
    if days <= 0:
        return None
    roc = premium / (terms.strike if terms.kind == "put" else terms.spot)
    return WrittenReturns(roc, roc * 7 / days, roc * DAYS_A_YEAR / days, terms.strike + terms.sign * premium)


def profit_probability(terms: Terms, premium: float, volatility: float) -> float | None:
    """Return the risk-neutral probability that the writer keeps a profit: a put's share ends above the break-even, a
    call's below it. None where the premium is as large as a put's strike."""
    level = terms.strike + terms.sign * premium
    if level <= 0:
        return None
    above = beyond(terms, level, volatility)
    return above if terms.kind == "put" else 1 - above

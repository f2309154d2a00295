"""Funding rates and their figures. That positive ones are bearish is a hypothesis to score, not a fact."""

from __future__ import annotations

import datetime as dt
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from chordesk.models.errors import UsageError

OWN = "HlPerp"  # Hyperliquid's name for itself among the venues
OWN_HOURS = 1.0  # it pays hourly


@dataclass(frozen=True, slots=True)
class FundingRate:
    """The next rate of a venue: longs pay it to shorts when positive. hours: between payments, null where the venue
    does not state it."""

    venue: str
    rate: float
    hours: float | None
    next_at: dt.datetime | None


@dataclass(frozen=True, slots=True)
class FundingPaid:
    """A rate that was paid at a moment."""

    at: dt.datetime
    rate: float


HOURS_A_YEAR = 8760
DAYS = 30  # of a coin's own history
LEAST = 72  # payments of which a mean and a deviation mean something: three days of hourly ones


@dataclass(frozen=True, slots=True)
class FundingFigures:
    coin: str
    annual: dict[str, float]  # by venue, if it states how often it pays
    z: float | None  # of the last rate against the coin's own days before it, null if these are too few or equal
    same_sign: int  # how many of the last `payments` had the last one's sign
    payments: int
    spread: float | None  # highest less lowest annual rate, null below two venues
    lacks: tuple[str, ...]  # missing figures, with the reason


def annual_rate(rate: float, hours: float) -> float:
    """Return rate / hours * 8760, simple interest; hours: between two payments."""
    if not hours > 0:
        raise UsageError(f"a rate is not paid every {hours:g} hours", remedy="give the hours between two payments")
    return rate / hours * HOURS_A_YEAR


def z_score(value: float, before: Sequence[float]) -> float | None:
    """Return (value - mean) / sample deviation of those before it; None below 72 of them or where they are equal."""
    if len(before) < LEAST or (deviation := statistics.stdev(before)) == 0:
        return None
    return (value - statistics.fmean(before)) / deviation


def same_sign(rates: Sequence[float]) -> int:
    """Return how many rates have the sign of the last one, it included; 0 when that is zero."""
    if not rates or rates[-1] == 0:
        return 0
    return sum((rate > 0) == (rates[-1] > 0) and rate != 0 for rate in rates)


def funding_figures(
    coin: str, predicted: Sequence[FundingRate], paid: Sequence[FundingPaid], now: dt.datetime
) -> FundingFigures:
    annual = {one.venue: annual_rate(one.rate, one.hours) for one in predicted if one.hours is not None}
    since = now - dt.timedelta(days=DAYS)
    rates = [one.rate for one in sorted(paid, key=lambda one: one.at) if since <= one.at <= now]
    z = z_score(rates[-1], rates[:-1]) if rates else None
    lacks = [f"{one.venue} does not state how often it pays" for one in predicted if one.hours is None]
    if len(rates) <= LEAST:
        lacks.append(f"z-score: {len(rates)} payments in {DAYS} days, more than {LEAST} are needed")
    elif z is None:
        lacks.append("z-score: all payments before the last are equal")
    if len(annual) < 2:
        lacks.append(f"spread: {len(annual)} venue{'s' * (len(annual) != 1)} with an annual rate, two are needed")
    spread = max(annual.values()) - min(annual.values()) if len(annual) > 1 else None
    return FundingFigures(coin, annual, z, same_sign(rates), len(rates), spread, tuple(lacks))

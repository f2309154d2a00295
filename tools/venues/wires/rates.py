"""Funding rates as values, for figures that need no wire."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

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

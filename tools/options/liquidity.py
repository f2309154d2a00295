"""Liquidity of a contract: a grade from its spread, its open interest and its volume."""

from __future__ import annotations

from typing import Literal

from chordesk.models.contracts import ChainRow

Liquidity = Literal["good", "fair", "poor", "unknown"]
DEFINITION = (
    "good: spread at most 5% of mid or $.05, open interest 500 or more, volume 50 or more; fair: at most 10% or $.10, "
    "open interest 100 or more; else poor; unknown where a figure that decides is missing"
)
_SLACK = 1e-9  # quotes are decimal cents: 1.05 - 1.00 is more than .05 as a binary fraction


def liquidity_of(row: ChainRow, mid: float | None) -> Liquidity:
    """Return the grade of DEFINITION. mid: None where the quote is not one to trade at, which is poor."""
    if row.bid is None and row.ask is None:
        return "unknown"
    if mid is None or row.bid is None or row.ask is None:
        return "poor"
    spread = row.ask - row.bid
    if not _within(spread, mid, 0.10):
        return "poor"
    if row.open_interest is None:
        return "unknown"
    if row.open_interest < 100:
        return "poor"
    if not _within(spread, mid, 0.05) or row.open_interest < 500:
        return "fair"
    if row.volume is None:
        return "unknown"
    return "good" if row.volume >= 50 else "fair"


def _within(spread: float, mid: float, limit: float) -> bool:
    """Return whether a spread is within a share of mid, or within as many dollars."""
    return spread <= limit * max(mid, 1.0) + _SLACK

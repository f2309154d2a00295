"""A name against its market: returns against the benchmark and the sector, its place among all, and its beta."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from chordesk.tools import figures
from chordesk.tools.decimals import finite, rounded
from chordesk.tools.market.protocol import Floats
from chordesk.tools.price_panel import PricePanel, change, standing
from chordesk.tools.regime import benchmark

SPANS = (20, 60, 250)
_LEAST_RETURNS = 60  # of a beta
_LEAST_OF_A_SECTOR = 3  # names beside the symbol itself


def strength_of(panel: PricePanel, symbol: str, sectors: Mapping[str, str | None]) -> dict[str, Any]:
    """Return differences of returns and places among all names, as fractions; None where sessions or names are too few.

    sectors: by symbol. The benchmark is all names in equal parts; the sector is its other names in equal parts.
    """
    row, sector = panel.place[symbol], sectors.get(symbol)
    others = [place for name, place in panel.place.items() if name != symbol and sector and sectors.get(name) == sector]
    index = benchmark(panel.close)
    group = benchmark(panel.close[others]) if len(others) >= _LEAST_OF_A_SECTOR else None
    found: dict[str, Any] = {"sectorNames": len(others)}
    for span in SPANS:
        changes = change(panel.close, span)[:, -1] if panel.close.shape[1] > span else np.full(len(panel.close), np.nan)
        own, whole = finite(changes[row]), figures.momentum(index, span)
        found[f"againstBenchmark{span}"] = rounded(own - whole) if own is not None and whole is not None else None
        part = figures.momentum(group, span) if group is not None else None
        found[f"againstSector{span}"] = rounded(own - part) if own is not None and part is not None else None
        placed = standing(changes, row)
        found[f"percentile{span}"] = rounded(placed.percentile, 2) if placed is not None else None
    beta, returns = beta_of(panel.close[row], index)
    return {**found, "beta": rounded(beta, 2), "betaReturns": returns, "date": panel.days[-1].isoformat()}


def strength_line(panel: PricePanel, symbol: str, days: Sequence[dt.date]) -> Floats:
    """Return price / benchmark on each day, 100 on the first that has both; not a number on days without."""
    ratio = panel.close[panel.place[symbol]] / benchmark(panel.close)
    at = {day: place for place, day in enumerate(panel.days)}
    values = np.array([ratio[at[day]] if day in at else np.nan for day in days])
    known = np.flatnonzero(np.isfinite(values))
    return values / values[known[0]] * 100 if len(known) else values


def beta_of(close: Floats, index: Floats) -> tuple[float | None, int]:
    """Return (covariance / variance of the benchmark of the last 252 daily log returns, of how many)."""
    pairs = np.array([np.diff(np.log(values[-figures.SESSIONS_A_YEAR - 1 :])) for values in (close, index)])
    known = pairs[:, np.isfinite(pairs).all(axis=0)]
    count = known.shape[1]
    if count < _LEAST_RETURNS or known[1].std() == 0:
        return None, count
    spread = np.cov(known)
    return finite(spread[0, 1] / spread[1, 1]), count

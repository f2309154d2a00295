"""The state of a market on a day, and the base rates of names in it: both of the closes of the desk's universe."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np

from chordesk.models.errors import DeskError
from chordesk.models.market import Regime
from chordesk.tools.decimals import finite, rounded
from chordesk.tools.market.protocol import Floats
from chordesk.tools.prices import price_figures
from chordesk.tools.prices.price_panel import LEAST_COMPARED, PricePanel, a_year_of, change, panel_of, standing
from chordesk.tools.registry import ToolContext
from chordesk.tools.scoring.base_rates import (
    HIGH_SESSIONS,
    LEAST_CASES,
    NEAR,
    TREND_SESSIONS,
    BaseRate,
    BaseRates,
    highest,
    mean,
)
from chordesk.tools.scoring.inference import LEAST_SPANS

_SESSIONS = 20
HORIZONS = (10, 20)  # sessions of the base rates that a subject carries


def benchmark(close: Floats) -> Floats:
    """Return the worth of one unit of money that is held in equal parts of all names and put in equal parts again each
    session: a figure a column. close: a row a name, not a number without a bar."""
    moved = np.ones(close.shape[1])
    changes = change(close, 1)
    known = np.isfinite(changes).any(axis=0)
    moved[known] += np.nanmean(changes[:, known], axis=0)
    return np.asarray(np.cumprod(moved), dtype=np.float64)


def regime_of(panel: PricePanel) -> Regime:
    """Return the state of the market at the panel's last day; figures that need more sessions or names are None."""
    close, index = panel.close, benchmark(panel.close)
    names = int(np.isfinite(close[:, -1]).sum())
    changes = change(close, _SESSIONS)
    average = mean(close, TREND_SESSIONS)[:, -1]
    month = price_figures.momentum(index, _SESSIONS)
    above = price_figures.from_average(index, TREND_SESSIONS)
    volatility, percentile, sessions = _volatility(index, a_year_of(panel))
    dispersion = _spread(changes[:, -1])
    past = [each for column in changes.T[-price_figures.SESSIONS_A_YEAR :] if (each := _spread(column)) is not None]
    return Regime(
        date=panel.days[-1],
        benchmark=f"equal parts of {names} names",
        trend=None if month is None or above is None else _trend(month, above),
        change20=rounded(month),
        change60=rounded(price_figures.momentum(index, 60)),
        from_average50=rounded(above),
        volatility20=rounded(volatility),
        volatility_percentile=rounded(percentile, 2),
        volatility_sessions=sessions,
        above_average50=_share(close[:, -1] > average, average),
        near_high60=_share(_near(close), highest(close, HIGH_SESSIONS)[:, -1]),
        rose20=_share(changes[:, -1] > 0, changes[:, -1]),
        dispersion20=rounded(dispersion),
        dispersion_percentile=None if dispersion is None else rounded(_percentile(past, dispersion), 2),
    )


def _trend(month: float, above: float) -> Literal["up", "down", "mixed"]:
    return "up" if month > 0 < above else "down" if month < 0 > above else "mixed"


def _volatility(index: Floats, a_year: int) -> tuple[float | None, float | None, int]:
    """Return (realised volatility of 20 sessions, the share of those of the last year that are at most it, of how
    many)."""
    every = [price_figures.volatility(index[: end + 1], a_year=a_year) for end in range(len(index))]
    past = every[-price_figures.SESSIONS_A_YEAR :]
    known = [each for each in past if each is not None]
    now = past[-1] if past else None
    return now, None if now is None else _percentile(known, now), len(known)


def _percentile(past: Sequence[float], value: float) -> float:
    return sum(each <= value for each in past) / len(past)


def _spread(values: Floats) -> float | None:
    """Return the standard deviation of the figures that are known; None of fewer than LEAST_COMPARED."""
    known = values[np.isfinite(values)]
    return finite(known.std()) if len(known) >= LEAST_COMPARED else None


def _near(close: Floats) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.asarray(close[:, -1] / highest(close, HIGH_SESSIONS)[:, -1] - 1 >= NEAR)


def _share(holds: np.ndarray[Any, np.dtype[np.bool_]], figure: Floats) -> float | None:
    """Return the share of names for which it holds, of those that have the figure."""
    known = np.isfinite(figure)
    return round(float(holds[known].mean()), 4) if known.sum() >= LEAST_COMPARED else None


def regime_row(context: ToolContext) -> dict[str, Any]:
    """Return the regime as a subject has it, or the reason why there is none."""
    try:
        panel = panel_of(context)
    except DeskError as error:
        return {"missing": str(error)}
    if (found := _REGIMES.get(panel)) is None:
        found = _REGIMES[panel] = regime_of(panel).model_dump(mode="json", by_alias=True)
    return found


# A panel is of one market, day and universe.
_REGIMES: WeakKeyDictionary[PricePanel, dict[str, Any]] = WeakKeyDictionary()
_RATES: WeakKeyDictionary[PricePanel, BaseRates] = WeakKeyDictionary()


def rates_of(panel: PricePanel) -> BaseRates:
    if (found := _RATES.get(panel)) is None:
        found = _RATES[panel] = BaseRates(panel.close)
    return found


def base_rates(context: ToolContext, symbols: Iterable[str]) -> Mapping[str, list[BaseRate]]:
    """Return what became of names in the state that each symbol is in now, by symbol, a rate a horizon, or that of all
    names where too few were in it; a symbol whose state is not known has none."""
    asked = list(symbols)
    try:
        panel = panel_of(context, asked)
    except DeskError:
        return {}
    found = {
        symbol: [rates_of(panel).of(panel.place[symbol], horizon) for horizon in HORIZONS]
        for symbol in asked
        if symbol not in panel.absent
    }
    known = {symbol: [rate for rate in rates if rate is not None] for symbol, rates in found.items()}
    # A rate of all names says little beside one of names in a like state.
    return {symbol: [one for one in rates if one.like] or rates[:1] for symbol, rates in known.items() if rates}


NO_RATES = (
    f"no base rate: a state needs {LEAST_CASES} cases over {LEAST_SPANS} horizons that do not overlap, and a name "
    f"{HIGH_SESSIONS} sessions; by itself each name beats the median with 0.5"
)


def rate_row(rate: BaseRate) -> dict[str, Any]:
    """Return a base rate as a subject has it: shares and moves as fractions."""
    return {
        "horizon": rate.horizon,
        "like": list(rate.like) or ["all names: too few were in this state"],
        "n": rate.rose.n,
        "rose": round(rate.rose.share, 4),
        "beatMedian": round(rate.beat.share, 4),
        "low": rounded(rate.beat.low),
        "high": rounded(rate.beat.high),
        "move": round(rate.move, 4),
        "moveLow": round(rate.move_low, 4),
        "moveHigh": round(rate.move_high, 4),
    }


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
        own, whole = finite(changes[row]), price_figures.momentum(index, span)
        found[f"againstBenchmark{span}"] = rounded(own - whole) if own is not None and whole is not None else None
        part = price_figures.momentum(group, span) if group is not None else None
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
    pairs = np.array([np.diff(np.log(values[-price_figures.SESSIONS_A_YEAR - 1 :])) for values in (close, index)])
    known = pairs[:, np.isfinite(pairs).all(axis=0)]
    count = known.shape[1]
    if count < _LEAST_RETURNS or known[1].std() == 0:
        return None, count
    spread = np.cov(known)
    return finite(spread[0, 1] / spread[1, 1]), count

"""StockBench: 20 Dow names from March to June 2025, and the figures of its table for any series of account values.

A folder is one of own data (docs/data.md): daily bars, headlines, statements with the day on which they were filed.
The rules are those of ChenYXxxx/stockbench: 100,000 USD, orders at the next open, costs of 3 basis points, values at
each day's open (Chen and others, arXiv 2510.02209).
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from chordesk.models.benchmarks import Benchmark, Given, Measured, Play, Row
from chordesk.models.errors import UsageError
from chordesk.models.outside import held
from chordesk.tools.market.files.data_folder import check_folder
from chordesk.tools.measure.backtests import drawdown
from chordesk.tools.scoring.inference import Estimate, Observation, estimate, reach_text

FIRST, LAST = dt.date(2025, 3, 3), dt.date(2025, 6, 30)
NAMES = frozenset({
    "AAPL", "AMGN", "AMZN", "AXP", "BA", "CAT", "CRM", "GS", "HD", "HON", "IBM", "JNJ", "JPM", "MCD", "MSFT", "PG",
    "SHW", "TRV", "UNH", "V",
})  # fmt: skip
SESSIONS = 83
CAPITAL, COST_BASIS_POINTS = 100_000.0, 3.0
SOURCE = "arXiv 2510.02209, table of the window from 2025-03-03 to 2025-06-30"
PUBLISHED = (
    Row("Kimi-K2", {"return": 0.019, "drawdown": 0.118, "sortino": 0.0420}, SOURCE),
    Row("Passive baseline", {"return": 0.004, "drawdown": 0.152}, SOURCE),
)


@dataclass(frozen=True, slots=True)
class Prices:
    """Opens of a window, days x symbols."""

    days: Sequence[dt.date]
    symbols: Sequence[str]
    opens: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Performance:
    """Figures of a series of account values. returned and drawdown: fractions; sortino: mean of the daily returns by
    the standard deviation of those below zero, not annualised; daily: the mean daily return with its error."""

    who: str
    returned: float
    drawdown: float
    sortino: float | None
    n: int
    daily: Estimate | None


def read(root: Path) -> Prices:
    """Raises UsageError for a folder that is not the benchmark's: other names, a hole or another window, or a file with
    an error, which a run would only miss."""
    files = sorted((root / "bars").glob("*.csv"))
    if other := sorted(NAMES ^ {path.stem for path in files}):
        held = {path.stem for path in files}
        told = [f"{'no' if name in NAMES else 'other'} bars/{name}.csv" for name in other]
        reason = f"{root} has bars of {len(held & NAMES)} of StockBench's {len(NAMES)} names: {', '.join(told[:5])}"
        raise UsageError(reason, remedy="name a folder with their daily bars alone, as bars/SYMBOL.csv")
    by_name = {path.stem: _opens(path) for path in files}
    days = sorted({day for opens in by_name.values() for day in opens})
    holes = [f"{name} of {day}" for name, opens in by_name.items() for day in days if day not in opens]
    if holes or len(days) != SESSIONS:
        reason = f"{root} has {len(days)} of {SESSIONS} sessions from {FIRST} to {LAST}"
        lacking = f", without {', '.join(holes[:3])}" if holes else ""
        raise UsageError(reason + lacking, remedy="take the benchmark's cache of 2025-10 whole")
    if errors := check_folder(root, "auto", 1).problems.of("error"):
        raise UsageError(f"{root}: {errors[0]}", remedy=f"`desk data check {root}` lists all errors")
    table = np.array([[by_name[name][day] for name in by_name] for day in days])
    return Prices(days, list(by_name), table)


def _opens(path: Path) -> dict[dt.date, float]:
    try:
        with path.open("rb") as opened:
            file = io.StringIO(held(str(path), opened).decode("utf-8"), newline="")
            rows = [(dt.date.fromisoformat(row["date"]), float(row["open"])) for row in csv.DictReader(file)]
    except (KeyError, ValueError) as error:
        reason = f"{path} has no `date` and `open` in each row: {error}"
        raise UsageError(reason, remedy="write days as YYYY-MM-DD and prices as numbers") from None
    return {day: price for day, price in rows if FIRST <= day <= LAST}


def passive(prices: Prices) -> list[float]:
    """Return the values of the same amount of each name, bought at the first open and held, without costs: the paper's
    baseline, at each day's open."""
    growth = prices.opens / prices.opens[0]
    return [float(CAPITAL * value) for value in growth.mean(axis=1)]


def performance(who: str, values: Sequence[float]) -> Performance:
    """values: the account at the beginning, and after each session."""
    account = np.array(values)
    daily = np.append(0.0, account[1:] / account[:-1] - 1)
    below = daily[daily < 0]
    spread = float(below.std(ddof=1)) if len(below) > 1 else math.nan
    sortino = float(daily.mean()) / spread if spread > 0 else None
    found = estimate(Observation(float(value), place, place + 1) for place, value in enumerate(daily[1:]))
    return Performance(who, float(account[-1] / account[0] - 1), drawdown(values), sortino, len(values), found)


def measure(root: Path, given: Given) -> Measured:
    found, more = [performance("passive, by these rules", passive(read(root)))], list[str]()
    if given.play is not None:
        played = given.play(Play(root, FIRST, LAST, COST_BASIS_POINTS))
        found.append(performance(f"the desk, {played.model}", [CAPITAL, *played.values]))
        if played.invested is not None:
            more.append(f"the desk had {played.invested:.1%} of its equity invested on average")
    rows = [Row(one.who, {"return": one.returned, "drawdown": one.drawdown, "sortino": one.sortino}) for one in found]
    return Measured(rows, [asdict(one) for one in found], [*map(daily_line, found), *more])


def daily_line(found: Performance) -> str:
    """Return the mean daily return with its error, of which the whole return is made."""
    assert found.daily is not None
    counted = f", n {found.daily.n}" if found.daily.error is not None else ""
    return f"{found.who}: {found.daily.mean:+.3%} a session, {reach_text(found.daily, '.3%')}{counted}"


BENCHMARK = Benchmark(
    "Trading of 20 Dow names from March to June 2025 (ChenYXxxx/stockbench).",
    {"return": "+.1%", "drawdown": ".1%", "sortino": ".4f"},
    PUBLISHED,
    measure,
    frozenset({"play"}),
    "100,000 USD, next open, 3 basis points; the desk is valued at closes, the passive baseline at opens as published.",
)

"""The figures that a lens's rule may name, and their columns for the names of a universe on the market's day."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from chordesk.models.errors import DeskError, NotConfigured, UsageError
from chordesk.tools.lenses.expressions import Columns
from chordesk.tools.model_tools.company import earnings, fundamentals, ratings
from chordesk.tools.model_tools.signals import signal_figures
from chordesk.tools.prices.daily_bars import by_symbol
from chordesk.tools.registry import MAX_SYMBOLS, Gaps, ToolContext

Part = Literal["prices", "fundamentals", "earnings", "ratings"]
Unit = Literal["fraction", "number", "money", "days"]
SPLIT_GAP = "split adjustment"  # the price tools' name for a move that may be a split


class Figure(NamedTuple):
    """part: of a company's record, or prices, from which it comes."""

    part: Part
    title: str
    unit: Unit = "fraction"


_PRICES = {
    "close": Figure("prices", "close", "money"),
    "sessions": Figure("prices", "sessions known, at most 252", "number"),
    "momentum20": Figure("prices", "move over 20 sessions"),
    "momentum60": Figure("prices", "move over 60 sessions"),
    "rsi14": Figure("prices", "RSI-14, 0 to 100", "number"),
    "fromHigh": Figure("prices", "distance from the high of highSessions"),
    "highSessions": Figure("prices", "sessions of the high, at most 252", "number"),
    "volatility20": Figure("prices", "realised volatility of 20 sessions, a year"),
    "drawdown60": Figure("prices", "deepest fall within 60 sessions, at most 0"),
    "volumeRatio": Figure("prices", "volume to the mean of the 20 sessions before", "number"),
    "gap": Figure("prices", "opening gap"),
    "change": Figure("prices", "move of the day"),
    "sma20": Figure("prices", "close to its average of 20"),
    "sma50": Figure("prices", "close to its average of 50"),
    "splitLike": Figure("prices", "1 where a move may be a split that prices are not adjusted for", "number"),
}
_COMPANY = {
    "marketCap": Figure("fundamentals", "market value", "money"),
    "trailingPE": Figure("fundamentals", "price to earnings", "number"),
    "forwardPE": Figure("fundamentals", "price to expected earnings", "number"),
    "priceToBook": Figure("fundamentals", "price to book", "number"),
    "profitMargin": Figure("fundamentals", "profit margin"),
    "returnOnEquity": Figure("fundamentals", "return on equity"),
    "revenueGrowth": Figure("fundamentals", "growth of revenue on the year"),
    "earningsGrowth": Figure("fundamentals", "growth of earnings on the year"),
    "epsGrowth": Figure("fundamentals", "growth of earnings a share on the year"),
    "netIncomeGrowth": Figure("fundamentals", "growth of net income on the year"),
    "debtToEquityPercent": Figure("fundamentals", "debt to equity in percent", "number"),
    "currentRatio": Figure("fundamentals", "current assets to liabilities", "number"),
    "freeCashflow": Figure("fundamentals", "free cash flow", "money"),
    "beta": Figure("fundamentals", "beta", "number"),
    "dividendYield": Figure("fundamentals", "dividend yield"),
    "daysUntil": Figure("earnings", "days until the next report", "days"),
    "lastSurprise": Figure("earnings", "surprise of the last report"),
    "recommendationMean": Figure("ratings", "mean rating, 1 is the best", "number"),
    "analysts": Figure("ratings", "number of analysts", "number"),
    "targetMean": Figure("ratings", "mean target", "money"),
}
FIGURES: Mapping[str, Figure] = {**_PRICES, **_COMPANY}
PRICE_FIGURES = tuple(_PRICES)
_PARTS = {"fundamentals": fundamentals, "earnings": earnings, "ratings": ratings}


@dataclass(frozen=True, slots=True)
class Panel:
    """The columns of some figures for names, and why what is missing is."""

    symbols: tuple[str, ...]
    columns: Columns
    gaps: Gaps

    def __len__(self) -> int:
        return len(self.symbols)

    def only(self, kept: Sequence[bool]) -> Panel:
        columns = {name: values[np.asarray(kept, dtype=bool)] for name, values in self.columns.items()}
        return Panel(tuple(one for one, keep in zip(self.symbols, kept, strict=True) if keep), columns, self.gaps)


def panel_of_rows(symbols: Sequence[str], rows: Mapping[str, Mapping[str, Any]], names: Collection[str]) -> Panel:
    """Return the columns of rows by symbol; what is not a number in a row is unknown."""
    return _panel(symbols, rows, names, Gaps())


def read_panel(context: ToolContext, symbols: Sequence[str], names: Collection[str]) -> Panel:
    """Return the figures of names on the context's day. Raises UsageError for a figure that the market does not have at
    all."""
    gaps, rows = Gaps(), dict[str, dict[str, Any]]()
    parts = {FIGURES[name].part for name in names}
    if "prices" in parts:
        for some in _batches(symbols):
            for one in signal_figures(context, some, gaps):
                rows[one.symbol] = {**one.model_dump(by_alias=True), "splitLike": 0}
        for gap in gaps.rows():
            if gap["what"] == SPLIT_GAP and gap.get("symbol") in rows:
                rows[gap["symbol"]]["splitLike"] = 1
    for part in sorted(parts - {"prices"}):
        require_part(context, symbols, part, [name for name in names if FIGURES[name].part == part])
        for some in _batches(symbols):
            for symbol, row in _company_rows(context, some, part, gaps):
                rows.setdefault(symbol, {}).update(row)
    return _panel(symbols, rows, names, gaps)


def _batches(symbols: Sequence[str]) -> Iterator[Sequence[str]]:
    return (symbols[at : at + MAX_SYMBOLS] for at in range(0, len(symbols), MAX_SYMBOLS))


def require_part(context: ToolContext, symbols: Sequence[str], part: str, names: Sequence[str]) -> None:
    """Raise UsageError where the market says of its first name that it has no such figures of any."""
    if part == "prices" or not symbols:
        return
    try:
        _PARTS[part](context, symbols[0])
    except NotConfigured as error:
        reason = f"the {context.market.name} market has no {', '.join(names)}: {error.args[0]}"
        raise UsageError(reason, remedy="use a market that has it, or leave it out of the lens") from None
    except DeskError:
        return  # of this name alone


def require_all(context: ToolContext, symbols: Sequence[str], names: Collection[str]) -> None:
    """Raise UsageError for a figure that the market does not have at all, as its first name tells."""
    for part in {FIGURES[name].part for name in names}:
        require_part(context, symbols, part, [name for name in names if FIGURES[name].part == part])


def known_figures(context: ToolContext, symbols: Sequence[str]) -> list[str]:
    """Return the figures that the market has at all, as its first name tells."""
    without = set()
    for part in _PARTS:
        try:
            require_part(context, symbols, part, ())
        except UsageError:
            without.add(part)
    return [name for name, figure in FIGURES.items() if figure.part not in without]


def _company_rows(
    context: ToolContext, symbols: Sequence[str], part: str, gaps: Gaps
) -> Iterator[tuple[str, dict[str, Any]]]:
    read = _PARTS[part]
    yield from by_symbol(context, symbols, part, gaps, lambda symbol: read(context, symbol))


def _panel(symbols: Sequence[str], rows: Mapping[str, Mapping[str, Any]], names: Collection[str], gaps: Gaps) -> Panel:
    columns = {
        name: np.array([_number(rows.get(symbol, {}).get(name)) for symbol in symbols], dtype=np.float64)
        for name in FIGURES
        if name in names
    }
    return Panel(tuple(symbols), columns, gaps)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else float("nan")


def shown(name: str, value: float) -> str:
    """Return a figure as a reason names it."""
    if np.isnan(value):
        return f"{name} missing"
    match FIGURES[name].unit:
        case "fraction":
            return f"{name} {value:.1%}"
        case "days" | "money":
            return f"{name} {value:,.10g}"
    return f"{name} {value:.4g}"

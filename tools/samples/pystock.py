"""The whole US market as it was captured: the daily archives of eliangcs/pystock-data become a data folder.

The capture of a day is made before the next open. It has the day's bars, those of the session before for comparison,
the names that are listed, and the 10-Q and 10-K found since the capture before. So a bar counts from its own day's
capture alone, a statement from the day after, and a name is a member in the sessions whose captures list it.
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import math
import re
from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from chordesk.models.errors import UsageError
from chordesk.models.exchanges import HOME
from chordesk.models.text import csv_cell
from chordesk.tools.market.clock import exchange_hours
from chordesk.tools.market.files.bars import LEAST_STEP, MOST_CHECKED, MOST_FOLD, action_of
from chordesk.tools.market.files.tables import NUMBER
from chordesk.tools.market.prices import is_like_a_split
from chordesk.tools.market.protocol import Action
from chordesk.tools.market.universe import is_symbol
from chordesk.tools.samples.own_files import SetAside
from chordesk.tools.samples.package_files import members

NAME = "pystock"
ABOUT = (
    "pystock: US names as they were captured each day, with the 10-Q and 10-K of each capture",
    "Origin: github eliangcs/pystock-data (MIT): prices of Yahoo, filings of EDGAR, lists of Nasdaq.",
)
_DAILY, _INITIAL = re.compile(r"(\d{4})(\d{2})(\d{2})\.tar\.gz"), re.compile(r"\d{4}_initial\.tar\.gz")
PRICES = ("symbol", "date", "open", "high", "low", "close", "volume", "adj_close")
# Of a report's figures: what it is called in statements, and over which months; None is of the period's last day,
# YEAR_TO_DATE of the fiscal year up to it.
YEAR_TO_DATE, PERIOD = "year to date", "period"
FIGURES: dict[str, tuple[str, str | None]] = {
    "revenues": ("revenues", PERIOD),
    "op_income": ("operating_income", PERIOD),
    "net_income": ("net_income", PERIOD),
    "eps_basic": ("eps_basic", PERIOD),
    "eps_diluted": ("eps_diluted", PERIOD),
    "dividend": ("dividend", PERIOD),
    "assets": ("assets", None),
    "cur_assets": ("current_assets", None),
    "cur_liab": ("current_liabilities", None),
    "cash": ("cash", None),
    "equity": ("equity", None),
    "cash_flow_op": ("operating_cash_flow", YEAR_TO_DATE),
    "cash_flow_inv": ("investing_cash_flow", YEAR_TO_DATE),
    "cash_flow_fin": ("financing_cash_flow", YEAR_TO_DATE),
}
REPORTS = ("symbol", "end_date", "amend", "period_focus", "fiscal_year", "doc_type", *FIGURES)
_MONTHS = {"Q1": 3, "Q2": 6, "Q3": 9, "FY": 12}
_QUARTER = 3
# A capture that lists less than this share of the names of the one before has failed: that one's list stands.
_WHOLE_LIST = 0.8


class Capture(NamedTuple):
    """name: the archive's path within the folder. initial: of the years before the first daily capture."""

    day: dt.date
    name: str
    path: Path
    initial: bool = False


class Seen(NamedTuple):
    """A row of prices. decimals: those that the adjusted close is written with."""

    row: int
    day: dt.date
    figures: tuple[float, ...]  # open, high, low, close, volume, adjusted close
    decimals: int

    @property
    def close(self) -> float:
        return self.figures[3]

    @property
    def adjusted(self) -> float:
        return self.figures[5]


@dataclass(slots=True)
class Series:
    """The bars of a symbol, in the order of their captures. growth: of each, the product of the actions up to it."""

    days: array[int] = field(default_factory=lambda: array("i"))
    figures: array[float] = field(default_factory=lambda: array("d"))  # open, high, low, close, volume of each
    growth: array[float] = field(default_factory=lambda: array("d"))
    due: float = 1.0  # of the actions since the last bar
    far: float | None = None  # the last close that was taken for a mistake

    @property
    def close(self) -> float | None:
        return self.figures[-2] if self.days else None

    def add(self, seen: Seen) -> None:
        self.days.append(seen.day.toordinal())
        self.figures.extend(seen.figures[:5])
        self.growth.append((self.growth[-1] if self.growth else 1.0) * self.due)
        self.due = 1.0

    def lines(self, symbol: str) -> Iterator[str]:
        """Yield the bars as lines of a table; the adjusted close of the last is its close."""
        ends = self.growth[-1] if self.growth else 1.0
        for at, (day, growth) in enumerate(zip(self.days, self.growth, strict=True)):
            opened, high, low, close, volume = self.figures[5 * at : 5 * at + 5]
            adjusted = close * growth / ends
            yield (
                f"{symbol},{dt.date.fromordinal(day)},{opened:.10g},{high:.10g},{low:.10g},{close:.10g},"
                f"{volume:.0f},{adjusted:.10g}\n"
            )


@dataclass(slots=True)
class Listed:
    """The sessions in which a symbol is listed: spans of [first, last] places in the row of captures."""

    name: str
    spans: list[list[int]] = field(default_factory=list)

    def add(self, place: int) -> None:
        if self.spans and self.spans[-1][1] == place - 1:
            self.spans[-1][1] = place
        else:
            self.spans.append([place, place])


def captures(folder: Path, aside: SetAside) -> list[Capture]:
    """Return a folder's captures by day. Raises UsageError for a folder without any."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder", remedy="name the folder of eliangcs/pystock-data with --from")
    daily: dict[dt.date, Capture] = {}
    initial = []
    for path in sorted(folder.rglob("*.tar.gz")):
        name = str(path.relative_to(folder))
        found = _DAILY.fullmatch(path.name)
        try:
            day = dt.date(*map(int, found.groups())) if found else None
        except ValueError:
            day = None
        if _INITIAL.fullmatch(path.name):
            initial.append((name, path))
        elif day is None:
            aside.add(name, None, "an archive whose name is no day")
        elif day in daily:
            aside.add(name, None, "a second capture of a day", f"the first is {daily[day].name}")
        else:
            daily[day] = Capture(day, name, path)
    if not daily:
        remedy = "name the folder of eliangcs/pystock-data, which has 2015/20150323.tar.gz"
        raise UsageError(f"{folder} has no capture YYYY/YYYYMMDD.tar.gz", remedy=remedy)
    first = min(daily) - dt.timedelta(days=1)  # so that its statements are known on the first capture's day
    return [
        *(Capture(first, name, path, initial=True) for name, path in initial),
        *(daily[day] for day in sorted(daily)),
    ]


class Market:
    """What the captures have shown, in their order."""

    def __init__(self, aside: SetAside) -> None:
        self._aside = aside
        self._days: list[dt.date] = []
        self._complete = 0  # names that the last whole list had
        self._sessions = frozenset(exchange_hours(HOME).sessions)
        self._listing: dict[str, str] = {}
        self._reported: set[tuple[str, ...]] = set()
        self.series: dict[str, Series] = defaultdict(Series)
        self.listed: dict[str, Listed] = {}
        self.statements: list[str] = []

    def take(self, capture: Capture) -> None:
        if not capture.initial and capture.day not in self._sessions:
            self._aside.add(capture.name, None, "a capture of a day that is no session")
        try:
            # Of the years before only the filings: their prices are those of names that were left in 2015.
            found = dict(members(capture.path, "*reports.csv" if capture.initial else "*"))
        except UsageError as error:
            self._aside.add(capture.name, None, "an archive that cannot be read", str(error))
            return
        files = {Path(name).name: content for name, content in found.items()}
        if not capture.initial and capture.day in self._sessions:
            self._take_list(capture, files.get("symbols.txt"))
            self._take_prices(capture, files.get("prices.csv"))
        self._take_reports(capture, files.get("reports.csv"))

    def _take_list(self, capture: Capture, content: bytes | None) -> None:
        name = f"{capture.name}:symbols.txt"
        lines = (content or b"").decode("utf-8", errors="replace").splitlines()
        rows = [(symbol.strip(), text.strip()) for symbol, _, text in (line.partition("\t") for line in lines)]
        listed = {symbol: text for symbol, text in rows if is_symbol(symbol)}
        if len(listed) < _WHOLE_LIST * self._complete or not listed:
            detail = f"{len(listed)} names, after {len(self._listing)}"
            self._aside.add(name, None, "a list with few of the names, so that the last one stands", detail)
        else:
            self._listing, self._complete = listed, len(listed)
        self._days.append(capture.day)
        for symbol, text in self._listing.items():
            self.listed.setdefault(symbol, Listed(text)).add(len(self._days) - 1)

    def _take_prices(self, capture: Capture, content: bytes | None) -> None:
        own: dict[str, Seen] = {}
        before: dict[str, Seen] = {}
        name = f"{capture.name}:prices.csv"
        for symbol, seen in self._prices(name, content):
            if seen.day > capture.day:
                self._aside.add(name, seen.row, "a bar of a day after the capture's", f"{symbol} {seen.day}")
            elif seen.day == capture.day:
                first = own.setdefault(symbol, seen)
                if first.row != seen.row:
                    same = "the same row again" if first.figures == seen.figures else "a second bar of a day"
                    self._aside.add(name, seen.row, same, f"the first of {symbol} is in row {first.row}")
            elif symbol not in before or before[symbol].day < seen.day:
                before[symbol] = seen
        for symbol, seen in before.items():
            self._late(name, symbol, seen)
        for symbol, seen in own.items():
            self._keep(name, symbol, seen, before.get(symbol))

    def _prices(self, name: str, content: bytes | None) -> Iterator[tuple[str, Seen]]:
        for row, cells in self._rows(name, content, PRICES):
            symbol, day, *texts = cells
            if not is_symbol(symbol):
                self._aside.add(name, row, "no symbol", repr(symbol[:40]))
                continue
            try:
                yield symbol, Seen(row, dt.date.fromisoformat(day), _figures(texts), _decimals(texts[-1]))
            except ValueError as error:
                self._aside.add(name, row, "a day or number that cannot be read", str(error))

    def _rows(self, name: str, content: bytes | None, header: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
        """Yield (line, cells) of a table, in the header's order."""
        if not content or not content.strip():
            self._aside.add(name, None, "a file that is missing or empty")
            return
        rows = csv.reader(io.StringIO(content.decode("utf-8", errors="replace"), newline=""))
        try:
            first = next(rows)
            places = [first.index(column) for column in header] if header[0] in first else list(range(len(header)))
            if header[0] not in first:
                self._aside.add(name, None, "a file without its header: its columns are those of the others")
                rows = csv.reader(io.StringIO(content.decode("utf-8", errors="replace"), newline=""))
        except ValueError:
            lacking = [column for column in header if column not in first]
            self._aside.add(name, None, "a file that lacks columns", ", ".join(lacking))
            return
        try:
            for cells in rows:
                if len(cells) == len(first) and cells[0] != header[0]:
                    yield rows.line_num, [cells[place] for place in places]
                elif cells:
                    why = "the header again" if cells[0] == header[0] else "a row with other cells than its header"
                    self._aside.add(name, rows.line_num, why, f"{len(cells)} of {len(first)}")
        except csv.Error as error:
            self._aside.add(name, rows.line_num, "no CSV from here on", str(error))

    def _late(self, name: str, symbol: str, seen: Seen) -> None:
        series = self.series.get(symbol)
        if series is None or seen.day.toordinal() not in series.days[-1:]:
            reason = "a bar that was not taken from the capture of its own day, so that it was not known then"
            if seen.day in self._sessions and min(seen.figures[:4]) > 0:
                self._aside.add(name, seen.row, reason, f"{symbol} {seen.day}")

    def _keep(self, name: str, symbol: str, seen: Seen, before: Seen | None) -> None:
        series = self.series[symbol]
        wrong = _fault(seen)
        if wrong:
            self._aside.add(name, seen.row, *wrong)
            return
        if action := self._action(name, symbol, seen, before):
            series.due *= action.growth
        last = series.close
        detail = f"{symbol} at {seen.close:g} after {last or 0:g}"
        if last is not None and _folds(seen.close, last):
            if series.far is None or is_like_a_split(seen.close / series.far - 1) or not seen.figures[4]:
                series.far = seen.close
                self._aside.add(name, seen.row, "a mistaken price", detail)
                return
            # Traded twice at a level of its own: what came before was no price, such as 0.01 before a first listing.
            detail = f"{symbol}: {len(series.days)} at {last:g}, before {seen.close:g}"
            self._aside.add(name, seen.row, "all bars before this one", detail)
            self.series[symbol] = series = Series()
            last = None
        if last is not None and is_like_a_split(seen.close * series.due / last - 1):
            if not seen.figures[4]:
                self._aside.add(name, seen.row, "a price far from the one before at which nothing was traded", detail)
                return
            self._aside.add(name, seen.row, "kept: a move as in a split that the adjusted closes do not have", detail)
        series.add(seen)

    def _action(self, name: str, symbol: str, seen: Seen, before: Seen | None) -> Action | None:
        """Return the split or dividend between the two bars of a capture, beyond what rounding explains."""
        if before is None or min(before.close, before.adjusted) <= 0:
            return None
        step = (seen.adjusted / seen.close) / (before.adjusted / before.close)
        noise = sum(0.5 * 10.0**-one.decimals / one.adjusted for one in (seen, before))
        if abs(step - 1) <= noise + LEAST_STEP:
            return None
        action = action_of(seen.day, step, before.close, noise)
        plain = abs(math.log(seen.close / before.close))
        large = not 1 < action.growth <= MOST_CHECKED
        if large and abs(math.log(seen.close * action.growth / before.close)) > plain:
            detail = f"{symbol} {action.growth:g} for 1, at {seen.close:g} after {before.close:g}"
            self._aside.add(name, seen.row, "a split that the prices do not show, taken for none", detail)
            return None
        return action

    def _take_reports(self, capture: Capture, content: bytes | None) -> None:
        """Add a capture's statements, each the first of its period: what a later one repeats is known."""
        name = f"{capture.name}:reports.csv"
        for row, cells in self._rows(name, content, REPORTS):
            symbol, end, amended, focus, _, form, *figures = (cell.strip() for cell in cells)
            try:
                period = dt.date.fromisoformat(end)
            except ValueError:
                self._aside.add(name, row, "a report without the end of its period", repr(end[:40]))
                continue
            months = _MONTHS.get(focus)
            key = (symbol, end, focus, form, amended, *figures)
            if not is_symbol(symbol) or months is None:
                self._aside.add(name, row, "a report without symbol or quarter", f"{symbol[:40]!r}, {focus[:40]!r}")
            elif period > capture.day:
                self._aside.add(name, row, "a report before its period's end", f"{symbol} {end}")
            elif key in self._reported:
                self._aside.add(name, row, "a report that an earlier capture has", f"{symbol} {end}")
            elif (symbol, end, focus, str(capture.day)) in self._reported:
                self._aside.add(name, row, "a second report of a period in one capture", f"{symbol} {end}")
            else:
                self._reported |= {key, (symbol, end, focus, str(capture.day))}
                self._add_report(name, row, symbol, period, months, capture.day + dt.timedelta(days=1), figures)

    def _add_report(
        self, name: str, row: int, symbol: str, period: dt.date, months: int, seen: dt.date, figures: Sequence[str]
    ) -> None:
        starts = {
            None: "",
            PERIOD: _start(period, months if months == _MONTHS["FY"] else _QUARTER),
            YEAR_TO_DATE: _start(period, months),
        }
        for (item, span), text in zip(FIGURES.values(), figures, strict=True):
            if text and NUMBER.fullmatch(text) is None:
                self._aside.add(name, row, "a figure that is no number", f"{symbol} {item} {text[:40]!r}")
            elif text:
                self.statements.append(f"{symbol},{starts[span]},{period},{seen},{item},{text}\n")

    def universe(self) -> Iterator[tuple[object, ...]]:
        """Yield (symbol, name, from, to) of each span of a symbol that has bars."""
        last = len(self._days) - 1
        for symbol in sorted(self.listed.keys() & self.series.keys()):
            for first, end in self.listed[symbol].spans:
                until = "" if end == last else self._days[end]
                yield symbol, self.listed[symbol].name, self._days[first], until


def _figures(texts: Sequence[str]) -> tuple[float, ...]:
    found = tuple(map(float, texts))
    if not all(map(math.isfinite, found)):
        raise ValueError(f"{', '.join(texts)} is not finite")
    return found


def _folds(close: float, last: float) -> bool:
    return abs(math.log(close / last)) > math.log(MOST_FOLD)


def _decimals(text: str) -> int:
    return max(len(text.partition(".")[2]), 2)


def _fault(seen: Seen) -> tuple[str, str] | None:
    """Return what makes a bar unusable: (the kind, the figures)."""
    opened, high, low, close, volume, adjusted = seen.figures
    if min(opened, high, low, close, adjusted) <= 0:
        return "a price that is not above zero", f"{opened:g} {high:g} {low:g} {close:g} {adjusted:g}"
    if high < low or high > MOST_FOLD * low:
        return "a high that does not fit its low", f"{high:g} and {low:g}"
    return ("a negative volume", f"{volume:g}") if volume < 0 else None


def _start(end: dt.date, months: int) -> dt.date:
    """Return the first day of so many months that end on a day."""
    after = end + dt.timedelta(days=1)
    back = after.year * 12 + after.month - 1 - months
    year, month = divmod(back, 12)
    leap = month == 1 and after.day > 28
    return dt.date(year, month + 1, 1) + dt.timedelta(days=min(after.day, 28 if leap else 30) - 1)


def market_files(folder: Path, aside: SetAside) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a data folder, made of a folder of captures. Raises UsageError for one without any."""
    market = Market(aside)
    for capture in captures(folder, aside):
        market.take(capture)
    bars = [line for symbol in sorted(market.series) for line in market.series[symbol].lines(symbol)]
    if not bars:
        raise UsageError(f"{folder} has no bar that can be used", remedy="see that its archives are whole")
    yield "bars.csv", _table("symbol,date,open,high,low,close,volume,adj close\n", bars)
    universe = io.StringIO()
    csv.writer(universe, lineterminator="\n").writerows(
        [csv_cell(cell) for cell in row] for row in [("symbol", "name", "from", "to"), *market.universe()]
    )
    yield "universe.csv", universe.getvalue().encode()
    yield "statements.csv", _table("symbol,start,period end,first seen,item,value\n", market.statements)


def _table(header: str, lines: Sequence[str]) -> bytes:
    return "".join((header, *lines)).encode()

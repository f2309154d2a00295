"""Daily bars and the universe of own files: how they are read and checked."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Container, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from chordesk.models.answers import spelled
from chordesk.models.exchanges import HOME, currency_of, exchange_code, shown_exchange
from chordesk.models.market import Listing
from chordesk.tools.market.clock import exchange_day, exchange_hours
from chordesk.tools.market.files.tables import (
    UNREAD,
    Column,
    Parsed,
    Part,
    Problems,
    Unreadable,
    day_of,
    numbers,
    parts_of,
    rows_of,
    symbol_of,
)
from chordesk.tools.market.prices import STALE_DAYS, moves_like_splits
from chordesk.tools.market.protocol import Action, Floats
from chordesk.tools.market.units import has_parts, is_flip

PRICES = ("open", "high", "low", "close")


class Rows(NamedTuple):
    """Rows of equal length."""

    symbols: tuple[str, ...]
    files: tuple[str, ...]
    # owner, file: places in `symbols` and `files`
    owner: npt.NDArray[np.int32]
    file: npt.NDArray[np.int32]
    row: npt.NDArray[np.int64]  # of the file
    day: npt.NDArray[np.int32]  # ordinals of dates
    open: Floats
    high: Floats
    low: Floats
    close: Floats
    adjusted: Floats  # the close after splits and dividends. A figure that a file does not have is not a number.
    volume: Floats

    def taken(self, which: npt.NDArray[np.generic]) -> Rows:
        if which.dtype == bool and which.all():
            return self
        arrays = {name: getattr(self, name)[which] for name in self._fields[2:]}
        return self._replace(**arrays)

    def of_files_with(self, column: str, columns: Mapping[str, frozenset[str]]) -> npt.NDArray[np.bool_]:
        with_it = np.array([column in columns.get(file, ()) for file in self.files], dtype=bool)
        return with_it[self.file] if len(with_it) else np.zeros(0, dtype=bool)

    def day_at(self, at: int) -> dt.date:
        return dt.date.fromordinal(int(self.day[at]))


PriceKind = Literal["auto", "raw", "adjusted"]
Array = npt.NDArray[np.generic]
Mask = npt.NDArray[np.bool_]
_CLOSES = ("close", "adjusted")
_ADJUSTED_PRICES = ("adjopen", "adjhigh", "adjlow", "close")  # of a file whose prices are all adjusted
BARS_NAME = "bars"

_DAY = (
    "date", "day", "datetime", "timestamp", "time", "t", "tradedate", "tradingdate", "exchangedate", "businessdate",
    "pricedate", "dateutc", "timeutc", "datetimeutc", "localtime", "gmttime", "datum", "fecha", "data", "tarih",
    "дата", "dtyyyymmdd", "indexlevel0", "unnamed0", "",
)  # fmt: skip
SYMBOL_NAMES = (
    "symbol", "ticker", "sym", "tickersymbol", "stocksymbol", "actsymbol", "symbols", "tic", "securityticker",
    "bloombergticker", "ric",
)  # fmt: skip
# As sites and banks write them in German, French, Spanish, Italian, Portuguese, Dutch, Polish, Swedish, Turkish and
# Russian, without accents.
_LOCAL = {
    "open": (
        "eroffnung eroffnungskurs eroffn erster ouverture ouv openingskoers kursotwarcia apertura abertura otwarcie "
        "oppen acilis откр"
    ),
    "high": "hoch tageshoch hochst plushaut haut maximo massimo maxima hoog najwyzszy max hogst yuksek макс",
    "low": "tief tagestief tiefst plusbas bas minimo minima laag najnizszy min lagst dusuk мин",
    "close": (
        "schluss schlusskurs cloture cierre chiusura fechamento dernier ultimo zuletzt laatste slot zamkniecie "
        "ostatnio senaste simdi цена clot slotkoers kurszamkniecia slutkurs kapanis"
    ),
    "volume": "stuck stucke stuecke volumen wolumen wol volym hac объем",
}  # fmt: skip
BAR_COLUMNS = {
    "day": Column(_DAY, kind="session"),
    "symbol": Column((*SYMBOL_NAMES, "name")),
    "open": Column(("open", "openprice", "openingprice", "pxopen", "o", *_LOCAL["open"].split()), kind="number"),
    "high": Column(("high", "highprice", "pxhigh", "h", *_LOCAL["high"].split()), kind="number"),
    "low": Column(("low", "lowprice", "pxlow", "l", *_LOCAL["low"].split()), kind="number"),
    "close": Column(
        (
            "close",
            "closeprice",
            "closingprice",
            "closelast",
            "pxlast",
            "c",
            "last",
            "lastprice",
            *_LOCAL["close"].split(),
        ),
        kind="number",
    ),
    "adjusted": Column(
        ("adjclose", "adjustedclose", "adjustedclosingprice", "closeadj", "closeadjusted", "adjusted"), kind="number"
    ),
    "volume": Column(
        ("volume", "vol", "v", "pxvolume", "totalvolume", "sharestraded", "volumetraded", *_LOCAL["volume"].split()),
        kind="count",
    ),
    # of a file whose prices are all adjusted
    "adjopen": Column(("adjopen", "adjustedopen"), kind="number"),
    "adjhigh": Column(("adjhigh", "adjustedhigh"), kind="number"),
    "adjlow": Column(("adjlow", "adjustedlow"), kind="number"),
}


class BarReader:
    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._symbols: dict[str, int] = {}
        self._days = Parsed(lambda text: day_of(text).toordinal(), problems)
        self._owners = Parsed(lambda text: self._owner(symbol_of(text)), problems)
        self._files: list[str] = []
        self._parts: list[list[Array]] = []
        self.columns: dict[str, frozenset[str]] = {}
        self._contradicted: set[str] = set()

    def read(self, path: Path, name: str, symbol: str | None) -> None:
        """Read a file. symbol: of a file without a column for it; None for a long table, which needs one."""
        self._files.append(name)
        empty = True
        for part in parts_of(path, name, BAR_COLUMNS, self._problems):
            if name not in self.columns:
                self.columns[name] = frozenset(part.cells)
                if not self._can_be_read(part, symbol):
                    return
            if len(part):
                self._take(part, symbol)
                empty = False
        if name in self.columns and empty:
            self._problems.error(name, "has no row below its header")

    def rows(self, listed: Iterable[str] = ()) -> Rows:
        """Return all rows. listed: symbols of the universe, which may show that two spellings are one share."""
        kinds = (np.int32, np.int32, np.int64, np.int32, *[np.float64] * 6)
        arrays = [self._column(place, kind) for place, kind in enumerate(kinds)]
        spelling = class_spellings(self._symbols, listed)
        for symbol, share in spelling.items():
            self._problems.warn(BARS_NAME, f"{symbol} is read as {share}, which the universe lists")
        symbols = sorted({spelling.get(symbol, symbol) for symbol in self._symbols})
        rank = {symbol: at for at, symbol in enumerate(symbols)}
        ranks = np.array([rank[spelling.get(one, one)] for one in self._symbols] + [UNREAD], dtype=np.int32)
        arrays[0] = ranks[arrays[0]]
        rows = Rows(tuple(symbols), tuple(self._files), *arrays)
        return rows.taken((rows.day >= 0) & (rows.owner >= 0))

    def _column(self, place: int, kind: npt.DTypeLike) -> Any:
        """Return a column of all parts, which let go of theirs: of thousands of names each is large."""
        held = [part[place] for part in self._parts]
        for part in self._parts:
            part[place] = np.empty(0, kind)
        return np.concatenate(held).astype(kind, copy=False) if held else np.empty(0, kind)

    def _can_be_read(self, part: Part, symbol: str | None) -> bool:
        has = part.cells.keys()
        lacks = ["date"] if "day" not in has else []
        lacks += ["close (or adj close)"] if not has & {"close", "adjusted"} else []
        lacks += ["symbol"] if symbol is None and "symbol" not in has else []
        if not part.has(lacks, self._problems):
            return False
        before = "" if "close" in has or not has & {"adjopen", "adjhigh", "adjlow"} else "adj"
        ranged = [name for name in ("open", "high", "low") if f"{before}{name}" in has]
        if ranged and len(ranged) < 3:
            lacking = " and ".join(name for name in ("open", "high", "low") if name not in ranged)
            reason = f"has {' and '.join(ranged)} and no {lacking}; give all three, or the close alone"
            self._problems.error(part.file, reason, 1)
            return False
        return True

    def _take(self, part: Part, symbol: str | None) -> None:
        owners = self._owners.read(part, "symbol") if "symbol" in part.cells else self._of_file(part, symbol or "")
        if symbol is not None and "symbol" in part.cells:
            self._contradiction(part, symbol, owners)
        prices = PRICES if "close" in part.cells else _ADJUSTED_PRICES
        figures = [numbers(part, name, self._problems) for name in (*prices, "adjusted", "volume")]
        place = np.full(len(part), len(self._files) - 1, dtype=np.int32)
        days = self._days.read(part, "day").astype(np.int32)
        self._parts.append([owners.astype(np.int32), place, part.rows, days, *figures])

    def _contradiction(self, part: Part, symbol: str, owners: npt.NDArray[Any]) -> None:
        """Warn of a file that is named after a symbol and states another: the stated one counts."""
        others = np.flatnonzero((owners >= 0) & (owners != self._symbols.get(spelled(symbol), UNREAD)))
        if len(others) and part.file not in self._contradicted:
            self._contradicted.add(part.file)
            at = int(others[0])
            stated = list(self._symbols)[int(owners[at])]
            message = f"states {stated}, and its name {symbol}: these are bars of {stated}"
            self._problems.warn(part.file, message, int(part.rows[at]), part.written["symbol"])

    def _of_file(self, part: Part, symbol: str) -> Array:
        try:
            return np.full(len(part), self._owner(symbol_of(symbol)))
        except Unreadable as error:
            self._problems.error(part.file, str(error))
            return np.full(len(part), UNREAD)

    def _owner(self, symbol: str) -> int:
        return self._symbols.setdefault(symbol, len(self._symbols))


def class_spellings(symbols: Iterable[str], listed: Iterable[str]) -> dict[str, str]:
    """Return symbols that are spelled without the dot of their class, such as BRKB, with the share that the universe
    lists, BRK.B. A symbol that is itself listed is what it says."""
    members = set(listed)
    classes = {member.replace(".", ""): member for member in members if "." in member}
    return {one: classes[one] for one in symbols if one in classes and one not in members}


def in_major(rows: Rows, parts: Sequence[int]) -> Rows:
    """Return the rows with prices in the major unit of their currency. parts: by symbol, how many of the written unit
    are one of it."""
    if not len(rows.day) or set(parts) <= {1}:
        return rows
    by = np.array(parts, dtype=float)[rows.owner]
    return rows._replace(**{name: getattr(rows, name) / by for name in (*PRICES, "adjusted")})


def priced(
    rows: Rows, columns: Mapping[str, frozenset[str]], kind: PriceKind, problems: Problems
) -> tuple[Rows, npt.NDArray[np.bool_]]:
    """Return (the rows with the prices that are asked for, whether each is adjusted). columns: of each file.

    Where a file has closes, its prices are as written; its adjusted closes are kept for the actions between them, and
    are dropped where raw prices are asked for. A file with adjusted closes alone has these, and is an error where raw
    ones are asked for. Where adjusted ones are, closes without adjusted ones count as such. A bar that lacks its
    adjusted close alone is kept.
    """
    plain, scaled = (rows.of_files_with(name, columns) for name in _CLOSES)
    alone = ~plain
    for place in np.unique(rows.file[alone]).tolist():
        if kind == "raw":
            problems.error(rows.files[place], "has adjusted closes alone; set DESK_DATA_PRICES to adjusted or auto")
        elif "open" in columns[rows.files[place]]:
            problems.warn(rows.files[place], "open, high and low are not used: of closes it has adjusted ones alone")
    if kind == "raw":
        return rows._replace(adjusted=np.full(len(rows.day), np.nan)), np.zeros(len(rows.day), dtype=bool)
    _note_lacking(rows, plain & scaled & np.isnan(rows.adjusted) & ~np.isnan(rows.close), problems)
    close = np.where(alone, rows.adjusted, rows.close)
    return rows._replace(close=close), alone | (~scaled & (kind == "adjusted"))


def _note_lacking(rows: Rows, lacking: Mask, problems: Problems) -> None:
    """Warn once a file of bars without their adjusted close: their prices stand, and what happened on their days shows
    with the next adjusted close."""
    for place in np.unique(rows.file[lacking]).tolist():
        which = np.flatnonzero(lacking & (rows.file == place))
        message = f"{len(which)} bars have no adjusted close: a split or dividend of their days shows later, or not"
        problems.warn(rows.files[place], f"{message}; the first is here", int(rows.row[which[0]]), "adj close")


LEAST_STEP = 1e-6
_DECIMALS = 8  # no more where a column has more
_CENTS = 2  # decimals that a column has at least, unless enough of its values show fewer
_SPLIT_PARTS = 20
_SPLIT_FROM = 1.5  # a step of the factor from here on is a split where its ratio is n:1 or n:2
_MOST_BESIDE = 1.05  # of a dividend on the day of a split
_STOCK_DIVIDENDS = tuple(1 + percent / 100 for percent in (3, 4, 5, 6, 8, 10, 12, 15, 20))
_TELLS = 2e-4  # rounding beyond this leaves a stock dividend and cash alike
_ROUND_SUM = 0.25  # of cash that a company declares
_EXACT = 1e-4
MOST_CHECKED = 1.2  # a larger step of the factor must show in the prices too
_LEAST_REVERSE = 0.8  # a reverse split leaves at most 4 shares of 5; a step between it and 1 is none
_SEEN, _BEYOND, _FINER = 20, 0.25, 4
_A_YEAR, _MOST_A_YEAR, _SPECIAL = 252, 65, 8  # of actions: weekly dividends, special ones and splits beside
_MOVES = 8


class Derived(NamedTuple):
    """What adjusted closes show. hidden: share of the price below which a dividend does not show for rounding, in the
    median; steps: as many as are too many for actions, so that there are none; else 0."""

    actions: list[Action]
    hidden: float
    steps: int


def corporate_actions(day: npt.NDArray[np.int32], close: Floats, adjusted: Floats) -> Derived:
    """Return the actions of a symbol, in ascending order: a step of the factor adjusted / close from one bar to the
    next that rounding does not explain. No step depends on a later bar.

    A factor is off by at most half of the last decimal of both columns, relative to their values, and a step by that
    of its two bars. Closes that are traded prices are exact: then the rounding of the adjusted closes alone counts, and
    smaller dividends show. They are taken as exact where the adjusted closes are at least four times finer and, of 20
    such steps or more up to this one, at most a quarter lie beyond that rounding: where closes are rounded themselves,
    most lie beyond it. More steps than weekly dividends and eight more are no actions: none is derived.
    """
    known = np.flatnonzero(np.isfinite(adjusted) & np.isfinite(close))
    if len(known) < 2:
        return Derived([], 0.0, 0)
    day, close, adjusted = day[known], close[known], adjusted[known]
    factor = adjusted / close
    with np.errstate(divide="ignore"):  # of cells that are problems already
        own, other = _rounding(adjusted), _rounding(close)
        steps = factor[1:] / factor[:-1]
        narrow = _both(own / adjusted) + LEAST_STEP
        wide = narrow + _both(other / close)
    finer = wide > _FINER * narrow
    # Of other steps most lie within either, as those before a split may: they say nothing of the closes.
    beyond, count = np.cumsum(finer & (np.abs(steps - 1) > narrow)), np.cumsum(finer)
    exact = finer & (count >= _SEEN) & (beyond <= _BEYOND * count)
    off = np.where(exact, narrow, wide)
    found = np.flatnonzero((np.abs(steps - 1) > off) & ((steps > 1) | (steps <= _LEAST_REVERSE + off)))
    hidden = float(np.median(off))
    if len(found) > _SPECIAL + _MOST_A_YEAR * len(steps) / _A_YEAR:
        return Derived([], hidden, len(found))
    actions = (
        action_of(dt.date.fromordinal(int(day[at + 1])), float(steps[at]), float(close[at]), float(off[at]))
        for at in found.tolist()
    )
    return Derived([action for action in actions if action.growth != 1], hidden, 0)


def _both(noise: Floats) -> Floats:
    both: Floats = noise[1:] + noise[:-1]
    return both


def action_of(day: dt.date, step: float, before: float, noise: float) -> Action:
    """Return the action of a step of the factor. before: the close before it; noise: by how much rounding may have
    moved the step.

    Closes show what an action took from the price and not what it gave, which is a guess at the likeliest:

    - down: a reverse split, with a dividend beside it where one of 5 % at most makes the ratio whole
    - n:1 or n:2 from 1.5 on: a split, with a dividend likewise
    - 3 to 20 % in shares, to within rounding, unless the cash is a round sum: a stock dividend
    - else cash. Between 1.2 and 1.5 a special dividend, a spin-off and a 4:3 split look alike; cash is the reading
      that makes up no shares: whichever it was, the position is worth the same, and what is held can be sold.

    A source that knows better states it in actions.csv.
    """
    split = _split_of(step, noise)
    if split is None and step < 1:
        split = round(step, 6)
    if split is None and _is_stock_dividend(step, before, noise):
        split = min(_STOCK_DIVIDENDS, key=lambda ratio: abs(ratio - step))
    split = split or 1.0
    rest = step / split
    paid = round(before * (1 - 1 / rest), 4) if rest - 1 > noise + _EXACT or split == 1 else 0.0
    return Action(day, split, paid, split * before / (before - paid) if paid else split)


def is_a_guess(action: Action) -> bool:
    """Whether cash may as well have been shares: a special dividend, a spin-off and a 4:3 split look alike."""
    return action.growth / action.split > max(_STOCK_DIVIDENDS)


def _split_of(step: float, noise: float) -> float | None:
    """Return the ratio of a split, alone or with a dividend of 5 % at most; None where none is near."""
    if 1 < step < _SPLIT_FROM - _EXACT - noise:
        return None
    near, beside = _EXACT + noise, _MOST_BESIDE
    parts = (1, 2) if step >= 1 else ()
    alone = [round(step * part) / part for part in parts] or [float(Fraction(step).limit_denominator(_SPLIT_PARTS))]
    alone += [1 / round(1 / step)] if step < 1 else []
    exact = [one for one in alone if one not in (0, 1) and abs(step / one - 1) <= near]
    if exact:
        return min(exact, key=lambda one: abs(step / one - 1))
    under = [math.floor(step * part) / part for part in parts] or [1 / math.ceil(1 / step)]
    within = [one for one in under if one not in (0, 1) and 1 < step / one <= beside + near]
    return max(within, default=None)


def _is_stock_dividend(step: float, before: float, noise: float) -> bool:
    near = min(_STOCK_DIVIDENDS, key=lambda ratio: abs(ratio - step))
    if noise > _TELLS or abs(near / step - 1) > noise + LEAST_STEP:
        return False
    cash = before * (1 - 1 / step)
    return abs(cash / _ROUND_SUM - round(cash / _ROUND_SUM)) * _ROUND_SUM > before * noise + _EXACT


def _rounding(values: Floats) -> Floats:
    """Return half of the last decimal place that a column has by each row: its values may be off by so much. At most
    half a cent, unless the column shows in eight moves that it has fewer decimals."""
    places = np.full(len(values), _DECIMALS + 1)
    for decimals in range(_DECIMALS, -1, -1):
        places[np.isclose(values, np.round(values, decimals), rtol=1e-12, atol=0)] = decimals
    fewest = min(_CENTS, int(places.max())) if np.count_nonzero(np.diff(values)) >= _MOVES else _CENTS
    most = np.maximum(np.maximum.accumulate(places), fewest)
    return np.where(most > _DECIMALS, 0.0, 0.5 * 10.0**-most)


_HEADINGS = {"adjusted": "adj close"}
FEW_BARS = 61  # sessions that the figures of a screen look back
FLAT_SESSIONS = 10
MOST_FOLD = 300  # of a price from one bar to the next, and within one; the widest split is one to 250
_NAMED = 5


def checked(rows: Rows, columns: Mapping[str, frozenset[str]], adjusted: Mask, problems: Problems) -> tuple[Rows, Mask]:
    """Problems of rows and symbols are added to `problems`; low and high are widened to hold open and close."""
    rows, adjusted = _with_prices(rows, adjusted, problems)
    _order(rows, problems)
    sorted_by = np.lexsort((rows.day, rows.owner))
    if not np.array_equal(sorted_by, np.arange(len(sorted_by))):
        rows, adjusted = rows.taken(sorted_by), adjusted[sorted_by]
    rows, adjusted = _once(rows, adjusted, problems)
    _prices(rows, columns, problems)
    _days(rows, problems)
    rows = _widened(rows, problems)
    if not problems.errors:
        _symbols(rows, adjusted, problems)
    return rows, adjusted


def _report(rows: Rows, mask: Mask, problems: Problems, message: str, column: str | None = None) -> None:
    for at in np.flatnonzero(mask).tolist():
        problems.error(rows.files[rows.file[at]], message, int(rows.row[at]), column)


def _with_prices(rows: Rows, adjusted: Mask, problems: Problems) -> tuple[Rows, Mask]:
    empty = np.logical_and.reduce([np.isnan(getattr(rows, name)) for name in PRICES])
    for at in np.flatnonzero(empty).tolist():
        message = f"{_name(rows, at)} has no price on {rows.day_at(at)}: there is no bar of it"
        problems.warn(rows.files[rows.file[at]], message, int(rows.row[at]))
    return rows.taken(~empty), adjusted[~empty]


def _order(rows: Rows, problems: Problems) -> None:
    """Add a warning for each file of days that do not ascend, symbol by symbol; they are put in order."""
    later = np.lexsort((np.arange(len(rows.day)), rows.owner))
    owner, day = rows.owner[later], rows.day[later]
    back = np.flatnonzero((owner[1:] == owner[:-1]) & (day[1:] < day[:-1])) + 1
    for place in np.unique(rows.file[later[back]]).tolist():
        first = int(later[back[rows.file[later[back]] == place][0]])
        message = f"days are out of order from here on ({rows.day_at(first)}); they are put in order"
        problems.warn(rows.files[place], message, int(rows.row[first]))


def _once(rows: Rows, adjusted: Mask, problems: Problems) -> tuple[Rows, Mask]:
    """Drop a bar that another has already given with the same figures, as a file that was fetched twice does."""
    same = (
        np.r_[False, (rows.owner[1:] == rows.owner[:-1]) & (rows.day[1:] == rows.day[:-1])] if len(rows.day) else None
    )
    if same is None or not same.any():
        return rows, adjusted
    for name in (*PRICES, "adjusted", "volume"):
        values = getattr(rows, name)
        same[1:] &= (values[1:] == values[:-1]) | (np.isnan(values[1:]) & np.isnan(values[:-1]))
    for place in np.unique(rows.file[same]).tolist():
        which = np.flatnonzero(same & (rows.file == place))
        message = f"{len(which)} bars are there already with the same figures; the first is here"
        problems.warn(rows.files[place], message, int(rows.row[which].min()))
    return rows.taken(~same), adjusted[~same]


def _prices(rows: Rows, columns: Mapping[str, frozenset[str]], problems: Problems) -> None:
    has = {name: rows.of_files_with(name, columns) for name in ("open", "close", "adjopen")}
    ranged = np.where(has["close"], has["open"], has["adjopen"])
    for name in PRICES:
        wanted = ranged if name != "close" else np.ones(len(ranged), dtype=bool)
        _report(rows, wanted & np.isnan(getattr(rows, name)), problems, "no price", name)
    scaled = rows.adjusted <= 0
    for name in (*PRICES, "adjusted"):
        values = getattr(rows, name)
        for at in np.flatnonzero((values <= 0) & (scaled == (name == "adjusted"))).tolist():
            message = f"{values[at]:g} is no price: it must be above zero"
            problems.error(rows.files[rows.file[at]], message, int(rows.row[at]), _HEADINGS.get(name, name))
    for at in np.flatnonzero((rows.high < rows.low) & np.isfinite(rows.low)).tolist():
        message = f"the high {rows.high[at]:g} is below the low {rows.low[at]:g}"
        problems.error(rows.files[rows.file[at]], message, int(rows.row[at]), "high")
    _report(rows, rows.volume < 0, problems, "a negative volume", "volume")


def _days(rows: Rows, problems: Problems) -> None:
    same = np.r_[False, (rows.owner[1:] == rows.owner[:-1]) & (rows.day[1:] == rows.day[:-1])]
    for at in np.flatnonzero(same).tolist():
        first = f"{rows.files[rows.file[at - 1]]} row {rows.row[at - 1]}"
        message = f"{_name(rows, at)} has a second bar of {rows.day_at(at)}; the first is in {first}"
        problems.error(rows.files[rows.file[at]], message, int(rows.row[at]), "date")
    codes = [exchange_code(symbol) for symbol in rows.symbols]
    now = dt.datetime.now(dt.UTC)
    today = max((exchange_day(now, code) for code in set(codes)), default=exchange_day(now, HOME))
    for at in np.flatnonzero(rows.day > today.toordinal()).tolist():
        message = f"a bar of {rows.day_at(at)}, which is after today, {today}"
        problems.error(rows.files[rows.file[at]], message, int(rows.row[at]), "date")
    days, counts = np.unique(rows.day, return_counts=True)
    if len(rows.symbols) > 1 and len(days) > 1 and counts[-1] == 1 and days[-1] - days[-2] > STALE_DAYS:
        at, last = int(np.argmax(rows.day)), dt.date.fromordinal(int(days[-2]))
        message = f"a bar of {rows.day_at(at)}, alone and {days[-1] - days[-2]} days after the folder's last, {last}"
        problems.error(rows.files[rows.file[at]], message, int(rows.row[at]), "date")
    for code in sorted(set(codes)):
        own = np.array([one == code for one in codes])[rows.owner]
        for at in np.flatnonzero(own & ~np.isin(rows.day, sessions_of(code))).tolist():
            message = f"{rows.day_at(at):%A}, {rows.day_at(at)}, is no session of {shown_exchange(code)}"
            problems.error(rows.files[rows.file[at]], message, int(rows.row[at]), "date")


@cache
def sessions_of(exchange: str) -> npt.NDArray[np.int32]:
    """Return the ordinals of an exchange's sessions, in ascending order."""
    return np.array([day.toordinal() for day in exchange_hours(exchange).sessions], dtype=np.int32)


def _widened(rows: Rows, problems: Problems) -> Rows:
    low = np.fmin(rows.low, np.fmin(rows.open, rows.close))
    high = np.fmax(rows.high, np.fmax(rows.open, rows.close))
    ranged = ~np.isnan(rows.open)
    # A ten-thousandth of the price is what rounding and adjustment leave between them.
    slack = 1e-4 * rows.close
    with np.errstate(invalid="ignore"):  # of cells that are problems already
        odd = ranged & ((rows.low - low > slack) | (high - rows.high > slack))
    for place in np.unique(rows.file[odd]).tolist():
        which = np.flatnonzero(odd & (rows.file == place))
        message = f"{len(which)} rows have an open or close outside low to high, which are widened"
        problems.warn(rows.files[place], f"{message}; the first is here", int(rows.row[which[0]]))
    return rows._replace(low=np.where(ranged, low, np.nan), high=np.where(ranged, high, np.nan))


def _symbols(rows: Rows, adjusted: Mask, problems: Problems) -> None:
    starts = np.flatnonzero(np.r_[True, rows.owner[1:] != rows.owner[:-1]]) if len(rows.day) else np.empty(0, int)
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(rows.day)], strict=True):
        sessions = sessions_of(exchange_code(rows.symbols[int(rows.owner[start])]))
        _symbol(rows.taken(np.arange(start, end)), bool(adjusted[start]), sessions, problems)


def _symbol(rows: Rows, adjusted: bool, sessions: npt.NDArray[np.int32], problems: Problems) -> None:
    name, file = _name(rows, 0), rows.files[rows.file[0]]
    if len(rows.day) < FEW_BARS:
        problems.warn(file, f"{name} has {len(rows.day)} bars; some figures need {FEW_BARS}")
    first, end = np.searchsorted(sessions, [rows.day[0], rows.day[-1] + 1])
    if (holes := np.setdiff1d(sessions[first:end], rows.day)).size:
        shown = ", ".join(str(dt.date.fromordinal(day)) for day in holes[:_NAMED].tolist())
        more = f" and {holes.size - _NAMED} more" if holes.size > _NAMED else ""
        problems.warn(file, f"{name} has no bar of {holes.size} sessions within its days: {shown}{more}")
    for at in (np.flatnonzero(np.abs(np.diff(np.log(rows.close))) > math.log(MOST_FOLD)) + 1).tolist():
        before, after = rows.close[at - 1], rows.close[at]
        message = f"{name} closed at {after:g} on {rows.day_at(at)}, at {before:g} before: more than {MOST_FOLD}-fold"
        problems.error(rows.files[rows.file[at]], f"{message} is a mistake", int(rows.row[at]), "close")
    _units(rows, name, problems)
    with np.errstate(invalid="ignore"):
        wide = rows.high > MOST_FOLD * rows.low
    _report(rows, wide, problems, f"the high is more than {MOST_FOLD} times the low", "high")
    jumps = moves_like_splits(rows.close)
    if jumps and not adjusted and np.isnan(rows.adjusted).all():
        at, move = jumps[0], rows.close[jumps[0]] / rows.close[jumps[0] - 1] - 1
        message = f"{name} moved {move:+.0%} on {rows.day_at(at)}, as in a split; raw prices are not adjusted"
        problems.warn(file, f"{message}{f'; {len(jumps)} such moves' if len(jumps) > 1 else ''}", int(rows.row[at]))
    _bases(rows, adjusted, problems)
    _flat(rows, name, file, problems)


def _units(rows: Rows, name: str, problems: Problems) -> None:
    """Note bars of which some are in pence and some in pounds, where the exchange quotes in hundredths."""
    if exchange_code(name) == HOME or not has_parts(currency_of(name)):
        return
    within = is_flip(rows.low, rows.high)
    _report(rows, within, problems, "the high is some hundred times the low, as if in pence and pounds", "high")
    for at in (np.flatnonzero(is_flip(rows.close[:-1], rows.close[1:])) + 1).tolist():
        message = f"{name} closed at {rows.close[at]:g} on {rows.day_at(at)}, at {rows.close[at - 1]:g} before"
        why = f"{message}: pence in one of them and pounds in the other"
        problems.error(rows.files[rows.file[at]], why, int(rows.row[at]), "close")


def _bases(rows: Rows, adjusted: bool, problems: Problems) -> None:
    """Warn of a move like a split's in adjusted closes, where a split is none: the history is on two bases, as when
    downloads of before and after a split are put together."""
    closes = rows.close if adjusted else rows.adjusted
    known = np.flatnonzero(np.isfinite(closes))
    jumps = moves_like_splits(closes[known])
    if not jumps:
        return
    at, before = int(known[jumps[0]]), int(known[jumps[0] - 1])
    files = {rows.files[rows.file[place]] for place in (before, at)}
    message = (
        f"{_name(rows, at)} moved {closes[at] / closes[before] - 1:+.0%} from {rows.day_at(before)} "
        f"to {rows.day_at(at)} in its adjusted closes too: its history may be on two bases; take one download of it"
    )
    more = f"; {len(jumps)} such moves" if len(jumps) > 1 else ""
    problems.warn(max(files), f"{message}{more}", int(rows.row[at]))


def _flat(rows: Rows, name: str, file: str, problems: Problems) -> None:
    changed = np.flatnonzero(np.r_[True, rows.close[1:] != rows.close[:-1], True])
    lengths = np.diff(changed)
    if len(lengths) and lengths.max() >= FLAT_SESSIONS:
        at = int(changed[int(lengths.argmax())])
        message = f"{name} closed at {rows.close[at]:g} for {lengths.max()} sessions in a row"
        problems.warn(file, f"{message} from {rows.day_at(at)}", int(rows.row[at]))


def _name(rows: Rows, at: int) -> str:
    return rows.symbols[int(rows.owner[at])]


UNIVERSE_COLUMNS = {
    "symbol": Column(("symbol", "ticker", "sym"), symbol_of, required=True),
    "name": Column(("name", "company", "companyname", "security", "longname")),
    "sector": Column(("sector", "gicssector")),
    "industry": Column(("industry", "gicssubindustry", "subindustry")),
    "company": Column(("cik", "companyid", "issuer", "company")),  # `company` is the name in a file without a name
    "aliases": Column(("aliases", "alsoknownas")),
    "first": Column(
        ("from", "start", "added", "memberfrom"), lambda text: day_of(text) if text.strip() else None, kind="day"
    ),
    "last": Column(
        ("to", "until", "removed", "memberto"), lambda text: day_of(text) if text.strip() else None, kind="day"
    ),
}
Span = tuple[dt.date, dt.date]  # of a membership, both its own days


class Members(NamedTuple):
    """A universe file: the listings of its symbols, and the spans in which each is a member."""

    listings: dict[str, Listing]
    spans: dict[str, list[Span]]


def read_universe(path: Path, name: str, with_bars: Container[str], problems: Problems) -> Members:
    """Return the members of a universe file; a symbol without bars is a warning and is left out. A symbol may have
    several rows, of spans that do not overlap."""
    found = Members({}, {})
    for row, values, _ in rows_of(path, name, UNIVERSE_COLUMNS, problems):
        first, last = values.pop("first", None) or dt.date.min, values.pop("last", None) or dt.date.max
        symbol = values["symbol"]
        spans = found.spans.setdefault(symbol, [])
        if first > last:
            problems.error(name, f"the membership of {symbol} ends on {last}, before it begins on {first}", row, "to")
        elif any(first <= other_last and other_first <= last for other_first, other_last in spans):
            problems.error(name, f"{symbol} is listed twice", row, "symbol")
        elif symbol not in with_bars:
            problems.warn(name, f"{symbol} has no bars, and is left out", row, "symbol")
        else:
            found.listings.setdefault(symbol, Listing(**values))
            spans.append((first, last))
    return found

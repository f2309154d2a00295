"""A folder of own data: which of its files are what, their version, their check, and their content, read once a
version."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import socket
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from chordesk.models.answers import spelled
from chordesk.models.errors import SettingError
from chordesk.models.exchanges import HOME, shown_exchange
from chordesk.models.market import Listing
from chordesk.models.money import pair_name
from chordesk.models.settings import Settings
from chordesk.tools.decimals import plain
from chordesk.tools.market.clock import exchange_hours
from chordesk.tools.market.files.bars import (
    PRICES,
    UNIVERSE_COLUMNS,
    BarReader,
    Mask,
    Members,
    PriceKind,
    Rows,
    checked,
    corporate_actions,
    in_major,
    is_a_guess,
    priced,
    read_universe,
)
from chordesk.tools.market.files.chains import check_chains, read_chains
from chordesk.tools.market.files.listings import StatedListing, read_listings, units_of, with_stated
from chordesk.tools.market.files.name_changes import CHANGE_COLUMNS, Stated, carried, name_changes
from chordesk.tools.market.files.news_and_earnings import read_earnings, read_headlines, read_statements
from chordesk.tools.market.files.rates import read_fx
from chordesk.tools.market.files.stated_actions import ACTION_COLUMNS, StatedAction, stated_action
from chordesk.tools.market.files.tables import ENDINGS, Problems, rows_of
from chordesk.tools.market.fx import traded_in
from chordesk.tools.market.price_steps import COARSE_REMEDY
from chordesk.tools.market.prices import is_like_a_split
from chordesk.tools.market.protocol import Action
from chordesk.tools.market.replay.market import Columns, NameChange, ReplayData, columns_in, read_cache, write_cache

BARS = "bars"
UNIVERSE = ("universe.csv",)
HEADLINES = ("headlines.csv", "headlines.jsonl")
CHAINS = ("chains.csv", "chains.parquet")
EARNINGS = ("earnings.csv",)
CHANGES = ("changes.csv",)
ACTIONS = ("actions.csv",)
STATEMENTS = ("statements.csv", "statements.parquet")
FX = ("fx.csv",)
LISTINGS = ("listings.csv",)
ABOUT = "about.txt"
SET_ASIDE = "set-aside.csv"  # of an import: the rows that it left out
FORMS = (
    "bars/SYMBOL.csv or bars.csv, and if you have them universe.csv, changes.csv, actions.csv, headlines.csv, "
    "chains.csv, earnings.csv, statements.csv, listings.csv, fx.csv"
)
_VERSION_DIGITS = 8

Further = Literal["headlines", "chains", "earnings", "statements", "fx"]


@dataclass(frozen=True, slots=True)
class DataFolder:
    """The files of a folder, None for one that it lacks. symbols: files of bars by symbol; bars: the long table."""

    path: Path
    symbols: tuple[tuple[str, Path], ...]
    bars: Path | None
    universe: Path | None
    headlines: Path | None
    chains: Path | None
    earnings: Path | None
    statements: Path | None
    changes: Path | None = None
    actions: Path | None = None
    fx: Path | None = None
    listings: Path | None = None

    def name(self, file: Path) -> str:
        return str(file.relative_to(self.path))

    def files(self) -> Iterator[Path]:
        yield from (path for _, path in self.symbols)
        further = (
            self.universe,
            self.changes,
            self.actions,
            self.headlines,
            self.chains,
            self.earnings,
            self.statements,
            self.fx,
            self.listings,
        )
        yield from filter(None, (self.bars, *further))

    @property
    def about(self) -> str | None:
        """Return the first line of about.txt, which `desk data import` writes: where the data come from."""
        try:
            return (self.path / ABOUT).read_text(encoding="utf-8").strip().partition("\n")[0] or None
        except (OSError, UnicodeDecodeError):
            return None


def data_folder(path: Path | None, problems: Problems) -> DataFolder:
    """Return the files of a folder; more than one form of the same is an error, an unknown file a warning. Raises
    SettingError when no folder is set, there is none on this host, or it may not be looked into."""
    try:
        return _files_in(path, problems)
    except OSError as error:
        raise unreadable(path, error) from None


def unreadable(path: Path | None, error: OSError) -> SettingError:
    why = f"DESK_DATA={path} cannot be read: {error.strerror} {error.filename}"
    return SettingError(why, remedy="let the user that runs the desk read the folder and its files")


def _files_in(path: Path | None, problems: Problems) -> DataFolder:
    if path is None:
        raise SettingError("DESK_MARKET=files needs DESK_DATA", remedy=f"set DESK_DATA to a folder with {FORMS}")
    if not path.is_dir():
        why = "is no folder" if path.exists() else "does not exist"
        remedy = f"each host with a worker needs the same folder at its own DESK_DATA; it has {FORMS}"
        raise SettingError(f"DESK_DATA={path} {why} on {socket.gethostname()}", remedy=remedy)
    found = {name: _one(path, names, problems) for name, names in _NAMES.items()}
    folder = DataFolder(path, tuple(_symbols(path / BARS, problems, path)), **found)
    if folder.symbols and folder.bars is not None:
        problems.error(folder.name(folder.bars), f"stands beside the folder {BARS}/: keep one of them")
    if not folder.symbols and folder.bars is None:
        problems.error(BARS, f"no file of daily bars; a data folder has {FORMS}")
    _note_unknown(folder, problems)
    return folder


_NAMES = {
    "bars": tuple(f"{BARS}{ending}" for ending in ENDINGS),
    "universe": UNIVERSE,
    "headlines": HEADLINES,
    "chains": CHAINS,
    "earnings": EARNINGS,
    "statements": STATEMENTS,
    "changes": CHANGES,
    "actions": ACTIONS,
    "fx": FX,
    "listings": LISTINGS,
}


def version_of(folder: DataFolder, kind: str) -> str:
    """Return the version of a folder's content and of how its prices are read: hexadecimal digits of a SHA-256."""
    names = tuple((folder.name(file), *_stamp(file)) for file in folder.files())
    return _version(folder.path, names, kind)


def _stamp(file: Path) -> tuple[int, int]:
    found = file.stat()
    return found.st_size, found.st_mtime_ns


@lru_cache(maxsize=8)
def _version(path: Path, files: tuple[tuple[str, int, int], ...], kind: str) -> str:
    """Return the version; it is computed again when a file's size or time has changed."""
    digest = hashlib.sha256(kind.encode())
    for name, size, _ in files:
        digest.update(f"\0{name}\0{size}\0".encode())
        with (path / name).open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:_VERSION_DIGITS]


def _one(path: Path, names: tuple[str, ...], problems: Problems) -> Path | None:
    there = [path / name for name in names if (path / name).is_file()]
    for name in names:
        if os.path.lexists(path / name) and path / name not in there:
            problems.error(name, "is no file: a folder, a pipe, or a link to what is not there")
    if len(there) > 1:
        problems.error(there[1].name, f"stands beside {there[0].name}: keep one of them")
    return there[0] if there else None


def _symbols(bars: Path, problems: Problems, folder: Path) -> Iterator[tuple[str, Path]]:
    if not bars.is_dir():
        return
    for file in sorted(bars.iterdir()):
        if file.name.startswith("."):
            continue
        if file.suffix.lower() in ENDINGS and file.is_file():
            yield spelled(file.stem), file
        else:
            reason = f"is not read: files of bars end in {' or '.join(ENDINGS)}"
            problems.warn(str(file.relative_to(folder)), reason)


def _note_unknown(folder: DataFolder, problems: Problems) -> None:
    known = {folder.name(file) for file in folder.files()} | {ABOUT, SET_ASIDE, BARS}
    known |= {name for names in _NAMES.values() for name in names}
    for file in sorted(folder.path.iterdir()):
        if file.name not in known and not file.name.startswith("."):
            problems.warn(file.name, "is not read: it is no file of a data folder")


# Raised when the reading or the layout of the cached arrays changes.
CACHE_LAYOUT = 5
_CACHES_KEPT = 4


class Prices(NamedTuple):
    """Daily bars of a folder."""

    columns: Columns
    # adjusted, factored: by symbol, whether it has adjusted prices alone, and whether raw ones with adjusted closes
    adjusted: np.ndarray[tuple[int], np.dtype[np.bool_]]
    factored: np.ndarray[tuple[int], np.dtype[np.bool_]]
    # acted, actions: the symbol of each action, and its figures, with an ordinal for its day
    acted: np.ndarray[tuple[int], np.dtype[np.str_]]
    actions: np.ndarray[tuple[int, int], np.dtype[np.float64]]
    lost: np.ndarray[tuple[int], np.dtype[np.int32]]  # ordinals of sessions without a bar of any symbol
    # renamed, renamed_on: rows of old and new symbol, and the ordinal of the first day of the new one
    renamed: np.ndarray[tuple[int, int], np.dtype[np.str_]]
    renamed_on: np.ndarray[tuple[int], np.dtype[np.int32]]
    spun: np.ndarray[tuple[int], np.dtype[np.str_]]  # of each action, the symbol that was spun off, or none


class FilesData(ReplayData):
    """A data folder's bars and listings, the future included. version: of the content, its prices read as the kind
    states."""

    def __init__(self, folder: DataFolder, version: str, kind: PriceKind, prices: Prices, members: Members) -> None:
        lost = [dt.date.fromordinal(day) for day in prices.lost.tolist()]
        adjusted = frozenset(prices.columns.symbols[prices.adjusted].tolist())
        super().__init__(prices.columns, members.listings, lost, adjusted, _actions_in(prices), _changes_in(prices))
        self.folder = folder
        self.version = version
        self.kind = kind
        self._prices = prices
        self._members = members

    def is_member(self, symbol: str, day: dt.date) -> bool:
        """Return whether a symbol belongs to the universe on a day: without a universe file every one does."""
        spans = self._members.spans
        return not spans or any(first <= day <= last for first, last in spans.get(symbol, ()))

    def read(self, what: Further) -> Any:
        """A further file of the folder, read when first asked for, or None."""
        if getattr(self.folder, what) is None:
            return None
        with _READING:  # by one thread, and not by each that asks meanwhile
            return _further(self.folder, what, self.version, self.kind, self.symbols)

    def with_columns(self, columns: Columns) -> FilesData:
        kept = np.isin(self.columns.symbols, columns.symbols)
        was = self._prices
        prices = was._replace(columns=columns, adjusted=was.adjusted[kept], factored=was.factored[kept])
        return FilesData(self.folder, self.version, self.kind, prices, self._members)


def files_data(settings: Settings) -> FilesData:
    """Return the data of the settings' folder as it is now; it is read again when a file has changed. Raises
    SettingError when there is no such folder, or it has errors; NotConfigured when it needs an extra."""
    problems = Problems()
    folder = data_folder(settings.data, problems)
    require_none(folder, problems)
    try:
        version = version_of(folder, settings.data_prices)
    except OSError as error:
        raise unreadable(folder.path, error) from None
    return _loaded(folder, version, settings.data_prices, settings.home)


def require_none(folder: DataFolder, problems: Problems) -> None:
    """Raise SettingError with the first error, and the number of the others."""
    if problems.errors:
        more = f", and {problems.errors - 1} more errors" if problems.errors > 1 else ""
        remedy = f"`desk data check {folder.path}` lists them"
        raise SettingError(f"DESK_DATA={folder.path} cannot be used: {problems.of('error')[0]}{more}", remedy=remedy)


def _require_unchanged(folder: DataFolder, version: str, kind: PriceKind) -> None:
    """Raise SettingError if a file has changed since the version was taken, such as a file that is read later than the
    bars: the run would mix two versions."""
    try:
        found = version_of(folder, kind)
    except OSError as error:
        raise unreadable(folder.path, error) from None
    if found != version:
        reason = f"a file of DESK_DATA={folder.path} has changed: the data here are {found}, those in use are {version}"
        raise SettingError(reason, remedy="put the former files back, or open a new run on these")


_READING = threading.Lock()


# version: of the files, so that they are read again when one has changed.
@lru_cache(maxsize=6)
def _further(folder: DataFolder, what: Further, version: str, kind: PriceKind, symbols: tuple[str, ...]) -> Any:
    problems = Problems()
    found = read_further(folder, what, frozenset(symbols), problems)
    require_none(folder, problems)
    _require_unchanged(folder, version, kind)
    return found


def read_further(folder: DataFolder, what: Further, symbols: frozenset[str], problems: Problems) -> Any:
    path: Path = getattr(folder, what)
    name = folder.name(path)
    if what == "headlines":
        return read_headlines(path, name, symbols, problems)
    if what == "earnings":
        return read_earnings(path, name, problems)
    if what == "statements":
        return read_statements(path, name, symbols, problems)
    if what == "fx":
        return read_fx(path, name, problems)
    table = read_chains(path, name, problems)
    check_chains(table, name, problems)
    return table


@lru_cache(maxsize=2)
def _loaded(folder: DataFolder, version: str, kind: PriceKind, home: Path) -> FilesData:
    kept = home / "cache" / f"files-{version}-{CACHE_LAYOUT}.npz"
    problems = Problems()
    prices = _cached(kept)
    if prices is None:
        prices = read_prices(folder, kind, problems)
        require_none(folder, problems)
        _require_unchanged(folder, version, kind)  # before it is kept under that version
        arrays = {name: getattr(prices, name) for name in Prices._fields[1:]}
        write_cache(kept, {**prices.columns._asdict(), **arrays})
        _forget_others(kept)
    members = read_members(folder, prices.columns.symbols.tolist(), problems)
    require_none(folder, problems)
    return FilesData(folder, version, kind, prices, members)


def read_prices(folder: DataFolder, kind: PriceKind, problems: Problems) -> Prices:
    reader = BarReader(problems)
    for symbol, path in folder.symbols:
        reader.read(path, folder.name(path), symbol)
    if folder.bars is not None:
        reader.read(folder.bars, folder.name(folder.bars), None)
    written, stated = reader.rows(_listed(folder)), read_stated(folder, problems)
    units = units_of(written.symbols, stated, problems, _listings_name(folder))
    rows, adjusted = priced(in_major(written, units), reader.columns, kind, problems)
    rows, adjusted = checked(rows, reader.columns, adjusted, problems)
    changes = [] if problems.errors else _changes(folder, rows, stated, problems)
    rows, adjusted = carried(rows, adjusted, changes)
    if not len(rows.day) and not problems.errors:
        problems.error("bars", "no bar with a price")
    first = np.flatnonzero(np.r_[True, rows.owner[1:] != rows.owner[:-1]]) if len(rows.day) else np.empty(0, int)
    symbols = np.array(rows.symbols, dtype=np.str_)[rows.owner[first]] if len(first) else np.empty(0, dtype=np.str_)
    figures = [np.ascontiguousarray(getattr(rows, name)) for name in (*PRICES, "volume")]
    columns = Columns(symbols, np.r_[first, len(rows.day)], rows.day, *figures)
    factored = _any(~adjusted & ~np.isnan(rows.adjusted), columns.start)
    shown = _actions(columns, rows, factored, problems)
    found = with_stated_actions(shown, folder, columns, factored, stated, problems)
    _note_guesses(shown, found, problems)
    _note_late(columns, shown, problems)
    _check_steps(columns, stated, problems, _listings_name(folder))
    acted = np.array([symbol for symbol, _ in found], dtype=np.str_)
    terms = [(one.day.toordinal(), one.split, one.dividend, one.growth, one.spun_shares) for _, one in found]
    acts = np.array(terms, dtype=float).reshape(-1, 5)
    spun = np.array([one.spun for _, one in found], dtype=np.str_)
    names = np.array([change[:2] for change in changes], dtype=np.str_).reshape(-1, 2)
    on = np.array([change.day.toordinal() for change in changes], dtype=np.int32)
    return Prices(columns, adjusted[first], factored, acted, acts, _lost(np.unique(rows.day)), names, on, spun)


def _stated_changes(folder: DataFolder, rows: Rows, problems: Problems) -> tuple[list[Stated], Mapping[str, str]]:
    """Return the rows of changes.csv, and the company of each symbol as universe.csv states it."""
    stated: list[Stated] = []
    if folder.changes is not None:
        name = folder.name(folder.changes)
        for row, values, _ in rows_of(folder.changes, name, CHANGE_COLUMNS, problems):
            stated.append(Stated(NameChange(**values), name, row))
    if folder.universe is None:
        return stated, {}
    listings = read_universe(
        folder.universe, folder.name(folder.universe), frozenset(rows.symbols), Problems()
    ).listings
    return stated, {symbol: one.company for symbol, one in listings.items() if one.company}


def _changes_in(prices: Prices) -> list[NameChange]:
    pairs = zip(prices.renamed.tolist(), prices.renamed_on.tolist(), strict=True)
    return [NameChange(old, new, dt.date.fromordinal(day)) for (old, new), day in pairs]


def _listed(folder: DataFolder) -> list[str]:
    """Return the symbols of the universe file, whose problems are named elsewhere."""
    if folder.universe is None:
        return []
    columns = {"symbol": UNIVERSE_COLUMNS["symbol"]}
    found = rows_of(folder.universe, folder.name(folder.universe), columns, Problems(most=0))
    return [values["symbol"] for _, values, _ in found]


def _any(which: Mask, start: np.ndarray[Any, Any]) -> Mask:
    """Return for each symbol whether any of its rows is one of these."""
    if not len(which):
        return np.zeros(0, dtype=bool)
    return np.logical_or.reduceat(which, start[:-1])


_HIDDEN = 0.005  # of the price: dividends below it are too many to be passed over in silence


def _actions(columns: Columns, rows: Rows, factored: Mask, problems: Problems) -> list[tuple[str, Action]]:
    """Return the splits and dividends that adjusted closes show, and take from `factored` the symbols whose adjusted
    closes cannot be of any."""
    found: list[tuple[str, Action]] = []
    spans = zip(columns.symbols.tolist(), columns.start[:-1].tolist(), columns.start[1:].tolist(), strict=True)
    for at, (symbol, first, end) in enumerate(spans):
        if not factored[at]:
            continue
        derived = corporate_actions(columns.day[first:end], columns.close[first:end], rows.adjusted[first:end])
        file = rows.files[rows.file[first]]
        if derived.steps:
            factored[at] = False
            message = (
                f"the adjusted closes of {symbol} step against its closes {derived.steps} times in {end - first} bars"
            )
            problems.warn(file, f"{message}, which is not splits and dividends: they are not used", column="adj close")
        elif derived.hidden > _HIDDEN:
            message = (
                f"closes of {symbol} are rounded: a dividend below {derived.hidden:.1%} of the price does not show"
            )
            problems.warn(file, message, column="adj close")
        found += [(symbol, action) for action in derived.actions]
    return found


def _note_guesses(shown: Sequence[tuple[str, Action]], kept: Sequence[tuple[str, Action]], problems: Problems) -> None:
    """Warn of cash that may have been shares, unless actions.csv states what it was."""
    guessed = {id(one) for _, one in shown if is_a_guess(one)}
    for symbol, one in kept:
        if id(one) in guessed:
            lost = 1 - one.split / one.growth
            what = f"{symbol} lost {lost:.1%} of its price to an action on {one.day}, counted as cash"
            problems.warn(BARS, f"{what}; if it was a split or a spin-off, state it in {ACTIONS[0]}")


_NEAR = 0.2  # by how much a price may move, in logarithms, beside its split
_LATE = 5  # sessions within which a price's step and that of its adjusted close are of one split


def _note_late(columns: Columns, shown: Sequence[tuple[str, Action]], problems: Problems) -> None:
    """Warn of a split that the adjusted closes date on another bar than the one on which the price moved: in between,
    the price is of other shares than the desk counts."""
    place = {symbol: at for at, symbol in enumerate(columns.symbols.tolist())}
    for symbol, one in shown:
        first, end = (int(columns.start[place[symbol] + after]) for after in (0, 1))
        close, at = columns.close[first:end], columns.day[first:end].tolist().index(one.day.toordinal())
        if not is_like_a_split(1 / one.growth - 1) or is_like_a_split(close[at] / close[at - 1] - 1):
            continue
        for moved in range(max(at - _LATE, 1), min(at + _LATE + 1, len(close))):
            if moved != at and abs(np.log(close[moved - 1] / close[moved] / one.growth)) < _NEAR:
                days = [dt.date.fromordinal(int(columns.day[first + bar])) for bar in (moved, at)]
                what = f"{symbol} moved on {days[0]} like the split that its adjusted closes date on {days[1]}"
                problems.warn(BARS, f"{what}; give both the day on which the price moved")
                break


def with_stated_actions(
    found: Sequence[tuple[str, Action]],
    folder: DataFolder,
    columns: Columns,
    factored: np.ndarray[Any, Any],
    listings: Mapping[str, StatedListing],
    problems: Problems,
) -> list[tuple[str, Action]]:
    """Return the actions, those that actions.csv states in place of what the closes show, in ascending order of symbol
    and day. Each is of the first bar from its date on."""
    if folder.actions is None:
        return list(found)
    name, kept = folder.name(folder.actions), {(symbol, one.day): one for symbol, one in found}
    place = {symbol: at for at, symbol in enumerate(columns.symbols.tolist())}
    for row, values, _ in rows_of(folder.actions, name, ACTION_COLUMNS, problems):
        symbol, stated = values["symbol"], StatedAction(**{key: values[key] for key in StatedAction._fields})
        if symbol in listings and stated.dividend:
            stated = stated._replace(dividend=stated.dividend / listings[symbol].parts)
        at = place.get(symbol)
        if at is None or not factored[at]:
            why = "has no bars" if at is None else "has no adjusted closes, which say what its prices lost"
            problems.warn(name, f"{symbol} {why}: its action is left out", row, "symbol")
            continue
        rows = slice(int(columns.start[at]), int(columns.start[at + 1]))
        action = stated_action(stated, columns.day[rows], columns.close[rows], kept, symbol, frozenset(place))
        if isinstance(action, str):
            problems.error(name, f"{symbol}: {action}", row)
        elif action is not None:
            kept[symbol, action.day] = action
    return [(symbol, one) for (symbol, _), one in sorted(kept.items())]


def _actions_in(prices: Prices) -> dict[str, list[Action]]:
    found: dict[str, list[Action]] = {symbol: [] for symbol in prices.columns.symbols[prices.factored].tolist()}
    rows = zip(prices.acted.tolist(), prices.actions.tolist(), prices.spun.tolist(), strict=True)
    for symbol, (day, split, dividend, growth, shares), spun in rows:
        if symbol in found:
            found[symbol].append(Action(dt.date.fromordinal(int(day)), split, dividend, growth, spun, shares))
    return found


def read_members(folder: DataFolder, symbols: Sequence[str], problems: Problems) -> Members:
    found = Members({}, {})
    if folder.universe is not None:
        found = read_universe(folder.universe, folder.name(folder.universe), frozenset(symbols), problems)
    stated = read_stated(folder, Problems(most=0))
    return found._replace(listings=with_stated(found.listings, stated)) if stated else found


def _changes(
    folder: DataFolder, rows: Rows, listings: Mapping[str, StatedListing], problems: Problems
) -> list[NameChange]:
    def currency(symbol: str) -> str:
        return str(listings[symbol].fields["currency"]) if symbol in listings else traded_in(symbol)

    stated, companies = _stated_changes(folder, rows, problems)
    return name_changes(rows, stated, companies, problems, currency)


def _check_steps(columns: Columns, stated: Mapping[str, StatedListing], problems: Problems, file: str) -> None:
    """Name each stated step above the last close of its symbol: no price is a multiple of it."""
    for place, symbol in enumerate(columns.symbols.tolist()):
        step = stated[symbol].fields.get("price_step") if symbol in stated else None
        close = float(columns.close[columns.start[place + 1] - 1])
        if step is not None and close < step:
            what = f"{symbol} has a step of {plain(step)}, above its last close of {plain(close)}"
            problems.error(file, f"{what}: {COARSE_REMEDY}", column="step")


def _listings_name(folder: DataFolder) -> str:
    return folder.name(folder.listings) if folder.listings else LISTINGS[0]


def read_stated(folder: DataFolder, problems: Problems) -> dict[str, StatedListing]:
    return read_listings(folder.listings, _listings_name(folder), problems) if folder.listings else {}


def _lost(days: np.ndarray[tuple[int], np.dtype[np.int32]]) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    if not len(days):
        return days
    sessions = np.array([day.toordinal() for day in exchange_hours(HOME).sessions], dtype=np.int32)
    first, end = np.searchsorted(sessions, [days[0], days[-1] + 1])
    return np.setdiff1d(sessions[first:end], days)


def _cached(path: Path) -> Prices | None:
    arrays = read_cache(path)
    columns = columns_in(arrays)
    others = Prices._fields[1:]
    if arrays is None or columns is None or not set(others) <= arrays.keys():
        return None
    return Prices(columns, *(arrays[name] for name in others))  # type: ignore[arg-type]


def _forget_others(newest: Path) -> None:
    """Delete the oldest caches of own data but a few."""
    with suppress(OSError):
        others = sorted(newest.parent.glob("files-*.npz"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in others[_CACHES_KEPT:]:
            path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class FolderReport:
    """What a folder has, a line each, and its problems. about: where the data come from, if the folder states it."""

    folder: Path
    about: str | None
    contents: tuple[str, ...]
    problems: Problems


def check_folder(path: Path, kind: PriceKind, most: int) -> FolderReport:
    """Return the report on a folder. most: problems that are kept, of each file and level. Raises SettingError when
    there is no such folder, NotConfigured when a file needs an extra."""
    problems = Problems(most)
    folder = data_folder(path, problems)
    prices = read_prices(folder, kind, problems)
    return FolderReport(path, folder.about, tuple(_contents(folder, prices, problems)), problems)


def _contents(folder: DataFolder, prices: Prices, problems: Problems) -> Iterator[str]:
    symbols = prices.columns.symbols.tolist()
    if symbols:
        yield f"bars: {_bars_line(prices)}"
    listings = read_members(folder, symbols, problems).listings
    if folder.universe is not None and listings:
        yield f"universe: {len(listings)} symbols, {len({one.sector for one in listings.values()} - {None})} sectors"
    without = sum(name not in listings or listings[name].sector is None for name in symbols)
    if without:
        yield f"{without} of {len(symbols)} symbols have no sector, and count as one; universe.csv can state theirs"
    yield from _exchanges_line(symbols, listings)
    with_bars = frozenset(symbols)
    for old, new in prices.renamed.tolist():
        yield f"name changes: {old} trades as {new}, which has its history"
    if folder.headlines is not None and (headlines := read_further(folder, "headlines", with_bars, problems)):
        times = [row.published_at for rows in headlines.values() for row in rows]
        yield f"headlines: {len(times):,} of {len(headlines)} symbols, {_span(min(times), max(times))}"
    if folder.chains is not None and len((table := read_further(folder, "chains", with_bars, problems)).at):
        span = _span(table.time_of(int(table.at.argmin())), table.time_of(int(table.at.argmax())))
        counted = f"{len(table.at):,} quotes of {len(table.contracts):,} contracts"
        yield f"chains: {counted} on {', '.join(table.roots[:9])}, {span}"
    if folder.earnings is not None:
        earnings = read_further(folder, "earnings", with_bars, problems)
        yield f"earnings dates: {sum(map(len, earnings.values())):,} of {len(earnings)} symbols"
    if folder.statements is not None and (found := read_further(folder, "statements", with_bars, problems)):
        first, last = found.filed
        yield f"statements: {found.figures:,} figures of {len(found)} symbols, filed {first} to {last}"
    if folder.fx is not None and (rates := read_further(folder, "fx", with_bars, problems)).rows:
        moments = [at for known, _ in rates.rows.values() for at in known]
        pairs = ", ".join(pair_name(*pair) for pair in sorted(rates.rows))
        yield f"exchange rates: {len(moments):,} of {pairs}, {min(moments):%Y-%m-%d} to {max(moments):%Y-%m-%d}"


def _exchanges_line(symbols: Sequence[str], listings: Mapping[str, Listing]) -> Iterator[str]:
    """Yield how many symbols there are of each exchange and in which currency, where any is not of New York."""
    rows = [listings.get(symbol) or Listing(symbol=symbol) for symbol in symbols]
    counted = Counter((row.exchange, row.currency) for row in rows)
    if set(counted) - {(HOME, "USD")}:
        shown = (f"{count} of {shown_exchange(code)} in {money}" for (code, money), count in sorted(counted.items()))
        yield f"exchanges: {', '.join(shown)}"


def _span(first: dt.datetime, last: dt.datetime) -> str:
    return f"{first:%Y-%m-%d} to {last:%Y-%m-%d}"


def _bars_line(prices: Prices) -> str:
    columns = prices.columns
    first, last = (dt.date.fromordinal(int(day)) for day in (columns.day.min(), columns.day.max()))
    alone, factored = int(prices.adjusted.sum()), int(prices.factored.sum())
    raw = len(columns.symbols) - alone - factored
    kinds = [
        *([f"raw prices with {len(prices.actions)} splits and dividends of {factored}"] if factored else []),
        *([f"raw prices alone of {raw}, where a split shows as a move"] if raw else []),
        *([f"adjusted prices alone of {alone}, with numbers of shares that know later splits"] if alone else []),
    ]
    counted = f"{len(columns.symbols)} symbols, {len(columns.day):,} bars, {first} to {last}"
    return f"{counted}, {' and '.join(kinds)}"

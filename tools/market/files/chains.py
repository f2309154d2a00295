"""Option chains of own files: one long table of quotes, a row a contract and time, read and checked."""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import Decimal
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from chordesk.models.exchanges import HOME
from chordesk.models.market import ChainRow, Greeks, OptionContract, contract_of, parse_contract, root_of
from chordesk.models.text import NEW_YORK
from chordesk.tools.market.clock import decision_time
from chordesk.tools.market.files.known_exports import plain
from chordesk.tools.market.files.tables import (
    NUMBER,
    Column,
    Parsed,
    Part,
    Problems,
    Unreadable,
    day_of,
    moment_of,
    numbers,
    parts_of,
)
from chordesk.tools.market.protocol import Floats

CHAIN_COLUMNS = {
    "quoted": Column(
        ("quotedatetime", "quotedate", "quotetime", "datetime", "timestamp", "date", "asof", "time"), kind="moment"
    ),
    "contract": Column(("contract", "contractsymbol", "occ", "osi", "optionsymbol", "optionid")),
    "symbol": Column(("underlying", "underlyingsymbol", "symbol", "ticker", "root")),
    "expiry": Column(("expiry", "expiration", "expirationdate", "expirydate", "expiredate", "exdate"), kind="day"),
    "kind": Column(("kind", "optiontype", "type", "callput", "putcall", "cp", "cpflag", "right")),
    "strike": Column(("strike", "strikeprice"), kind="number"),
    "bid": Column(("bid", "bidprice"), kind="number"),
    "ask": Column(("ask", "askprice", "offer"), kind="number"),
    "last": Column(("last", "lastprice", "lasttrade"), kind="number"),
    "volume": Column(("volume", "vol"), kind="count"),
    "interest": Column(("openinterest", "oi"), kind="count"),
    "iv": Column(("iv", "impliedvolatility", "impliedvol"), kind="number"),
    "delta": Column(("delta",), kind="number"),
    "gamma": Column(("gamma",), kind="number"),
    "theta": Column(("theta",), kind="number"),
    "vega": Column(("vega",), kind="number"),
    "rho": Column(("rho",), kind="number"),
    "spot": Column(("spot", "spotprice", "underlyingprice", "underlyinglast", "stockprice"), kind="number"),
}
FIGURES = ("bid", "ask", "last", "volume", "interest", "iv", "delta", "gamma", "theta", "vega", "rho", "spot")
_GREEKS = ("delta", "gamma", "theta", "vega")
_KINDS: dict[str, Literal["call", "put"]] = {"c": "call", "call": "call", "calls": "call", "p": "put", "put": "put"}
# The OCC gives a contract that an action has adjusted a root with a digit, such as AAPL1.
_OF_AN_ACTION = re.compile(r"(?:O:)?[A-Z]{1,5}\d ?\s*\d{6}[CP]\d{8}")
_ADJUSTED_ROOT = re.compile(r"[A-Z]{1,5}\d")
_ADJUSTED = -2
_TERMS = ("symbol", "expiry", "kind", "strike")
_LAST_OF_THE_CLOSE = dt.time(16, 15)  # on days of an early close too: sources stamp them alike


class ChainTable(NamedTuple):
    """Quotes sorted by root, time and contract; roots[i] owns rows start[i] up to start[i + 1]."""

    contracts: tuple[OptionContract, ...]
    roots: tuple[str, ...]
    start: npt.NDArray[np.int64]
    at: npt.NDArray[np.int64]  # seconds since 1970, of the time from which a quote counts as known
    contract: npt.NDArray[np.int32]  # places in `contracts`. A figure that the file does not have is not a number.
    row: npt.NDArray[np.int64]
    figures: dict[str, Floats]

    def of_day(self, root: str, now: dt.datetime) -> npt.NDArray[np.int64]:
        """Return the rows of the newest day of quotes on a root that were known by now: of each contract the newest
        time. None is an empty array."""
        if root not in self.roots:
            return np.empty(0, dtype=np.int64)
        place = self.roots.index(root)
        first, end = int(self.start[place]), int(self.start[place + 1])
        known = first + int(np.searchsorted(self.at[first:end], now.timestamp(), side="right"))
        if known == first:
            return np.empty(0, dtype=np.int64)
        midnight = self.time_of(known - 1).replace(hour=0, minute=0, second=0, microsecond=0)
        since = first + int(np.searchsorted(self.at[first:known], midnight.timestamp(), side="left"))
        rows = np.arange(since, known)
        newest = np.zeros(len(self.contracts), dtype=np.int64)
        np.maximum.at(newest, self.contract[rows], self.at[rows])
        kept: npt.NDArray[np.int64] = rows[self.at[rows] == newest[self.contract[rows]]]
        return kept

    def time_of(self, row: int) -> dt.datetime:
        return dt.datetime.fromtimestamp(int(self.at[row]), NEW_YORK)

    def quote(self, row: int) -> ChainRow:
        found = {name: _known(float(values[row])) for name, values in self.figures.items()}
        greeks = None
        if all(found[name] is not None for name in _GREEKS):
            delta, gamma, theta, vega = (found[name] or 0.0 for name in _GREEKS)
            rho = math.nan if found["rho"] is None else found["rho"]
            greeks = Greeks(delta, gamma, theta, vega, rho)
        contract = self.contracts[int(self.contract[row])]
        return ChainRow(
            contract, found["bid"], found["ask"], found["last"], found["volume"], found["interest"], found["iv"], greeks
        )


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def read_chains(path: Path, name: str, problems: Problems) -> ChainTable:
    reader = _Reader(problems)
    for part in parts_of(path, name, CHAIN_COLUMNS, problems):
        if not reader.can_read(part):
            break
        reader.take(part)
    reader.note_adjusted()
    return reader.table()


class _Reader:
    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._contracts: dict[OptionContract, int] = {}
        self._named = Parsed(self._named_place, problems)
        self._adjusted: dict[str, tuple[str, int, int]] = {}  # contract: its file, first row, quotes
        self._described = Parsed(self._described_place, problems)
        self._times = Parsed(lambda text: _known_from(moment_of(text, NEW_YORK)), problems)
        self._parts: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]] = []
        self._figures: dict[str, list[Floats]] = {figure: [] for figure in FIGURES}

    def can_read(self, part: Part) -> bool:
        has = part.cells.keys()
        lacks = [] if "quoted" in has else ["quote date"]
        if "contract" not in has and not has >= set(_TERMS):
            lacks.append(f"contract (or {', '.join(_TERMS)})")
        return part.has((*lacks, *(name for name in ("bid", "ask") if name not in has)), self._problems)

    def take(self, part: Part) -> None:
        named = "contract" in part.cells
        contracts = self._named.read(part, "contract") if named else self._described.read(part, *_TERMS)
        times = self._times.read(part, "quoted")
        usable = (contracts >= 0) & (times >= 0)
        if (contracts == _ADJUSTED).any():
            self._count_adjusted(part, contracts, "contract" if named else "symbol")
        for name, kept in self._figures.items():
            kept.append(numbers(part, name, self._problems)[usable])
        self._parts.append((times[usable], contracts[usable], part.rows[usable]))

    def _named_place(self, text: str) -> int:
        return _ADJUSTED if _OF_AN_ACTION.fullmatch(text.upper()) else self._place(_named_contract(text))

    def _described_place(self, *terms: str) -> int:
        adjusted = _ADJUSTED_ROOT.fullmatch(terms[0].upper()) is not None
        return _ADJUSTED if adjusted else self._place(_described_contract(*terms))

    def _count_adjusted(self, part: Part, contracts: npt.NDArray[np.int64], column: str) -> None:
        for at in np.flatnonzero(contracts == _ADJUSTED).tolist():
            name = part.text(column, at).strip()
            file, row, count = self._adjusted.get(name, (part.file, int(part.rows[at]), 0))
            self._adjusted[name] = file, row, count + 1

    def note_adjusted(self) -> None:
        """Warn of each contract whose root has a digit: a corporate action has changed what it delivers."""
        for name, (file, row, count) in self._adjusted.items():
            message = f"{name} names a contract that a corporate action has adjusted; its {count} quotes are not read"
            self._problems.warn(file, message, row)

    def _place(self, contract: OptionContract) -> int:
        return self._contracts.setdefault(contract, len(self._contracts))

    def table(self) -> ChainTable:
        known = tuple(self._contracts)
        roots = tuple(sorted({contract.underlying for contract in known}))
        if not self._parts or not known:
            nothing = np.empty(0, dtype=np.int64)
            empty = {name: np.empty(0) for name in FIGURES}
            return ChainTable((), (), np.zeros(1, dtype=np.int64), nothing, nothing.astype(np.int32), nothing, empty)
        at, contract, row = (np.concatenate([part[place] for part in self._parts]) for place in range(3))
        owner = np.array([roots.index(one.underlying) for one in known])[contract]
        order = np.lexsort((row, contract, at, owner))
        start = np.searchsorted(owner[order], np.arange(len(roots) + 1))
        figures = {name: np.concatenate(parts)[order] for name, parts in self._figures.items()}
        return ChainTable(known, roots, start, at[order], contract[order].astype(np.int32), row[order], figures)


def _named_contract(text: str) -> OptionContract:
    found = parse_contract(text.upper().removeprefix("O:"))
    if found is None:
        raise Unreadable(f"{text[:40]!r} is no OCC symbol of an option contract, such as MSFT260417P00335000")
    return found


def _described_contract(symbol: str, expiry: str, kind: str, strike: str) -> OptionContract:
    root = root_of(symbol.upper())
    if not (root.isascii() and root.isalpha() and len(root) <= 6):
        raise Unreadable(f"{symbol[:40]!r} is no underlying of 1 to 6 letters", "symbol")
    try:
        day = day_of(expiry)
    except Unreadable as error:
        raise Unreadable(str(error), "expiry") from None
    if plain(kind) not in _KINDS:
        raise Unreadable(f"{kind[:40]!r} is neither call nor put", "kind")
    level = Decimal(strike) if NUMBER.fullmatch(strike) else Decimal(0)
    if not (0 < level < 100_000 and level * 1000 == int(level * 1000)):
        raise Unreadable(f"{strike[:40]!r} is no strike above 0 in whole thousandths", "strike")
    return contract_of(root, day, _KINDS[plain(kind)], level)


def _known_from(moment: dt.datetime | dt.date) -> int:
    """Return the second from which on a quote counts as known."""
    if isinstance(moment, dt.datetime):
        here = moment.astimezone(NEW_YORK)
        decided = decision_time(here.date(), HOME)
        closes = decided <= here and here.time() <= _LAST_OF_THE_CLOSE
        if not closes and here.time() != dt.time():
            return math.ceil(moment.timestamp())
        moment = here.date()
    return int(decision_time(moment, HOME).timestamp())


# Checks of option quotes: odd ones are counted with the first row of each kind; the tools state them again where they
# leave them out.

Mask = npt.NDArray[np.bool_]
_MOST_IV = 20.0
_TICK = 0.01


def check_chains(table: ChainTable, name: str, problems: Problems) -> None:
    """Add errors for impossible quotes (negative, contradictory, of an expired contract) and warnings for odd ones."""
    if not len(table.at):
        problems.error(name, "has no quote that can be read")
        return
    bid, ask = table.figures["bid"], table.figures["ask"]
    days = (table.at - _utc_offset(table.at)) // 86_400
    expiry = np.array([contract.expiry.toordinal() for contract in table.contracts])[table.contract]
    quoted = days + dt.date(1970, 1, 1).toordinal()
    with np.errstate(invalid="ignore"):
        _each(table, name, problems, (bid < 0) | (ask < 0), "a negative quote", "error")
        _each(table, name, problems, expiry < quoted, "the contract expired before its quote", "error")
        same, differing = _repeated(table)
        _each(table, name, problems, differing, "the contract has another quote of the same time", "error")
        _each(table, name, problems, same, "rows repeat a quote", "warning")
        _each(table, name, problems, bid > ask, "crossed quotes, the bid above the ask", "warning")
        _each(table, name, problems, bid == 0, "quotes with a bid of zero", "warning")
        _each(table, name, problems, np.isnan(bid) | np.isnan(ask), "rows without a bid or an ask", "warning")
        _each(table, name, problems, expiry == quoted, "contracts that expire on the day of their quote", "warning")
        _each(table, name, problems, table.figures["iv"] > _MOST_IV, "volatilities above 20; 0.35 is 35 %", "warning")
        _each(table, name, problems, _below_intrinsic(table), "asks below what an exercise gives", "warning")


def _each(table: ChainTable, name: str, problems: Problems, mask: Mask, message: str, level: str) -> None:
    """An error for each row, or one warning with their number and the first row."""
    if level == "error":
        for at in np.flatnonzero(mask).tolist():
            symbol = table.contracts[int(table.contract[at])].symbol
            problems.error(name, f"{symbol}: {message}", int(table.row[at]))
    elif mask.any():
        problems.warn(name, f"{int(mask.sum()):,} {message}; the first is here", int(table.row[mask].min()))


def _repeated(table: ChainTable) -> tuple[Mask, Mask]:
    """Return (rows that repeat the one before, rows that differ from the one before of the same contract and time)."""
    again = np.r_[False, (table.contract[1:] == table.contract[:-1]) & (table.at[1:] == table.at[:-1])]
    equal = np.ones(len(again), dtype=bool)
    for figure in FIGURES:
        values = table.figures[figure]
        equal[1:] &= (values[1:] == values[:-1]) | (np.isnan(values[1:]) & np.isnan(values[:-1]))
    return again & equal, again & ~equal


def _below_intrinsic(table: ChainTable) -> Mask:
    """Return which asks are below the intrinsic value; no row without the underlying's price."""
    strike = np.array([float(contract.strike) for contract in table.contracts])[table.contract]
    sign = np.array([1.0 if contract.kind == "call" else -1.0 for contract in table.contracts])[table.contract]
    below: Mask = table.figures["ask"] < sign * (table.figures["spot"] - strike) - _TICK
    return below & (table.figures["ask"] > 0)


def _utc_offset(at: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the seconds that New York is behind UTC at each of the times."""
    known, place = np.unique(at, return_inverse=True)
    moments = [dt.datetime.fromtimestamp(each, NEW_YORK) for each in known.tolist()]
    behind = [-(moment.utcoffset() or dt.timedelta()).total_seconds() for moment in moments]
    return np.array(behind, dtype=np.int64)[place]

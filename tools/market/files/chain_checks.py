"""Checks of option quotes: odd ones are counted with the first row of each kind; the tools state them again where they
leave them out."""

from __future__ import annotations

import datetime as dt

import numpy as np
import numpy.typing as npt

from chordesk.tools.market.clock import NEW_YORK
from chordesk.tools.market.files.chains import FIGURES, ChainTable
from chordesk.tools.market.files.reading.problems import Problems

Mask = npt.NDArray[np.bool_]
_MOST_IV = 20.0
_TICK = 0.01


def check_chains(table: ChainTable, name: str, problems: Problems) -> None:
    """Add what is wrong with the quotes (a negative one, a contract that differs from itself, one that expired before
    its quote) and what is odd."""
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
    """Add an error for each row, or one warning with the number of them and the first row."""
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

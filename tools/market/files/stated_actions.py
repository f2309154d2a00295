"""Corporate actions that own files state, in place of what the closes show."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from chordesk.tools.market.files.tables import Column, day_of, is_empty, number_of, symbol_of
from chordesk.tools.market.protocol import Action, Floats

ACTION_COLUMNS = {
    "symbol": Column(("symbol", "ticker", "sym"), symbol_of, required=True),
    "day": Column(("date", "day", "exdate", "exday"), day_of, required=True, kind="day"),
    "split": Column(
        ("split", "splitratio", "ratio"), lambda text: 1.0 if is_empty(text) else number_of(text), kind="number"
    ),
    "dividend": Column(
        ("dividend", "cash", "amount"), lambda text: 0.0 if is_empty(text) else number_of(text), kind="number"
    ),
    "spun": Column(("spun", "spunsymbol", "spinoff", "into"), lambda text: symbol_of(text) if text.strip() else ""),
    "shares": Column(("spunshares", "shares"), lambda text: 0.0 if is_empty(text) else number_of(text), kind="number"),
}


class StatedAction(NamedTuple):
    """A row of actions.csv: shares after a split for one before, cash for one share held before, and the shares of
    another symbol that came with one."""

    day: dt.date
    split: float | None
    dividend: float | None
    spun: str | None
    shares: float | None


_NEAR = 1.25  # cash in pence beside closes that show pounds differs by a hundred and the rounding of closes


def stated_action(
    stated: StatedAction,
    days: npt.NDArray[np.int32],
    close: Floats,
    shown: Mapping[tuple[str, dt.date], Action],
    symbol: str,
    symbols: Collection[str],
) -> Action | str | None:
    """Return the action on the first bar from its date on; None where there is no bar before or from then on; a text
    says what is wrong with it. What the closes show it took from the price is the value of what was spun off; without
    bars of that symbol it is paid in cash."""
    at = int(np.searchsorted(days, stated.day.toordinal()))
    if not 0 < at < len(days):
        return None
    day, before = dt.date.fromordinal(int(days[at])), float(close[at - 1])
    split, paid, spun, shares = stated.split or 1.0, stated.dividend or 0.0, stated.spun or "", stated.shares or 0.0
    if split <= 0 or paid < 0 or shares < 0 or paid >= before:
        return f"a split of {split:g}, cash of {paid:g} and {shares:g} spun shares at a close of {before:g}"
    if bool(spun) != bool(shares):
        return "a spin-off has a symbol in `spun` and in `shares` how many came with one share"
    growth, known = split * before / (before - paid), shown.get((symbol, day))
    if not spun:
        seen = 0.0 if known is None else before - before * split / known.growth
        if paid and seen > 0 and any(1 / _NEAR < paid / seen / unit < _NEAR for unit in (100, 0.01)):
            return f"cash of {paid:g} where the closes show {seen:.6g}, a hundredfold: it is in the unit of the prices"
        return Action(day, split, paid, growth)
    if known is None or known.growth <= growth:
        return f"the closes show no loss of price on {day} for the shares of {spun}"
    if spun in symbols:
        return Action(day, split, paid, known.growth, spun, shares)
    return Action(day, split, before - before * split / known.growth, known.growth)

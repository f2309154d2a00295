"""Units of prices: pence beside pounds, cents beside rand, agorot beside shekels.

Exchanges of a few currencies quote in hundredths, and a source that mixes both is wrong by a hundred without any sign.
What is found here is refused and never put right: which of two figures is in which unit is not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from chordesk.models.errors import MarketError
from chordesk.tools.market.home import MINOR_UNITS

PARTS = 100
# A step of one unit to the other is seen beside a real move of up to three-fold (the fourth root of 100), and no real
# move of less than 32-fold looks like one.
_FLIP = PARTS**0.75, PARTS**1.25
# What a dividend may be of the price of the evening before. Below, a payment in pounds beside a price in pence cannot
# be told from one in pence; above, one in pence beside a price in pounds is as likely.
_LEAST_DIVIDEND, _MOST_DIVIDEND = 0.0005, 0.5
REMEDY = "leave it out, or give its own prices in DESK_DATA (DESK_MARKET=files)"


def has_parts(currency: str) -> bool:
    """Return whether exchanges quote in hundredths of a currency."""
    return currency in MINOR_UNITS and currency != "USD"


def is_flip(before: Any, after: Any) -> Any:
    """Return where a price is some hundred times or a hundredth of another."""
    with np.errstate(divide="ignore", invalid="ignore"):
        fold = np.exp(np.abs(np.log(np.asarray(after, dtype=float) / np.asarray(before, dtype=float))))
        return (fold >= _FLIP[0]) & (fold <= _FLIP[1])


def require_one_unit(symbol: str, rows: Mapping[str, Sequence[Any]], currency: str, last: object) -> None:
    """Raise MarketError for figures of a chart that are not all of one unit.

    rows: as `bars_of` and `intraday_of` have them; last: what the source states as the last price, None where it does
    not. currency: of the figures, the major one.
    """
    if has_parts(currency) and (found := next(_strange(rows, last), None)) is not None:
        raise MarketError(f"{symbol} is in pence and pounds at once, or the like of {currency}: {found}", remedy=REMEDY)


def _strange(rows: Mapping[str, Sequence[Any]], last: object) -> Iterator[str]:
    days, closes = rows["date"] if "date" in rows else rows["start"], rows["close"]
    for at, day in enumerate(days):
        prices = [rows[name][at] for name in ("open", "high", "low", "close")]
        if is_flip(min(prices), max(prices)):
            yield f"its bar of {day} goes from {min(prices):g} to {max(prices):g}"
        if at and is_flip(closes[at - 1], closes[at]):
            yield f"it closed at {closes[at]:g} on {day}, at {closes[at - 1]:g} before"
    if closes and isinstance(last, float) and is_flip(closes[-1], last):
        yield f"its last price is stated as {last:g}, and its last close is {closes[-1]:g}"
    yield from _dividends(rows)


def _dividends(rows: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    """Yield dividends that may be of another unit than their price: by their size, and by what the adjusted closes lose
    to them."""
    for at, paid in enumerate(rows.get("dividend", ())):
        if not paid or not at:
            continue
        (close, adjusted), (before, former) = (
            (rows["close"][place], rows["adjusted"][place]) for place in (at, at - 1)
        )
        share, lost = paid / before, 1 - (former / before) / (adjusted / close)
        stated = f"its dividend of {rows['date'][at]} is stated as {paid:g} beside a price of {before:g}"
        if not _LEAST_DIVIDEND <= share <= _MOST_DIVIDEND:
            yield stated
        elif lost > _LEAST_DIVIDEND and is_flip(share, lost):
            yield f"{stated}, of which the adjusted closes lose {lost:.2%}"

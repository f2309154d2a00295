"""Rates of pairs with the moments from which on they were known, and what follows from them: the inverse, and the
cross over the euro or the dollar."""

from __future__ import annotations

import bisect
import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal

from chordesk.models.errors import MarketError
from chordesk.models.money import FxRate, pair_name
from chordesk.tools.decimals import exact

OVER = ("EUR", "USD")  # what a rate is crossed over, at most once
# Digits of an inverse or a crossed rate, so that it is the same number wherever it is worked out anew.
_DIGITS = Context(prec=10)

Stated = Callable[[str, str], FxRate | None]  # the rate of a pair as its source states it


@dataclass(frozen=True, slots=True)
class RateTable:
    """Rates by pair, each with the moments from which on they were known, in ascending order."""

    source: str
    rows: Mapping[tuple[str, str], tuple[Sequence[dt.datetime], Sequence[float]]]

    def stated(self, at: dt.datetime) -> Stated:
        def found(currency: str, base: str) -> FxRate | None:
            moments, rates = self.rows.get((currency, base), ((), ()))
            place = bisect.bisect_right(moments, at) - 1
            return FxRate(currency, base, rates[place], moments[place], self.source) if place >= 0 else None

        return found

    def rate(self, currency: str, base: str, at: dt.datetime) -> FxRate:
        """Raises MarketError where the table has no rate by then."""
        if (found := crossed(self.stated(at), currency, base)) is None:
            raise MarketError(f"{self.source} has no rate of {pair_name(currency, base)} by {at:%Y-%m-%d %H:%M %Z}")
        return found


def crossed(stated: Stated, currency: str, base: str) -> FxRate | None:
    """Return a rate as it is stated, else its inverse, else the newest that crosses over the euro or the dollar."""
    if (found := _either_way(stated, currency, base)) is not None:
        return found
    over = (one for one in OVER if one not in (currency, base))
    return max(filter(None, (_over(stated, currency, one, base) for one in over)), key=lambda one: one.at, default=None)


def _either_way(stated: Stated, currency: str, base: str) -> FxRate | None:
    straight, turned = stated(currency, base), stated(base, currency)
    if turned is None or (straight is not None and straight.at >= turned.at):
        return straight
    return turned._replace(currency=currency, base=base, rate=float(_DIGITS.divide(1, exact(turned.rate))))


def _over(stated: Stated, currency: str, third: str, base: str) -> FxRate | None:
    first, second = _either_way(stated, currency, third), _either_way(stated, third, base)
    if first is None or second is None:
        return None
    # Both are worked out of what is stated, so that they are rounded once.
    up, down = _fraction(stated, currency, third), _fraction(stated, third, base)
    rate = float(_DIGITS.divide(up[0] * down[0], up[1] * down[1]))
    source = first.source if first.source == second.source else f"{first.source}, {second.source}"
    return FxRate(currency, base, rate, min(first.at, second.at), f"{source} over {third}")


def _fraction(stated: Stated, currency: str, base: str) -> tuple[Decimal, Decimal]:
    straight, turned = stated(currency, base), stated(base, currency)
    if straight is not None and (turned is None or straight.at >= turned.at):
        return exact(straight.rate), Decimal(1)
    assert turned is not None
    return Decimal(1), exact(turned.rate)

"""Outcomes of relative questions: each symbol's return over some sessions against the median of its universe."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from chordesk.models.errors import DeskError
from chordesk.models.questions import BeatsMedian
from chordesk.tools.market.clock import ReplayClock, hours_of
from chordesk.tools.market.prices import STALE_DAYS, vanished
from chordesk.tools.market.protocol import Floats, MarketData, Prefetching, RecordedSessions
from chordesk.tools.market.universe import members

LEAST_SHARE = 0.5  # of a universe's members must have both closes
PREFETCH_SECONDS = 60.0
_SPARE_BARS = 5


class Resolved(NamedTuple):
    """An outcome with the data it comes from. outcome: 0 to 1; None when the question is void."""

    outcome: float | None
    evidence: dict[str, Any]


class Pending(NamedTuple):
    """The reason why a question past its deadline is still open."""

    note: str


Resolution = Resolved | Pending


class Closes(NamedTuple):
    """A symbol's closes on the first and the last session, None where it has no bar of that session; adjusted: whether
    the market adjusts them for splits and dividends. ended: the day of its last trade, where the last session has none
    and the market has gone on for more than STALE_DAYS; `last` is what that trade paid then."""

    first: float | None
    last: float | None
    adjusted: bool = False
    ended: dt.date | None = None

    @property
    def change(self) -> float | None:
        return self.last / self.first - 1 if self.first is not None and self.last is not None else None


@dataclass(frozen=True, slots=True)
class Span:
    """Closes of a universe's members on two sessions. median: of the returns of those that have both, or have left the
    market between; null without any. with_both: how many these are."""

    first: dt.date
    last: dt.date
    closes: dict[str, Closes]
    median: float | None
    with_both: int
    failed: dict[str, str]

    @property
    def is_enough(self) -> bool:
        return self.median is not None and self.with_both >= LEAST_SHARE * len(self.closes)


def beats(change: float, median: float) -> float:
    """Return 1 when a return is above the median, 0 below it, one half when it equals it."""
    return 1.0 if change > median else 0.0 if change < median else 0.5


class RelativeOutcomes:
    """Outcomes of relative questions from one market's bars, never later than its clock. The closes of a universe on
    two sessions are read once, however many questions rest on them. delisted_pays: what a share that is traded no more
    pays, as a fraction of its last close."""

    def __init__(self, market: MarketData, delisted_pays: float = 1.0) -> None:
        self._market = market
        self._pays = delisted_pays
        self._spans: dict[tuple[str, dt.date, dt.date], Span | str] = {}

    def of(self, rule: BeatsMedian) -> Resolution:
        last, known = hours_of(rule.symbol).after(rule.day, rule.sessions), self._market.clock.session()
        if last > known:
            return Pending(f"it closes on {last}, and the {self._market.name} market has bars up to {known}")
        span = self._span(rule, last)
        if isinstance(span, str):
            return Pending(span)
        own = span.failed.get(rule.symbol) or span.closes.get(rule.symbol)
        own = own or closes_of(self._market, rule.symbol, rule.day, last, self._pays)
        if isinstance(own, str):
            return Pending(own)
        return resolution(self._market, rule, span, own)

    def _span(self, rule: BeatsMedian, last: dt.date) -> Span | str:
        key = (rule.universe, rule.day, last)
        if key not in self._spans:
            try:
                self._spans[key] = span_of(
                    self._market, members_on(rule.universe, self._market, rule.day), rule.day, last, self._pays
                )
            except DeskError as error:
                self._spans[key] = f"the members of {rule.universe} are not known: {error}"
        return self._spans[key]


def members_on(universe: str, market: MarketData, day: dt.date) -> list[str]:
    """Return the members on a day where the market has its past, so that those that left later count; else today's."""
    return members(
        universe,
        market.on(ReplayClock(day, exchange=market.clock.exchange)) if isinstance(market, RecordedSessions) else market,
    )


def resolution(market: MarketData, rule: BeatsMedian, span: Span, own: Closes) -> Resolution:
    lacking = [day for day, close in ((span.first, own.first), (span.last, own.last)) if close is None]
    count = f"{span.with_both} of {len(span.closes)} members of {rule.universe}"
    if not span.is_enough:
        return Pending(f"the {market.name} market has closes of {span.first} and {span.last} of {count} alone")
    if lacking or own.change is None or span.median is None:
        days = " and ".join(map(str, lacking))
        return Pending(f"the {market.name} market has no bar of {rule.symbol} of {days}")
    evidence = {
        "source": f"daily closes of the {market.name} market",
        "as_of": market.clock.now().isoformat(),
        "first": {"session": str(span.first), "close": own.first},
        "last": {"session": str(own.ended or span.last), "close": own.last},
        "return": own.change,
        "universe": rule.universe,
        "median": span.median,
        "members": len(span.closes),
        "with_both_closes": span.with_both,
        "without": len(span.closes) - span.with_both,
        "prices": "adjusted for splits and dividends" if own.adjusted else "not adjusted: a split shows as a move",
    }
    return Resolved(beats(own.change, span.median), evidence)


def span_of(
    market: MarketData, symbols: Iterable[str], first: dt.date, last: dt.date, delisted_pays: float = 1.0
) -> Span:
    asked = list(dict.fromkeys(symbols))
    if isinstance(market, Prefetching):
        market.prefetch(asked, PREFETCH_SECONDS)
    found = {symbol: closes_of(market, symbol, first, last, delisted_pays) for symbol in asked}
    closes = {symbol: one if isinstance(one, Closes) else Closes(None, None) for symbol, one in found.items()}
    failed = {symbol: one for symbol, one in found.items() if isinstance(one, str)}
    changes = [change for one in closes.values() if (change := one.change) is not None]
    return Span(first, last, closes, float(np.median(changes)) if changes else None, len(changes), failed)


def closes_of(
    market: MarketData, symbol: str, first: dt.date, last: dt.date, delisted_pays: float = 1.0
) -> Closes | str:
    hours = hours_of(symbol)
    back = len(hours.between(first, market.clock.session())) + _SPARE_BARS
    try:
        bars = market.bars(symbol, back)
    except DeskError as error:
        return str(error)
    place = {day: at for at, day in enumerate(bars.dates)}
    start, end, ended = _close(bars.close, place.get(first)), _close(bars.close, place.get(last)), None
    if last not in place and (market.clock.session() - last).days > STALE_DAYS:
        between = [
            at for at, day in enumerate(bars.dates) if first <= day < last and _close(bars.close, at) is not None
        ]
        if between:
            gone = vanished(market, symbol) is not None
            ended, end = bars.dates[between[-1]], float(bars.close[between[-1]]) * (delisted_pays if gone else 1.0)
    return Closes(start, end, bars.adjusted, ended)


def _close(closes: Floats, at: int | None) -> float | None:
    if at is None or not np.isfinite(closes[at]) or closes[at] <= 0:
        return None
    return float(closes[at])

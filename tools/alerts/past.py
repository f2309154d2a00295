"""An alert tried over past sessions: when it would have fired, and what the price did afterwards.

A session is looked at once, by its daily bar: its high or low, then its close, or the close alone where the condition
has to last. What happened within a session in another order is not known.
"""

from __future__ import annotations

import datetime as dt
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from chordesk.models.alerts.tables import AlertsAlert
from chordesk.models.answers import Frozen
from chordesk.models.errors import MarketError, UsageError
from chordesk.models.exchanges import exchange_code
from chordesk.tools.alerts.conditions import Condition, condition_of
from chordesk.tools.alerts.crossing import Crossing, Terms, Tick, step
from chordesk.tools.alerts.market_looks import beyond, earnings_look, prices_of, rating_of, volume_ratio
from chordesk.tools.market.clock import ExchangeHours, day_of, exchange_hours
from chordesk.tools.market.prices import actions_of, split_in_doubt, splits_since, traded_bars
from chordesk.tools.market.protocol import Action, Bars, EarningsSource, MarketData, RatingsSource

HORIZONS = (1, 5, 20)
BEFORE = 21  # sessions that the first look may need
MOST_SESSIONS = 2_600


class TrialFiring(Frozen):
    """after: what the close did over so many sessions, None where they are still to come or a bar is missing."""

    day: dt.date
    symbol: str
    why: str
    price: float | None
    after: list[float | None]


class Trial(Frozen):
    """unknown: looks of which nothing was known. medians: of what followed, by horizon, beside those of all sessions
    that were looked at."""

    alert: str
    first: dt.date
    last: dt.date
    sessions: int
    firings: list[TrialFiring]
    unknown: int
    horizons: list[int] = list(HORIZONS)
    medians: list[float | None]
    usual: list[float | None]
    notes: list[str]

    @property
    def said(self) -> str:
        count = len(self.firings)
        text = f"{self.alert} fired {count} time{'s' * (count != 1)} from {self.first} to {self.last}"
        parts = [
            f"{one:+.1%} in {count} session{'s' * (count != 1)} (usually {usual:+.1%})"
            for count, one, usual in zip(self.horizons, self.medians, self.usual, strict=True)
            if one is not None and usual is not None
        ]
        return f"{text}; then the price moved {', '.join(parts)} at the median" if parts else text


def tried(row: AlertsAlert, symbols: Sequence[str], market: MarketData, first: dt.date, last: dt.date | None) -> Trial:
    """Raises UsageError for a condition that past sessions do not show, and a span without any."""
    condition = condition_of(row.condition)
    if not condition.kind.past:
        reason = f"{condition.kind.name} cannot be tried: what was there to see on past days is not kept"
        raise UsageError(reason, remedy="price, move, volume, earnings and rating can")
    known = market.clock.session(exchange_code(symbols[0]) if symbols else None)
    until = min(last or known, known)
    if first > until:
        raise UsageError(f"{first} is after {until}", remedy=f"the market's last session is {known}")
    found: list[TrialFiring] = []
    usual: list[list[float]] = [[] for _ in HORIZONS]
    unknown, notes, count = 0, list[str](), 0
    for symbol in symbols:
        hours = exchange_hours(exchange_code(symbol))
        days = hours.between(first, until)
        if len(days) > MOST_SESSIONS:
            raise UsageError(f"{len(days):,} sessions are too many", remedy=f"try at most {MOST_SESSIONS:,}")
        if not days:
            raise UsageError(f"there is no session from {first} to {until}", remedy="give a longer span")
        try:
            walk = _Walk(row, condition, symbol, market, hours, days)
            found += list(walk.firings())
        except MarketError as error:
            notes.append(f"{symbol}: {error.args[0]}")
            continue
        unknown, count = unknown + walk.unknown, max(count, len(days))
        for all_, more in zip(usual, walk.usual(), strict=True):
            all_ += more
    found.sort(key=lambda one: (one.day, one.symbol))
    after = [[one.after[at] for one in found] for at in range(len(HORIZONS))]
    notes += [f"{unknown} looks saw nothing"] if unknown else []
    return Trial(
        alert=row.name, first=first, last=until, sessions=count, firings=found, unknown=unknown,
        medians=[_median([each for each in one if each is not None]) for one in after],
        usual=[_median(one) for one in usual], notes=notes,
    )  # fmt: skip


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


class _Walk:
    """One symbol over its sessions."""

    def __init__(
        self, row: AlertsAlert, condition: Condition, symbol: str, market: MarketData, hours: ExchangeHours,
        days: Sequence[dt.date],
    ) -> None:  # fmt: skip
        self._row, self._condition, self._symbol, self._hours, self._days = row, condition, symbol, hours, days
        self._market, self.unknown = market, 0
        now = day_of(market.clock.now(), symbol)
        span = len(hours.between(days[0], now)) + BEFORE if days else BEFORE
        self._bars: Bars = traded_bars(market, symbol, span)
        self._places = {_date(day): place for place, day in enumerate(self._bars.dates)}
        first = _date(self._bars.dates[0])
        self._actions: Sequence[Action] = actions_of(market, symbol, first)
        self._grown = splits_since(market, symbol, row.written_on)
        self._fired: float | None = None

    def firings(self) -> Iterator[TrialFiring]:
        walk = self._happened() if self._condition.kind.name in ("volume", "rating") else self._crossings()
        for day, why in walk:
            place = self._places.get(day)
            price = float(self._bars.close[place]) if place is not None else None
            yield TrialFiring(day=day, symbol=self._symbol, why=why, price=price, after=self._after(day))

    def usual(self) -> list[list[float]]:
        found = [self._after(day) for day in self._days]
        return [[one[at] for one in found if one[at] is not None] for at in range(len(HORIZONS))]  # type: ignore[misc]

    def _after(self, day: dt.date) -> list[float | None]:
        place = self._places.get(day)
        return [self._later(day, place, count) for count in HORIZONS]

    def _later(self, day: dt.date, place: int | None, count: int) -> float | None:
        if place is None:
            return None
        try:
            later = self._places.get(self._hours.after(day, count))
        except MarketError:
            return None
        return float(self._bars.close[later] / self._bars.close[place] - 1) if later is not None else None

    def _crossings(self) -> Iterator[tuple[dt.date, str]]:
        rearm = self._row.rearm
        row, anew = self._row, self._condition.anew
        terms = Terms(row.for_minutes, rearm, row.cooldown_minutes, self._hours, anew)  # type: ignore[arg-type]
        state, looks = Crossing(), self._looks()
        for day in self._days:
            ticks = looks(day)
            for tick, text in ticks:
                self.unknown += tick.beyond is None
                state, fires = step(state, tick, terms)
                if fires:
                    if self._places.get(day) is not None:
                        self._fired = float(self._bars.close[self._places[day]])
                    yield day, f"{self._condition.said}: {text}"

    def _looks(self) -> Callable[[dt.date], list[tuple[Tick, str]]]:
        if self._condition.kind.name == "earnings":
            if not isinstance(self._market, EarningsSource):
                raise MarketError(f"the {self._market.name} market has no days of earnings")
            rows = self._market.earnings(self._symbol)

            def of_day(day: dt.date) -> list[tuple[Tick, str]]:
                at = self._hours.close_of(day)
                dates = [one.date for one in rows if one.known_at <= at and one.date >= day]
                if not dates:
                    return [(Tick(at, day, None), "no day is known")]
                look = earnings_look(min(dates), day, at, self._condition)
                return [(look.ticks[0], look.texts[0])]

            return of_day
        return self._of_bar

    def _of_bar(self, day: dt.date) -> list[tuple[Tick, str]]:
        at, place = self._hours.close_of(day), self._places.get(day)
        if place is None:
            return [(Tick(at, day, None), "no bar")]
        before = self._places.get(self._hours.until(day, 2)[0])
        reference = self._reference(place, before)
        if reference is None or self._in_doubt(before, place, day):
            return [(Tick(at, day, None), "nothing to measure it by")]
        prices = prices_of(self._bars, place, self._condition.given["side"], lasting=self._row.for_minutes > 0)
        ticks = [(Tick(at, day, self._beyond(price, reference)), f"{price:,.2f}") for price in prices]
        if len(ticks) == 3:  # high, low, close: the farther of the two, then the close
            ticks = [max(ticks[:2], key=lambda one: one[0].beyond or 0.0), ticks[2]]
        return ticks

    def _beyond(self, price: float, reference: float) -> float:
        return beyond(self._condition, price, reference)

    def _reference(self, place: int, before: int | None) -> float | None:
        """Return the level, or the price from which a move counts. Bars are in shares of today, and so is the level."""
        if self._condition.kind.name == "price":
            return float(self._condition.given["threshold"]) / self._grown
        since = self._condition.given["since"]
        if since == "firing":
            self._fired = self._fired if self._fired is not None else float(self._bars.close[place])
            return self._fired
        found = self._bars.open[place] if since == "open" else self._bars.close[before] if before is not None else None
        return float(found) if found is not None and math.isfinite(found) else None

    def _in_doubt(self, before: int | None, place: int, day: dt.date) -> bool:
        if before is None or before == place:
            return False
        opened, last = float(self._bars.open[place]), float(self._bars.close[before])
        price = opened if math.isfinite(opened) else float(self._bars.close[place])
        known = any(_date(self._bars.dates[before]) < one.day <= day for one in self._actions)
        return not known and split_in_doubt(last, price) is not None

    def _happened(self) -> Iterator[tuple[dt.date, str]]:
        """Yield what is new on each day but the first, whose look only arms."""
        if self._condition.kind.name == "volume":
            yield from self._volumes()
            return
        if not isinstance(self._market, RatingsSource):
            raise MarketError(f"the {self._market.name} market has no ratings")
        rows = sorted(self._market.rating_changes(self._symbol), key=lambda one: one.known_at)
        for earlier, day in pairwise(self._days):
            since, until = self._hours.close_of(earlier), self._hours.close_of(day)
            fresh = [one for one in rows if since < one.known_at <= until]
            if fresh:
                one = fresh[0]
                yield day, rating_of(one.firm, one.rating, one.prior_rating, one.known_at)[1]

    def _volumes(self) -> Iterator[tuple[dt.date, str]]:
        for number, day in enumerate(self._days):
            try:
                place = self._places[day]
                ratio = volume_ratio(self._bars, place, self._symbol)
            except (KeyError, MarketError):
                self.unknown += 1
                continue
            if number and ratio >= self._condition.given["threshold"]:
                yield day, f"{ratio:.1f} times the usual volume"


def _date(day: dt.date) -> dt.date:
    return day.date() if isinstance(day, dt.datetime) else day

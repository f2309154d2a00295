"""What a market says of an alert's condition on one symbol now."""

from __future__ import annotations

import datetime as dt
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from chordesk.models.errors import MarketError, MarketUnavailable, NotConfigured
from chordesk.models.exchanges import exchange_code
from chordesk.tools.alerts.conditions import Condition
from chordesk.tools.alerts.crossing import Tick
from chordesk.tools.market.clock import day_of, hours_of
from chordesk.tools.market.prices import doubt, lapse, splits_since, traded_bars
from chordesk.tools.market.protocol import Bars, EarningsSource, MarketData, RatingsSource

VOLUME_SESSIONS, LEAST_SESSIONS = 20, 18
MOST_HEADLINES = 20


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen. ticks: of a condition with a threshold, in the order of time; found: (id, text) of what happened,
    of one without; None where that is not known, then `why` says why. value, reference: for people."""

    ticks: Sequence[Tick] = ()
    found: Sequence[tuple[str, str]] | None = None
    why: str = ""
    value: float | None = None
    reference: float | None = None
    texts: Sequence[str] = ()  # of the ticks


@dataclass(slots=True)
class MarketLooks:
    """max_age: of a quote, in minutes."""

    market: MarketData
    max_age: float
    now: dt.datetime = field(init=False)

    def __post_init__(self) -> None:
        self.now = self.market.clock.now()

    def look(
        self, condition: Condition, symbol: str, written_on: dt.date, reference: float | None, *, lasting: bool
    ) -> Look:
        """Return what the condition is on a symbol. written_on: the day from which splits move its level; reference:
        the price of its last firing; lasting: it has to hold for some minutes. Raises MarketUnavailable."""
        try:
            match condition.kind.name:
                case "price":
                    return self._price(condition, symbol, written_on, lasting=lasting)
                case "move":
                    return self._move(condition, symbol, written_on, reference, lasting=lasting)
                case "volume":
                    return self._volume(condition, symbol)
                case "headline":
                    return self._headlines(condition, symbol)
                case "earnings":
                    return self._earnings(condition, symbol)
                case _:
                    return self._ratings(symbol)
        except MarketUnavailable:
            raise
        except (MarketError, NotConfigured) as error:
            return self._unknown(symbol, str(error.args[0]))

    def _unknown(self, symbol: str, why: str) -> Look:
        return Look(ticks=[Tick(self.now, day_of(self.now, symbol), None, why)], why=why)

    def _price(self, condition: Condition, symbol: str, written_on: dt.date, *, lasting: bool) -> Look:
        level = condition.given["threshold"] / splits_since(self.market, symbol, written_on)
        return self._measured(condition, symbol, self._prices(symbol, condition, lasting=lasting), level)

    def _move(
        self, condition: Condition, symbol: str, written_on: dt.date, fired: float | None, *, lasting: bool
    ) -> Look:
        prices, since = self._prices(symbol, condition, lasting=lasting), condition.given["since"]
        if since == "firing":
            reference = prices[-1] if fired is None else fired / splits_since(self.market, symbol, written_on)
        else:
            reference = self._reference(symbol, since)
        return self._measured(condition, symbol, prices, reference)

    def _measured(self, condition: Condition, symbol: str, prices: Sequence[float], reference: float) -> Look:
        if (why := doubt(self.market, symbol, prices[-1])) is not None:
            return self._unknown(symbol, why)
        if len(prices) == 3:  # high, low, close: the farther of the two, then the close
            prices = [max(prices[:2], key=lambda price: beyond(condition, price, reference)), prices[2]]
        day = day_of(self.now, symbol)
        ticks = [Tick(self.now, day, beyond(condition, price, reference)) for price in prices]
        return Look(ticks=ticks, value=prices[-1], reference=reference, texts=[f"{price:,.2f}" for price in prices])

    def _prices(self, symbol: str, condition: Condition, *, lasting: bool) -> list[float]:
        """Return the price now. Where a day stands still, what it was from its open on: its high or low, and its close;
        the close alone of what has to last."""
        if self.market.clock.day is None:
            quote = self.market.quote(symbol)
            age = (self.now - quote.at).total_seconds() / 60
            if age > self.max_age:
                raise MarketError(f"the last quote of {symbol} is {age:,.0f} minutes old")
            return [float(quote.price)]
        bars = self._today(symbol)
        return prices_of(bars, -1, condition.given["side"], lasting=lasting)

    def _today(self, symbol: str, sessions: int = 2) -> Bars:
        bars = traded_bars(self.market, symbol, sessions)
        if (why := lapse(_date(bars, -1), self.market.clock.session(exchange_code(symbol)))) is not None:
            raise MarketError(f"{symbol}: {why}")
        return bars

    def _reference(self, symbol: str, since: str) -> float:
        """Raises MarketError where it is not known: nothing stands in for it."""
        bars, today = traded_bars(self.market, symbol, 2), day_of(self.now, symbol)
        if since == "open":
            if _date(bars, -1) != today or math.isnan(found := float(bars.open[-1])):
                raise MarketError(f"the open of {symbol} on {today} is not known")
            return found
        hours = hours_of(symbol)
        before = hours.until(hours.on_or_after(today), 2)[0]
        places = [place for place, day in enumerate(bars.dates) if day == before]
        if not places:
            raise MarketError(f"the close of {symbol} on {before} is not known")
        return float(bars.close[places[0]])

    def _volume(self, condition: Condition, symbol: str) -> Look:
        bars = self._today(symbol, VOLUME_SESSIONS + 1)
        ratio, day = volume_ratio(bars, len(bars.dates) - 1, symbol), _date(bars, -1)
        times = condition.given["threshold"]
        text = f"{ratio:.1f} times the usual volume on {day}"
        return Look(found=[(day.isoformat(), text)] if ratio >= times else [], value=ratio, reference=times)

    def _headlines(self, condition: Condition, symbol: str) -> Look:
        wanted = condition.given["words"]
        rows = self.market.headlines(symbol, MOST_HEADLINES)
        fits = [one for one in rows if not wanted or any(word in one.headline.lower() for word in wanted)]
        found = [(_digest(one.headline, one.published_at.isoformat()), one.headline) for one in fits]
        return Look(found=found, value=float(len(found)))

    def _earnings(self, condition: Condition, symbol: str) -> Look:
        if not isinstance(self.market, EarningsSource):
            raise NotConfigured(f"the {self.market.name} market has no days of earnings")
        today = day_of(self.now, symbol)
        dates = [one.date for one in self.market.earnings(symbol) if one.known_at <= self.now and one.date >= today]
        if not dates:
            raise MarketError(f"no day of the next earnings of {symbol} is known")
        return earnings_look(min(dates), today, self.now, condition)

    def _ratings(self, symbol: str) -> Look:
        if not isinstance(self.market, RatingsSource):
            raise NotConfigured(f"the {self.market.name} market has no ratings")
        rows = [one for one in self.market.rating_changes(symbol) if one.known_at <= self.now]
        found = [rating_of(one.firm, one.rating, one.prior_rating, one.known_at) for one in rows]
        return Look(found=found, value=float(len(found)))


def beyond(condition: Condition, price: float, reference: float) -> float:
    """Return how far a price is beyond a level, in parts of it, or a move beyond its share; below 0 on the other side.
    reference: the level, or the price from which the move counts."""
    move = round(price / reference - 1, 9)  # 105 is 5 % above 100, whatever a float makes of it
    if condition.kind.name == "price":
        return move if condition.given["side"] == "above" else -move
    sided = {"up": move, "down": -move}.get(condition.given["side"], abs(move))
    return round(float(sided / condition.given["threshold"] - 1), 9)


def prices_of(bars: Bars, place: int, side: str, *, lasting: bool) -> list[float]:
    """Return what a session's bar is to a condition: its high or low, or both, and then its close. What has to last for
    some minutes has its close alone: a high is of one moment."""
    close, high, low = (float(values[place]) for values in (bars.close, bars.high, bars.low))
    if lasting or math.isnan(high) or math.isnan(low):
        return [close]
    first = {"above": [high], "up": [high], "below": [low], "down": [low]}.get(side, [high, low])
    return [*first, close]


def volume_ratio(bars: Bars, place: int, symbol: str) -> float:
    """Return a session's volume over the mean of the 20 sessions before it. Raises MarketError with fewer than 18."""
    hours, day = hours_of(symbol), _date(bars, place)
    before = set(hours.until(day, VOLUME_SESSIONS + 1)[:-1])
    known = [float(bars.volume[at]) for at in range(place) if _date(bars, at) in before]
    known = [one for one in known if math.isfinite(one)]
    today = float(bars.volume[place])
    if len(known) < LEAST_SESSIONS or not math.isfinite(today):
        raise MarketError(f"{symbol} has a volume of {len(known)} of the {VOLUME_SESSIONS} sessions before {day}")
    mean = sum(known) / len(known)
    if mean <= 0:
        raise MarketError(f"{symbol} was not traded in the {VOLUME_SESSIONS} sessions before {day}")
    return today / mean


def earnings_look(date: dt.date, today: dt.date, now: dt.datetime, condition: Condition) -> Look:
    days, most = (date - today).days, condition.given["threshold"]
    text = f"reports on {date}, in {days} days"
    return Look(ticks=[Tick(now, today, (most - days) / most)], value=float(days), reference=most, texts=[text])


def rating_of(firm: str, rating: str | None, prior: str | None, at: dt.datetime) -> tuple[str, str]:
    was = f" (was {prior})" if prior and prior != rating else ""
    return _digest(firm, str(rating), at.isoformat()), f"{firm}: {rating or 'no rating'}{was}"


def _date(bars: Bars, place: int) -> dt.date:
    day = bars.dates[place]
    return day.date() if isinstance(day, dt.datetime) else day


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]

"""Prices of a market: daily bars and the sessions that they are of, intraday bars, quotes."""

from __future__ import annotations

import bisect
import datetime as dt
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from chordesk.models.errors import DeskError, MarketError, NotConfigured
from chordesk.models.exchanges import HOME, exchange_code
from chordesk.models.market import OptionChain, Quote, parse_contract, plain_name, root_of
from chordesk.tools.market.clock import clock_day, day_of, exchange_day, exchange_hours
from chordesk.tools.market.fx import MarketRates
from chordesk.tools.market.protocol import (
    Action,
    ActionSource,
    Bars,
    ChainSource,
    Floats,
    Incomplete,
    Intraday,
    MarketData,
    OptionSource,
    RenameSource,
)

# A close-to-close move of a 2:1 split or of a reverse one; where prices are not adjusted, it may be no move at all.
_SPLIT_LIKE = (-0.45, 0.80)
# A name without a bar for more than this many days has left the market: its last price is not a price now.
STALE_DAYS = 10
# Share of a window's sessions without a bar, up to which its figures are of the others.
MOST_MISSING = 0.1


@dataclass(frozen=True, slots=True)
class History:
    """A name's bars within a look-back that ends with the market's latest session."""

    symbol: str
    bars: Bars  # the name's bars
    spread: Bars  # a row for each session from the first bar on, not a number where the name has none
    run: Bars  # the last bars without a missing session among them

    def kept(self, sessions: int) -> Bars:
        """The last sessions where at most a tenth have no bar; else the unbroken run at the end."""
        wanted = min(sessions, len(self.spread.dates))
        first = self.spread.dates[-wanted]
        there = len(self.bars.dates) - bisect.bisect_left(self.bars.dates, first)
        return self.bars.last(there) if wanted - there <= wanted * MOST_MISSING else self.run.last(sessions)

    def window(self, sessions: int) -> Bars | None:
        """The bars of exactly the last `sessions` sessions; None in a younger history, or where more than a tenth of
        them have none."""
        if len(self.spread.dates) < sessions:
            return None
        kept = self.kept(sessions)
        return kept if len(kept.dates) >= sessions * (1 - MOST_MISSING) else None

    @property
    def whole(self) -> Bars:
        """The bars that a figure without an end goes over: all, or those of the run where more than a tenth lack."""
        return self.kept(len(self.spread.dates))


def history_of(bars: Bars, sessions: Sequence[dt.date]) -> History:
    """Return bars as a history over these sessions of their market, in ascending order, which end with the bars'. A bar
    of a day that is not a session of the market is left out."""
    inside = bars.last(len(bars.dates) - bisect.bisect_left(bars.dates, sessions[0]))
    count = len(inside.dates)
    if count <= len(sessions) and inside.dates[0] == sessions[-count]:
        return History(bars.symbol, inside, inside, inside)
    inside = _among(inside, frozenset(sessions))
    count = len(inside.dates)
    if inside.dates[0] == sessions[-count]:
        return History(bars.symbol, inside, inside, inside)
    run = next(back for back in range(count) if inside.dates[-1 - back] != sessions[-1 - back])
    return History(bars.symbol, inside, _spread(inside, sessions), inside.last(run))


def _among(bars: Bars, sessions: frozenset[dt.date]) -> Bars:
    kept = [place for place, day in enumerate(bars.dates) if day in sessions]
    figures = (values[kept] for values in (bars.open, bars.high, bars.low, bars.close, bars.volume))
    return Bars(bars.symbol, [bars.dates[place] for place in kept], bars.adjusted, *figures)


def _spread(bars: Bars, sessions: Sequence[dt.date]) -> Bars:
    import numpy as np  # who asks for a quote or a day has no use for it

    days = sessions[bisect.bisect_left(sessions, bars.dates[0]) :]
    places = np.searchsorted([day.toordinal() for day in days], [day.toordinal() for day in bars.dates])

    def spread(values: Floats) -> Floats:
        wide = np.full(len(days), np.nan)
        wide[places] = values
        return wide

    figures = (bars.open, bars.high, bars.low, bars.close, bars.volume)
    return Bars(bars.symbol, days, bars.adjusted, *map(spread, figures))


def adjusted_for(bars: Bars, actions: Sequence[Action], *, dividends: bool) -> Bars:
    """Bars before each action brought to the level after it: by splits, and by dividends where asked for."""
    places = [(bisect.bisect_left(bars.dates, action.day), action) for action in actions]
    places = [(place, action) for place, action in places if place]
    if not places:
        return replace(bars, adjusted=bars.adjusted or dividends)
    prices, volume = {name: getattr(bars, name).copy() for name in ("open", "high", "low", "close")}, bars.volume.copy()
    for place, action in places:
        for values in prices.values():
            values[:place] /= action.growth if dividends else action.split
        volume[:place] *= action.split
    return replace(bars, adjusted=bars.adjusted or dividends, volume=volume, **prices)


def actions_of(market: MarketData, symbol: str, since: dt.date) -> Sequence[Action]:
    """Return what happened to a symbol's shares after a day and up to now; none where the market does not know."""
    return market.actions(symbol, since) if isinstance(market, ActionSource) else ()


def renamed(market: MarketData, symbol: str) -> tuple[str, dt.date] | None:
    """Return the name that a share bears instead and its first day; None for its own name."""
    return market.renamed(symbol) if isinstance(market, RenameSource) else None


def name_now(market: MarketData, symbol: str) -> str:
    while (change := renamed(market, symbol)) is not None:
        symbol = change[0]
    return symbol


def named_on(market: MarketData, symbol: str) -> dt.date | None:
    """Return the first day of a name that followed another; None for a first name."""
    former = names_of(market, symbol)[1:]
    change = renamed(market, former[0]) if former else None
    return change[1] if change is not None else None


def names_of(market: MarketData, symbol: str) -> list[str]:
    """Return a symbol and the names that its shares had before."""
    return [symbol, *(market.former(symbol) if isinstance(market, RenameSource) else ())]


def splits_since(market: MarketData, symbol: str, day: dt.date) -> float:
    """Return how many shares of today one share of that day has become."""
    return math.prod(action.split for action in actions_of(market, symbol, day))


def traded_bars(market: MarketData, symbol: str, sessions: int) -> Bars:
    """Daily bars at which orders fill: as traded, in shares of today."""
    return market.traded(symbol, sessions) if isinstance(market, ActionSource) else market.bars(symbol, sessions)


def is_like_a_split(move: float) -> bool:
    """move: from a close to the next, 0.8 is +80 %."""
    return move <= _SPLIT_LIKE[0] or move >= _SPLIT_LIKE[1]


def moves_like_splits(close: Floats) -> list[int]:
    """Return the places of the bars whose close moved from the one before as by a split."""
    import numpy as np

    moves = close[1:] / close[:-1] - 1
    places: list[int] = (np.flatnonzero((moves <= _SPLIT_LIKE[0]) | (moves >= _SPLIT_LIKE[1])) + 1).tolist()
    return places


def split_in_doubt(last: float, price: float) -> str | None:
    """Return the split, as 2:1, that a first price of a session is like after the last close; None for any other move.

    The caller has seen that the market knows no action between the two. A source may learn a split a day late, and a
    price that falls by half is then no loss, while a company may lose half its worth overnight: the two look alike for
    as long as the session lasts. So nothing that rests on a level is carried out in that session alone, and the next
    one decides. In a real fall that costs the move of one session, as likely up as down; in a late split it saves a
    sale of shares that lost nothing. Splits below 9:5, such as 3:2, move the price less than news often do, and so are
    not in doubt.
    """
    if not (last > 0 and price > 0 and is_like_a_split(price / last - 1)):
        return None
    return f"{last / price:.0f}:1" if last > price else f"1:{price / last:.0f}"


def doubt(market: MarketData, symbol: str, price: float) -> str | None:
    """Return why levels of a symbol wait in the session of now: its price moved like a split that the data do not
    know. price: the last one, for a session whose open is not known."""
    today = day_of(market.clock.now(), symbol)
    try:
        bars = traded_bars(market, symbol, 2)
    except MarketError:
        return None
    before = [place for place, day in enumerate(bars.dates) if day < today]
    if not before or (today - (last := bars.dates[before[-1]])).days > STALE_DAYS:
        return None
    if bars.dates[-1] == today:
        opened = float(bars.open[-1])
        price = float(bars.close[-1]) if math.isnan(opened) else opened
    split = split_in_doubt(float(bars.close[before[-1]]), price)
    if split is None or any(action.day <= today for action in actions_of(market, symbol, last)):
        return None
    return in_doubt(symbol, split, today)


def in_doubt(symbol: str, split: str, day: dt.date) -> str:
    return (
        f"the price of {symbol} moved like a {split} split on {day} that the data do not know: stops, limits and plans "
        "wait for the action or the next session; an order at market is carried out at once"
    )


def lapse(last: dt.date, latest: dt.date) -> str | None:
    """Return why a name whose newest bar is of `last` has no current price; None when it is of the latest session."""
    if last >= latest:
        return None
    if (latest - last).days > STALE_DAYS:
        return f"not traded since {last}"
    return f"no bar of {latest}, the market's latest session; the last is of {last}"


def vanished(market: MarketData, symbol: str) -> tuple[dt.date, float] | None:
    """Return the last session and close of a name that has left a market of past days: one that has no bar for more
    than STALE_DAYS. None for any other, and in real time, where a source may have a hole."""
    if market.clock.day is None:
        return None
    try:
        bars = market.bars(symbol, 1)
    except MarketError:
        return None
    last = bars.dates[-1]
    latest = market.clock.session(exchange_code(symbol))
    return (last, float(bars.close[-1])) if (latest - last).days > STALE_DAYS else None


def no_current_price(market: MarketData, symbol: str) -> str | None:
    try:
        return lapse(market.bars(symbol, 1).dates[-1], market.clock.session(exchange_code(symbol)))
    except DeskError as error:
        return str(error)


def lost_sessions(market: MarketData, sessions: int) -> Sequence[dt.date]:
    return market.lost(sessions) if isinstance(market, Incomplete) else ()


def previous_session(market: MarketData) -> dt.date | None:
    """Return the market's last session before the exchange's today; None when it is not known."""
    today = clock_day(market.clock)
    try:
        return next((day for day in reversed(market.sessions(2)) if day < today), None)
    except MarketError:
        return None


IntradayInterval = Literal["hour", "15min"]
MINUTES: Mapping[IntradayInterval, int] = {"hour": 60, "15min": 15}
_SETTLING = dt.timedelta(minutes=30)  # a source may be late by so much with a session's first bar


def slots(until: dt.datetime, minutes: int, sessions: int, exchange: str = HOME) -> list[dt.datetime]:
    """Return the starts of the bars of the last so many regular sessions that have begun, up to a moment, in ascending
    order; the last bar of a session ends with it, however long it is."""
    hours, step = exchange_hours(exchange), dt.timedelta(minutes=minutes)
    begun = bisect.bisect_left(hours.opens, until)
    found = []
    for opened, closed in zip(
        hours.opens[max(begun - sessions, 0) : begun], hours.closes[:begun][-sessions:], strict=True
    ):
        count = -(-int((min(closed, until) - opened).total_seconds()) // int(step.total_seconds()))
        found += [(opened + place * step).astimezone(hours.zone) for place in range(count)]
    return found


def end_of(start: dt.datetime, minutes: int, exchange: str = HOME) -> dt.datetime:
    """Return when a bar ends: after so many minutes, or with its session."""
    closes = exchange_hours(exchange).close_of(exchange_day(start, exchange))
    return min(start + dt.timedelta(minutes=minutes), closes)


def intraday_of(
    symbol: str, rows: Mapping[str, Sequence[float]], starts: Sequence[dt.datetime], minutes: int, sessions: int,
    until: dt.datetime, goes_on: bool,
) -> Intraday:  # fmt: skip
    """Return what a source's rows are at the slots of the last so many sessions. A row that begins at no slot, such as
    one before the open, is left out.

    rows: open, high, low, close and volume, as long as `starts`; until: the moment up to which the source is known;
    goes_on: whether a bar that had not ended then is given. Raises MarketError when there is none of the last session.
    """
    import numpy as np

    code = exchange_code(symbol)
    if (hours := exchange_hours(code)).pauses:
        raise NotConfigured(f"not available: intraday bars of {symbol}, whose exchange has a lunch break")
    starts_of = slots(until, minutes, sessions, code)
    wanted = [start for start in starts_of if goes_on or end_of(start, minutes, code) <= until]
    places = {start: place for place, start in enumerate(starts)}
    held = [places.get(start) for start in wanted]
    known = [at for at, place in enumerate(held) if place is not None]
    if not known:
        raise MarketError(f"{symbol} has no intraday bars of the last {sessions} sessions")
    last = wanted[known[-1]]
    today = exchange_day(wanted[-1], code)
    if exchange_day(last, code) < today and until - hours.open_of(today) > _SETTLING:
        raise MarketError(f"{symbol} has no intraday bar of {today}; its last one begins at {last:%Y-%m-%d %H:%M}")
    line, held = wanted[known[0] : known[-1] + 1], held[known[0] : known[-1] + 1]

    def column(name: str) -> Floats:
        return np.array([rows[name][place] if place is not None else np.nan for place in held])

    spread = Bars(symbol, line, False, *map(column, ("open", "high", "low", "close", "volume")))
    inside = np.isfinite(spread.close)
    figures = (values[inside] for values in (spread.open, spread.high, spread.low, spread.close, spread.volume))
    bars = Bars(symbol, [start for start, has in zip(line, inside, strict=True) if has], False, *figures)
    holes = np.flatnonzero(~inside)
    run = bars.last(len(line) - int(holes[-1]) - 1) if len(holes) else bars
    return Intraday(bars, spread, run, end_of(last, minutes, code) > until)


def stamped(day: dt.date) -> str:
    return day.isoformat(timespec="minutes") if isinstance(day, dt.datetime) else day.isoformat()


AVERAGE_COST = "average cost"
LEAST_PRICE = 0.0001


def quote_of(market: MarketData, symbol: str) -> Quote:
    """Raises MarketError without a price, NotConfigured if the market prices no contracts."""
    if parse_contract(symbol) is None:
        return market.quote(symbol)
    if not isinstance(market, OptionSource):
        raise NotConfigured(
            f"not available: the {market.name} market has no option quotes; configure DESK_MARKET=yahoo for them"
        )
    return market.option_quote(symbol)


def chain_of(market: MarketData, symbol: str, first: dt.date, last: dt.date) -> OptionChain:
    """Raises MarketError when there are none, NotConfigured when the market has no chains."""
    if not isinstance(market, ChainSource):
        modelled = ", or DESK_REPLAY_OPTIONS=modelled for modelled ones" if market.clock.day is not None else ""
        own = plain_name(market.name) == "files"
        how = "add chains.csv to the folder of DESK_DATA" if own else "configure DESK_MARKET=yahoo for them"
        reason = f"the {market.name} market has no option chains; {how}{modelled}"
        raise NotConfigured(f"not available: {reason}")
    return market.chain(symbol, first, last)


def share_of(market: MarketData, root: str) -> str:
    """Return the symbol of the share whose contracts have a root, such as BRK.B of BRKB, as far as the market's listed
    universe knows it; else the root itself, which most symbols are."""
    try:
        listed = market.universe("sp500")
    except DeskError:
        return root
    return next((one.symbol for one in listed if one.symbol != root and root_of(one.symbol) == root), root)


def met_by(quote: Quote, side: str) -> Quote:
    """Return the quote as an order meets it, exactly: the ask for a buy, the bid for a sale; as it is where its source
    gives neither. Raises MarketError where it gives the other one alone."""
    if quote.bid is None and quote.ask is None:
        return quote
    name, met = ("ask", quote.ask) if side == "buy" else ("bid", quote.bid)
    if met is None:
        raise MarketError(f"{quote.symbol} has no {name}")
    return quote.model_copy(update={"price": met, "low": met, "high": met})


def at_cost(symbol: str, average_cost: float, now: dt.datetime) -> Quote:
    """Return what a position cost on average, per share, in place of a price that is not known, and labelled so."""
    return Quote(symbol=symbol, price=max(average_cost, LEAST_PRICE), at=now, source=AVERAGE_COST)


@dataclass(frozen=True, slots=True)
class Quotes(MarketRates):
    """Prices of a market as they are asked for, and the rates into an account's currency."""

    def quote(self, symbol: str) -> Quote:
        return quote_of(self.market, symbol)

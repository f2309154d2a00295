"""Days of a company's earnings: which are ahead and which are past, of what was known by then."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from weakref import WeakKeyDictionary

from chordesk.models.company import EarningsDate
from chordesk.models.errors import DeskError
from chordesk.models.exchanges import exchange_code
from chordesk.tools.market.clock import day_of, usual_close, usual_open, zone_of
from chordesk.tools.market.protocol import EarningsSource, MarketData

_END_OF_DAY = dt.time(23, 59)


def split(rows: Sequence[EarningsDate], now: dt.datetime) -> tuple[EarningsDate | None, list[EarningsDate]]:
    """Return (the next report, the past ones newest first), of what was known by now, one row a date."""
    known = sorted((row for row in rows if row.known_at <= now), key=lambda row: row.known_at)
    by_date = {row.date: row for row in known}
    ordered = [by_date[day] for day in sorted(by_date)]
    ahead = [row for row in ordered if not is_out(row, now)]
    following = ahead[0].model_copy(update={"eps_actual": None}) if ahead else None
    return following, [row for row in reversed(ordered) if is_out(row, now)]


def is_out(row: EarningsDate, now: dt.datetime) -> bool:
    """Return whether the report is out: its window has ended, and the hour of its day by which it would be."""
    day, exchange = row.until or row.date, exchange_code(row.symbol)
    if row.timing == "duringSession":
        return now >= usual_close(day, exchange)
    if row.timing == "beforeOpen":
        return now >= usual_open(day, exchange)
    return now >= dt.datetime.combine(day, _END_OF_DAY, zone_of(exchange))


_ASKED: WeakKeyDictionary[MarketData, dict[str, tuple[dt.date, Sequence[EarningsDate]]]] = WeakKeyDictionary()


def next_earnings(market: MarketData, symbol: str) -> dt.date | None:
    """Return the day of the next report, the first one of a window; None where no source has it or it does not
    answer. A source that answers is asked once a day: the checks ask each minute."""
    if not isinstance(market, EarningsSource):
        return None
    now, asked = market.clock.now(), _ASKED.setdefault(market, {})
    day = day_of(now, symbol)
    if symbol not in asked or asked[symbol][0] != day:
        try:
            asked[symbol] = day, market.earnings(symbol)
        except DeskError:
            return None
    following, _ = split(asked[symbol][1], now)
    return following.date if following is not None else None

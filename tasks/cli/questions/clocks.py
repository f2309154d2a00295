"""The market time of a shell, and a market on another day of its replay."""

from __future__ import annotations

import datetime as dt

from chordesk.models.errors import SettingError, UsageError
from chordesk.models.settings import REPLAYING, Settings
from chordesk.tools.market.clock import LiveClock, ReplayClock
from chordesk.tools.market.factory import MarketKey, build_market, configured_market
from chordesk.tools.market.protocol import MarketClock, MarketData


def clock_of(settings: Settings) -> MarketClock:
    """Return the clock of the settings' market; its data are not loaded."""
    return ReplayClock(settings.replay_date) if settings.market in REPLAYING else LiveClock()


def market_as_of(settings: Settings, day: str | None) -> MarketData:
    """Return the settings' market on a day of its replay, by default on the settings' own. Raises UsageError for what
    is no such day, and for a market in real time."""
    key = configured_market(settings)
    if day is None:
        return build_market(settings, key)
    try:
        wanted = dt.date.fromisoformat(day)
    except ValueError:
        raise UsageError(f"--as-of {day!r} is no day", remedy="write 2010-08-12") from None
    if key.day is None:
        reason = f"--as-of {wanted} names a day of a replay, and DESK_MARKET={key.name} is in real time"
        raise UsageError(reason, remedy="leave it out")
    try:
        return build_market(settings, MarketKey(key.name, wanted))
    except SettingError as error:
        reason = str(error.args[0]).replace(f"DESK_REPLAY_DATE={wanted}", f"--as-of {wanted}")
        raise UsageError(reason, remedy=error.remedy) from None

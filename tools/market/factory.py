"""The market that the settings name."""

from __future__ import annotations

import bisect
import datetime as dt
from collections.abc import Sequence

from models.errors import SettingError
from models.settings import Settings
from tools.market.clock import LiveClock, ReplayClock, exchange_hours
from tools.market.protocol import MarketClock, MarketData
from tools.market.replay import ReplayMarket
from tools.market.replay_data import replay_data
from tools.market.yahoo import build_yahoo


def build_market(settings: Settings) -> MarketData:
    """Raises SettingError when the replay date is no session of the data, NotConfigured when an extra is missing."""
    clock = make_clock(settings)
    if settings.market == "replay":
        return ReplayMarket(replay_data(settings.home), clock)
    return build_yahoo(settings.home, clock)


def make_clock(settings: Settings) -> MarketClock:
    """The one market clock. Raises SettingError when the replay date is no session of the data."""
    if settings.market != "replay":
        return LiveClock()
    _require_session(settings.replay_date, replay_data(settings.home).sessions)
    return ReplayClock(settings.replay_date)


def _require_session(day: dt.date, sessions: Sequence[dt.date]) -> None:
    at = bisect.bisect_left(sessions, day)
    if at < len(sessions) and sessions[at] == day:
        return
    near = " and ".join(str(session) for session in sessions[max(at - 1, 0) : at + 1])
    if not sessions[0] <= day <= sessions[-1]:
        why = f"is outside the replay's data ({sessions[0]} to {sessions[-1]})"
    elif exchange_hours().is_session(day):
        why = "is a session that the replay's data lack"
    else:
        why = "is no session of the New York Stock Exchange"
    raise SettingError(f"DESK_REPLAY_DATE={day} {why}", remedy=f"the nearest that can be replayed: {near}")

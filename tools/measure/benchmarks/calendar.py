"""The calendar market: the exchange's days without a name or a price, for questions that rest on neither."""

from __future__ import annotations

import datetime as dt

import numpy as np

from chordesk.models.exchanges import HOME
from chordesk.models.settings import Settings
from chordesk.tools.market.clock import ReplayClock, exchange_hours
from chordesk.tools.market.replay.market import Columns, ReplayData, ReplayMarket, require_session

NAME = "calendar"


class Calendar(ReplayMarket):
    name = NAME


def build(settings: Settings, day: dt.date | None) -> Calendar:
    """Raises SettingError for a day on which the exchange is closed."""
    day = day or settings.replay_date
    sessions = exchange_hours(HOME).sessions
    require_session(day, sessions, "the exchange's calendar")
    nothing, figures = np.array([], np.int32), np.array([], np.float64)
    data = ReplayData(Columns(np.array([], "U1"), np.zeros(1, np.int64), nothing, *[figures] * 5), {})
    data.sessions = sessions
    return Calendar(data, ReplayClock(day))

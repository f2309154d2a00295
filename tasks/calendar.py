"""Whether today is a session of the New York exchange, asked by the scheduled screens."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

from tools.market.clock import exchange_hours

NEW_YORK = ZoneInfo("America/New_York")


def session_slot(now: dt.datetime | None = None) -> str | None:
    """The slot of a scheduled screen, which is the date in New York; None when the exchange is closed all day."""
    today = (now or dt.datetime.now(dt.UTC)).astimezone(NEW_YORK).date()
    return today.isoformat() if exchange_hours().is_session(today) else None

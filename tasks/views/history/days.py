"""Conditions on days, for queries."""

from __future__ import annotations

import datetime as dt
from typing import Any

import sqlalchemy
from sqlmodel import col

from chordesk.tools.market.clock import NEW_YORK

_FIRST_YEAR, _LAST_YEAR = 1900, 2900  # of moments that the desk has; further ones do not fit a datetime in UTC


def on_day(column: Any, day: dt.date) -> Any:
    """Return the condition that a moment lies on a New York date; none does before or after all of the calendar's."""
    if not _FIRST_YEAR <= day.year <= _LAST_YEAR:
        return sqlalchemy.false()
    begin = dt.datetime.combine(day, dt.time(), NEW_YORK)
    end = dt.datetime.combine(day + dt.timedelta(days=1), dt.time(), NEW_YORK)
    return sqlalchemy.and_(col(column) >= begin, col(column) < end)

"""Rows of the tool answers of a turn, and the subject that they must be about."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from chordesk.agents.answers import RecordedCall
from chordesk.tools.market.clock import exchange_day

Row = Mapping[str, Any]


def rows(calls: Sequence[RecordedCall], tools: Mapping[str, str], symbol: str | None = None) -> Iterator[Row]:
    """Yield the data rows of successful answers, in the order of the calls.

    tools: by name of a tool, the key of its rows. symbol: only rows on it.
    """
    for call in calls:
        key = tools.get(call.answer.tool)
        if key is None or not call.answer.success:
            continue
        found = call.answer.payload.get(key)
        for row in found if isinstance(found, list) else ():
            if isinstance(row, dict) and symbol in (None, row.get("symbol")):
                yield row


def day_of(calls: Sequence[RecordedCall]) -> dt.date | None:
    """Return the market's day, as the last successful answer has it."""
    moments = (call.answer.payload.get("asOf") for call in reversed(calls) if call.answer.success)
    moment = next((one for one in moments if isinstance(one, str)), None)
    return exchange_day(dt.datetime.fromisoformat(moment)) if moment is not None else None


def figure(row: Row, field: str) -> float | None:
    """Return a finite figure of a row; None where it has none."""
    value = row.get(field)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value

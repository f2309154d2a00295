"""Figures as text for people: money, sizes, times, and what is not there."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from chordesk.models.model_prices import NO_PRICE
from chordesk.tasks.engine.budgets import Cost
from chordesk.tasks.views.history.candles import Candle
from chordesk.tools.market.clock import NEW_YORK

NONE = "-"
_SPARKS = "▁▂▃▄▅▆▇█"


def moment(at: dt.datetime | None) -> str:
    return f"{at.astimezone(dt.UTC):%Y-%m-%d %H:%M:%S} UTC" if at is not None else NONE


def market_time(at: dt.datetime | None) -> str:
    return f"{at.astimezone(NEW_YORK):%Y-%m-%d %H:%M} New York" if at is not None else NONE


def count(value: float | None) -> str:
    return NONE if value is None else f"{value:,.0f}"


def size(value: float | None) -> str:
    """Return shares or contracts, or a price, with the digits that it has."""
    return NONE if value is None else f"{value:,.6f}".rstrip("0").rstrip(".")


def money(value: float | None) -> str:
    return NONE if value is None else f"{value:,.2f}"


def share(value: float | None) -> str:
    return NONE if value is None else f"{value:.2%}"


def span(seconds: float | None) -> str:
    if seconds is None:
        return NONE
    hours, rest = divmod(round(seconds), 3600)
    minutes, left = divmod(rest, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {left} s" if minutes else f"{seconds:.1f} s"


def cost(found: Cost) -> str:
    """Return the estimate, with what it leaves out; unknown where there is none."""
    if found.local and not (found.usd or found.unpriced or found.uncounted):
        return f"none: {NO_PRICE}"
    left = [f"no price for {', '.join(found.unpriced)}"] if found.unpriced else []
    left += [f"{found.uncounted} turns without a count of tokens"] if found.uncounted else []
    if found.usd is not None:
        known = f"${found.usd:,.4f}, estimated"
        return f"{known}, without what is not known: {'; '.join(left)}" if left else known
    if left:
        return f"unknown: {'; '.join(left)}"
    return "none: rules are no model" if found.rules else "none: no turn was run"


def counts(found: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in found.items()) or NONE


def sparkline(bars: Sequence[Candle], width: int = 60) -> str:
    """Return the closes as a line of blocks, each of about as many sessions; empty without a close."""
    closes = [bar.close for bar in bars if bar.close is not None]
    if not closes:
        return ""
    picked = [closes[at * len(closes) // width] for at in range(width)] if len(closes) > width else closes
    picked[-1] = closes[-1]
    low, high = min(picked), max(picked)
    top = len(_SPARKS) - 1
    return "".join(_SPARKS[round((one - low) / (high - low) * top) if high > low else top // 2] for one in picked)


def plain(value: Any) -> str:
    """Return a JSON value in one line."""
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.4f}".rstrip("0").rstrip(".")
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {plain(one)}" for name, one in value.items()) or NONE
    if isinstance(value, list | tuple):
        return ", ".join(plain(one) for one in value) or NONE
    return str(value)

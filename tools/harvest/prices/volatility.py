"""volatility: each symbol's realised volatility against its own past and the universe, with its drawdown."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chordesk.models.board.signals import Harvest
from chordesk.tools import figures
from chordesk.tools.harvest.context import NO_SYMBOL, HarvestContext, asleep, listed
from chordesk.tools.harvest.prices.panel import PricePanel, panel_of, standing
from chordesk.tools.harvest.prices.ranked import ranked
from chordesk.tools.market.protocol import Floats

SESSIONS, DRAWDOWN = 20, 60
LEAST_WINDOWS = 20  # of its own past that a percentile needs
_BASIS = "|2 x percentile among its own windows - 1|: how unusual the level is, not where the price goes"
_HEADLINE = (
    "{symbol}: realised volatility {volatility:.1%} a year over {sessions} sessions, above {shareBelow:.0%} of its "
    "{windows} own windows, rank {rank} of {of}; deepest fall {drawdown:.1%} in {drawdownSessions} sessions"
)


def harvest(context: HarvestContext) -> Harvest:
    """Return the symbols of which the volatility is least usual; one without the figures is missing."""
    if not context.symbols:
        return asleep(NO_SYMBOL)
    panel = panel_of(context)
    universe = volatilities(panel)
    rows: list[dict[str, Any]] = []
    missing = []
    for symbol in context.symbols:
        row = _row(panel, universe, symbol)
        if row is None:
            missing.append(symbol)
        else:
            rows.append(row)
    if not rows:
        return asleep(f"no volatility of {SESSIONS} sessions with a past to compare it with: {listed(missing)}")
    return ranked(context, panel, rows, missing, headline=_HEADLINE, basis=_BASIS, most=1.0, side=0)


def volatilities(panel: PricePanel) -> Floats:
    """Return the annualised standard deviation of the last 20 daily log returns of each row, as tools/figures.py has
    it; not a number where a close is missing."""
    if len(panel.days) <= SESSIONS:
        return np.full(len(panel.close), np.nan)
    changes = np.diff(np.log(panel.close[:, -SESSIONS - 1 :]), axis=1)
    return np.asarray(changes.std(axis=1, ddof=1) * math.sqrt(figures.SESSIONS_A_YEAR), dtype=np.float64)


def _row(panel: PricePanel, universe: Floats, symbol: str) -> dict[str, Any] | None:
    at = panel.place[symbol]
    found, close = standing(universe, at), panel.close[at]
    fall = figures.drawdown(close, DRAWDOWN)
    own = _own_percentile(close)
    if found is None or own is None or fall is None:
        return None
    return {
        "symbol": symbol,
        "sessions": SESSIONS,
        "volatility": round(found.value, 4),
        "shareBelow": round(own[0], 4),
        "windows": own[1],
        "rank": found.rank,
        "of": found.of,
        "drawdownSessions": DRAWDOWN,
        "drawdown": round(fall, 4),
    }


def _own_percentile(close: Floats) -> tuple[float, int] | None:
    """Return (the share of the earlier windows of 20 returns, at most 252, with a lower volatility than the last, equal
    ones by half, their number); None with fewer than LEAST_WINDOWS."""
    changes = np.diff(np.log(close))
    if len(changes) <= SESSIONS:
        return None
    windows = np.lib.stride_tricks.sliding_window_view(changes, SESSIONS)[-figures.SESSIONS_A_YEAR - 1 :]
    spread = np.round(windows.std(axis=1, ddof=1), 12)  # beyond that, equal windows differ by their order
    past = spread[:-1][np.isfinite(spread[:-1])]
    if not math.isfinite(spread[-1]) or len(past) < LEAST_WINDOWS:
        return None
    return float(((past < spread[-1]).sum() + (past == spread[-1]).sum() / 2) / len(past)), len(past)

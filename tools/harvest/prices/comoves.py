"""How names move together: daily log returns of 60 sessions and their correlations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from chordesk.tools.harvest.prices.panel import PricePanel
from chordesk.tools.history import histories, last_move_like_a_split
from chordesk.tools.market.protocol import Floats
from chordesk.tools.registry import Gaps, ToolContext

SESSIONS = 60


def log_returns(tool: ToolContext, symbols: Sequence[str]) -> dict[str, Floats]:
    """Return the last 60 daily log returns of each symbol that has all of them and moved. Where prices are not
    adjusted, one with a move like a split's has none."""
    found = {}
    for history in histories(tool, symbols, Gaps(), SESSIONS + 1):
        if not history.bars.adjusted and last_move_like_a_split(history.bars) is not None:
            continue
        if len(history.run.close) > SESSIONS:
            changes = np.diff(np.log(history.run.close[-SESSIONS - 1 :]))
            if changes.std() > 0:
                found[history.symbol] = changes
    return found


def correlations(returns: Mapping[str, Floats], symbols: Sequence[str], unknown: float) -> Floats:
    """Return the n x n correlation of n symbols; `unknown` for a pair of which one has no returns, 1 for a symbol with
    itself."""
    found = np.full((len(symbols), len(symbols)), unknown)
    known = [place for place, symbol in enumerate(symbols) if symbol in returns]
    if known:
        rows = np.array([returns[symbols[place]] for place in known])
        found[np.ix_(known, known)] = np.corrcoef(rows) if len(known) > 1 else 1.0
    same = np.array(symbols)
    found[same[:, None] == same[None, :]] = 1.0
    return found


def mean_of_pairs(correlation: Floats) -> float | None:
    """Return the mean of the correlations of different rows; None with fewer than two."""
    n = len(correlation)
    return float((correlation.sum() - np.trace(correlation)) / (n * (n - 1))) if n > 1 else None


def universe_correlation(panel: PricePanel) -> float | None:
    """Return the mean correlation between all names of a panel that have 60 returns; None with fewer than two."""
    if len(panel.days) <= SESSIONS:
        return None
    changes = np.diff(np.log(panel.close[:, -SESSIONS - 1 :]), axis=1)
    spread = changes.std(axis=1)
    usable = np.isfinite(spread) & (spread > 0)
    n = int(usable.sum())
    if n < 2:
        return None
    scores = (changes[usable] - changes[usable].mean(axis=1, keepdims=True)) / spread[usable, None]
    # The sum over all pairs is the square of the sum of scores, so no n x n matrix is needed.
    together = float((scores.sum(axis=0) ** 2).sum() / SESSIONS)
    return (together - n) / (n * (n - 1))

"""Patterns of 5 against 20 sessions over a whole universe, and how they ended where that is known by now.

A pattern is shared by many names on few dates, and names of one date share its market: the dates count, not the
instances. Outcomes of dates closer than the horizon overlap, so the error goes by blocks of that many sessions.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np
import numpy.typing as npt

from chordesk.tools.harvest.prices.panel import PricePanel
from chordesk.tools.market.protocol import Floats
from chordesk.tools.scoring.errors import dated_mean

SHORT, LONG = 5, 20
LEAST_MOVE = 0.02
QUIET, BUSY = 0.8, 1.25  # mean volume of 5 sessions to that of 20
LEAST_DATES = 30
NONE: Final = -1
_LEVEL = 0.05
_SIDES = ("down", "up")
_VOLUMES = ("low", "usual", "high")
Codes = npt.NDArray[np.int8]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class PatternRecord:
    """How a pattern ended. share: mean over dates of the share of its instances with the outcome; base: the same of all
    names on these dates; pooled: share of the instances, whatever their dates; error: of `share`, by blocks of dates,
    null with fewer than two."""

    instances: int
    dates: int
    share: float
    pooled: float
    base: float
    error: float | None

    @property
    def enough(self) -> bool:
        return self.dates >= LEAST_DATES and self.error is not None

    def interval(self, looks: int) -> tuple[float, float] | None:
        """Return bounds of the share that hold for all of so many patterns at once with 95 % (Bonferroni)."""
        if self.error is None:
            return None
        reach = NormalDist().inv_cdf(1 - _LEVEL / (2 * looks)) * self.error
        return max(0.0, self.share - reach), min(1.0, self.share + reach)


def change(values: Floats, sessions: int) -> Floats:
    """Return value / value n sessions before - 1, n rows x T, not a number where either is missing."""
    found = np.full(values.shape, np.nan)
    if values.shape[1] > sessions:
        found[:, sessions:] = values[:, sessions:] / values[:, :-sessions] - 1
    return found


def pattern_codes(panel: PricePanel) -> Codes:
    """Return the pattern of each name and session, n x T; NONE where a move is within 2 % or a figure is missing."""
    short, long = change(panel.close, SHORT), change(panel.close, LONG)
    ratio = _trailing_mean(panel.volume, SHORT) / _trailing_mean(panel.volume, LONG)
    volumes = np.where(ratio < QUIET, 0, np.where(ratio > BUSY, 2, 1))
    codes = 6 * (short > 0) + 3 * (long > 0) + volumes
    known = (np.abs(short) > LEAST_MOVE) & (np.abs(long) > LEAST_MOVE) & np.isfinite(ratio)
    return np.where(known, codes, NONE).astype(np.int8)


def described(code: int) -> dict[str, str]:
    """Return the parts of a pattern: where 5 and 20 sessions went, and the volume."""
    return {"shortMove": _SIDES[code // 6], "longMove": _SIDES[code // 3 % 2], "volume": _VOLUMES[code % 3]}


def beat_median(close: Floats, sessions: int) -> Floats:
    """Return 1 where a name's return over the next so many sessions is above the median of all, 0.5 where it equals it,
    else 0; not a number where it is not known yet."""
    outcome = np.full(close.shape, np.nan)
    if close.shape[1] <= sessions:
        return outcome
    ahead = close[:, sessions:] / close[:, :-sessions] - 1
    known = np.isfinite(ahead).any(axis=0)
    median = np.nanmedian(ahead[:, known], axis=0)
    outcome[:, :-sessions][:, known] = np.where(
        np.isnan(ahead[:, known]), np.nan, (1 + np.sign(ahead[:, known] - median)) / 2
    )
    return outcome


def record_of(panel: PricePanel, mask: Mask, outcome: Floats, horizon: int) -> PatternRecord | None:
    """Return how the instances of `mask` ended, of those with a known outcome; None without one. horizon: sessions to
    an outcome."""
    found = mask & np.isfinite(outcome)
    columns = np.flatnonzero(found.any(axis=0))
    if not len(columns):
        return None
    shares = np.array([outcome[found[:, at], at].mean() for at in columns])
    base = np.nanmean(outcome[:, columns], axis=0)
    # The error is that of the difference to the base on the same dates: what moves both is no uncertainty of either.
    blocks = [panel.days[at // horizon * horizon] for at in columns.tolist()]
    spread = dated_mean(zip(blocks, (shares - base).tolist(), strict=True))
    return PatternRecord(
        instances=int(found.sum()),
        dates=len(columns),
        share=float(shares.mean()),
        pooled=float(outcome[found].mean()),
        base=float(base.mean()),
        error=spread.error if spread is not None else None,
    )


def _trailing_mean(values: Floats, sessions: int) -> Floats:
    found = np.full(values.shape, np.nan)
    if values.shape[1] >= sessions:
        found[:, sessions - 1 :] = np.lib.stride_tricks.sliding_window_view(values, sessions, axis=1).mean(axis=2)
    return found

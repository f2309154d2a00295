"""Patterns of 5 against 20 sessions over a whole universe, and how they ended where that is known by now.

A pattern is shared by many names on few dates, and names of one date share its market: the dates count, not the
instances. Outcomes of dates closer than the horizon overlap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from chordesk.tools.market.protocol import Floats
from chordesk.tools.price_panel import PricePanel, change
from chordesk.tools.scoring.inference import Estimate, Observation, estimate

PATTERN_SHORT, PATTERN_LONG = 5, 20
LEAST_MOVE = 0.02
QUIET, BUSY = 0.8, 1.25  # mean volume of 5 sessions to that of 20
LEAST_DATES = 30
NO_PATTERN: Final = -1
_LEVEL = 0.05
_SIDES = ("down", "up")
_VOLUMES = ("low", "usual", "high")
Codes = npt.NDArray[np.int8]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class PatternRecord:
    """How a pattern ended."""

    instances: int
    dates: int
    share: float  # mean over dates of the share of its instances with the outcome
    pooled: float  # share of the instances, whatever their dates
    base: float  # the same of all names on these dates
    edge: Estimate  # `share` less `base`

    @property
    def enough(self) -> bool:
        return self.dates >= LEAST_DATES and self.edge.error is not None

    def interval(self, looks: int) -> tuple[float, float] | None:
        """Return bounds of the share that hold for all of so many patterns at once with 95 % (Bonferroni)."""
        bounds = self.edge.bounds(1 - _LEVEL / looks)
        return (max(0.0, self.base + bounds[0]), min(1.0, self.base + bounds[1])) if bounds else None


def pattern_codes(panel: PricePanel) -> Codes:
    """Return the pattern of each name and session, n x T; NONE where a move is within 2 % or a figure is missing."""
    short, long = change(panel.close, PATTERN_SHORT), change(panel.close, PATTERN_LONG)
    ratio = _trailing_mean(panel.volume, PATTERN_SHORT) / _trailing_mean(panel.volume, PATTERN_LONG)
    volumes = np.where(ratio < QUIET, 0, np.where(ratio > BUSY, 2, 1))
    codes = 6 * (short > 0) + 3 * (long > 0) + volumes
    known = (np.abs(short) > LEAST_MOVE) & (np.abs(long) > LEAST_MOVE) & np.isfinite(ratio)
    return np.where(known, codes, NO_PATTERN).astype(np.int8)


def described_pattern(code: int) -> dict[str, str]:
    return {"shortMove": _SIDES[code // 6], "longMove": _SIDES[code // 3 % 2], "volume": _VOLUMES[code % 3]}


def record_of(panel: PricePanel, mask: Mask, outcome: Floats, horizon: int) -> PatternRecord | None:
    found = mask & np.isfinite(outcome)
    columns = np.flatnonzero(found.any(axis=0))
    if not len(columns):
        return None
    shares = np.array([outcome[found[:, at], at].mean() for at in columns])
    base = np.nanmean(outcome[:, columns], axis=0)
    # The error is that of the difference to the base on the same dates: what moves both makes neither uncertain.
    differences = zip(columns.tolist(), (shares - base).tolist(), strict=True)
    edge = estimate(Observation(difference, at, at + horizon) for at, difference in differences)
    assert edge is not None, "there is a date"
    return PatternRecord(
        instances=int(found.sum()),
        dates=len(columns),
        share=float(shares.mean()),
        pooled=float(outcome[found].mean()),
        base=float(base.mean()),
        edge=edge,
    )


def _trailing_mean(values: Floats, sessions: int) -> Floats:
    found = np.full(values.shape, np.nan)
    if values.shape[1] >= sessions:
        found[:, sessions - 1 :] = np.lib.stride_tricks.sliding_window_view(values, sessions, axis=1).mean(axis=2)
    return found

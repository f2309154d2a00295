"""The interval of a share: Wilson, Probable Inference, 1927."""

from __future__ import annotations

import math
from typing import NamedTuple

from chordesk.models.errors import UsageError

Z = 1.96  # 95 %


class ShareInterval(NamedTuple):
    """Bounds of a share, 0 to 1."""

    low: float
    high: float


def wilson(hits: float, n: int, z: float = Z) -> ShareInterval | None:
    """Return the bounds for `hits` of n independent tries, hits in fractions too; None without a try."""
    if n <= 0:
        return None
    if not 0 <= hits <= n:
        raise UsageError(f"{hits:g} hits of {n} tries", remedy="give from 0 to n hits")
    share, square = hits / n, z * z
    centre = share + square / (2 * n)
    reach = z * math.sqrt(share * (1 - share) / n + square / (4 * n * n))
    scale = 1 + square / n
    return ShareInterval(max(0.0, (centre - reach) / scale), min(1.0, (centre + reach) / scale))

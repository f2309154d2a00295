"""Markets of closes that a test writes down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.tools.market.far_market import FarMarket, daily


def closing(closes: Mapping[str, Sequence[float]], adjusted: bool = True) -> FarMarket:
    return FarMarket({symbol: daily(symbol, row, adjusted=adjusted) for symbol, row in closes.items()})


def rising(names: Sequence[str], sessions: int, step: float = 0.001) -> dict[str, list[float]]:
    """Names of which each rises faster than the one before: `step` a session, twice as much, and so on, of 100."""
    return {
        name: [100 * (1 + step * place * day) for day in range(sessions)] for place, name in enumerate(names, start=1)
    }

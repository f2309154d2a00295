"""Findings of a ranking: the symbols nearest to an end of it, in a direction or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from chordesk.models.board.signals import MAX_FINDINGS, Harvest, SignalDirection, SignalFinding
from chordesk.tools.harvest.context import HarvestContext, bar_time, named
from chordesk.tools.harvest.headline import compose
from chordesk.tools.harvest.prices.panel import PricePanel

# At the ends of a ranking a forecast moves by half of it. On the default data neither momentum nor reversal has any
# skill: a larger step costs more than it could bring.
UNPROVEN = 0.1


def ranked(
    context: HarvestContext,
    panel: PricePanel,
    rows: Sequence[Mapping[str, Any]],
    missing: Sequence[str],
    *,
    headline: str,
    basis: str,
    most: float,
    side: Literal[-1, 0, 1],
) -> Harvest:
    """Return a finding for each of the rows furthest from the middle.

    rows: with symbol and shareBelow, its percentile from 0 to 1. The confidence is `most` x |2 x percentile - 1|. side:
    1 when a high percentile is bullish, -1 when it is bearish, 0 for no direction.
    """
    ordered = sorted(rows, key=lambda row: (-round(abs(row["shareBelow"] - 0.5), 6), row["symbol"]))
    at_bar, session = bar_time(context.tool.clock, panel.days[-1]), panel.days[-1].isoformat()
    return Harvest(
        findings=tuple(
            SignalFinding(
                headline=compose(headline, row),
                data={**row, "session": session, "missing": named(missing)},
                confidence=round(most * abs(2 * row["shareBelow"] - 1), 4),
                basis=basis,
                direction=_direction(side * (row["shareBelow"] - 0.5)),
                subjects=(row["symbol"],),
                source=f"{context.tool.market.name} daily bars",
                as_of=at_bar,
            )
            for row in ordered[:MAX_FINDINGS]
        )
    )


def _direction(lean: float) -> SignalDirection:
    return "bullish" if lean > 0 else "bearish" if lean < 0 else "neutral"

"""reversal: the rank of each symbol's 5-session return in the universe, read against its direction."""

from __future__ import annotations

from typing import Any

from chordesk.models.board.signals import Harvest
from chordesk.tools.harvest.context import NO_SYMBOL, HarvestContext, asleep, listed
from chordesk.tools.harvest.prices.panel import panel_of, returns, standing
from chordesk.tools.harvest.prices.ranked import UNPROVEN, ranked

SESSIONS = 5
_BASIS = f"{UNPROVEN:g} x |2 x percentile of the rank - 1|, against the move; it has shown no skill on the default data"
_HEADLINE = "{symbol}: {return5:+.1%} in {sessions} sessions, rank {rank} of {of}; a reversal would go the other way"


def harvest(context: HarvestContext) -> Harvest:
    """Return the symbols that moved furthest from the middle of the universe; one without the figure is missing."""
    if not context.symbols:
        return asleep(NO_SYMBOL)
    panel = panel_of(context)
    moves = returns(panel, SESSIONS)
    rows: list[dict[str, Any]] = []
    missing = []
    for symbol in context.symbols:
        found = standing(moves, panel.place[symbol])
        if found is None:
            missing.append(symbol)
            continue
        rows.append(
            {
                "symbol": symbol,
                "sessions": SESSIONS,
                "return5": round(found.value, 4),
                "rank": found.rank,
                "of": found.of,
                "shareBelow": round(found.percentile, 4),
            }
        )
    if not rows:
        return asleep(f"no return of {SESSIONS} sessions, or nothing to compare it with: {listed(missing)}")
    return ranked(context, panel, rows, missing, headline=_HEADLINE, basis=_BASIS, most=UNPROVEN, side=-1)

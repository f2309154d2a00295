"""momentum: the rank of each symbol's 20- and 60-session momentum in the universe."""

from __future__ import annotations

from typing import Any

from chordesk.models.board.signals import Harvest
from chordesk.tools.harvest.context import NO_SYMBOL, HarvestContext, asleep, listed
from chordesk.tools.harvest.prices.panel import panel_of, returns, standing
from chordesk.tools.harvest.prices.ranked import UNPROVEN, ranked

SHORT, LONG = 20, 60
_BASIS = f"{UNPROVEN:g} x |2 x mean percentile of both ranks - 1|; it has shown no skill on the default data"
_HEADLINE = (
    "{symbol}: {momentum20:+.1%} in {short} sessions, rank {rank20} of {of20}; "
    "{momentum60:+.1%} in {long}, rank {rank60} of {of60}"
)


def harvest(context: HarvestContext) -> Harvest:
    """Return the symbols that stand nearest to an end of the universe; a symbol without both figures is missing."""
    if not context.symbols:
        return asleep(NO_SYMBOL)
    panel = panel_of(context)
    short, long = returns(panel, SHORT), returns(panel, LONG)
    rows: list[dict[str, Any]] = []
    missing = []
    for symbol in context.symbols:
        at = panel.place[symbol]
        near, far = standing(short, at), standing(long, at)
        if near is None or far is None:
            missing.append(symbol)
            continue
        rows.append(
            {
                "symbol": symbol,
                "short": SHORT,
                "momentum20": round(near.value, 4),
                "rank20": near.rank,
                "of20": near.of,
                "long": LONG,
                "momentum60": round(far.value, 4),
                "rank60": far.rank,
                "of60": far.of,
                "shareBelow": round((near.percentile + far.percentile) / 2, 4),
            }
        )
    if not rows:
        return asleep(f"no momentum of {SHORT} and {LONG} sessions, or nothing to compare it with: {listed(missing)}")
    return ranked(context, panel, rows, missing, headline=_HEADLINE, basis=_BASIS, most=UNPROVEN, side=1)

"""screen: what the lenses of the account's latest screen put forward."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from chordesk.models.board.signals import MAX_FINDINGS, Harvest, SignalFinding
from chordesk.models.research import ScreenConfidence
from chordesk.tools.harvest.context import HarvestContext, LensHit, asleep
from chordesk.tools.harvest.headline import compose

# Parts of a confidence: a lens looks for names to buy, and none of them has a record yet.
WEIGHTS = {ScreenConfidence.HIGH: 0.1, ScreenConfidence.MEDIUM: 0.06, ScreenConfidence.SPECULATIVE: 0.02}
MOST = 0.2
_BASIS = (
    f"sum over the lenses of {WEIGHTS[ScreenConfidence.HIGH]:g} for high, {WEIGHTS[ScreenConfidence.MEDIUM]:g} for "
    f"medium, {WEIGHTS[ScreenConfidence.SPECULATIVE]:g} for speculative, at most {MOST:g}"
)
_HEADLINE = "{symbol}: put forward by {lensCount} of {lensesWithHits} lenses of the screen with hits: {lenses}"


def harvest(context: HarvestContext) -> Harvest:
    """Return the hits on the questions' symbols, those of most lenses first. A symbol without a hit is no finding: the
    screen may not have covered it."""
    if not context.hits:
        return asleep("no screen of this account on this market day has hits")
    by_symbol: dict[str, list[LensHit]] = defaultdict(list)
    for hit in sorted(context.hits, key=lambda hit: (hit.symbol, hit.lens)):
        by_symbol[hit.symbol].append(hit)
    wanted = [symbol for symbol in context.symbols if symbol in by_symbol]
    if not wanted:
        return asleep(f"none of the {len(by_symbol)} names that the latest screen put forward is in a question")
    lenses = {hit.lens for hit in context.hits}
    found = [_finding(context, by_symbol[symbol], len(by_symbol), len(lenses)) for symbol in wanted]
    found.sort(key=lambda finding: (-(finding.confidence or 0), finding.subjects))
    return Harvest(findings=tuple(found[:MAX_FINDINGS]))


def _finding(context: HarvestContext, hits: list[LensHit], names: int, lenses: int) -> SignalFinding:
    data: dict[str, Any] = {
        "symbol": hits[0].symbol,
        "lenses": ", ".join(f"{hit.lens} ({hit.confidence.value})" for hit in hits),
        "lensCount": len(hits),
        "lensesWithHits": lenses,
        "namesPutForward": names,
    }
    return SignalFinding(
        headline=compose(_HEADLINE, data),
        data=data,
        confidence=round(min(MOST, sum(WEIGHTS[hit.confidence] for hit in hits)), 4),
        basis=_BASIS,
        direction="bullish",
        subjects=(hits[0].symbol,),
        source=f"screen on {context.tool.market.name}",
        as_of=max(hit.at for hit in hits),
    )

"""temporal: how names with the same pattern of 5 against 20 sessions did against the universe afterwards."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from chordesk.models.board.signals import MAX_FINDINGS, Harvest, SignalDirection, SignalFinding
from chordesk.tools.harvest.context import NO_SYMBOL, HarvestContext, asleep, bar_time, listed
from chordesk.tools.harvest.headline import compose
from chordesk.tools.harvest.prices.panel import PricePanel, panel_of
from chordesk.tools.harvest.prices.patterns import (
    LEAST_DATES,
    LEAST_MOVE,
    LONG,
    NONE,
    SHORT,
    PatternRecord,
    beat_median,
    described,
    pattern_codes,
    record_of,
)

MOST = 0.3
_BASIS = (
    f"2 x distance from the base rate to the nearer bound, at most {MOST:g}, and 0 where it lies between them; the "
    "bounds hold for all patterns that were looked at together with 95 %, with errors by blocks of dates"
)
_PATTERN = "{names}: {shortMove} in {short} sessions, {longMove} in {long}, volume {volume}: "
_ENOUGH = (
    _PATTERN
    + "{share:.1%} of {instances:,} instances on {dates} dates beat the median over the next {horizon} sessions, "
    "by date {shareFrom:.1%} to {shareTo:.1%}, base rate {base:.1%}: {reading}"
)
_TOO_FEW = _PATTERN + "{instances:,} instances on {dates} dates, below {leastDates}: not enough"
_NEVER = _PATTERN + "no instance with a known outcome: not enough"


def harvest(context: HarvestContext) -> Harvest:
    """Return a finding for each pattern that the questions' symbols show now; only instances count of which the outcome
    was known by now."""
    if not context.symbols:
        return asleep(NO_SYMBOL)
    panel, horizon = panel_of(context), context.tool.settings.question_sessions
    codes = pattern_codes(panel)
    showing: dict[int, list[str]] = defaultdict(list)
    for symbol in context.symbols:
        showing[int(codes[panel.place[symbol], -1])].append(symbol)
    without = showing.pop(NONE, [])
    if not showing:
        reason = f"no move beyond {LEAST_MOVE:.0%} in both {SHORT} and {LONG} sessions, or a figure is missing"
        return asleep(f"no symbol shows a pattern, {listed(without)}: {reason}")
    outcome = beat_median(panel.close, horizon)
    findings = [
        _finding(context, panel, code, names, record_of(panel, codes == code, outcome, horizon), len(showing))
        for code, names in showing.items()
    ]
    findings.sort(key=lambda one: (-(one.confidence if one.confidence is not None else -1), -one.data["dates"]))
    return Harvest(findings=tuple(findings[:MAX_FINDINGS]))


def _finding(
    context: HarvestContext, panel: PricePanel, code: int, names: list[str], found: PatternRecord | None, looks: int
) -> SignalFinding:
    data: dict[str, Any] = {
        "names": listed(names),
        "short": SHORT,
        "long": LONG,
        **described(code),
        "horizon": context.tool.settings.question_sessions,
        "patternsLookedAt": looks,
        "leastDates": LEAST_DATES,
        "instances": found.instances if found is not None else 0,
        "dates": found.dates if found is not None else 0,
    }
    template, confidence, direction = _NEVER if found is None else _TOO_FEW, None, _direction(0.0)
    if found is not None and found.enough and (bounds := found.interval(looks)) is not None:
        low, high = bounds
        lean = max(low - found.base, 0.0) - max(found.base - high, 0.0)
        template, confidence, direction = _ENOUGH, round(min(2 * abs(lean), MOST), 4), _direction(lean)
        figures = {"share": found.share, "pooled": found.pooled, "shareFrom": low, "shareTo": high, "base": found.base}
        data |= {name: round(value, 4) for name, value in figures.items()}
        data["reading"] = "no edge shown" if lean == 0 else f"an edge {'above' if lean > 0 else 'below'} the base rate"
    return SignalFinding(
        headline=compose(template, data),
        data={**data, "symbols": names},
        confidence=confidence,
        basis=_BASIS,
        direction=direction,
        subjects=tuple(names),
        source=f"{context.tool.market.name} daily bars",
        as_of=bar_time(context.tool.clock, panel.days[-1]),
    )


def _direction(lean: float) -> SignalDirection:
    return "bullish" if lean > 0 else "bearish" if lean < 0 else "neutral"

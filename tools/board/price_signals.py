"""Signals of prices: momentum, reversal, patterns of time and volatility, each symbol against its universe."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from chordesk.models.board import MAX_FINDINGS, Harvest
from chordesk.models.tables.board import SignalDirection, SignalFinding
from chordesk.tools import figures
from chordesk.tools.board.context import Finding, HarvestContext, asleep, bar_time, best, listed, named
from chordesk.tools.board.patterns import (
    LEAST_DATES,
    LEAST_MOVE,
    NO_PATTERN,
    PATTERN_LONG,
    PATTERN_SHORT,
    PatternRecord,
    described_pattern,
    pattern_codes,
    record_of,
)
from chordesk.tools.market.protocol import Floats
from chordesk.tools.price_panel import PricePanel, beat_median, panel_of, returns, standing

# At the ends of a ranking a forecast moves by half of it. On the default data neither momentum nor reversal has any
# skill: a larger step costs more than it could bring.
UNPROVEN = 0.1


Row = dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Ranking:
    """A figure by which symbols are ranked."""

    finding: Finding
    # of a panel, each symbol's data by symbol, None where the figure is missing; its shareBelow is the percentile, 0 to
    # 1. The confidence is `most` x |2 x percentile - 1|.
    rows: Callable[[PricePanel], Callable[[str], Row]]
    most: float
    side: Literal[-1, 0, 1]  # 1 when a high percentile is bullish, -1 when it is bearish, 0 for no direction
    lacks: str  # why there is no row at all

    def __call__(self, context: HarvestContext) -> Harvest:
        panel = panel_of(context.tool, context.symbols)
        row_of = self.rows(panel)
        found = {symbol: row_of(symbol) for symbol in context.symbols}
        missing = [symbol for symbol, row in found.items() if row is None]
        rows = [row for row in found.values() if row is not None]
        if not rows:
            return asleep(f"{self.lacks}: {listed(missing)}")
        rows.sort(key=lambda row: (-round(abs(row["shareBelow"] - 0.5), 6), row["symbol"]))
        session, at = panel.days[-1].isoformat(), bar_time(context.tool.clock, panel.days[-1])
        return Harvest(findings=tuple(
            self.finding.of(
                context,
                {**row, "session": session, "missing": named(missing)},
                self.most * abs(2 * row["shareBelow"] - 1),
                (row["symbol"],),
                _direction(self.side * (row["shareBelow"] - 0.5)),
                as_of=at,
            )
            for row in rows[:MAX_FINDINGS]
        ))  # fmt: skip


def _direction(lean: float) -> SignalDirection:
    return "bullish" if lean > 0 else "bearish" if lean < 0 else "neutral"


MOMENTUM_SHORT, MOMENTUM_LONG = 20, 60


def _momentum(panel: PricePanel) -> Callable[[str], Row]:
    short, long = returns(panel, MOMENTUM_SHORT), returns(panel, MOMENTUM_LONG)

    def row(symbol: str) -> Row:
        near, far = (standing(each, panel.place[symbol]) for each in (short, long))
        if near is None or far is None:
            return None
        return {
            "symbol": symbol,
            "short": MOMENTUM_SHORT,
            "momentum20": round(near.value, 4),
            "rank20": near.rank,
            "of20": near.of,
            "long": MOMENTUM_LONG,
            "momentum60": round(far.value, 4),
            "rank60": far.rank,
            "of60": far.of,
            "shareBelow": round((near.percentile + far.percentile) / 2, 4),
        }

    return row


momentum_signals = Ranking(
    Finding(
        "{symbol}: {momentum20:+.1%} in {short} sessions, rank {rank20} of {of20}; "
        "{momentum60:+.1%} in {long}, rank {rank60} of {of60}",
        f"{UNPROVEN:g} x |2 x mean percentile of both ranks - 1|; it has shown no skill on the default data",
    ),
    _momentum,
    most=UNPROVEN,
    side=1,
    lacks=f"no momentum of {MOMENTUM_SHORT} and {MOMENTUM_LONG} sessions, or nothing to compare it with",
)

REVERSAL_SESSIONS = 5


def _reversal(panel: PricePanel) -> Callable[[str], Row]:
    moves = returns(panel, REVERSAL_SESSIONS)

    def row(symbol: str) -> Row:
        found = standing(moves, panel.place[symbol])
        if found is None:
            return None
        return {
            "symbol": symbol,
            "sessions": REVERSAL_SESSIONS,
            "return5": round(found.value, 4),
            "rank": found.rank,
            "of": found.of,
            "shareBelow": round(found.percentile, 4),
        }

    return row


reversal_signals = Ranking(
    Finding(
        "{symbol}: {return5:+.1%} in {sessions} sessions, rank {rank} of {of}; a reversal would go the other way",
        f"{UNPROVEN:g} x |2 x percentile of the rank - 1|, against the move; it has shown no skill on the default data",
    ),
    _reversal,
    most=UNPROVEN,
    side=-1,
    lacks=f"no return of {REVERSAL_SESSIONS} sessions, or nothing to compare it with",
)

MOST_TEMPORAL = 0.3
_TEMPORAL_BASIS = (
    f"2 x distance from the base rate to the nearer bound, at most {MOST_TEMPORAL:g}, and 0 where it lies between "
    "them; the bounds hold for all patterns that were looked at together with 95 %, with errors by blocks of dates"
)
_PATTERN = "{names}: {shortMove} in {short} sessions, {longMove} in {long}, volume {volume}: "
_ENOUGH = Finding(
    _PATTERN
    + "{share:.1%} of {instances:,} instances on {dates} dates beat the median over the next {horizon} sessions, "
    "by date {shareFrom:.1%} to {shareTo:.1%}, base rate {base:.1%}: {reading}",
    _TEMPORAL_BASIS,
)
_TOO_FEW = Finding(
    _PATTERN + "{instances:,} instances on {dates} dates, below {leastDates}: not enough", _TEMPORAL_BASIS
)
_NEVER = Finding(_PATTERN + "no instance with a known outcome: not enough", _TEMPORAL_BASIS)


def temporal_signals(context: HarvestContext) -> Harvest:
    """A finding for each pattern of the questions' symbols; instances count whose outcome was known by now."""
    panel, horizon = panel_of(context.tool, context.symbols), context.tool.settings.question_sessions
    codes = pattern_codes(panel)
    showing: dict[int, list[str]] = defaultdict(list)
    for symbol in context.symbols:
        showing[int(codes[panel.place[symbol], -1])].append(symbol)
    without = showing.pop(NO_PATTERN, [])
    if not showing:
        reason = f"no move beyond {LEAST_MOVE:.0%} in both {PATTERN_SHORT} and {PATTERN_LONG} sessions, "
        reason += "or a figure is missing"
        return asleep(f"no symbol shows a pattern, {listed(without)}: {reason}")
    outcome = beat_median(panel.close, horizon)
    findings = [
        _pattern_finding(context, panel, code, names, record_of(panel, codes == code, outcome, horizon), len(showing))
        for code, names in showing.items()
    ]
    return best(findings, lambda one: (-(one.confidence if one.confidence is not None else -1), -one.data["dates"]))


def _pattern_finding(
    context: HarvestContext, panel: PricePanel, code: int, names: list[str], found: PatternRecord | None, looks: int
) -> SignalFinding:
    data: dict[str, Any] = {
        "names": listed(names),
        "short": PATTERN_SHORT,
        "long": PATTERN_LONG,
        **described_pattern(code),
        "horizon": context.tool.settings.question_sessions,
        "patternsLookedAt": looks,
        "leastDates": LEAST_DATES,
        "instances": found.instances if found is not None else 0,
        "dates": found.dates if found is not None else 0,
    }
    kind, confidence, lean = _NEVER if found is None else _TOO_FEW, None, 0.0
    if found is not None and found.enough and (bounds := found.interval(looks)) is not None:
        low, high = bounds
        lean = max(low - found.base, 0.0) - max(found.base - high, 0.0)
        kind, confidence = _ENOUGH, min(2 * abs(lean), MOST_TEMPORAL)
        figures = {"share": found.share, "pooled": found.pooled, "shareFrom": low, "shareTo": high, "base": found.base}
        data |= {name: round(value, 4) for name, value in figures.items()}
        data["reading"] = "no edge shown" if lean == 0 else f"an edge {'above' if lean > 0 else 'below'} the base rate"
    at = bar_time(context.tool.clock, panel.days[-1])
    return kind.of(context, {**data, "symbols": names}, confidence, tuple(names), _direction(lean), as_of=at)


VOLATILITY_SESSIONS, DRAWDOWN = 20, 60
LEAST_WINDOWS = 20  # of its own past that a percentile needs


def volatilities(panel: PricePanel) -> Floats:
    """Return the annualised standard deviation of the last 20 daily log returns of each row, as tools/figures.py has
    it; not a number where a close is missing."""
    if len(panel.days) <= VOLATILITY_SESSIONS:
        return np.full(len(panel.close), np.nan)
    changes = np.diff(np.log(panel.close[:, -VOLATILITY_SESSIONS - 1 :]), axis=1)
    return np.asarray(changes.std(axis=1, ddof=1) * math.sqrt(figures.SESSIONS_A_YEAR), dtype=np.float64)


def _volatility(panel: PricePanel) -> Callable[[str], Row]:
    universe = volatilities(panel)

    def row(symbol: str) -> Row:
        at = panel.place[symbol]
        found, close = standing(universe, at), panel.close[at]
        fall, own = figures.drawdown(close, DRAWDOWN), _own_percentile(close)
        if found is None or own is None or fall is None:
            return None
        return {
            "symbol": symbol,
            "sessions": VOLATILITY_SESSIONS,
            "volatility": round(found.value, 4),
            "shareBelow": round(own[0], 4),
            "windows": own[1],
            "rank": found.rank,
            "of": found.of,
            "drawdownSessions": DRAWDOWN,
            "drawdown": round(fall, 4),
        }

    return row


volatility_signals = Ranking(
    Finding(
        "{symbol}: realised volatility {volatility:.1%} a year over {sessions} sessions, above {shareBelow:.0%} of its "
        "{windows} own windows, rank {rank} of {of}; deepest fall {drawdown:.1%} in {drawdownSessions} sessions",
        "|2 x percentile among its own windows - 1|: how unusual the level is, not where the price goes",
    ),
    _volatility,
    most=1.0,
    side=0,
    lacks=f"no volatility of {VOLATILITY_SESSIONS} sessions with a past to compare it with",
)


def _own_percentile(close: Floats) -> tuple[float, int] | None:
    """Return (the share of the earlier windows of 20 returns, at most 252, with a lower volatility than the last, equal
    ones by half, their number); None with fewer than LEAST_WINDOWS."""
    changes = np.diff(np.log(close))
    if len(changes) <= VOLATILITY_SESSIONS:
        return None
    windows = np.lib.stride_tricks.sliding_window_view(changes, VOLATILITY_SESSIONS)[-figures.SESSIONS_A_YEAR - 1 :]
    spread = np.round(windows.std(axis=1, ddof=1), 12)  # beyond that, equal windows differ by their order
    past = spread[:-1][np.isfinite(spread[:-1])]
    if not math.isfinite(spread[-1]) or len(past) < LEAST_WINDOWS:
        return None
    return float(((past < spread[-1]).sum() + (past == spread[-1]).sum() / 2) / len(past)), len(past)

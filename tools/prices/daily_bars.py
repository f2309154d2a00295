"""Daily bars for tools, with a record of the bars that are missing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from chordesk.models.errors import DeskError, MarketUnavailable, NotConfigured
from chordesk.tools.market.prices import History, history_of, lapse, lost_sessions, moves_like_splits
from chordesk.tools.market.protocol import Bars, Prefetching
from chordesk.tools.prices.price_figures import SESSIONS_A_YEAR
from chordesk.tools.registry import Gaps, ToolContext

V = TypeVar("V")
_PREFETCH_SHARE = 0.6
_BUDGET_SHARE = 0.8
CLOSES_ALONE = "this market has closes alone: no ATR, ADX, gap, range or candle can be known"


def histories(
    context: ToolContext, symbols: Sequence[str], gaps: Gaps, sessions: int = SESSIONS_A_YEAR
) -> Iterator[History]:
    """Yield each symbol that has a bar of the latest session; others, odd ones and those with closes alone go into
    `gaps`."""
    prefetch(context, symbols)
    days, ranged = context.market.sessions(sessions), True
    for symbol, bars in by_symbol(context, symbols, "bars", gaps, lambda symbol: context.market.bars(symbol, sessions)):
        if (why := lapse(bars.dates[-1], days[-1])) is not None:
            gaps.add("bars", why, symbol)
            continue
        found = history_of(bars, days)
        if not bars.adjusted:
            _note_split(found.bars, gaps)
        ranged = ranged and not has_closes_alone(found.bars)
        yield found
    if not ranged:
        gaps.add("open, high and low", CLOSES_ALONE)


def has_closes_alone(bars: Bars) -> bool:
    """Return whether the last bar has a close, and no open, high and low."""
    return bool(np.isnan(bars.high[-1]))


def prefetch(context: ToolContext, symbols: Sequence[str]) -> None:
    if isinstance(context.market, Prefetching):
        context.market.prefetch(symbols, context.settings.tool_seconds * _PREFETCH_SHARE)


def by_symbol(
    context: ToolContext, symbols: Iterable[str], what: str, gaps: Gaps, ask: Callable[[str], V]
) -> Iterator[tuple[str, V]]:
    """Yield (symbol, answer). A source that lacks it for all is named once and not asked again."""
    budget = Budget(context)
    for symbol in symbols:
        try:
            budget.spend()
            answer = ask(symbol)
        except NotConfigured as error:
            gaps.add(what, error)
            return
        except DeskError as error:
            gaps.add(what, error, symbol)
            continue
        yield symbol, answer


class Budget:
    """The time in which a tool asks a source, symbol by symbol: it answers with what it has before its own limit."""

    def __init__(self, context: ToolContext) -> None:
        self._end = time.monotonic() + context.settings.tool_seconds * _BUDGET_SHARE

    def spend(self) -> None:
        if time.monotonic() > self._end:
            raise MarketUnavailable("not fetched in time", remedy="ask for fewer symbols, or ask again")


def note_holes(found: Sequence[History], gaps: Gaps, sessions: int) -> None:
    """Add a line that names those that have older bars, but lack some of the last `sessions` sessions."""
    holed = [one.symbol for one in found if len(one.run.dates) < min(sessions, len(one.spread.dates))]
    if holed:
        reason = f"no bar of some of the last {sessions}, and no figure across them, of {', '.join(holed)}"
        gaps.add("sessions", reason)


def note_kept(found: Sequence[History], gaps: Gaps, sessions: int) -> None:
    """Add a line that names the symbols with holes that figures go across, and one on those that they do not."""
    across = [one for one in found if len(one.run.dates) < len(one.kept(sessions).dates)]
    if across:
        lacking = {one.symbol: min(sessions, len(one.spread.dates)) - len(one.kept(sessions).dates) for one in across}
        names = ", ".join(f"{count} of {symbol}" for symbol, count in lacking.items())
        gaps.add("missing sessions", f"of the last {sessions}: {names}; figures are of the others")
    note_holes([one for one in found if one not in across], gaps, sessions)


def note_lost(context: ToolContext, gaps: Gaps, sessions: int) -> None:
    """Add a line that names the exchange's sessions among the last so many of which the market has no bar at all."""
    lost = lost_sessions(context.market, sessions)
    if lost:
        reason = f"no bar of any name of {', '.join(map(str, lost))}: a figure across them spans more days than it says"
        gaps.add("exchange sessions", reason)


def last_move_like_a_split(bars: Bars) -> int | None:
    """Return the place of the first bar after the last close-to-close move as large as a split's, None without one."""
    return next(reversed(moves_like_splits(bars.close)), None)


def _note_split(bars: Bars, gaps: Gaps) -> None:
    if (at := last_move_like_a_split(bars)) is not None:
        move, when = bars.close[at] / bars.close[at - 1] - 1, bars.dates[at]
        reason = f"close moved {move:+.0%} on {when}; the source does not say whether that was a split"
        gaps.add("split adjustment", reason, bars.symbol)

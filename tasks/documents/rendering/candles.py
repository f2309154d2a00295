"""A chart of candles as inline SVG: bodies hollow where a session rose and filled where it fell, and marks with signs.

Colours are classes of the document's style, and none has a meaning by itself. Every text is escaped.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence

from markupsafe import Markup, escape

from chordesk.tasks.documents.rendering.scales import Axis, axis, grid, number
from chordesk.tasks.documents.schema.parts import ChartMark, MarkKind, PriceChart
from chordesk.tasks.documents.text import one_line
from chordesk.tasks.views.history.candles import Candle
from chordesk.tools.market.clock import NEW_YORK

WIDTH, HEIGHT = 720, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 6, 668, 50, 236
_MOST_MARKS = 80
# A sign for each kind, drawn around its point.
SIGNS: dict[MarkKind, str] = {
    "hit": "M0-5 5 0 0 5-5 0Z",
    "verdict": "M-4-4H4V4H-4Z",
    "order": "M0-5 5 4H-5Z",
    "fill": "M0-4.5A4.5 4.5 0 1 1-.01-4.5Z",
}


def candle_chart(chart: PriceChart) -> Markup:
    """Return the drawing; empty without a session that has a close."""
    bars = [bar for bar in chart.bars if bar.close is not None]
    if not bars:
        return Markup("")
    across = Axis(-0.5, len(bars) - 0.5, _LEFT, _RIGHT)
    up = axis([value for bar in bars for value in _prices(bar)], _BOTTOM, _TOP)
    name = one_line(f"{chart.symbol}: {len(bars)} sessions from {chart.first} to {chart.last}")
    last = f"the last close is {chart.last_close:g}" if chart.last_close is not None else "the last close is not known"
    parts = [
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(name)}; {last}">',
        f"<title>{escape(name)}</title>",
        *grid(up, _LEFT, _RIGHT),
        *_months(bars, across),
        *_bodies(bars, across, up),
        *_marks(chart.marks[:_MOST_MARKS], bars, across, up),
        "</svg>",
    ]
    return Markup("".join(parts))


def _prices(bar: Candle) -> list[float]:
    return [one for one in (bar.low, bar.high, bar.open, bar.close) if one is not None]


def _months(bars: Sequence[Candle], across: Axis) -> Iterator[str]:
    """Yield the first session of each other month, or of each where there are few."""
    starts = [at for at in range(1, len(bars)) if bars[at].at[:7] != bars[at - 1].at[:7]]
    for at in starts[:: max(1, len(starts) // 6)]:
        x = number(across.at(at))
        yield f'<text class="axis mid" x="{x}" y="{HEIGHT - 8}">{bars[at].at[:7]}</text>'


def _bodies(bars: Sequence[Candle], across: Axis, up: Axis) -> Iterator[str]:
    """Yield three paths: the ranges, the bodies that rose and those that fell. Without an open a session is a line."""
    half = max((across.end - across.start) / len(bars) * 0.32, 0.6)
    ranges: list[str] = []
    rose: list[str] = []
    fell: list[str] = []
    for at, bar in enumerate(bars):
        assert bar.close is not None
        x, close = across.at(at), up.at(bar.close)
        if bar.low is not None and bar.high is not None:
            ranges.append(f"M{number(x)} {number(up.at(bar.high))}V{number(up.at(bar.low))}")
        opened = up.at(bar.open) if bar.open is not None else close
        top, height = min(opened, close), max(abs(close - opened), 0.8)
        body = f"M{number(x - half)} {number(top)}h{number(2 * half)}v{number(height)}h{number(-2 * half)}z"
        (rose if close <= opened else fell).append(body)
    yield f'<path class="range" d="{"".join(ranges)}"/>'
    yield f'<path class="rose" d="{"".join(rose)}"/><path class="fell" d="{"".join(fell)}"/>'


def _marks(marks: Sequence[ChartMark], bars: Sequence[Candle], across: Axis, up: Axis) -> Iterator[str]:
    """Yield the marks: those with a price at it, others in rows above the candles, each with its text as a title."""
    days, stacked = [bar.at[:10] for bar in bars], dict[int, int]()
    for one in marks:
        day = one.at.astimezone(NEW_YORK).date().isoformat()
        at = bisect.bisect_right(days, day) - 1
        if at < 0:
            continue  # before the first session that is drawn
        shown = one.price is not None and up.low <= one.price <= up.high
        if shown and one.price is not None:
            y = up.at(one.price)
        else:
            y = 8.0 + 11 * min(stacked.get(at, 0), 3)
            stacked[at] = stacked.get(at, 0) + 1
        place = f"translate({number(across.at(at))} {number(y)})"
        label = escape(one_line(f"{day} {one.label}"))
        line = "" if shown else f'<path class="stem" d="M{number(across.at(at))} {number(y + 6)}V{_BOTTOM}"/>'
        sign = f'<path class="mark {one.kind}" transform="{place}" d="{SIGNS[one.kind]}">'
        yield f"{line}{sign}<title>{label}</title></path>"

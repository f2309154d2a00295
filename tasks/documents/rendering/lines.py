"""A chart of money over session days as inline SVG, one line or several."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

from chordesk.tasks.documents.rendering.scales import Axis, axis, grid, number

WIDTH, HEIGHT = 720, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 6, 648, 10, 190


class Line(NamedTuple):
    """A line. name: one of `equity`, `held`, `even`, which the style draws unlike each other; values: None where there
    is none, and the line has a gap."""

    name: str
    label: str
    values: Sequence[float | None]


def line_chart(days: Sequence[dt.date], lines: Sequence[Line], label: str) -> Markup:
    """Return the drawing; empty without two days that have a value."""
    known = [value for line in lines for value in line.values if value is not None]
    if len(days) < 2 or len(known) < 2:
        return Markup("")
    across, up = Axis(0, len(days) - 1, _LEFT, _RIGHT), axis(known, _BOTTOM, _TOP)
    text = escape(f"{label}, {days[0]} to {days[-1]}")
    parts = [
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{text}"><title>{text}</title>',
        *grid(up, _LEFT, _RIGHT),
        *(f'<path class="line {escape(line.name)}" d="{_path(line.values, across, up)}"/>' for line in lines),
        *_days(days, across),
        "</svg>",
    ]
    return Markup("".join(parts))


def _days(days: Sequence[dt.date], across: Axis) -> Iterator[str]:
    places = sorted({0, len(days) // 3, 2 * len(days) // 3, len(days) - 1})
    for place in places:
        side = "" if place == 0 else " end" if place == len(days) - 1 else " mid"
        yield f'<text class="axis{side}" x="{number(across.at(place))}" y="{HEIGHT - 10}">{days[place]}</text>'


def _path(values: Sequence[float | None], across: Axis, up: Axis) -> str:
    """Return the path; a point without neighbours is a dot."""
    found, pen = [], "M"
    for at, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        point = f"{pen}{number(across.at(at))} {number(up.at(value))}"
        alone = pen == "M" and (at + 1 == len(values) or values[at + 1] is None)
        found.append(f"{point}h0.1" if alone else point)
        pen = "L"
    return "".join(found)

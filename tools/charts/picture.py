"""The picture of charts: candles, volume, levels, lines and indicators, drawn by Pillow into a PNG.

The same panels give the same bytes, in any thread.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from chordesk.tools.charts.scale import Scale, date_ticks, price_ticks, scale_of
from chordesk.tools.charts.study import DrawnLevel
from chordesk.tools.market.protocol import Bars, Floats

WIDTH, HEIGHT = 800, 450  # of one panel
_TOP, _RIGHT, _BOTTOM = 36, 104, 20  # title and legend, labels of prices, labels of dates
_LEFT, _GAP, _STRIP, _TEXT = 6, 4, 56, 12
_COLUMNS = 2
_MOST_TICKS, _TICK_APART = 7, 78
_COMPRESSION = 6

PAPER, INK, FAINT = "#ffffff", "#222222", "#e4e4e4"
RISE, FALL = "#1a9a78", "#d0453b"
SUPPORT, RESISTANCE, FIB, TREND, CLOSE = "#1f5fd0", "#c96a00", "#8a5fb8", "#111111", "#444444"
_SERIES = {
    "sma20": "#c2185b",
    "sma50": "#00838f",
    "sma200": "#6d4c41",
    "bollinger upper": "#8a8a8a",
    "lower": "#8a8a8a",
}

Label = tuple[int, str, str]  # row in the plot, text, colour
_COLOURS = {"support": SUPPORT, "resistance": RESISTANCE, "fib": FIB}
_DASHES = {"support": (1, 0), "resistance": (1, 0), "fib": (5, 4)}


@dataclass(frozen=True, slots=True)
class Segment:
    """A line between two bars, by their place among the bars drawn."""

    id: str
    start: tuple[float, float]
    end: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Panel:
    """One symbol's chart. bars: not a number if missing. series: by name, as long as the bars; swings: (bar, price,
    whether a high); oscillators: series from 0 to 100, in a strip each."""

    title: str
    bars: Bars
    marks: Sequence[DrawnLevel] = ()
    segments: Sequence[Segment] = ()
    swings: Sequence[tuple[int, float, bool]] = ()
    series: dict[str, Floats] = field(default_factory=dict)
    oscillators: dict[str, Floats] = field(default_factory=dict)


def size_of(panels: int) -> tuple[int, int]:
    """Return width and height in pixels of a picture of so many panels: two are one above the other, four a square."""
    columns = _COLUMNS if panels > _COLUMNS else 1
    return WIDTH * columns, HEIGHT * -(-panels // columns)


def picture(panels: Sequence[Panel]) -> bytes:
    width, height = size_of(len(panels))
    image = Image.new("RGB", (width, height), PAPER)
    for place, panel in enumerate(panels):
        row, column = divmod(place, width // WIDTH)
        image.paste(_drawn(panel), (column * WIDTH, row * HEIGHT))
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=_COMPRESSION)
    return file.getvalue()


def panel_scale(panel: Panel) -> Scale:
    """Return the scale of a panel's prices: all that its candles reach."""
    bars, (width, height) = panel.bars, _plot_size(panel)
    return scale_of(float(np.nanmin(bars.low)), float(np.nanmax(bars.high)), len(bars.dates), width, height)


def _plot_size(panel: Panel) -> tuple[int, int]:
    strips = 1 + len(panel.oscillators)
    return WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM - strips * (_STRIP + _GAP)


def _drawn(panel: Panel) -> Image.Image:
    image = Image.new("RGB", (WIDTH, HEIGHT), PAPER)
    draw, scale = ImageDraw.Draw(image), panel_scale(panel)
    _head(draw, panel)
    top = _TOP
    image.paste(_strip(scale, scale.height, partial(_prices, panel, scale)), (_LEFT, top))
    _price_axis(draw, panel, scale)
    top += scale.height + _GAP
    image.paste(_strip(scale, _STRIP, partial(_volume, panel.bars, scale)), (_LEFT, top))
    draw.text((WIDTH - _RIGHT + 6, top), "volume", INK, _font())
    for name, values in panel.oscillators.items():
        top += _STRIP + _GAP
        image.paste(_strip(scale, _STRIP, partial(_oscillator, values, scale)), (_LEFT, top))
        draw.text((WIDTH - _RIGHT + 6, top + _STRIP // 2 - _TEXT // 2), _valued(name, values), INK, _font())
    for column, label in date_ticks(panel.bars.dates, scale, _TICK_APART):
        draw.text((_LEFT + column, HEIGHT - _BOTTOM + 3), label, INK, _font())
    return image


def _strip(scale: Scale, height: int, fill: Callable[[ImageDraw.ImageDraw], None]) -> Image.Image:
    """Return a part of the plot, drawn by itself: its borders cut what reaches beyond."""
    part = Image.new("RGB", (scale.width, height), PAPER)
    draw = ImageDraw.Draw(part)
    fill(draw)
    draw.rectangle((0, 0, scale.width - 1, height - 1), outline=FAINT)
    return part


def _head(draw: ImageDraw.ImageDraw, panel: Panel) -> None:
    draw.text((_LEFT, 3), panel.title, INK, _font(14))
    left = float(_LEFT)
    for name, values in panel.series.items():
        text, colour = _valued(name, values), _SERIES.get(name, INK)
        draw.text((left, 20), text, colour, _font())
        left += draw.textlength(text, _font()) + 14


def _prices(panel: Panel, scale: Scale, draw: ImageDraw.ImageDraw) -> None:
    for price in price_ticks(scale.low, scale.high, _MOST_TICKS)[0]:
        draw.line((0, scale.y(price), scale.width, scale.y(price)), FAINT)
    for column, _label in date_ticks(panel.bars.dates, scale, _TICK_APART):
        draw.line((column, 0, column, scale.height), FAINT)
    for mark in panel.marks:
        _dashed(draw, scale.y(mark.price), scale.width, _COLOURS[mark.kind], *_DASHES[mark.kind])
    _candles(draw, panel.bars, scale)
    for name, values in panel.series.items():
        _curve(draw, values, scale, _SERIES.get(name, INK))
    for segment in panel.segments:
        _segment(draw, segment, scale)
    for at, price, high in panel.swings:
        x, y, side = scale.x(at), scale.y(price), -1 if high else 1
        draw.polygon([(x, y + side * 3), (x - 4, y + side * 9), (x + 4, y + side * 9)], INK)


def _segment(draw: ImageDraw.ImageDraw, segment: Segment, scale: Scale) -> None:
    """Draw a line, with its id where it leaves the plot."""
    (x, y), (right, end) = ((scale.x(bar), scale.y(price)) for bar, price in (segment.start, segment.end))
    draw.line((x, y, right, end), TREND)
    inside = min(max(end, 0), scale.height - 1)
    if end != inside and end != y:
        right = x + round((right - x) * (inside - y) / (end - y))
    draw.text((right - 24, inside + (4 if inside < _TEXT * 2 else -_TEXT - 4)), segment.id, TREND, _font())


def _candles(draw: ImageDraw.ImageDraw, bars: Bars, scale: Scale) -> None:
    half = scale.half_body
    columns = (bars.open.tolist(), bars.high.tolist(), bars.low.tolist(), bars.close.tolist())
    for at, (opened, high, low, close) in enumerate(zip(*columns, strict=True)):
        if close != close:
            continue
        x, colour = scale.x(at), RISE if close >= opened else FALL
        draw.line((x, scale.y(high), x, scale.y(low)), colour)
        top, bottom = scale.y(max(opened, close)), scale.y(min(opened, close))
        draw.rectangle((x - half, top, x + half, bottom), colour)


def _volume(bars: Bars, scale: Scale, draw: ImageDraw.ImageDraw) -> None:
    most = float(np.max(bars.volume, initial=0.0, where=np.isfinite(bars.volume)))
    if not most > 0:
        return
    half = scale.half_body
    for at, (volume, opened, close) in enumerate(
        zip(bars.volume.tolist(), bars.open.tolist(), bars.close.tolist(), strict=True)
    ):
        if volume == volume:
            top = _STRIP - 1 - round(volume / most * (_STRIP - 6))
            x = scale.x(at)
            draw.rectangle((x - half, top, x + half, _STRIP - 1), RISE if close >= opened else FALL)


def _oscillator(values: Floats, scale: Scale, draw: ImageDraw.ImageDraw) -> None:
    strip = Scale(0.0, 100.0, scale.bars, scale.width, _STRIP)
    for price in (30.0, 70.0):
        draw.line((0, strip.y(price), scale.width, strip.y(price)), FAINT)
    _curve(draw, values, strip, INK)


def _curve(draw: ImageDraw.ImageDraw, values: Floats, scale: Scale, colour: str) -> None:
    known = np.flatnonzero(np.isfinite(values))
    if len(known) > 1:
        draw.line([(scale.x(at), scale.y(float(values[at]))) for at in known.tolist()], colour)


def _dashed(draw: ImageDraw.ImageDraw, y: int, width: int, colour: str, on: int, off: int) -> None:
    if not off:
        draw.line((0, y, width, y), colour)
        return
    for x in range(0, width, on + off):
        draw.line((x, y, x + on - 1, y), colour)


def _price_axis(draw: ImageDraw.ImageDraw, panel: Panel, scale: Scale) -> None:
    """Write the labels of levels and of the close beside their rows, and of round prices where there is room."""
    close = float(panel.bars.close[-1])
    labels = [(scale.y(mark.price), f"{mark.id} {mark.price:.2f}", _COLOURS[mark.kind]) for mark in panel.marks]
    labels.append((scale.y(close), f"close {close:.2f}", CLOSE))
    ticks, digits = price_ticks(scale.low, scale.high, _MOST_TICKS)
    free = [price for price in ticks if all(abs(scale.y(price) - y) > _TEXT for y, _, _ in labels)]
    labels += [(scale.y(price), f"{price:.{digits}f}", INK) for price in free]
    left = WIDTH - _RIGHT
    for (y, text, colour), row in _apart(labels, scale.height):
        draw.line((left, _TOP + y, left + 4, _TOP + y, left + 10, _TOP + row), colour)
        draw.text((left + 13, _TOP + row - _TEXT // 2 - 1), text, colour, _font())


def _apart(labels: Sequence[Label], height: int) -> list[tuple[Label, int]]:
    """Return each label with a row for its text, as near to its own as the others' text lets it be."""
    ordered = sorted(labels)
    rows: list[int] = []
    for y, _, _ in ordered:
        rows.append(max(y, rows[-1] + _TEXT if rows else y))
    limit = height - 1
    for place in reversed(range(len(rows))):
        rows[place] = min(rows[place], limit)
        limit = rows[place] - _TEXT
    return list(zip(ordered, rows, strict=True))


def _valued(name: str, values: Floats) -> str:
    last = float(values[-1])
    return f"{name}: {last:.2f}" if math.isfinite(last) else f"{name}: unknown"


@cache
def _font(size: int = _TEXT) -> Any:
    """Return Pillow's own font, so that a picture is the same on every machine."""
    return ImageFont.load_default(size)

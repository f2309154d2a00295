"""The picture of charts: candles, volume, levels, lines and indicators, drawn by Pillow into a PNG.

The same panels give the same bytes, in any thread.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from chordesk.tools.charts.scale import Scale, date_ticks, price_ticks, scale_of
from chordesk.tools.charts.study import DrawnLevel
from chordesk.tools.market.protocol import Bars, Floats

# In points: a title and a legend, labels of prices, labels of dates.
_TOP, _RIGHT, _BOTTOM = 36, 104, 20
_LEFT, _GAP, _STRIP, _TEXT = 6, 4, 56, 12
_COLUMNS = 2
_MOST_TICKS, _TICK_APART = 7, 78
_COMPRESSION = 6

PAPER, INK, FAINT = "#ffffff", "#222222", "#e4e4e4"
RISE, FALL = "#1a9a78", "#d0453b"
SUPPORT, RESISTANCE, FIB, TREND, BROKEN, CLOSE, PLAN = (
    "#1f5fd0", "#c96a00", "#8a5fb8", "#111111", "#9a9a9a", "#444444", "#a3005f",
)  # fmt: skip
_SERIES = {
    "sma20": "#c2185b",
    "sma50": "#00838f",
    "sma200": "#6d4c41",
    "bollinger upper": "#8a8a8a",
    "lower": "#8a8a8a",
}

Label = tuple[int, str, str]  # row in the plot, text, colour
_COLOURS = {"support": SUPPORT, "resistance": RESISTANCE, "fib": FIB, "plan": PLAN}
_ZONES = {"support": "#dfe9fb", "resistance": "#fbe9d5"}
_DASHES = {"support": (1, 0), "resistance": (1, 0), "fib": (5, 4), "plan": (9, 4)}


class Size(NamedTuple):
    """A panel of width x height points, drawn with so many pixels a point."""

    width: int
    height: int
    zoom: int = 1


MODEL, PEOPLE = Size(800, 450), Size(1200, 800, 2)


@dataclass(frozen=True, slots=True)
class Segment:
    """A line between two bars, by their place among the bars drawn. broken: it does not hold any more."""

    id: str
    start: tuple[float, float]
    end: tuple[float, float]
    broken: bool = False


@dataclass(frozen=True, slots=True)
class Strip:
    """A series below the prices, on a scale of its own from low to high, with a guide at each of some values."""

    name: str
    values: Floats
    low: float
    high: float
    guides: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """One symbol's chart."""

    title: str
    bars: Bars  # not a number if missing
    marks: Sequence[DrawnLevel] = ()
    segments: Sequence[Segment] = ()
    swings: Sequence[tuple[int, float, bool]] = ()  # (bar, price, whether a high)
    series: dict[str, Floats] = field(default_factory=dict)  # by name, as long as the bars
    strips: Sequence[Strip] = ()  # a strip each below the volume
    days: Sequence[tuple[int, str]] = ()  # bars that are marked at the lower edge, by letter
    notes: Sequence[str] = ()  # of the plan, beside the values of the series


def size_of(panels: int, size: Size = MODEL) -> tuple[int, int]:
    """Width and height in pixels; two panels are one above the other, four a square."""
    columns = _COLUMNS if panels > _COLUMNS else 1
    return size.width * size.zoom * columns, size.height * size.zoom * -(-panels // columns)


def picture(panels: Sequence[Panel], size: Size = MODEL) -> bytes:
    width, height = size_of(len(panels), size)
    image = Image.new("RGB", (width, height), PAPER)
    for place, panel in enumerate(panels):
        row, column = divmod(place, width // (size.width * size.zoom))
        image.paste(_Drawing(panel, size).image(), (column * size.width * size.zoom, row * size.height * size.zoom))
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=_COMPRESSION)
    return file.getvalue()


def panel_scale(panel: Panel, size: Size = MODEL) -> Scale:
    strips = 1 + len(panel.strips)
    height = size.height - _TOP - _BOTTOM - strips * (_STRIP + _GAP)
    bars, zoom = panel.bars, size.zoom
    low, high = float(np.nanmin(bars.low)), float(np.nanmax(bars.high))
    return scale_of(low, high, len(bars.dates), (size.width - _LEFT - _RIGHT) * zoom, height * zoom)


class _Drawing:
    """One panel being drawn. Lengths are given in points and drawn in pixels."""

    def __init__(self, panel: Panel, size: Size) -> None:
        self._panel, self._zoom, self._size = panel, size.zoom, size
        self._scale = panel_scale(panel, size)
        self._strip = _STRIP * size.zoom
        self._labels_at = (size.width - _RIGHT) * size.zoom
        self._month_ends = list(date_ticks(panel.bars.dates, self._scale, _TICK_APART * size.zoom))

    def image(self) -> Image.Image:
        panel, scale, zoom = self._panel, self._scale, self._zoom
        image = Image.new("RGB", size_of(1, self._size), PAPER)
        draw, left, top = ImageDraw.Draw(image), _LEFT * zoom, _TOP * zoom
        self._head(draw)
        image.paste(self._part(scale.height, self._prices), (left, top))
        self._axis(draw, top, self._price_labels())
        top += scale.height + _GAP * zoom
        image.paste(self._part(self._strip, self._volume), (left, top))
        self._axis(draw, top, [(0, _volume_label(panel.bars), INK)])
        for strip in panel.strips:
            top += self._strip + _GAP * zoom
            own = Scale(strip.low, strip.high, scale.bars, scale.width, self._strip)
            image.paste(self._part(self._strip, partial(self._series_of, strip, own)), (left, top))
            guides = [(own.y(value), f"{value:g}", CLOSE) for value in strip.guides]
            self._axis(draw, top, [(0, _valued(strip.name, strip.values), INK), *guides])
        for column, label in self._month_ends:
            self._text(draw, left + column, (self._size.height - _BOTTOM + 3) * zoom, label, INK)
        return image

    def _part(self, height: int, fill: Callable[[ImageDraw.ImageDraw], None]) -> Image.Image:
        part = Image.new("RGB", (self._scale.width, height), PAPER)
        draw = ImageDraw.Draw(part)
        fill(draw)
        draw.rectangle((0, 0, self._scale.width - 1, height - 1), outline=FAINT)
        return part

    def _head(self, draw: ImageDraw.ImageDraw) -> None:
        zoom, left = self._zoom, float(_LEFT * self._zoom)
        draw.text((left, 3 * zoom), self._panel.title, INK, _font(14 * zoom))
        for name, values in self._panel.series.items():
            text = _valued(name, values)
            self._text(draw, left, 20 * zoom, text, _SERIES.get(name, INK))
            left += draw.textlength(text, _font(_TEXT * zoom)) + 14 * zoom
        self._text(draw, left, 20 * zoom, "; ".join(self._panel.notes), PLAN)

    def _prices(self, draw: ImageDraw.ImageDraw) -> None:
        panel, scale, zoom = self._panel, self._scale, self._zoom
        for mark in panel.marks:
            if mark.kind in _ZONES and mark.high > mark.low:
                draw.rectangle((0, scale.y(mark.high), scale.width, scale.y(mark.low)), _ZONES[mark.kind])
        for price in price_ticks(scale.low, scale.high, _MOST_TICKS)[0]:
            draw.line((0, scale.y(price), scale.width, scale.y(price)), FAINT, zoom)
        for column, _label in self._month_ends:
            draw.line((column, 0, column, scale.height), FAINT, zoom)
        for mark in panel.marks:
            self._dashed(draw, scale.y(mark.price), _COLOURS[mark.kind], *_DASHES[mark.kind])
        self._candles(draw)
        for name, values in panel.series.items():
            self._curve(draw, values, scale, _SERIES.get(name, INK))
        for segment in panel.segments:
            self._segment(draw, segment)
        for at, price, high in panel.swings:
            x, y, side = scale.x(at), scale.y(price), (-1 if high else 1) * zoom
            draw.polygon([(x, y + side * 3), (x - 4 * zoom, y + side * 9), (x + 4 * zoom, y + side * 9)], INK)
        for at, letter in panel.days:
            x, y = scale.x(at), scale.height - (_TEXT + 6) * zoom
            draw.rectangle((x - 6 * zoom, y, x + 6 * zoom, y + (_TEXT + 2) * zoom), PAPER, INK, zoom)
            self._text(draw, x - 4 * zoom, y, letter, INK)

    def _segment(self, draw: ImageDraw.ImageDraw, segment: Segment) -> None:
        (x, y), end = ((self._scale.x(bar), self._scale.y(price)) for bar, price in (segment.start, segment.end))
        draw.line((x, y, *end), BROKEN if segment.broken else TREND, self._zoom)

    def _candles(self, draw: ImageDraw.ImageDraw) -> None:
        bars, scale = self._panel.bars, self._scale
        half = scale.half_body
        columns = (bars.open.tolist(), bars.high.tolist(), bars.low.tolist(), bars.close.tolist())
        for at, (opened, high, low, close) in enumerate(zip(*columns, strict=True)):
            if close != close:
                continue
            x, colour = scale.x(at), RISE if close >= opened else FALL
            draw.line((x, scale.y(high), x, scale.y(low)), colour, self._zoom)
            top, bottom = scale.y(max(opened, close)), scale.y(min(opened, close))
            draw.rectangle((x - half, top, x + half, bottom), colour)

    def _volume(self, draw: ImageDraw.ImageDraw) -> None:
        bars, scale = self._panel.bars, self._scale
        most, half, bottom = _most_volume(bars), scale.half_body, self._strip - 1
        if not most > 0:
            return
        columns = (bars.volume.tolist(), bars.open.tolist(), bars.close.tolist())
        for at, (volume, opened, close) in enumerate(zip(*columns, strict=True)):
            if volume == volume:
                top, x = bottom - round(volume / most * (self._strip - 6 * self._zoom)), scale.x(at)
                draw.rectangle((x - half, top, x + half, bottom), RISE if close >= opened else FALL)

    def _series_of(self, strip: Strip, scale: Scale, draw: ImageDraw.ImageDraw) -> None:
        for value in strip.guides:
            draw.line((0, scale.y(value), scale.width, scale.y(value)), FAINT, self._zoom)
        self._curve(draw, strip.values, scale, INK)

    def _curve(self, draw: ImageDraw.ImageDraw, values: Floats, scale: Scale, colour: str) -> None:
        known = np.flatnonzero(np.isfinite(values))
        if len(known) > 1:
            draw.line([(scale.x(at), scale.y(float(values[at]))) for at in known.tolist()], colour, self._zoom)

    def _dashed(self, draw: ImageDraw.ImageDraw, y: int, colour: str, on: int, off: int) -> None:
        width, zoom = self._scale.width, self._zoom
        for x in range(0, width, (on + off) * zoom) if off else (0,):
            draw.line((x, y, x + on * zoom - 1 if off else width, y), colour, zoom)

    def _price_labels(self) -> list[Label]:
        """Return the labels of levels, lines and the close, and of round prices where there is room."""
        panel, scale = self._panel, self._scale
        close = float(panel.bars.close[-1])
        labels = [(scale.y(one.price), f"{one.id} {one.price:.2f}", _COLOURS[one.kind]) for one in panel.marks]
        labels += [self._line_label(segment) for segment in panel.segments]
        labels.append((scale.y(close), f"close {close:.2f}", CLOSE))
        ticks, digits = price_ticks(scale.low, scale.high, _MOST_TICKS)
        apart = _TEXT * self._zoom
        free = [price for price in ticks if all(abs(scale.y(price) - y) > apart for y, _, _ in labels)]
        return [*labels, *((scale.y(price), f"{price:.{digits}f}", INK) for price in free)]

    def _line_label(self, segment: Segment) -> Label:
        """Return the label of a line at the last bar, at the edge that it leaves the frame by where it does."""
        price = segment.end[1]
        end, last = self._scale.y(price), self._scale.height - 1
        side = " over" if end < 0 else " under" if end > last else ""
        return min(max(end, 0), last), f"{segment.id}{side} {price:.2f}", BROKEN if segment.broken else TREND

    def _axis(self, draw: ImageDraw.ImageDraw, top: int, labels: Sequence[Label]) -> None:
        zoom, left = self._zoom, self._labels_at
        height = self._scale.height - _TEXT * zoom if top == _TOP * zoom else self._strip
        for (y, text, colour), row in _apart(labels, height, _TEXT * zoom):
            tick = (left, top + y, left + 4 * zoom, top + y, left + 10 * zoom, top + row)
            draw.line(tick, colour, zoom)
            self._text(draw, left + 13 * zoom, top + row - (_TEXT // 2 + 1) * zoom, text, colour)

    def _text(self, draw: ImageDraw.ImageDraw, x: float, y: float, text: str, colour: str) -> None:
        draw.text((x, y), text, colour, _font(_TEXT * self._zoom))


def _apart(labels: Sequence[Label], height: int, least: int) -> list[tuple[Label, int]]:
    """Return each label with a row for its text, as near to its own as the others' text lets it be."""
    ordered = sorted(labels)
    rows: list[int] = []
    for y, _, _ in ordered:
        rows.append(max(y, rows[-1] + least if rows else y))
    limit = height - 1
    for place in reversed(range(len(rows))):
        rows[place] = min(rows[place], limit)
        limit = rows[place] - least
    return list(zip(ordered, rows, strict=True))


def _most_volume(bars: Bars) -> float:
    return float(np.max(bars.volume, initial=0.0, where=np.isfinite(bars.volume)))


def _volume_label(bars: Bars) -> str:
    most = _most_volume(bars)
    for unit, letter in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if most >= unit:
            return f"volume {most / unit:.1f}{letter}"
    return f"volume {most:.0f}" if most > 0 else "volume: unknown"


def _valued(name: str, values: Floats) -> str:
    last = float(values[-1])
    return f"{name}: {last:.2f}" if math.isfinite(last) else f"{name}: unknown"


@cache
def _font(size: int) -> Any:
    """Return Pillow's own font, so that a picture is the same on every machine."""
    return ImageFont.load_default(size)

"""The formats of documents: one HTML file without script, markdown that a terminal can show, and JSON."""

from __future__ import annotations

import base64
import bisect
import datetime as dt
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PrefixLoader, StrictUndefined
from markupsafe import Markup, escape

from chordesk.models import features
from chordesk.models import text as text_module
from chordesk.models.exchanges import EXCHANGES, HOME, at_exchange, exchange_code
from chordesk.models.money import DOLLAR, coded
from chordesk.models.text import NEW_YORK, inert, json_shown, utc_seconds
from chordesk.tasks.reading import run_parts
from chordesk.tasks.reading.accounts import EquityCurve
from chordesk.tasks.reading.chain import approval_label, denial
from chordesk.tasks.reading.symbol_history import Candle
from chordesk.tasks.reports.report_schema import (
    FORMAT,
    ChartMark,
    Document,
    Dossier,
    Format,
    MarkKind,
    PageLinks,
    PriceChart,
    RunDocument,
)
from chordesk.tools.charts.scale import price_ticks

NONE = "-"
_SPARKS = "▁▂▃▄▅▆▇█"


def moment(at: dt.datetime | None) -> str:
    return utc_seconds(at) if at is not None else NONE


def market_time(at: dt.datetime | None, of: str = HOME) -> str:
    """Return a time where an exchange is. of: its code, or a symbol of it."""
    return at_exchange(at, of if of in EXCHANGES else exchange_code(of)) if at is not None else NONE


def count(value: float | None) -> str:
    return NONE if value is None else f"{value:,.0f}"


def size(value: float | None, currency: str = DOLLAR) -> str:
    """Return shares or contracts, or a price, with the digits that it has. currency: of a price."""
    return NONE if value is None else coded(f"{value:,.6f}".rstrip("0").rstrip("."), currency)


def money(value: float | None, currency: str = DOLLAR) -> str:
    return NONE if value is None else coded(f"{value:,.2f}", currency)


def share(value: float | None) -> str:
    return NONE if value is None else f"{value:.2%}"


def span(seconds: float | None) -> str:
    return NONE if seconds is None else text_module.span(seconds)


def counts(found: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in found.items()) or NONE


def sparkline(bars: Sequence[Candle], width: int = 60) -> str:
    """Return the closes as a line of blocks, each of about as many sessions; empty without a close."""
    closes = [bar.close for bar in bars if bar.close is not None]
    if not closes:
        return ""
    picked = [closes[at * len(closes) // width] for at in range(width)] if len(closes) > width else closes
    picked[-1] = closes[-1]
    low, high = min(picked), max(picked)
    top = len(_SPARKS) - 1
    return "".join(_SPARKS[round((one - low) / (high - low) * top) if high > low else top // 2] for one in picked)


def plain(value: Any) -> str:
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.4f}".rstrip("0").rstrip(".")
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {plain(one)}" for name, one in value.items()) or NONE
    if isinstance(value, list | tuple):
        return ", ".join(plain(one) for one in value) or NONE
    return str(value)


UNSEEN = "\u25af"  # in place of a character that would steer a terminal or turn the line around
_SPECIAL = re.compile(r"[\\`*\[\]|~]|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])")
# At the start of a line: a heading, a list, or a line that makes a heading of the one before.
_BEGINS = re.compile(r"^(#{1,6}(?=\s|$)|[+-](?=\s|$)|\d+[.)](?=\s|$)|[=-]+$)")
# A bare address would become a link.
_ADDRESS = re.compile(r"(?i)(?<=[a-z])(?=:/)|(?<=\bwww)(?=\.)|(?=@)")


def visible(text: str) -> str:
    """Return the text with a sign in place of each character that cannot be seen; line ends and tabs are kept."""
    return inert(text, instead=UNSEEN, kept="\n\t")


def one_line(text: str) -> str:
    return text_module.one_line(text, instead=UNSEEN)


def marked(text: str) -> str:
    """Return the text as one line of markdown that shows it literally: no emphasis, link, code, table or HTML."""
    shown = one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    shown = _ADDRESS.sub(r"\\", _SPECIAL.sub(r"\\\g<0>", shown))
    return _BEGINS.sub(lambda found: _escaped(found[1]), shown)


def _escaped(start: str) -> str:
    return f"{start[:-1]}\\{start[-1]}"


_LINES = 5


class Axis(NamedTuple):
    """A line from values to points. low, high: values; start, end: their points."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


_MARGIN = 0.06  # of the values' range, above and below


def axis(values: Sequence[float], start: float, end: float) -> Axis:
    low, high = min(values), max(values)
    room = ((high - low) or max(abs(high), 1.0)) * _MARGIN
    return Axis(low - room, high + room, start, end)


def grid(up: Axis, left: int, right: int) -> Iterator[str]:
    values, digits = price_ticks(up.low, up.high, _LINES)
    for value in values:
        y = number(up.at(value))
        yield f'<path class="grid" d="M{left} {y}H{right}"/>'
        yield f'<text class="axis" x="{right + 5}" y="{y}">{value:,.{digits}f}</text>'


def number(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")


# A chart of candles as inline SVG: bodies hollow where a session rose and filled where it fell, and marks with signs.
#
# Colours are classes of the document's style, and none has a meaning by itself. Every text is escaped.

CANDLES_WIDTH, CANDLES_HEIGHT = 720, 260
_CANDLES_LEFT, _CANDLES_RIGHT, _CANDLES_TOP, _CANDLES_BOTTOM = 6, 668, 50, 236
_MOST_MARKS = 80
# A sign for each kind, drawn around its point.
SIGNS: dict[MarkKind, str] = {
    "hit": "M0-5 5 0 0 5-5 0Z",
    "verdict": "M-4-4H4V4H-4Z",
    "order": "M0-5 5 4H-5Z",
    "fill": "M0-4.5A4.5 4.5 0 1 1-.01-4.5Z",
}


def candle_chart(chart: PriceChart) -> Markup:
    bars = [bar for bar in chart.bars if bar.close is not None]
    if not bars:
        return Markup("")
    across = Axis(-0.5, len(bars) - 0.5, _CANDLES_LEFT, _CANDLES_RIGHT)
    up = axis([value for bar in bars for value in _prices(bar)], _CANDLES_BOTTOM, _CANDLES_TOP)
    name = one_line(f"{chart.symbol}: {len(bars)} sessions from {chart.first} to {chart.last}")
    last = f"the last close is {chart.last_close:g}" if chart.last_close is not None else "the last close is not known"
    parts = [
        f'<svg class="chart" viewBox="0 0 {CANDLES_WIDTH} {CANDLES_HEIGHT}" role="img" '
        f'aria-label="{escape(name)}; {last}">',
        f"<title>{escape(name)}</title>",
        *grid(up, _CANDLES_LEFT, _CANDLES_RIGHT),
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
        yield f'<text class="axis mid" x="{x}" y="{CANDLES_HEIGHT - 8}">{bars[at].at[:7]}</text>'


def _bodies(bars: Sequence[Candle], across: Axis, up: Axis) -> Iterator[str]:
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
    days, stacked = [bar.at[:10] for bar in bars], dict[int, int]()
    for one in marks:
        day = one.at.astimezone(NEW_YORK).date().isoformat()
        at = bisect.bisect_right(days, day) - 1
        if at < 0:
            continue  # before the first session that is drawn
        drawn = one.price is not None and up.low <= one.price <= up.high
        if drawn and one.price is not None:
            y = up.at(one.price)
        else:
            y = 8.0 + 11 * min(stacked.get(at, 0), 3)
            stacked[at] = stacked.get(at, 0) + 1
        place = f"translate({number(across.at(at))} {number(y)})"
        label = escape(one_line(f"{day} {one.label}"))
        line = "" if drawn else f'<path class="stem" d="M{number(across.at(at))} {number(y + 6)}V{_CANDLES_BOTTOM}"/>'
        sign = f'<path class="mark {one.kind}" transform="{place}" d="{SIGNS[one.kind]}">'
        yield f"{line}{sign}<title>{label}</title></path>"


LINES_WIDTH, LINES_HEIGHT = 720, 220
_LINES_LEFT, _LINES_RIGHT, _LINES_TOP, _LINES_BOTTOM = 6, 648, 10, 190


class Line(NamedTuple):
    name: str  # one of `equity`, `held`, `even`, which the style draws unlike each other
    label: str
    values: Sequence[float | None]  # None where there is none, and the line has a gap


def line_chart(days: Sequence[dt.date], lines: Sequence[Line], label: str) -> Markup:
    known = [value for line in lines for value in line.values if value is not None]
    if len(days) < 2 or len(known) < 2:
        return Markup("")
    across, up = Axis(0, len(days) - 1, _LINES_LEFT, _LINES_RIGHT), axis(known, _LINES_BOTTOM, _LINES_TOP)
    text = escape(f"{label}, {days[0]} to {days[-1]}")
    parts = [
        f'<svg class="chart" viewBox="0 0 {LINES_WIDTH} {LINES_HEIGHT}" role="img" '
        f'aria-label="{text}"><title>{text}</title>',
        *grid(up, _LINES_LEFT, _LINES_RIGHT),
        *(f'<path class="line {escape(line.name)}" d="{_path(line.values, across, up)}"/>' for line in lines),
        *_days(days, across),
        "</svg>",
    ]
    return Markup("".join(parts))


def _days(days: Sequence[dt.date], across: Axis) -> Iterator[str]:
    places = sorted({0, len(days) // 3, 2 * len(days) // 3, len(days) - 1})
    for place in places:
        side = "" if place == 0 else " end" if place == len(days) - 1 else " mid"
        yield f'<text class="axis{side}" x="{number(across.at(place))}" y="{LINES_HEIGHT - 10}">{days[place]}</text>'


def _path(values: Sequence[float | None], across: Axis, up: Axis) -> str:
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


# A document as one HTML file: no script, and nothing that is loaded from an address.
#
# Its own style is the only one that its policy lets through, and every text is escaped, whatever its origin.

TEMPLATES = Path(__file__).parent / "templates"
_LONGEST = 40_000  # characters of a graph's output that are shown
_CLASS_NAME = re.compile(r"[A-Za-z_]+")


def html(found: Document) -> str:
    return _rendered(_html_environment(), found, "html")


def _rendered(environment: Environment, found: Document, ending: str) -> str:
    given = {"found": found, "pages": PageLinks(found.service)}
    more = _of_features(environment, found, ending, given) if isinstance(found, RunDocument) else []
    return environment.get_template(f"{found.kind}.{ending}").render(**given, more=more)


def _of_features(environment: Environment, found: RunDocument, ending: str, given: dict[str, Any]) -> list[Markup]:
    parts = [*run_parts.given(found.run, "run", "detail"), *run_parts.given(found, "report")]
    made = []
    for part, value in parts:
        if part.shown.template:
            name = f"{part.of.name}/{part.shown.template.partition(':')[2]}.{ending}"
            made.append(part.call(f"{__name__}:in_template", environment, name, {**given, "one": value}))
    return [one for one in made if one is not None]


def in_template(environment: Environment, name: str, given: dict[str, Any]) -> Markup:
    return Markup(environment.get_template(name).render(**given))


@cache
def _templates() -> ChoiceLoader:
    """The desk's templates, and below the name of a feature its own."""
    packages = {
        one.of.name: one.shown.template.partition(":")[0]
        for one in run_parts.parts("run", "detail", "report")
        if one.shown.template
    }
    folders = {name: Path(features.load(package).__path__[0]) / "templates" for name, package in packages.items()}
    own = FileSystemLoader(TEMPLATES)
    return ChoiceLoader([own, PrefixLoader({name: FileSystemLoader(one) for name, one in folders.items()})])


def policy() -> str:
    return f"default-src 'none'; style-src '{_style()[1]}'; base-uri 'none'; form-action 'none'"


@cache
def _html_environment() -> Environment:
    made = Environment(
        loader=_templates(), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, finalize=_shown,
    )  # fmt: skip
    made.filters.update(FILTERS)
    made.filters.update(candle_chart=candle_chart, equity_chart=_equity_chart, classname=_classname)
    style, digest = _style()
    made.globals.update(style=Markup(style), style_hash=digest, signs=SIGNS)
    return made


@cache
def _style() -> tuple[str, str]:
    style = (TEMPLATES / "style.css").read_text(encoding="utf-8").strip()
    return style, f"sha256-{base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()}"


def _shown(value: Any) -> Any:
    """Return text with what cannot be seen in it made visible; what the desk's own code drew is left as it is."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _classname(text: Any) -> str:
    return str(text) if _CLASS_NAME.fullmatch(str(text)) else ""


def _equity_chart(curve: EquityCurve) -> Markup:
    line = Line("equity", "equity", [one.equity for one in curve.days])
    return line_chart([one.day for one in curve.days], [line], f"Equity of {curve.account}")


def _shares(found: dict[str, Any] | None) -> str:
    return "; ".join(f"{name} {share(value)}" for name, value in (found or {}).items()) or NONE


def verdict(one: Dossier) -> str:
    if one.combined_rating is None:
        return "none"
    return f"{one.combined_rating} ({one.combined_confidence})"


def _json(value: Any) -> str:
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}\n… cut: the JSON has all of it"


FILTERS = {
    "moment": moment,
    "market_time": market_time,
    "count": count,
    "size": size,
    "money": money,
    "share": share,
    "span": span,
    "cost": str,
    "counts": lambda found: counts(found or {}),
    "plain": plain,
    "sparkline": sparkline,
    "present": lambda values: [one for one in values if one],
    "verdict": verdict,
    "standing": str,
    "denial": denial,
    "approval": approval_label,
    "shares": _shares,
    "json": _json,
}


_GAPS = re.compile(r"\n{3,}")


def markdown(found: Document) -> str:
    text = _rendered(_markdown_environment(), found, "md")
    return _GAPS.sub("\n\n", text).strip() + "\n"


@cache
def _markdown_environment() -> Environment:
    # With autoescape on, what a template puts together itself is kept apart from the texts that are put into it.
    made = Environment(
        loader=_templates(), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, finalize=_literal,
    )  # fmt: skip
    made.filters.update(FILTERS, fenced=_fenced)
    return made


def _literal(value: Any) -> Any:
    return value if isinstance(value, Markup) or value == NONE else Markup(marked(str(value)))


def _fenced(text: str) -> Markup:
    """Return a block of code with the text, behind a fence that is longer than any in it."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return Markup(f"{fence}text\n{visible(text).rstrip()}\n{fence}")


_FORMAT_NAME = re.escape(FORMAT.encode())
_OWN = re.compile(
    rb'\s*(?:<!-- %b |\{\s*"format":\s*"%b"|<!doctype html>.{0,120}<meta name="generator" content="%b )'
    % (_FORMAT_NAME, _FORMAT_NAME, _FORMAT_NAME),
    re.DOTALL,
)
OWN_BYTES = 400  # in which a document of the desk shows itself as one


def rendered(found: Document, wanted: Format) -> str:
    match wanted:
        case "html":
            return html(found)
        case "md":
            return markdown(found)
        case "json":
            return json_shown(found.model_dump_json(indent=1)) + "\n"


def is_own(beginning: bytes) -> bool:
    """Return whether a file that begins so is a document of the desk."""
    return _OWN.match(beginning) is not None

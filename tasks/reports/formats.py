"""The formats of documents: one HTML file without script, markdown that a terminal can show, and JSON."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from functools import cache
from pathlib import Path
from typing import Any, Literal

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from chordesk.models.text import json_shown
from chordesk.tasks.reading.accounts import EquityCurve
from chordesk.tasks.reading.chain import approval_label, denial
from chordesk.tasks.reading.runs import BacktestView
from chordesk.tasks.reports import figures
from chordesk.tasks.reports.figures import NONE, SIGNS, Line, candle_chart, line_chart, marked, visible
from chordesk.tasks.reports.schema import FORMAT, Document, Dossier, PageLinks

# A document as one HTML file: no script, and nothing that is loaded from an address.
#
# Its own style is the only one that its policy lets through, and every text is escaped, whatever its origin.

TEMPLATES = Path(__file__).parent / "templates"
_LONGEST = 40_000  # characters of a graph's output that are shown
_CLASS_NAME = re.compile(r"[A-Za-z_]+")


def html(found: Document) -> str:
    return _html_environment().get_template(f"{found.kind}.html").render(found=found, pages=PageLinks(found.service))


def policy() -> str:
    return f"default-src 'none'; style-src '{_style()[1]}'; base-uri 'none'; form-action 'none'"


@cache
def _html_environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, finalize=_shown,
    )  # fmt: skip
    made.filters.update(FILTERS)
    made.filters.update(
        candle_chart=candle_chart, equity_chart=_equity_chart, backtest_chart=_backtest_chart, classname=_classname
    )
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


def _backtest_chart(found: BacktestView) -> Markup:
    lines = [Line("equity", "the desk", [row.equity for row in found.rows])]
    days = [row.day for row in found.rows]
    curve = (found.result or {}).get("curve") or []
    by_day = {one["day"]: one for one in curve}
    if curve:
        for name, key in (("held", "held"), ("even", "equal_weight")):
            lines.append(Line(name, name, [(by_day.get(day.isoformat()) or {}).get(key) for day in days]))
    return line_chart(days, lines, "Equity of the backtest")


def _shares(found: dict[str, Any] | None) -> str:
    return "; ".join(f"{name} {figures.share(value)}" for name, value in (found or {}).items()) or figures.NONE


def verdict(one: Dossier) -> str:
    if one.combined_rating is None:
        return "none"
    return f"{one.combined_rating} ({one.combined_confidence})"


def _json(value: Any) -> str:
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}\n… cut: the JSON has all of it"


FILTERS = {
    "moment": figures.moment,
    "market_time": figures.market_time,
    "count": figures.count,
    "size": figures.size,
    "money": figures.money,
    "share": figures.share,
    "span": figures.span,
    "cost": str,
    "counts": lambda found: figures.counts(found or {}),
    "plain": figures.plain,
    "sparkline": figures.sparkline,
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
    text = _markdown_environment().get_template(f"{found.kind}.md").render(found=found, pages=PageLinks(found.service))
    return _GAPS.sub("\n\n", text).strip() + "\n"


@cache
def _markdown_environment() -> Environment:
    # With autoescape on, what a template puts together itself is kept apart from the texts that are put into it.
    made = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
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


Format = Literal["md", "html", "json"]
MEDIA_TYPES: dict[Format, str] = {
    "md": "text/markdown; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "json": "application/json",
}
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

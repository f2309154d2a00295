"""Analyses on a terminal: the recommendation, the contract, the checks, the risks, the texts and the order of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from chordesk.models.analysis import WRITES, break_even_texts
from chordesk.models.database.artifacts import removal_note
from chordesk.tasks.cli.output import paragraph
from chordesk.tasks.cli.render.indented import Indented
from chordesk.tasks.cli.render.sizes import count_text
from chordesk.tasks.views.analyses import AnalysisRow, AnalystText

MOST_RISKS = 4
_STYLES = {"select": "green", "reject": "red", "incomplete": "magenta"}
_STATES = {"ok": "green", "warn": "yellow", "fail": "red", "unknown": "magenta"}
_ORDERS = {"filled": "green", "previewed": "cyan", "denied": "yellow", "rejected": "red"}


def analyses_report(rows: Sequence[AnalysisRow], home: Path | None = None) -> RenderableType:
    """Return all that a person wants to know of each analysis. home: the data folder of this shell, which
    its pictures are in; a worker on another machine has its own."""
    return Group(*(line for row in rows for line in _analysis(row, home)))


def _analysis(row: AnalysisRow, home: Path | None) -> Iterable[RenderableType]:
    yield Text.assemble(
        (f"\n{row.symbol} ", "bold"),
        f"{row.strategy}: ",
        (row.recommendation, _STYLES[row.recommendation]),
        f", verdict {row.rating}, {row.confidence} confidence",
    )
    for reason in row.reasons:
        yield _in(paragraph(reason))
        if reason.startswith("research: no_data"):
            yield _in(_without_research(row.strategy), "dim")
    if row.recommendation == "select" and (contract := row.figures.get("contract")):
        yield from map(_in, _contract(contract))
    for check in row.checks:
        yield Indented(Text.assemble((f"{check.state:<8}", _STATES[check.state]), paragraph(check.text)), 2)
    for risk in row.key_risks[:MOST_RISKS]:
        yield _in(f"risk: {paragraph(risk)}")
    if row.picture is not None:
        # From the first column on: a path just fits a line, and one that is wrapped cannot be copied.
        yield Text(f"  chart, in {home or 'the data folder'}:\n{row.picture}")
        if (note := removal_note(home, row.picture)) is not None:
            yield _in(note, "dim")
    for text in row.texts:
        yield _in(_own_text(text), "dim")
    if row.headline is not None:
        yield _in(f"{row.author}: {paragraph(row.headline)} {paragraph(row.summary)}")
    yield from _order(row)


def _without_research(strategy: str) -> str:
    if strategy in WRITES:
        return "--no-research analyses without it; a verdict is then at most CAUTION"
    return f"{strategy} needs a market with sources of research, such as yahoo: docs/research.md"


def _in(text: str, style: str = "") -> RenderableType:
    return Indented(Text(text, style=style), 2)


def _contract(found: Mapping[str, Any]) -> Iterable[str]:
    """Return lines with the figures of a contract; one that is not known is left out."""
    yield f"sell {found['contract']}: strike {found['best_strike']:g}, expires {found['best_expiration']}"
    rows = (
        (("bid", "bid {:.2f}"), ("ask", "ask {:.2f}"), ("premium", "mid {:.2f} a share"), ("dte", "{} days")),
        (
            ("roc", "return {:.2%}"),
            ("weekly_roc", "{:.2%} a week"),
            ("annualized_roc", "{:.1%} a year"),
            *break_even_texts(found["contract"]),
        ),
        (
            ("delta", "delta {:.3f}"),
            ("theta", "theta {:.3f} a day"),
            ("vega", "vega {:.3f}"),
            ("iv", "implied volatility {:.1%}"),
            ("iv_hv_ratio", "at the money {:.2f} of realised"),
        ),
    )
    for names in rows:
        known = [text.format(found[name]) for name, text in names if found.get(name) is not None]
        if known:
            yield ", ".join(known)


def _own_text(text: AnalystText) -> str:
    if text.status != "completed":
        return f"{text.role} {text.status}: {paragraph(text.reason)}"
    return f"{text.role} {text.verdict} ({text.confidence}), by {text.author}: “{paragraph(text.summary)}”"


def _order(row: AnalysisRow) -> Iterable[RenderableType]:
    if (order := row.order) is None:
        return
    size = " ".join(part for part in (order.side, count_text(order.quantity or 0), row.contract) if part)
    limit = f" at {order.limit_price:.2f}" if order.limit_price is not None else ""
    yield Indented(Text.assemble(f"order {size}{limit}: ", (order.state, _ORDERS.get(order.state, ""))), 2)
    for why in (order.suppressed, order.message):
        if why:
            yield Indented(Text(paragraph(why), style="yellow"), 4)

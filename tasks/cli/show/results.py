"""Results of runs on a terminal: analyses, portfolio research, and where figures of reports came from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from chordesk.models.analysis import WRITES, break_even_texts
from chordesk.models.database.blobs import removal_note
from chordesk.models.exchanges import at_listing
from chordesk.models.text import inert
from chordesk.tasks.cli.output import Indented, bounded, facts, paragraph, state
from chordesk.tasks.cli.show.amount_text import count_text

if TYPE_CHECKING:
    from chordesk.models.answers import Grounding
    from chordesk.models.tables.runs import Report
    from chordesk.tasks.reading.accounts import ExecutedRole, HoldingResult, PortfolioResearchResult, SkippedRole
    from chordesk.tasks.reading.report_view import AnalysisRow, GroundedReport

MOST_RISKS = 4


def analyses_report(rows: Sequence[AnalysisRow], home: Path | None = None) -> RenderableType:
    """home: the data folder of this shell, which its pictures are in; a worker on another machine has its own."""
    return Group(*(line for row in rows for line in _analysis(row, home)))


def _analysis(row: AnalysisRow, home: Path | None) -> Iterable[RenderableType]:
    one = row.analysis
    yield Text.assemble(
        (f"\n{one.symbol} ", "bold"),
        f"{one.strategy} plan: ",
        state(one.recommendation),
        f"; the share is rated {one.rating}, {one.confidence} confidence",
    )
    for reason in one.reasons:
        yield _in(paragraph(reason))
        if reason.startswith("research: no_data"):
            yield _in(_without_research(one.strategy), "dim")
    if one.recommendation == "select" and (contract := one.figures.get("contract")):
        yield from map(_in, _contract(contract))
    for check in one.checks:
        yield Indented(Text.assemble(state(check["state"], f"{check['state']:<8}"), paragraph(check["text"])), 2)
    for risk in one.key_risks[:MOST_RISKS]:
        yield _in(f"risk: {paragraph(risk)}")
    if row.picture is not None:
        # From the first column on: a path just fits a line, and one that is wrapped cannot be copied.
        yield Text(f"  chart, in {home or 'the data folder'}:\n{row.picture}")
        if (note := removal_note(home, row.picture)) is not None:
            yield _in(note, "dim")
    for text in row.texts:
        yield _in(_own_text(text), "dim")
    if one.headline is not None:
        yield _in(f"{one.author}: {paragraph(one.headline)} {paragraph(one.summary)}")
    yield from _order(row)


def _without_research(strategy: str) -> str:
    if strategy in WRITES:
        return "--no-research analyses without it; the share is then rated CAUTION at most"
    return f"{strategy} needs a market with sources of research, such as yahoo: docs/research.md"


def _in(text: str, style: str = "") -> RenderableType:
    return Indented(Text(text, style=style), 2)


def _contract(found: Mapping[str, Any]) -> Iterable[str]:
    """Return lines with the known figures of a contract."""
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
        (
            ("put_skew", "put skew {:+.1%}"),
            ("term_slope", "term slope {:+.1%}"),
            ("iv_rank", "implied rank {:.0%} of its stored year"),
        ),
    )
    for names in rows:
        known = [text.format(found[name]) for name, text in names if found.get(name) is not None]
        if known:
            yield ", ".join(known)


def _own_text(text: Report) -> str:
    if text.status != "completed":
        return f"{text.role} {text.status}: {paragraph(text.reason)}"
    return f"{text.role} {text.verdict} ({text.confidence}), by {text.author}: “{paragraph(text.summary)}”"


def _order(row: AnalysisRow) -> Iterable[RenderableType]:
    if (order := row.order) is None:
        return
    size = " ".join(part for part in (order.side, count_text(order.quantity or 0), row.analysis.contract) if part)
    limit = f" at {order.limit_price:.2f}" if order.limit_price is not None else ""
    yield Indented(Text.assemble(f"order {size}{limit}: ", state(order.state)), 2)
    for why in (order.denial_reason, order.message):
        if why:
            yield Indented(Text(paragraph(why), style="yellow"), 4)


def portfolio_research(result: PortfolioResearchResult) -> RenderableType:
    ran = sum(len(one.executed_roles_with_reasons) for one in result.holdings)
    skipped = sum(len(one.skipped_roles) for one in result.holdings)
    parts: list[RenderableType] = [
        Text.assemble(("Portfolio research: ", "bold"), f"roles run {ran}, skipped {skipped}")
    ]
    for one in result.holdings:
        parts += _holding(one)
    return Group(*parts)


def _holding(one: HoldingResult) -> Iterable[RenderableType]:
    from chordesk.tasks.reading.accounts import signed

    price = "not known" if one.price is None else f"{one.price:,.2f}"
    yield Text(f"  {one.symbol:<6} price {price}, unrealized {signed(one.unrealized)}")
    lines = {
        "ran": [Text(_ran(role)) for role in one.executed_roles_with_reasons],
        "skipped": [Text(_skipped(role, one.symbol), style="dim") for role in one.skipped_roles],
        "missing": [Text(f"{inert(gap)}: no role becomes due by it", style="yellow") for gap in one.missing],
    }
    named = [("" if place else what, line) for what, some in lines.items() for place, line in enumerate(some)]
    yield Indented(facts(named), 9)


def _ran(role: ExecutedRole) -> str:
    return f"{role.role} ({role.why}): {role.verdict or role.status}"


def _skipped(role: SkippedRole, symbol: str) -> str:
    return f"{role.role}: due {at_listing(role.due_at, symbol)}; {inert(role.why)}"


_MOST_FIGURES = 8
_MOST_REPORTS = 40
_MOST_CITATIONS = 12


def grounding_report(rows: Sequence[GroundedReport]) -> RenderableType | None:
    figures, supported = (sum(getattr(row.grounding, name) for row in rows) for name in ("figures", "supported"))
    if not figures:
        return None
    share = f"{supported} of {figures} figures have a source ({supported / figures:.1%})"
    parts: list[RenderableType] = [Text.assemble(("Grounding ", "bold"), f"of {len(rows)} reports: {share}")]
    lacking = [row for row in rows if row.grounding.supported < row.grounding.figures]
    parts += bounded(lacking, _MOST_REPORTS, lambda row: Text(_report_line(row), style="yellow"), " reports")
    return Group(*parts)


def _report_line(row: GroundedReport) -> str:
    found = row.grounding
    capped = f", {row.claimed} confidence capped to {row.confidence}" if row.confidence != row.claimed else ""
    stance = f", {row.claimed_verdict} counts as {row.verdict}" if row.verdict != row.claimed_verdict else ""
    return f"  {inert(row.symbol)} {row.role}: {found.share or 0:.0%}{capped}{stance}; no source: {_unsupported(found)}"


def _unsupported(found: Grounding) -> str:
    shown = ", ".join(paragraph(one.figure, 24) for one in found.unsupported[:_MOST_FIGURES])
    more = found.figures - found.supported - min(len(found.unsupported), _MOST_FIGURES)
    return f"{shown} and {more} more" if more else shown


def citation_lines(found: Mapping[str, Any] | None) -> Iterable[str]:
    from chordesk.models.answers import Grounding

    if found is None or not found["figures"]:
        return
    grounding = Grounding.model_validate(found)
    for one in grounding.citations[:_MOST_CITATIONS]:
        place = f"call {one.call}, {one.tool} {one.path}" if one.call is not None else f"question {one.path}"
        how = (
            f" ({one.operation}, with {one.other_path})"
            if one.other_path
            else f" ({one.operation})"
            if one.operation
            else ""
        )
        yield paragraph(f"{one.figure}: {place} = {one.value}{how}")
    if len(grounding.citations) > _MOST_CITATIONS:
        yield f"and {grounding.supported - _MOST_CITATIONS} more with a source (--json has them)"
    if grounding.supported < grounding.figures:
        yield f"no source: {_unsupported(grounding)}"

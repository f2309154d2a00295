"""Terminal output of groundings: where the figures of reports came from, and those that have no source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from chordesk.agents.grounding.report import Grounding
from chordesk.tasks.cli.output import inert, paragraph
from chordesk.tasks.views.grounded import GroundedReport

_MOST_FIGURES = 8
_MOST_REPORTS = 40
_MOST_CITATIONS = 12


def grounding_report(rows: Sequence[GroundedReport]) -> RenderableType | None:
    """Return the share of figures with a source, over all reports and of each that lacks some; None without any."""
    figures, supported = (sum(getattr(row.grounding, name) for row in rows) for name in ("figures", "supported"))
    if not figures:
        return None
    share = f"{supported} of {figures} figures have a source ({supported / figures:.1%})"
    parts = [Text.assemble(("Grounding ", "bold"), f"of {len(rows)} reports: {share}")]
    lacking = [row for row in rows if row.grounding.supported < row.grounding.figures]
    parts += [Text(_line(row), style="yellow") for row in lacking[:_MOST_REPORTS]]
    if len(lacking) > _MOST_REPORTS:
        parts.append(Text(f"  and {len(lacking) - _MOST_REPORTS} more reports (--json has them)", style="dim"))
    return Group(*parts)


def _line(row: GroundedReport) -> str:
    found = row.grounding
    capped = f", {row.claimed} confidence capped to {row.confidence}" if row.confidence != row.claimed else ""
    stance = f", {row.claimed_verdict} counts as {row.verdict}" if row.verdict != row.claimed_verdict else ""
    return f"  {inert(row.symbol)} {row.role}: {found.share or 0:.0%}{capped}{stance}; no source: {_unsupported(found)}"


def _unsupported(found: Grounding) -> str:
    shown = ", ".join(paragraph(one.figure, 24) for one in found.unsupported[:_MOST_FIGURES])
    more = found.figures - found.supported - min(len(found.unsupported), _MOST_FIGURES)
    return f"{shown} and {more} more" if more else shown


def citation_lines(found: Mapping[str, Any] | None) -> Iterable[str]:
    """Yield a line for each figure of a report with its source, then one with the figures that have none."""
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

"""Reports of roles as a dossier has them: with their calls, threads and figures without a source."""

from __future__ import annotations

from collections.abc import Iterator

from chordesk.models.answers import ReportStatus
from chordesk.tasks.documents.building.pages import PageLinks
from chordesk.tasks.documents.schema.dossier import RoleArtifact, ToolUse
from chordesk.tasks.documents.schema.parts import MissingItem
from chordesk.tasks.views.history.reports import ReportDetail, ReportRow

_FIGURES = 12  # of those without a source, named


def role_artifact(found: ReportDetail, pages: PageLinks, *, counts: bool, earlier: bool) -> RoleArtifact:
    """Return a report with what it rests on."""
    turn = found.turn
    return RoleArtifact(
        **{name: getattr(found, name) for name in ReportRow.model_fields},
        claimed=found.claimed,
        structured=found.answer,
        answer_schema=found.answer_schema,
        unsupported=[str(one["figure"]) for one in found.unsupported[:_FIGURES]],
        counts=counts,
        earlier=earlier,
        model=turn.model,
        codex_turn_id=turn.codex_turn_id,
        thread_id=turn.thread_id,
        thread_reason=turn.thread_reason,
        tokens=turn.total_tokens,
        cost_usd=turn.cost_usd,
        seconds=(turn.finished_at - turn.started_at).total_seconds(),
        tools=[ToolUse.of(one) for one in found.calls],
        pictures=[one.digest for one in found.pictures],
        page=pages.report(found.id),
    )


def gaps_of(one: RoleArtifact) -> Iterator[MissingItem]:
    """Yield what a report lacks: its answer, the source of some of its figures, or the answers of its tools."""
    if one.status != ReportStatus.COMPLETED:
        reason = f"{one.status}: {one.reason or 'no reason was kept'}"
        yield MissingItem(what="report", reason=reason, symbol=one.symbol, role=one.role)
        return
    if one.figures is None or one.supported is None:
        reason = "its figures were not looked for in the answers of tools"
        yield MissingItem(what="sources", reason=reason, symbol=one.symbol, role=one.role)
    elif one.figures > one.supported:
        named = f": {', '.join(one.unsupported)}" if one.unsupported else ""
        reason = f"{one.figures - one.supported} of {one.figures} figures have no source{named}"
        yield MissingItem(what="sources", reason=reason, symbol=one.symbol, role=one.role)
    failed = [use.tool for use in one.tools if not use.success]
    if failed:
        reason = f"calls that failed: {', '.join(failed)}"
        yield MissingItem(what="data", reason=reason, symbol=one.symbol, role=one.role)
    empty = [use.tool for use in one.tools if use.success and not use.has_data]
    if empty:
        reason = f"calls that found nothing: {', '.join(empty)}"
        yield MissingItem(what="data", reason=reason, symbol=one.symbol, role=one.role)

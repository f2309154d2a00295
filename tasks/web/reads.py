"""Database reads that only the HTTP service needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from sqlmodel import Session, col, select

from chordesk.models.errors import NotFound
from chordesk.models.tables.runs import Report, Run, ToolCall, Turn, Verdict, VerdictReport
from chordesk.tasks.web.schemas import VerdictRow
from chordesk.tools.scoring.verdict_calibration import odds_of_run


def verdicts(session: Session, run: Run) -> list[VerdictRow]:
    """Return verdicts by symbol; for a trade run those of its source run."""
    run_id = run.params.get("source_run") or run.id
    rows = session.exec(select(Verdict).where(Verdict.run_id == run_id).order_by(col(Verdict.symbol))).all()
    reports: dict[str, list[Report]] = defaultdict(list)
    found = session.exec(
        select(VerdictReport.verdict_id, Report)
        .join(Report, col(Report.id) == col(VerdictReport.report_id))
        .join(Verdict, col(Verdict.id) == col(VerdictReport.verdict_id))
        .where(Verdict.run_id == run_id)
        .order_by(col(Report.created_at), col(Report.role))
    ).all()
    for verdict_id, report in found:
        reports[verdict_id].append(report)
    odds = odds_of_run(session, run_id)
    return [VerdictRow(verdict=row, reports=reports[row.id], probability=odds(row)) for row in rows]


def turns(
    session: Session,
    limit: int,
    offset: int = 0,
    *,
    run_id: str | None = None,
    thread_id: str | None = None,
    role: str | None = None,
    subject: str | None = None,
) -> Sequence[Turn]:
    """Return turns in the order of their start; None as a filter matches everything."""
    filters = ((Turn.run_id, run_id), (Turn.thread_id, thread_id), (Turn.role, role), (Turn.subject, subject))
    query = select(Turn).where(*(col(column) == wanted for column, wanted in filters if wanted is not None))
    return session.exec(query.order_by(col(Turn.started_at), col(Turn.id)).offset(offset).limit(limit)).all()


def find_turn(session: Session, turn_id: str) -> Turn:
    """Return the turn with this id, or with this id of the runtime. Raises NotFound."""
    found = session.get(Turn, turn_id) or session.exec(select(Turn).where(Turn.codex_turn_id == turn_id)).first()
    if found is None:
        raise NotFound(f"there is no turn {turn_id!r}", remedy="a run's turns, and a thread's, have their ids")
    return found


def tool_calls(session: Session, turn: Turn) -> Sequence[ToolCall]:
    return session.exec(
        select(ToolCall).where(ToolCall.turn_id == turn.id).order_by(col(ToolCall.ordinal), col(ToolCall.id))
    ).all()

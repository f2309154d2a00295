"""The report step: one role's report on one candidate, and the steps that follow it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlmodel import Session, col, select

from chordesk.agents.grounding.report import capped, counted, grounding_of, lack
from chordesk.agents.roles import GRAPH_ROLES, ROLES, default_roles, ends_all, following, rejecting
from chordesk.agents.subjects import research_subject
from chordesk.models import features
from chordesk.models.answers import ROGUE_CONFIDENCE, Grounding, ReportStatus, Skipped, Stance
from chordesk.models.states import StepKind
from chordesk.models.tables.runs import Report
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine.leases import HeldStep
from chordesk.tasks.engine.steps import ClaimedStep, NewStep
from chordesk.tasks.reading.memory import symbol_memory
from chordesk.tasks.worker.endings import Done, Ending
from chordesk.tools.market.prices import no_current_price
from chordesk.tools.questions.theses import measured, thesis_question
from chordesk.tools.registry import ToolContext

if TYPE_CHECKING:
    from chordesk.agents.runner import RoleRun
    from chordesk.tasks.workflows.reusing import Look


def report_step(parent: str, symbol: str, role: str, payload: dict[str, Any]) -> NewStep:
    """Return the step of a role's report on a candidate; a role that a graph plays has a step of its own kind."""
    if role in GRAPH_ROLES:
        play = features.part("graph_roles", role, GRAPH_ROLES[role].step, kind=Callable)
        step: NewStep = play(parent, symbol, payload)
        return step
    return NewStep(StepKind.REPORT, parent, symbol, role, payload)


def run_report(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    """Run one role on one candidate, store its report, and start the roles that follow it."""
    context = desk.tool_context(step.run_id)
    subject = None if (why := no_current_price(context.market, step.subject)) else _subject(desk, step, context)
    from chordesk.tasks.workflows.reusing import basis_of, look

    earlier = look(desk, step, subject) if subject is not None else None
    if earlier is not None and earlier.report is not None:
        desk.telemetry.record_reused(step.role, earlier.tokens)
        children, cancels = _next(step, earlier.report.verdict, goes_on=_stands(step, earlier.report.status))
        return Done(earlier.result(context.clock.now()), (), children, cancels=cancels)
    run = _turn(desk, step, held, context, earlier.brief if earlier is not None else subject, why, earlier)
    grounding = _grounding(desk, step, run)
    report = _report(step, run, context, grounding)
    stance = report.verdict if report is not None else None
    children, cancels = _next(step, stance, goes_on=_goes_on(step, run))
    result = {"status": run.status, "verdict": stance, "reason": run.reason, **run.left_out_entry}
    rows = (*run.rows, [report] if report is not None else [], basis_of(earlier, run, report, grounding))
    error = run.reason if run.status is ReportStatus.FAILED else None
    return Done(result, rows, children, error=error, also=_question(report, context), cancels=cancels)


def _turn(
    desk: Desk,
    step: ClaimedStep,
    held: HeldStep,
    context: ToolContext,
    subject: Mapping[str, Any] | None,
    why: str | None,
    earlier: Look | None,
) -> RoleRun:
    """Ask the role with the candidate's subject and memory. Without a price of the latest session (why) there is no
    turn: nothing could be judged or traded. earlier: what is new since its last report, and the answers that say so."""
    if subject is None:
        return held.turns.skipped(step.role, step.subject, Skipped(reason=str(why), no_data=True))
    memory = partial(symbol_memory, context=context, symbol=step.subject)
    differs, given = (earlier.again.differs, earlier.again.given) if earlier is not None else (None, ())
    asked = {**subject, "changed": differs} if differs is not None else subject
    return held.turns.run(step.role, step.subject, asked, memory=memory, given=given)


def _subject(desk: Desk, step: ClaimedStep, context: ToolContext) -> Mapping[str, Any]:
    role = ROLES[step.role]
    earlier = _completed_answers(desk, step, role.reads) if role.reads else {}
    return research_subject(role.key, role.subject, step.subject, step.payload, context.settings, earlier)


def _completed_answers(desk: Desk, step: ClaimedStep, roles: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    with desk.store.read() as session:
        rows = session.exec(
            select(Report)
            .where(
                Report.run_id == step.run_id,
                Report.symbol == step.subject,
                Report.status == ReportStatus.COMPLETED,
                col(Report.role).in_(roles),
            )
            .order_by(col(Report.role))
        ).all()
    return {row.role: row.answer for row in rows if row.answer is not None}


def _grounding(desk: Desk, step: ClaimedStep, run: RoleRun) -> Grounding | None:
    """Return the grounding of a completed report, and count it."""
    grounding = grounding_of(run) if run.status is ReportStatus.COMPLETED else None
    if grounding is not None:
        desk.telemetry.record_grounding(step, grounding)
    return grounding


def _report(step: ClaimedStep, run: RoleRun, context: ToolContext, grounding: Grounding | None) -> Report | None:
    """Its confidence is capped by its grounding and by rogue calls; None without a turn."""
    turn = run.last_turn
    if turn is None:
        return None
    completed = run.status is ReportStatus.COMPLETED
    used: Mapping[str, Any] = run.value if completed else {}
    stance = counted(used.get("verdict"), is_grounded=grounding is None or grounding.is_grounded)
    doubt = lack(grounding)
    if doubt is not None and stance != used.get("verdict"):
        doubt = f"{doubt}; so its {used['verdict']} counts as {stance}"
    thesis = measured(run.thesis, context.market, context.settings) if completed and run.thesis is not None else None
    return Report(
        run_id=step.run_id,
        step_id=step.id,
        candidate_id=step.payload["candidate_id"],
        turn_id=turn.id,
        symbol=step.subject,
        role=step.role,
        status=run.status,
        verdict=stance,
        confidence=ROGUE_CONFIDENCE if used and run.rogue_note else capped(used.get("confidence"), grounding),
        summary=run.value.get("summary", ""),
        key_risks=used.get("key_risks", []),
        answer=run.value or None,
        answer_schema=ROLES[step.role].answer.__name__ if run.value else None,
        grounding=grounding.model_dump(mode="json") if grounding is not None else None,
        thesis=thesis.model_dump(mode="json") if thesis is not None else None,
        reason=run.reason or "; ".join(filter(None, (run.rogue_note, doubt))) or None,
        author=turn.model,
        market_at=context.clock.now(),
    )


def _next(step: ClaimedStep, stance: str | None, *, goes_on: bool) -> tuple[list[NewStep], str | None]:
    """Return the reports that follow this one, and why those that were begun beside it are not needed any more."""
    early, roles = step.payload.get("beside", ()), step.payload.get("roles", default_roles())
    if stance == Stance.REJECT and step.role in rejecting():
        return [], f"{step.role} rejected it" if early and ends_all(roles, step.role) else None
    if not goes_on:
        return [], None
    later = [role for role in following(roles, step.role) if role not in early]
    return [report_step(str(step.parent_id), step.subject, role, step.payload) for role in later], None


def _stands(step: ClaimedStep, status: str) -> bool:
    return status == ReportStatus.COMPLETED or not step.payload.get("all_needed")


def _goes_on(step: ClaimedStep, run: RoleRun) -> bool:
    """Not without a price, and where all reports are needed, not without this one."""
    if step.payload.get("all_needed"):
        return run.status is ReportStatus.COMPLETED
    return not (isinstance(run.outcome, Skipped) and run.outcome.no_data)


def _question(report: Report | None, context: ToolContext) -> Callable[[Session], None] | None:
    """Return the writer of the question that scores the report's thesis."""
    asked = thesis_question(context.market, context.settings, report) if report is not None else None
    if asked is None:
        return None

    def write(session: Session) -> None:
        session.flush()  # the question refers to the report
        asked(session)

    return write

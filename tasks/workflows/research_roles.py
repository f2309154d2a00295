"""The roles of research: what each turn is given, which follow which, and which start early (DESK_SPECULATE)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlmodel import Session, col, func, select

from chordesk.agents.role_models import role_models, turns_at_once
from chordesk.agents.roles import GRAPH_ROLES, ROLES, after, following, rejecting, roots
from chordesk.agents.subjects import AnalystSubject, ResearchSubject, analyst_subject, validator_subject
from chordesk.models.analysis import AnalysisRequest
from chordesk.models.answers import ReportStatus
from chordesk.models.settings import Settings
from chordesk.models.states import RunState, StepState
from chordesk.models.tables.runs import Report, Run, Step
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine import budgets, kinds
from chordesk.tasks.engine.steps import ClaimedStep
from chordesk.tools.registry import ToolContext


def spare_turns(session: Session, settings: Settings, run_id: str) -> int:
    """Return how many turns of one worker are idle now; 0 without DESK_SPECULATE or when half a budget is used."""
    if not settings.speculate or not budgets.has_spare(session, settings, run_id):
        return 0
    limits = (turns_at_once(settings, model) for model in role_models(settings).values())
    slots = min([settings.codex_turns, *(limit for limit in limits if limit is not None)])
    due = session.exec(
        select(func.count())
        .select_from(Step)
        .join(Run, col(Run.id) == col(Step.run_id))
        .where(col(Run.state) == RunState.RUNNING, col(Step.state).in_((StepState.READY, StepState.RUNNING)))
        .where(col(Step.kind).in_(kinds.kinds_of(lambda spec: spec.turn)))
    ).one()
    return max(slots - due, 0)


def beside(roles: Iterable[str]) -> tuple[str, ...]:
    """Return the roles of a candidate that wait for nothing but the rejection of one that starts at once: none that
    reads the answer of another, and no graph, which is many turns."""
    given = tuple(roles)
    found = (later for first in roots(given) if first in rejecting() for later in following(given, first))
    return tuple(role for role in found if role not in GRAPH_ROLES and not _reads(role, given))


def ends_all(roles: Iterable[str], role: str) -> bool:
    """Return whether the REJECT of a role ends the whole research of a candidate: all its other roles come after."""
    given = set(roles)
    return given - {role} <= after(given, role)


def _reads(role: str, given: Sequence[str]) -> bool:
    return role in ROLES and not set(given).isdisjoint(ROLES[role].reads)


def brief_of(desk: Desk, step: ClaimedStep, context: ToolContext) -> ResearchSubject | AnalystSubject:
    """Return the subject of a step that reports on a candidate, of the type that its role has.

    The step's payload has instrument, theses and capital; for an analyst it may have `analysis`, an AnalysisRequest.
    """
    role, payload, settings = ROLES[step.role], step.payload, context.settings
    found = validator_subject(step.subject, payload["instrument"], payload["theses"], settings, payload["capital"])
    if role.subject is not AnalystSubject:
        return found
    asked = payload.get("analysis")
    request = AnalysisRequest.model_validate(asked) if asked is not None else None
    with desk.store.read() as session:
        earlier = completed_answers(session, step.run_id, step.subject, role.reads)
    return analyst_subject(found, settings, request, earlier)


def completed_answers(session: Session, run_id: str, symbol: str, roles: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the answers of the completed reports of these roles on a symbol in a run, by role."""
    rows = session.exec(
        select(Report).where(
            Report.run_id == run_id,
            Report.symbol == symbol,
            Report.status == ReportStatus.COMPLETED,
            col(Report.role).in_(roles),
        )
    ).all()
    return {row.role: row.answer for row in rows if row.answer is not None}

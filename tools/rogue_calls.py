"""The rogue calls that verdicts and orders rest on: of the turns of their hits, reports, forecasts and decisions."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable

from sqlalchemy import bindparam, union
from sqlalchemy.orm import aliased
from sqlmodel import Session, col, select
from sqlmodel.sql.expression import Select

from chordesk.models.answers import Frozen, RogueKind, acts
from chordesk.models.states import StepKind
from chordesk.models.tables.board import Forecast, Question
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import (
    CandidateHit,
    Decision,
    Report,
    Run,
    ScreenHit,
    Step,
    ToolCall,
    Turn,
    Verdict,
    VerdictReport,
    research_run,
)

LISTED = 3


class RogueRow(Frozen):
    """A rogue call with its turn and step. id: of its row; acts: a tool of its name would act on orders or the desk."""

    id: str
    turn_id: str
    step_id: str
    run_id: str
    role: str
    subject: str
    tool: str
    kind: RogueKind
    acts: bool
    at: dt.datetime


# Made once: that costs more than the queries.
_LAST, _CHAPTER = aliased(Step), aliased(Step)
_GIVEN = col(Report.id).in_(bindparam("reports", expanding=True))
_RESTS_ON = union(
    select(ScreenHit.step_id)
    .join(CandidateHit, col(CandidateHit.hit_id) == col(ScreenHit.id))
    .where(col(CandidateHit.candidate_id) == bindparam("candidate")),
    select(Report.step_id).where(_GIVEN),
    # A graph's report is of its last chapter, and rests on all of them.
    select(_CHAPTER.id)
    .join(_LAST, (col(_LAST.run_id) == col(_CHAPTER.run_id)) & (col(_LAST.subject) == col(_CHAPTER.subject)))
    .join(Report, col(Report.step_id) == col(_LAST.id))
    .where(_GIVEN, col(_LAST.kind) == StepKind.GRAPH, col(_CHAPTER.kind) == StepKind.GRAPH),
)
_ROGUE = (
    select(ToolCall, Turn)
    .join(Turn, col(Turn.id) == col(ToolCall.turn_id))
    .where(col(ToolCall.rogue).is_not(None))
    .order_by(col(Turn.started_at), col(ToolCall.ordinal))
)
_OF_STEPS = _ROGUE.where(col(Turn.step_id).in_(bindparam("steps", expanding=True)))
_OF_RUN = _ROGUE.where(col(Turn.run_id) == bindparam("run"))


def note(rows: Collection[RogueRow]) -> str | None:
    """Return the calls in one line, those that would act first; None without any."""
    first = sorted(rows, key=lambda row: not row.acts)
    named = list(dict.fromkeys(f"{row.role} called {row.tool} ({row.kind})" for row in first))
    more = f" and {len(named) - LISTED} more" if len(named) > LISTED else ""
    return f"rogue calls: {', '.join(named[:LISTED])}{more}" if named else None


def of_steps(session: Session, steps: Collection[str]) -> list[RogueRow]:
    """Return the rogue calls of steps, of all their attempts, the oldest first."""
    return _rows(session, _OF_STEPS, steps=list(steps)) if steps else []


def of_run(session: Session, run_id: str) -> list[RogueRow]:
    return _rows(session, _OF_RUN, run=run_id)


def of_verdict(session: Session, verdict: Verdict) -> list[RogueRow]:
    reports = session.exec(select(VerdictReport.report_id).where(VerdictReport.verdict_id == verdict.id)).all()
    return of_candidate(session, verdict.candidate_id, reports)


def of_candidate(session: Session, candidate_id: str, reports: Iterable[str]) -> list[RogueRow]:
    """Return the rogue calls of what a verdict on a candidate rests on. reports: their ids."""
    rests_on = {"candidate": candidate_id, "reports": list(reports)}
    return of_steps(session, session.scalars(_RESTS_ON, rests_on).all())


def of_order(session: Session, order: Order) -> list[RogueRow]:
    """Return the rogue calls of what an order rests on: its verdict, the forecasts on its symbol, and its decision."""
    verdict = session.get(Verdict, order.verdict_id) if order.verdict_id is not None else None
    decision = session.get_one(Decision, order.decision_id)
    found = of_verdict(session, verdict) if verdict is not None else []
    steps = {decision.step_id} if decision.turn_id is not None else set()
    known = {row.id for row in found}
    others = of_steps(session, steps | _forecasting(session, order))
    return sorted([*found, *(row for row in others if row.id not in known)], key=lambda row: row.at)


def _forecasting(session: Session, order: Order) -> set[str]:
    """Steps of forecasts on the order's symbol that made a rogue call."""
    source = research_run(session.get_one(Run, order.run_id))
    rows = session.exec(
        select(Forecast.step_id, Question.subjects)
        .join(Question, col(Question.id) == col(Forecast.question_id))
        .join(Turn, col(Turn.step_id) == col(Forecast.step_id))
        .join(ToolCall, col(ToolCall.turn_id) == col(Turn.id))
        .where(Forecast.run_id == source, col(ToolCall.rogue).is_not(None))
    ).all()
    return {step for step, subjects in rows if order.symbol in subjects}


def _rows(session: Session, which: Select[ToolCall, Turn], **given: object) -> list[RogueRow]:
    found = session.exec(which, params=given).all()
    return [
        RogueRow(
            id=call.id, turn_id=turn.id, step_id=turn.step_id, run_id=turn.run_id, role=turn.role,
            subject=turn.subject, tool=call.tool, kind=RogueKind(str(call.rogue)), acts=acts(call.tool),
            at=turn.finished_at,
        )
        for call, turn in found
    ]  # fmt: skip

"""Research on one candidate: the quick report alone, then the other roles as a flat chord, and their verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from celery import Task, shared_task
from sqlmodel import select

from agents.researchers import FIRST_ROLE, RESEARCH_ROLES, Thesis, validator_subject
from agents.verdict import reduce_reports
from models.columns import new_id
from models.research import Confidence, Instrument, ReportStatus, RoleReport, ScreenConfidence, Stance
from models.states import StepKind, StepState
from models.tables import Candidate, Report, Step, Verdict, VerdictReport
from tasks import policy
from tasks.bootstrap import Desk
from tasks.graph import Claimed, NewStep
from tasks.leases import Held
from tasks.memory import memory_of
from tasks.turns import last_turn, retry_of, run_role, status_of, value_of
from tasks.work import Done, Ending, work
from tools.orders.notes import last_notes


@shared_task(bind=True, name="desk.report")  # type: ignore[untyped-decorator]
def report(self: Task, step_id: str) -> str:
    """One role's report on one candidate; in the chord's header, so its id is its result."""
    return work(self.app, step_id, examine)


@shared_task(bind=True, name="desk.conclude")  # type: ignore[untyped-decorator]
def conclude(self: Task, step_id: str) -> str:
    """Reports to a verdict."""
    return work(self.app, step_id, reduce)


def unscreened(
    run_id: str, symbols: Iterable[str], origin: Literal["manual", "position"], first: int
) -> list[Candidate]:
    """Candidates that no lens named, in the order given. first: the rank of the first."""
    return [
        Candidate(
            run_id=run_id,
            symbol=symbol,
            instrument=Instrument.EQUITY,
            confidence=ScreenConfidence.SPECULATIVE,
            origin=origin,
            rank=rank,
            score=0.0,
        )
        for rank, symbol in enumerate(symbols, start=first)
    ]


def candidate_steps(
    candidates: Sequence[Candidate], theses: Mapping[str, list[dict[str, str]]], capital: float, parent: str
) -> list[NewStep]:
    """For each candidate its conclusion, which waits, and its quick report, which is ready.

    theses: by symbol, what each lens said; capital: buying power in account currency.
    """
    steps: list[NewStep] = []
    for candidate in candidates:
        payload = {
            "candidate_id": candidate.id,
            "instrument": candidate.instrument,
            "theses": theses.get(candidate.symbol, []),
            "capital": capital,
        }
        join = NewStep(StepKind.CONCLUDE, parent, candidate.symbol, payload={"candidate_id": candidate.id}, waits=True)
        steps += [join, NewStep(StepKind.REPORT, join.id, candidate.symbol, FIRST_ROLE, payload)]
    return steps


def examine(desk: Desk, step: Claimed, held: Held) -> Ending:
    symbol, payload = step.subject, step.payload
    theses = [Thesis(**said) for said in payload["theses"]]
    # A fresh thread in place of one that was too long is told what the old one knew.
    fresh = policy.opening(step.error) == "fresh"
    memory = memory_of(desk.tool_context(step.run_id), symbol) if fresh else None
    with desk.store.read() as session:
        notes = last_notes(session, desk.settings, desk.settings.account, [symbol], desk.market.clock.now())
    brief = validator_subject(
        symbol,
        payload["instrument"],
        theses,
        desk.settings,
        memory=memory,
        notes=notes.get(symbol, ()),
        capital=payload["capital"],
    )
    run = run_role(desk, step, held, step.role, symbol, brief)
    again = retry_of(desk, step, run)
    if again is not None:
        return again
    status, reason = status_of(run)
    value = value_of(run) if status is ReportStatus.COMPLETED else {}
    turn = last_turn(run)
    rows: list[Report] = []
    if turn is not None:
        rows.append(
            Report(
                run_id=step.run_id,
                step_id=step.id,
                candidate_id=payload["candidate_id"],
                turn_id=turn.id,
                symbol=symbol,
                role=step.role,
                status=status,
                verdict=value.get("verdict"),
                confidence=value.get("confidence"),
                summary=value.get("summary", ""),
                key_risks=value.get("key_risks", []),
                reason=reason,
                spoken_by=desk.settings.spoken_by,
                market_at=desk.market.clock.now(),
            )
        )
    children: list[NewStep] = []
    if step.role == FIRST_ROLE and value.get("verdict") != Stance.REJECT:
        children = [NewStep(StepKind.REPORT, str(step.parent_id), symbol, role, payload) for role in RESEARCH_ROLES]
    state = StepState.FAILED if status is ReportStatus.FAILED else StepState.DONE
    error = reason if state is StepState.FAILED else None
    result = {"status": status, "verdict": value.get("verdict"), "reason": reason}
    return Done(result, (run.turns, run.calls, rows), children, state, error)


def reduce(desk: Desk, step: Claimed, held: Held) -> Ending:
    with desk.store.read() as session:
        found = session.exec(select(Report).where(Report.run_id == step.run_id, Report.symbol == step.subject)).all()
        steps = session.exec(select(Step).where(Step.parent_id == step.id)).all()
    reports = sorted(found, key=lambda row: _order(row.role))
    reduced = reduce_reports([_role_report(row) for row in reports] + _lost(steps, {row.role for row in reports}))
    verdict = Verdict(
        id=new_id(),
        run_id=step.run_id,
        candidate_id=step.payload["candidate_id"],
        symbol=step.subject,
        rating=reduced.rating,
        confidence=reduced.confidence,
        summary=reduced.summary,
        key_risks=list(reduced.key_risks),
        completed=list(reduced.completed),
        missing=list(reduced.missing),
    )
    links = [VerdictReport(verdict_id=verdict.id, report_id=row.id) for row in reports]
    return Done({"rating": reduced.rating}, ([verdict], links))


def _order(role: str) -> int:
    return (FIRST_ROLE, *RESEARCH_ROLES).index(role)


def _role_report(row: Report) -> RoleReport:
    return RoleReport(
        role=row.role,
        status=ReportStatus(row.status),
        verdict=Stance(row.verdict) if row.verdict else None,
        confidence=Confidence(row.confidence) if row.confidence else None,
        summary=row.summary,
        key_risks=row.key_risks,
        reason=row.reason,
    )


def _lost(steps: Sequence[Step], reported: set[str]) -> list[RoleReport]:
    """Roles whose step ended without a report: their worker was lost too often to leave one."""
    return [
        RoleReport(role=step.role, status=ReportStatus.FAILED, reason=step.error or "no report was left")
        for step in steps
        if step.role not in reported
    ]

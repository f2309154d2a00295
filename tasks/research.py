"""Research on one candidate: the quick report alone, then the other roles as a flat chord, and their verdict."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from celery import Task, shared_task
from sqlmodel import Session, col, select

from agents.researchers import FIRST_ROLE, RESEARCH_ROLES, Thesis, validator_subject
from agents.runner import RoleRun
from agents.verdict import reduce_reports
from models.columns import new_id
from models.research import Confidence, Instrument, ReportStatus, RoleReport, ScreenConfidence, Stance
from models.states import StepKind, StepState
from models.tables import Candidate, Report, Step, Verdict, VerdictReport
from tasks.bootstrap import Desk
from tasks.graph import Claimed, NewStep
from tasks.leases import Held
from tasks.memory import symbol_memory
from tasks.portfolio.due import DueReason, Look
from tasks.portfolio.schedule import LOOKED, RoleScheduleStore
from tasks.turns import last_turn, retry_of, run_role, status_of, value_of
from tasks.work import Done, Ending, work
from tools.holdings import holdings


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


@dataclass(frozen=True, slots=True)
class Asked:
    """What is done for a candidate. roles: those that run, each with why; stored: ids of reports of earlier runs, of
    roles that do not, on which its verdict rests too."""

    roles: Mapping[str, str]
    stored: Sequence[str] = ()


def everyone(reason: str) -> Asked:
    return Asked(dict.fromkeys((FIRST_ROLE, *RESEARCH_ROLES), reason))


def candidate_steps(
    candidates: Sequence[Candidate],
    asked: Callable[[str], Asked],
    capital: float,
    parent: str,
    theses: Mapping[str, list[dict[str, str]]] | None = None,
) -> list[NewStep]:
    """For each candidate its conclusion and its first reports: the quick one, which the others follow, or all of them
    where the quick role is not asked. The conclusion waits for them; with nobody to wait for it is ready too.

    asked: by symbol; theses: by symbol, what each lens said; capital: buying power in account currency.
    """
    steps: list[NewStep] = []
    for candidate in candidates:
        wanted = asked(candidate.symbol)
        concluded = {"candidate_id": candidate.id, "stored": list(wanted.stored)}
        payload = {
            "candidate_id": candidate.id,
            "instrument": candidate.instrument,
            "theses": (theses or {}).get(candidate.symbol, []),
            "capital": capital,
            "roles": dict(wanted.roles),
        }
        first = [FIRST_ROLE] if FIRST_ROLE in wanted.roles else list(wanted.roles)
        waits = bool(first)
        join = NewStep(StepKind.CONCLUDE, parent, candidate.symbol, payload=concluded, waits=waits)
        steps += [join, *(NewStep(StepKind.REPORT, join.id, candidate.symbol, role, payload) for role in first)]
    return steps


def examine(desk: Desk, step: Claimed, held: Held) -> Ending:
    symbol, payload = step.subject, step.payload
    context = desk.tool_context(step.run_id)
    theses = [Thesis(**said) for said in payload["theses"]]
    brief = validator_subject(symbol, payload["instrument"], theses, desk.settings, payload["capital"])
    looks = [Look(context.clock.now(), one.price, one.unrealized) for one in holdings(context, only=symbol)]
    with desk.store.read() as session:
        memory = symbol_memory(session, context, symbol)
    run = run_role(desk, step, held, step.role, symbol, brief, memory=memory)
    again = retry_of(desk, step, run)
    if again is not None:
        return again
    status, reason = status_of(run)
    report = _report(desk, step, run)
    children: list[NewStep] = []
    stance = report.verdict if report is not None else None
    if step.role == FIRST_ROLE and stance != Stance.REJECT:
        following = [role for role in payload.get("roles", RESEARCH_ROLES) if role != FIRST_ROLE]
        children = [NewStep(StepKind.REPORT, str(step.parent_id), symbol, role, payload) for role in following]
    state = StepState.FAILED if status is ReportStatus.FAILED else StepState.DONE
    error = reason if state is StepState.FAILED else None
    result = {"status": status, "verdict": stance, "reason": reason}
    rows = (run.turns, run.calls, [report] if report is not None else [])
    also = _scheduled(desk, step, report, looks[0]) if report is not None and looks and status in LOOKED else None
    return Done(result, rows, children, state, error, also=also)


def _report(desk: Desk, step: Claimed, run: RoleRun) -> Report | None:
    """The row of what a role came to; None when it has no turn to rest on."""
    turn = last_turn(run)
    if turn is None:
        return None
    status, reason = status_of(run)
    value = value_of(run) if status is ReportStatus.COMPLETED else {}
    return Report(
        id=new_id(),
        run_id=step.run_id,
        step_id=step.id,
        candidate_id=step.payload["candidate_id"],
        turn_id=turn.id,
        symbol=step.subject,
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


def _scheduled(desk: Desk, step: Claimed, report: Report, look: Look) -> Callable[[Session], None]:
    """What notes a look at a holding, in the transaction that ends the step."""
    kept = RoleScheduleStore(desk.settings.account, desk.market.name)
    reason = step.payload.get("roles", {}).get(step.role, DueReason.MANUAL)  # a step of an older version has none
    details = {"reason": reason, "run_id": step.run_id, "report_id": report.id}
    return lambda session: kept.record(session, step.subject, step.role, look, **details)


def reduce(desk: Desk, step: Claimed, held: Held) -> Ending:
    with desk.store.read() as session:
        found = session.exec(select(Report).where(Report.run_id == step.run_id, Report.symbol == step.subject)).all()
        steps = session.exec(select(Step).where(Step.parent_id == step.id)).all()
        earlier = session.exec(select(Report).where(col(Report.id).in_(step.payload.get("stored", ())))).all()
    now = desk.market.clock.now()
    reports = sorted((*found, *earlier), key=lambda row: _order(row.role))
    said = [_role_report(row, now if row in earlier else None) for row in reports]
    reduced = reduce_reports(said + _lost(steps, {row.role for row in reports}))
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


def _role_report(row: Report, now: dt.datetime | None) -> RoleReport:
    """now: of the market, for a report of an earlier run."""
    return RoleReport(
        role=row.role,
        status=ReportStatus(row.status),
        verdict=Stance(row.verdict) if row.verdict else None,
        confidence=Confidence(row.confidence) if row.confidence else None,
        summary=row.summary,
        key_risks=row.key_risks,
        reason=row.reason,
        age_hours=None if now is None else (now - row.market_at).total_seconds() / 3600,
    )


def _lost(steps: Sequence[Step], reported: set[str]) -> list[RoleReport]:
    """Roles whose step ended without a report: their worker was lost too often to leave one."""
    return [
        RoleReport(role=step.role, status=ReportStatus.FAILED, reason=step.error or "no report was left")
        for step in steps
        if step.role not in reported
    ]

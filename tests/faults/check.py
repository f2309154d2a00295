"""Conditions after every scenario, counted from the database and from the stand-in's journal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import Select, func
from sqlmodel import Session, col, select

from chordesk.agents.roles import default_roles
from chordesk.models.states import RUN_FINAL, STEP_FINAL, RunState
from chordesk.models.tables.orders import Fill, Order
from chordesk.models.tables.runs import Candidate, Decision, Report, Run, Step, Turn, Verdict
from tests.faults.desk import FaultDesk
from tests.faults.journal import doubled

ANSWERED = ("completed", "no_data")
ROLES = frozenset(default_roles())


@dataclass(frozen=True, slots=True)
class Expected:
    """Rows that a scenario may leave behind. failing: roles with reports that may be other than answered."""

    states: frozenset[str] = frozenset({RunState.DONE})
    failing: frozenset[str] = frozenset()
    whole: bool = True  # every candidate has its verdict, the run its decision
    decided: bool = True  # a run of research has none


ALL_DONE = Expected()


@dataclass(slots=True)
class Findings:
    """lost: runs that did not end, and candidates, reports, verdicts and decisions that are not there. doubled: of
    reports, verdicts, decisions, orders and turns."""

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not (self.lost or self.doubled or self.wrong)

    def add(self, other: Findings) -> None:
        self.lost += other.lost
        self.doubled += other.doubled
        self.wrong += other.wrong

    def text(self) -> str:
        named = {"lost": self.lost, "doubled": self.doubled, "wrong": self.wrong}
        return "; ".join(f"{name}: {item}" for name, items in named.items() for item in items)


def check(desk: FaultDesk, run_ids: Sequence[str], expected: Expected = ALL_DONE) -> Findings:
    """Look at these runs, which should have ended."""
    found = Findings()
    with desk.store.read() as session:
        for run_id in run_ids:
            run = session.get_one(Run, run_id)
            _ended(session, run, expected, found)
            if expected.whole and run.state in RUN_FINAL:
                _complete(session, run, expected, found)
        _unique(session, run_ids, found)
        _threads(session, found)
    found.doubled += doubled(desk.journal.of(run_ids), desk.excused)
    return found


def _ended(session: Session, run: Run, expected: Expected, found: Findings) -> None:
    steps = session.exec(select(Step).where(Step.run_id == run.id)).all()
    if run.state not in RUN_FINAL:
        open_steps = [f"{s.kind} {s.role} {s.state} attempt {s.attempt}" for s in steps if s.state not in STEP_FINAL]
        found.lost.append(f"run {run.id} is {run.state}: {open_steps}")
        return
    if run.state not in expected.states:
        found.wrong.append(f"run {run.id} ended as {run.state}: {run.notes}")
    left = [f"{step.kind} {step.role}" for step in steps if step.state not in STEP_FINAL]
    if left:
        found.wrong.append(f"run {run.id} has ended, but not its steps {left}")


def _complete(session: Session, run: Run, expected: Expected, found: Findings) -> None:
    candidates = set(session.exec(select(Candidate.symbol).where(Candidate.run_id == run.id)).all())
    verdicts = set(session.exec(select(Verdict.symbol).where(Verdict.run_id == run.id)).all())
    reports = {(r.symbol, r.role): r for r in session.exec(select(Report).where(Report.run_id == run.id)).all()}
    found.lost += [f"candidate {symbol}" for symbol in set(run.params["symbols"]) - candidates]
    found.lost += [f"verdict of {symbol}" for symbol in candidates - verdicts]
    for symbol in candidates:
        for role in ROLES:
            report = reports.get((symbol, role))
            if report is None:
                found.lost.append(f"report {role} of {symbol}")
            elif report.status not in ANSWERED and role not in expected.failing:
                found.lost.append(f"report {role} of {symbol} is {report.status}: {report.reason}")
    if expected.decided and not session.exec(select(Decision.id).where(Decision.run_id == run.id)).all():
        found.lost.append(f"the decision of run {run.id}")


def _unique(session: Session, run_ids: Sequence[str], found: Findings) -> None:
    """By count, not by trust in the constraints. A fill is one a paper order; a step has one completed turn."""
    orders = select(Order.id).where(col(Order.run_id).in_(run_ids))
    tables: dict[str, Select] = {  # type: ignore[type-arg]
        "candidate": _more_than_one(Candidate.run_id, Candidate.symbol).where(col(Candidate.run_id).in_(run_ids)),
        "report": _more_than_one(Report.run_id, Report.symbol, Report.role).where(col(Report.run_id).in_(run_ids)),
        "verdict": _more_than_one(Verdict.run_id, Verdict.symbol).where(col(Verdict.run_id).in_(run_ids)),
        "decision": _more_than_one(Decision.run_id).where(col(Decision.run_id).in_(run_ids)),
        "order": _more_than_one(Order.decision_id, Order.symbol).where(col(Order.run_id).in_(run_ids)),
        "fill": _more_than_one(Fill.order_id).where(col(Fill.order_id).in_(orders)),
        "completed turn": _more_than_one(Turn.step_id).where(
            col(Turn.run_id).in_(run_ids), Turn.outcome == "completed"
        ),
    }
    for name, statement in tables.items():
        found.doubled += [f"{name} {tuple(row)}" for row in session.execute(statement)]


def _more_than_one(*columns: object) -> Select:  # type: ignore[type-arg]
    return select(*columns, func.count()).group_by(*columns).having(func.count() > 1)  # type: ignore[call-overload]


def _threads(session: Session, found: Findings) -> None:
    """A thread belongs to one role and subject, whatever happened to the registry."""
    pairs = set(session.execute(select(Turn.thread_id, Turn.role, Turn.subject)).all())
    owners: dict[str, set[tuple[str, str]]] = {}
    for thread, role, subject in pairs:
        if thread:
            owners.setdefault(thread, set()).add((role, subject))
    found.wrong += [f"thread {thread} served {sorted(owner)}" for thread, owner in owners.items() if len(owner) > 1]

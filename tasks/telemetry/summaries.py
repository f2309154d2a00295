"""What a run that has ended tells of itself: one event for each mode that it went through, counted from
the database."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Row, func, select
from sqlmodel import Session, col

from agents.researchers import FIRST_ROLE, RESEARCH_ROLES
from agents.roles import mode_of
from models.order_tables import Order
from models.research import ReportStatus, Usage
from models.states import StepState
from models.tables import Candidate, Decision, Report, Run, ScreenHit, Step, Turn, Verdict
from models.telemetry import (
    CandidateSeen,
    ResearchRunCompleted,
    RunCompleted,
    ScreenerRunCompleted,
    TraderRunCompleted,
)
from tasks.summary import was_run
from tasks.telemetry.modes import MODE_OF_RUN, MODE_OF_STEP

_ERRORS = 20
_ERROR_CHARS = 300

_Steps = Sequence[Row[Any]]


def completed(session: Session, run: Run) -> list[RunCompleted]:
    """In the order in which a run goes through its modes. A run of none of them, such as a person's, tells nothing."""
    steps = _steps(session, run.id)
    turns = _turns(session, run.id)
    found: list[RunCompleted] = []
    for mode, make in (("screener", _screener), ("research", _research), ("trader", _trader)):
        own = [step for step in steps if MODE_OF_STEP.get(step.kind) == mode]
        if mode == MODE_OF_RUN.get(run.kind) or any(step.started_at is not None for step in own):
            counted, tokens = turns.get(mode, (0, Usage()))
            common = {
                "run_id": run.id,
                "state": run.state,
                "duration_ms": _duration_ms(own),
                "turns": counted,
                "tokens": tokens,
                "errors": _errors(own),
            }
            found.append(make(session, run, common))
    return found


def _screener(session: Session, run: Run, common: dict[str, Any]) -> ScreenerRunCompleted:
    rows = _candidates(session, run.id)
    return ScreenerRunCompleted(
        **common,
        symbols=[row.symbol for row in rows],
        candidate_count=len(rows),
        screener_type=",".join(run.params.get("lenses", ())),
        candidates=[CandidateSeen(symbol=row.symbol, confidence=row.confidence, origin=row.origin) for row in rows],
        universe=len(run.params.get("symbols", ())),
        hits=_count(session, ScreenHit.run_id, run.id),
    )


def _research(session: Session, run: Run, common: dict[str, Any]) -> ResearchRunCompleted:
    symbols = [row.symbol for row in _candidates(session, run.id)]
    ran: dict[str, list[str]] = defaultdict(list)
    reports = session.execute(
        select(col(Report.symbol), col(Report.role)).where(
            col(Report.run_id) == run.id, col(Report.status) != ReportStatus.SKIPPED
        )
    ).all()
    for symbol, role in sorted(reports, key=lambda row: _place(row[1])):
        ran[symbol].append(role)
    roles = (FIRST_ROLE, *RESEARCH_ROLES)
    skipped = {symbol: [role for role in roles if role not in ran.get(symbol, ())] for symbol in symbols}
    ratings = session.scalars(select(col(Verdict.rating)).where(col(Verdict.run_id) == run.id)).all()
    return ResearchRunCompleted(
        **common,
        symbols=symbols,
        candidate_count=len(symbols),
        roles_run=dict(ran),
        skipped_roles={symbol: left for symbol, left in skipped.items() if left},
        verdicts=_tally(ratings),
    )


def _trader(session: Session, run: Run, common: dict[str, Any]) -> TraderRunCompleted:
    source = run.params.get("source_run", run.id)
    actions = session.scalars(select(col(Decision.actions)).where(col(Decision.run_id) == run.id)).first() or []
    states = session.scalars(select(col(Order.state)).where(col(Order.run_id) == run.id)).all()
    return TraderRunCompleted(
        **common,
        symbols=list(dict.fromkeys(str(action.get("symbol")) for action in actions)),
        candidate_count=_count(session, Verdict.run_id, source),
        actions=_tally(str(action.get("action")) for action in actions),
        orders=_tally(states),
    )


def _place(role: str) -> int:
    """Roles in the order in which they are asked."""
    return RESEARCH_ROLES.index(role) if role in RESEARCH_ROLES else -1


def _candidates(session: Session, run_id: str) -> Sequence[Candidate]:
    statement = select(Candidate).where(col(Candidate.run_id) == run_id).order_by(col(Candidate.rank))
    return session.scalars(statement).all()


def _count(session: Session, column: str, run_id: str) -> int:
    return session.scalar(select(func.count()).where(col(column) == run_id)) or 0


def _steps(session: Session, run_id: str) -> _Steps:
    names = ("kind", "role", "subject", "state", "error", "started_at", "finished_at")
    columns = [col(getattr(Step, name)) for name in names]
    return session.execute(select(*columns).where(col(Step.run_id) == run_id)).all()


def _turns(session: Session, run_id: str) -> dict[str, tuple[int, Usage]]:
    """How many turns were run and what they took, by mode."""
    sums = [func.sum(getattr(Turn, name)).label(name) for name in Usage.model_fields]
    rows = session.execute(
        select(col(Turn.role), func.count().label("counted"), *sums)
        .where(col(Turn.run_id) == run_id, was_run())
        .group_by(col(Turn.role))
    ).all()
    found: dict[str, tuple[int, Usage]] = {}
    for row in rows:
        counted, tokens = found.get(mode_of(row.role), (0, Usage()))
        spent = Usage(**{name: getattr(row, name) or 0 for name in Usage.model_fields})
        found[mode_of(row.role)] = (counted + row.counted, tokens + spent)
    return found


def _duration_ms(steps: _Steps) -> float:
    began = [step.started_at for step in steps if step.started_at is not None]
    ended = [step.finished_at for step in steps if step.finished_at is not None]
    return round(max((max(ended) - min(began)).total_seconds() * 1000, 0.0), 3) if began and ended else 0.0


def _errors(steps: _Steps) -> list[str]:
    failed = [step for step in steps if step.state == StepState.FAILED]
    lines = [" ".join(part for part in (step.kind, step.role, step.subject) if part) for step in failed]
    said = [f"{line}: {step.error or 'failed'}"[:_ERROR_CHARS] for line, step in zip(lines, failed, strict=True)]
    return said if len(said) <= _ERRORS else [*said[:_ERRORS], f"and {len(said) - _ERRORS} more"]


def _tally(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))

"""Runs as telemetry names them: summaries by mode when they end, the mode of a turn, and trace ids.

A run's id is its trace's, so that all work for it joins the trace without further data. Plain arithmetic: no tracing
library is loaded, and the roles, which load every tool, where they are asked for.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Row, func, select
from sqlmodel import Session, col

from chordesk.models.answers import ReportStatus, Usage
from chordesk.models.states import StepState
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Candidate, Decision, Report, Run, ScreenHit, Step, Turn, Verdict, research_run
from chordesk.models.telemetry_events import (
    CandidateSeen,
    ResearchRunCompleted,
    RunCompleted,
    ScreenerRunCompleted,
    TraderRunCompleted,
)
from chordesk.tasks.engine import kinds
from chordesk.tasks.engine.budgets import was_run

_ERRORS = 20
_ERROR_CHARS = 300

_Steps = Sequence[Row[Any]]


def completed(session: Session, run: Run) -> list[RunCompleted]:
    """Return the events in the order of the modes; none for a run of no mode, such as a person's orders."""
    steps = _steps(session, run.id)
    turns = _turns(session, run.id)
    found: list[RunCompleted] = []
    for mode, make in (("screener", _screener), ("research", _research), ("trader", _trader)):
        own = [step for step in steps if kinds.mode_of_step(step.kind) == mode]
        if mode == kinds.mode_of_run(run.kind) or any(step.started_at is not None for step in own):
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
    from chordesk.agents.roles import default_roles, validators

    places = {role: place for place, role in enumerate(validators())}
    symbols = [row.symbol for row in _candidates(session, run.id)]
    ran: dict[str, list[str]] = defaultdict(list)
    written = (col(Report.run_id) == run.id, col(Report.status) != ReportStatus.SKIPPED)
    reports = session.execute(select(col(Report.symbol), col(Report.role)).where(*written)).all()
    for symbol, role in sorted(reports, key=lambda row: places.get(row[1], -1)):
        ran[symbol].append(role)
    roles = run.params.get("roles", default_roles())
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
    source = research_run(run)
    actions = session.scalars(select(col(Decision.actions)).where(col(Decision.run_id) == run.id)).first() or []
    states = session.scalars(select(col(Order.state)).where(col(Order.run_id) == run.id)).all()
    return TraderRunCompleted(
        **common,
        symbols=list(dict.fromkeys(str(action.get("symbol")) for action in actions)),
        candidate_count=_count(session, Verdict.run_id, source),
        actions=_tally(str(action.get("action")) for action in actions),
        orders=_tally(states),
    )


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
    sums = [func.sum(getattr(Turn, name)).label(name) for name in Usage.model_fields]
    rows = session.execute(
        select(col(Turn.role), func.count().label("counted"), *sums)
        .where(col(Turn.run_id) == run_id, was_run())
        .group_by(col(Turn.role))
    ).all()
    from chordesk.agents.roles import mode_of

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
    errors = [f"{line}: {step.error or 'failed'}"[:_ERROR_CHARS] for line, step in zip(lines, failed, strict=True)]
    return errors if len(errors) <= _ERRORS else [*errors[:_ERRORS], f"and {len(errors) - _ERRORS} more"]


def _tally(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))


def role_fields(role: str, subject: str) -> dict[str, Any]:
    """Symbol is None for a role with several, and for a voice, which has a round."""
    from chordesk.agents.roles import ROLES, mode_of
    from chordesk.agents.subjects import VoiceSubject

    mode = mode_of(role)
    about_symbol = subject and mode == "research" and (role not in ROLES or ROLES[role].subject is not VoiceSubject)
    return {"mode": mode, "role": role, "symbol": subject if about_symbol else None}


# Trace ids of runs: the run's own 128 bits, so that all work for a run joins its trace without further data.
#
# Plain arithmetic: a process that only sends messages loads no tracing library.

_RUN = re.compile(r"[0-9a-f]{32}")
HEADER = "traceparent"  # of W3C Trace Context


def trace_of(run_id: str) -> tuple[int, int] | None:
    if _RUN.fullmatch(run_id) is None or int(run_id, 16) == 0:
        return None
    return int(run_id, 16), int(run_id[16:], 16) or 1


def headers_of(run_id: str) -> dict[str, str]:
    """Return the headers that make a message a child of the run's span; none for an id that is not a run's."""
    found = trace_of(run_id)
    return {HEADER: f"00-{found[0]:032x}-{found[1]:016x}-01"} if found is not None else {}

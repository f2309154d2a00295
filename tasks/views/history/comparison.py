"""The comparison of two runs of one kind: candidates, verdicts, what was spent, and the settings that differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy
from sqlalchemy import func
from sqlmodel import Session, col, select

from chordesk.models.answers import Frozen
from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings
from chordesk.models.tables.runs import Candidate, Run, Turn, Verdict
from chordesk.tasks.engine.budgets import was_run
from chordesk.tasks.views.history.listing import RunRow, run_row


class ComparedCandidate(Frozen):
    """A symbol in both runs; null where one of them did not have it, or has no verdict on it (yet). changed: the rating
    or its confidence differs, or only one of them judged it."""

    symbol: str
    ours_rank: int | None
    theirs_rank: int | None
    ours: str | None
    theirs: str | None
    ours_confidence: str | None
    theirs_confidence: str | None
    changed: bool


class RoleSpend(Frozen):
    """Turns and tokens of a role in both runs."""

    role: str
    ours_turns: int
    theirs_turns: int
    ours_tokens: int
    theirs_tokens: int


class Difference(Frozen):
    """A value that differs."""

    name: str
    ours: Any
    theirs: Any


class RunComparison(Frozen):
    """Two runs. only_ours, only_theirs: candidates that one alone had; candidates: all of both, by symbol; settings and
    params: those that differ."""

    ours: RunRow
    theirs: RunRow
    only_ours: list[str]
    only_theirs: list[str]
    candidates: list[ComparedCandidate]
    roles: list[RoleSpend]
    settings: list[Difference]
    params: list[Difference]


def comparison(session: Session, settings: Settings, ours: Run, theirs: Run) -> RunComparison:
    """Return what differs between two runs. Raises UsageError for runs of two kinds."""
    if ours.kind != theirs.kind:
        raise UsageError(
            f"run {theirs.id} is a {theirs.kind}, and run {ours.id} a {ours.kind}",
            remedy=f"compare it with another {ours.kind}",
        )
    mine, others = _judged(session, ours), _judged(session, theirs)
    return RunComparison(
        ours=run_row(session, settings, ours),
        theirs=run_row(session, settings, theirs),
        only_ours=sorted(mine.keys() - others.keys()),
        only_theirs=sorted(others.keys() - mine.keys()),
        candidates=[_compared(symbol, mine, others) for symbol in sorted(mine.keys() | others.keys())],
        roles=_roles(session, ours.id, theirs.id),
        settings=_differences(ours.settings or {}, theirs.settings or {}),
        params=_differences(ours.params, theirs.params),
    )


_Judged = Mapping[str, tuple[int, str | None, str | None]]


def _judged(session: Session, run: Run) -> dict[str, tuple[int, str | None, str | None]]:
    """Return rank, rating and confidence by candidate; for a trade run of its source run."""
    run_id = str(run.params.get("source_run") or run.id)
    rows = session.exec(
        select(Candidate.symbol, Candidate.rank, Verdict.rating, Verdict.confidence)
        .join(Verdict, col(Verdict.candidate_id) == col(Candidate.id), isouter=True)
        .where(Candidate.run_id == run_id)
    ).all()
    return {symbol: (rank, rating, confidence) for symbol, rank, rating, confidence in rows}


def _compared(symbol: str, mine: _Judged, others: _Judged) -> ComparedCandidate:
    ours, theirs = mine.get(symbol, (None, None, None)), others.get(symbol, (None, None, None))
    return ComparedCandidate(
        symbol=symbol,
        ours_rank=ours[0],
        theirs_rank=theirs[0],
        ours=ours[1],
        theirs=theirs[1],
        ours_confidence=ours[2],
        theirs_confidence=theirs[2],
        changed=ours[1:] != theirs[1:],
    )


def _roles(session: Session, ours: str, theirs: str) -> list[RoleSpend]:
    rows = session.execute(
        sqlalchemy.select(
            col(Turn.run_id), col(Turn.role), func.count(), func.coalesce(func.sum(col(Turn.total_tokens)), 0)
        )
        .where(col(Turn.run_id).in_([ours, theirs]), was_run())
        .group_by(col(Turn.run_id), col(Turn.role))
    ).all()
    found = {(run_id, role): (turns, tokens) for run_id, role, turns, tokens in rows}
    roles = sorted({role for _, role in found})
    spent = [(role, found.get((ours, role), (0, 0)), found.get((theirs, role), (0, 0))) for role in roles]
    return [
        RoleSpend(
            role=role, ours_turns=mine[0], theirs_turns=other[0], ours_tokens=mine[1], theirs_tokens=other[1]
        )
        for role, mine, other in spent
    ]  # fmt: skip


def _differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[Difference]:
    names = sorted(ours.keys() | theirs.keys())
    return [
        Difference(name=name, ours=ours.get(name), theirs=theirs.get(name))
        for name in names
        if ours.get(name) != theirs.get(name)
    ]

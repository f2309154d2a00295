"""The list of runs, with progress, tokens and money in each row, and the comparison of two of them."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy
from sqlalchemy import case, func, or_
from sqlmodel import Session, col, select

from chordesk.models import features
from chordesk.models.answers import Frozen
from chordesk.models.errors import UsageError
from chordesk.models.groups import by_key
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import BACKTEST
from chordesk.models.states import RUN_FINAL, STEP_FINAL, OrderState, RunKind
from chordesk.models.tables.columns import Row
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Candidate, Run, Step, Turn, Verdict, research_run
from chordesk.models.text import NEW_YORK
from chordesk.tasks.engine.budgets import Cost, costs_of, was_run

_FIRST_YEAR, _LAST_YEAR = 1900, 2900  # of moments that the desk has; further ones do not fit a datetime in UTC


def on_day(column: Any, day: dt.date) -> Any:
    """Return the condition that a moment lies on a New York date; none does before or after all of the calendar's."""
    if not _FIRST_YEAR <= day.year <= _LAST_YEAR:
        return sqlalchemy.false()
    begin = dt.datetime.combine(day, dt.time(), NEW_YORK)
    end = dt.datetime.combine(day + dt.timedelta(days=1), dt.time(), NEW_YORK)
    return sqlalchemy.and_(col(column) >= begin, col(column) < end)


def opened_by_backtest() -> Any:
    """Return the condition that a backtest opened the run for one of its sessions: it decided in the past, on the
    backtest's account. The backtest itself is a run like any other."""
    return col(Run.account).startswith(BACKTEST) & (col(Run.kind) != RunKind.BACKTEST)


SYMBOLS = 12  # named in a row


@dataclass(frozen=True, slots=True)
class RunFilter:
    """What a list of runs is narrowed to; None matches everything."""

    kind: str | None = None
    state: str | None = None
    day: dt.date | None = None  # New York date on which the run was opened
    market_day: dt.date | None = None  # New York date that its market was on
    symbol: str | None = None  # one of its candidates, or of its orders
    with_children: bool = True  # with the runs that other runs opened, as a backtest does for its sessions
    backtests: bool = True  # with the runs that a backtest opened for its sessions
    account: str | None = None
    parent: str | None = None  # the run that opened it
    asides: bool = False  # with the kinds that lists leave out, also where `kind` is None
    where: tuple[Any, ...] = ()  # further conditions on Run


class RunRow(Frozen):
    """A run as stored, and how far it has come. params and summary are empty and settings null in a short row.

    steps, steps_ended: those that exist so far. symbols: the first of its candidates by rank; candidates, orders:
    how many; waiting: orders that wait for a person. turns, tokens, cost: so far.
    """

    run: Row[Run]
    final: bool
    steps: int
    steps_ended: int
    symbols: list[str]
    candidates: int
    orders: int
    waiting: int
    turns: int
    tokens: int
    cost: Cost


class RunPage(Frozen):
    """Some rows of a list, the newest first, and how many there are in all."""

    total: int
    runs: list[RunRow]


def _seconds(column: Any) -> Any:
    return sqlalchemy.extract("epoch", column)


def _of_run(what: Any, *where: Any) -> Any:
    return sqlalchemy.select(what).where(*where).correlate(Run).scalar_subquery()


# What a list of runs is sorted by; a run without the value comes last either way.
SORTS: Mapping[str, Any] = {
    "began": col(Run.created_at),
    "market": col(Run.market_now),
    "kind": col(Run.kind),
    "state": col(Run.state),
    "account": col(Run.account),
    "took": _seconds(col(Run.finished_at)) - _seconds(col(Run.created_at)),
    "orders": _of_run(func.count(col(Order.id)), col(Order.run_id) == col(Run.id)),
    "tokens": _of_run(func.coalesce(func.sum(col(Turn.total_tokens)), 0), col(Turn.run_id) == col(Run.id)),
}


def run_page(
    session: Session,
    settings: Settings,
    wanted: RunFilter,
    limit: int,
    offset: int = 0,
    *,
    short: bool = False,
    sort: str = "began",
    down: bool = True,
) -> RunPage:
    """sort: of SORTS; down: the largest first. Those that are alike are the newest first."""
    conditions = _conditions(wanted)
    total = session.exec(select(func.count()).select_from(Run).where(*conditions)).one()
    by = SORTS[sort].desc() if down else SORTS[sort].asc()
    order = (by.nulls_last(), col(Run.created_at).desc(), col(Run.id).desc())
    runs = session.exec(select(Run).where(*conditions).order_by(*order).offset(offset).limit(limit)).all()
    return RunPage(total=total, runs=_rows(session, settings, runs, short=short))


def run_row(session: Session, settings: Settings, run: Run) -> RunRow:
    return _rows(session, settings, [run], short=False)[0]


def of_symbol(symbol: str) -> Any:
    """Return the condition that a run had this symbol as a candidate or in an order."""
    candidate = select(Candidate.id).where(Candidate.run_id == Run.id, Candidate.symbol == symbol)
    ordered = select(Order.id).where(Order.run_id == Run.id, Order.symbol == symbol)
    return or_(candidate.exists(), ordered.exists())


def _conditions(wanted: RunFilter) -> list[Any]:
    pairs = (Run.kind, wanted.kind), (Run.state, wanted.state), (Run.account, wanted.account)
    equal = (*pairs, (Run.parent_run_id, wanted.parent))
    conditions: list[Any] = [col(column) == value for column, value in equal if value is not None]
    for column, day in ((Run.created_at, wanted.day), (Run.market_now, wanted.market_day)):
        if day is not None:
            conditions.append(on_day(column, day))
    if wanted.kind is None and wanted.parent is None and not wanted.asides:
        conditions.append(col(Run.kind).not_in(features.places("asides")))
    conditions += wanted.where
    if not wanted.with_children:
        conditions.append(col(Run.parent_run_id).is_(None))
    if not wanted.backtests:
        conditions.append(~opened_by_backtest())
    if wanted.symbol is not None:
        conditions.append(of_symbol(wanted.symbol.upper()))
    return conditions


def _rows(session: Session, settings: Settings, runs: Sequence[Run], *, short: bool) -> list[RunRow]:
    ids = [run.id for run in runs]
    # The figures of a run that has ended are in its summary: only the others' turns are summed.
    counted = [run.id for run in runs if not _is_summed(run)]
    steps, symbols, orders = _steps(session, ids), _symbols(session, ids), _orders(session, ids)
    spent, costs = _spent(session, counted), costs_of(session, settings, counted) if counted else {}
    return [
        RunRow(
            run=Run(**run.model_dump(exclude={"params", "settings", "summary"})) if short else run,
            final=run.state in RUN_FINAL,
            steps=steps[run.id][1],
            steps_ended=steps[run.id][0],
            symbols=symbols[run.id][:SYMBOLS],
            candidates=len(symbols[run.id]),
            orders=orders[run.id][0],
            waiting=orders[run.id][1],
            turns=spent[run.id][0] if run.id in spent else run.summary["turns"],
            tokens=spent[run.id][1] if run.id in spent else run.summary["tokens"],
            cost=costs[run.id] if run.id in costs else Cost.model_validate(run.summary["cost"]),
        )
        for run in runs
    ]


def _is_summed(run: Run) -> bool:
    return run.state in RUN_FINAL and {"turns", "tokens", "cost"} <= run.summary.keys()


def _steps(session: Session, ids: Sequence[str]) -> dict[str, tuple[int, int]]:
    ended = func.sum(case((col(Step.state).in_(STEP_FINAL), 1), else_=0))
    rows = session.execute(
        sqlalchemy.select(col(Step.run_id), ended, func.count())
        .where(col(Step.run_id).in_(ids))
        .group_by(col(Step.run_id))
    ).all()
    return defaultdict(lambda: (0, 0)) | {run_id: (done, count) for run_id, done, count in rows}


def _symbols(session: Session, ids: Sequence[str]) -> dict[str, list[str]]:
    rows = session.exec(
        select(Candidate.run_id, Candidate.symbol).where(col(Candidate.run_id).in_(ids)).order_by(col(Candidate.rank))
    ).all()
    return by_key(rows)


def _orders(session: Session, ids: Sequence[str]) -> dict[str, tuple[int, int]]:
    waits = func.sum(case((col(Order.state) == OrderState.APPROVAL_PENDING, 1), else_=0))
    rows = session.execute(
        sqlalchemy.select(col(Order.run_id), func.count(), waits)
        .where(col(Order.run_id).in_(ids))
        .group_by(col(Order.run_id))
    ).all()
    return defaultdict(lambda: (0, 0)) | {run_id: (count, waiting) for run_id, count, waiting in rows}


def _spent(session: Session, ids: Sequence[str]) -> dict[str, tuple[int, int]]:
    rows = session.execute(
        sqlalchemy.select(col(Turn.run_id), func.count(), func.coalesce(func.sum(col(Turn.total_tokens)), 0))
        .where(col(Turn.run_id).in_(ids), was_run())
        .group_by(col(Turn.run_id))
    ).all()
    return dict.fromkeys(ids, (0, 0)) | {run_id: (count, tokens) for run_id, count, tokens in rows}


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
    run_id = research_run(run)
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

"""Retention of runs: a run that nothing references is deleted; if only scores need it, only its evidence is (tool
calls, attempts, conversations).

Evidence goes in small transactions. The rest of a run goes in one, after a second look at whether something rests on it
by now, so that a reader finds it whole or not at all. The foreign keys refuse anything that this misses.
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from enum import IntEnum
from types import MappingProxyType

import structlog
from sqlalchemy import ColumnElement, String, Table, cast, delete, func, or_, select, tuple_
from sqlalchemy import column as sa_column
from sqlalchemy import table as sa_table
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col

from chordesk.models.database import feature_tables
from chordesk.models.database.store import Store, core_tables, every_table, rules
from chordesk.models.exchanges import HOME
from chordesk.models.questions import QuestionSource
from chordesk.models.settings.running_desk import is_backtest
from chordesk.models.states import RUN_FINAL
from chordesk.models.tables.board import Question
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Report, Run, Step
from chordesk.models.tables.runtime import RoleSchedule
from chordesk.tasks.engine.steps import PARENT_STEP
from chordesk.tasks.retention.retention_policy import (
    EVIDENCE,
    HOUR,
    RUN,
    SCORES,
    Amount,
    Amounts,
    Policy,
    added,
    chosen,
    owned,
    references,
    rows_of,
    with_features,
)
from chordesk.tools.market.clock import exchange_day

# What holds a run that ended long ago: open runs, orders and their lineage, cited reports, and scores.
#
# A run is held whole, for its scores alone, or not at all. What a run rests on is held as the run itself is: its rows
# refer to rows of the other, or its parameters name it.

NAMED_RUNS = ("source_run", "backtest")  # parameters of a run that name another


class Hold(IntEnum):
    """How much of a run stays."""

    NOTHING = 0
    SCORES = 1  # its results; not how it came to them
    WHOLE = 2


def holds(session: Session, before: dt.datetime) -> dict[str, Hold]:
    """Return the hold on each run that ended before this; every other run is held whole."""
    columns = (Run.id, Run.state, Run.finished_at, Run.market, Run.market_now)
    exchange = func.coalesce(col(Run.settings)["exchange"].as_string(), HOME).label("exchange")
    runs = session.execute(select(*map(col, columns), exchange)).all()
    old = {row.id for row in runs if row.state in RUN_FINAL and row.finished_at and row.finished_at < before}
    if not old:
        return {}
    found = {row.id: Hold.NOTHING if row.id in old else Hold.WHOLE for row in runs}
    _raise(found, _with_orders(session))
    _raise(found, dict.fromkeys(_with_rows_of_features(session), Hold.WHOLE))
    _raise(found, dict.fromkeys(_with_scores(session), Hold.SCORES))
    days = _question_days(session)
    judged = (row.id for row in runs if (row.market, exchange_day(row.market_now, row.exchange)) in days)
    _raise(found, dict.fromkeys(judged, Hold.SCORES))
    _raise(found, dict.fromkeys(_reviews(session), Hold.WHOLE))
    _spread(found, _rests_on(session))
    return {run_id: found[run_id] for run_id in old}


def _raise(found: dict[str, Hold], to: Mapping[str, Hold]) -> None:
    for run_id, hold in to.items():
        if run_id in found:
            found[run_id] = max(found[run_id], hold)


def _with_orders(session: Session) -> dict[str, Hold]:
    """Return the runs with orders. Those of a backtest were never given to anyone: they stay, as its result does."""
    rows = session.execute(select(col(Order.run_id), col(Order.account)).distinct())
    return {run_id: Hold.SCORES if is_backtest(account) else Hold.WHOLE for run_id, account in rows}


def _with_rows_of_features(session: Session) -> set[str]:
    """Return the runs that rows of features refer to which do not go with them, of features that are away too."""
    tables = every_table()
    own = [
        (name, key.parent.name)
        for name, (_, keep) in rules().items()
        if not keep.run
        for key in tables[name].foreign_keys
        if key.column.table.name == "run"
    ]
    found: set[str] = set()
    for name, column in (*own, *feature_tables.holding(session.connection(), frozenset(core_tables()))):
        found.update(session.execute(select(sa_column(column)).select_from(sa_table(name)).distinct()).scalars())
    return found


def _with_scores(session: Session) -> set[str]:
    found: set[str] = set()
    for name in sorted(SCORES):
        rows = owned(name)
        found.update(session.execute(select(rows.run).select_from(rows.source).distinct()).scalars())
    return found


def _question_days(session: Session) -> set[tuple[str, dt.date]]:
    own = (QuestionSource.DESK, QuestionSource.VERDICT)
    rules = session.execute(select(col(Question.market), col(Question.rule)).where(col(Question.source).in_(own)))
    return {(market, dt.date.fromisoformat(rule["day"])) for market, rule in rules if "day" in rule}


def _reviews(session: Session) -> set[str]:
    """Return the runs of the last reviews of holdings, and of the reports that the next verdict on them rests on."""
    runs = set(session.execute(select(col(RoleSchedule.run_id))).scalars())
    reports = select(col(Report.run_id)).join(RoleSchedule, col(RoleSchedule.report_id) == col(Report.id))
    return runs | set(session.execute(reports).scalars())


def held_by_now(session: Session, run_id: str, since: dt.datetime) -> bool:
    """Return whether a run that was opened since then rests on this one, or the next review of a holding does."""
    newer = select(col(Run.id)).where(
        col(Run.created_at) >= since,
        or_(col(Run.parent_run_id) == run_id, *(_named(name) == run_id for name in NAMED_RUNS)),
    )
    return session.execute(newer.limit(1)).first() is not None or run_id in _reviews(session)


def _rests_on(session: Session) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for name in NAMED_RUNS:
        named = _named(name)
        for run_id, other in session.execute(select(col(Run.id), named).where(named.is_not(None))):
            found[run_id].add(other)
    for statement in references():
        for run_id, other in session.execute(statement):
            found[run_id].add(other)
    waited = select(col(Run.id), col(Step.run_id)).join(Step, col(Step.id) == _named(PARENT_STEP))
    for run_id, other in session.execute(waited):
        found[run_id].add(other)
        found[other].add(run_id)
    return found


def _named(name: str) -> ColumnElement[str]:
    named: ColumnElement[str] = col(Run.params)[name].as_string()
    return named


def _spread(found: dict[str, Hold], rests_on: Mapping[str, Iterable[str]]) -> None:
    """Hold what a run rests on as the run itself is held."""
    waiting = [run_id for run_id, hold in found.items() if hold]
    while waiting:
        run_id = waiting.pop()
        for other in rests_on.get(run_id, ()):
            if other in found and found[other] < found[run_id]:
                found[other] = found[run_id]
                waiting.append(other)


log = structlog.get_logger(__name__)

# Rows deleted in one transaction, for which other writers wait.
CHUNK = 500
COUNTED = 500  # runs of a query that counts
Stopped = Callable[[], bool]


class _HeldByNow(Exception):
    """Something rests on the run since it was looked up."""


def due(store: Store, policy: Policy, emptied: Mapping[str, Set[str]] = MappingProxyType({})) -> Amounts:
    """Rows by table; `run` counts the runs that go. emptied: tables that have lost a run's rows by then."""
    alike: dict[Set[str], list[str]] = defaultdict(list)  # runs by the tables that lose their rows
    evidence, of_run = with_features(EVIDENCE), with_features(RUN)
    for run_id, hold in _old(store, policy).items():
        alike[(evidence if hold is Hold.SCORES else evidence | of_run) - emptied.get(run_id, frozenset())].append(
            run_id
        )
    amounts: Amounts = {}
    for names, run_ids in alike.items():
        for first in range(0, len(run_ids), COUNTED):
            some = run_ids[first : first + COUNTED]
            with store.read() as session:
                amounts = added(amounts, *({name: _amount(session, name, some)} for name in sorted(names)))
    return amounts


def collect(store: Store, policy: Policy, stopped: Stopped = lambda: False) -> Amounts:
    """Delete what the policy no longer keeps. Safe to run in several processes and to run again after a kill.
    stopped: checked between transactions."""
    amounts: Amounts = {}
    for run_id, hold in _old(store, policy).items():
        if stopped():
            break
        try:
            amounts = added(amounts, _collect(store, policy, run_id, hold))
        except (_HeldByNow, IntegrityError):
            log.info("run.kept", run=run_id, reason="something rests on it by now")
    return amounts


def _old(store: Store, policy: Policy) -> dict[str, Hold]:
    if policy.runs_before is None:
        return {}
    with store.read() as session:
        found = holds(session, policy.runs_before)
        noted = select(col(Run.id)).where(cast(col(Run.notes), String).contains(_GONE))
        emptied = set(session.execute(noted).scalars())
    going = {run_id for run_id, hold in found.items() if hold is Hold.NOTHING}
    shrinking = {run_id for run_id, hold in found.items() if hold is Hold.SCORES} - emptied
    return {run_id: found[run_id] for run_id in sorted(going | shrinking, reverse=True)}


_GONE = "its tool calls and attempts were deleted on "


def _collect(store: Store, policy: Policy, run_id: str, hold: Hold) -> Amounts:
    amounts: Amounts = {}
    evidence, of_run = with_features(EVIDENCE), with_features(RUN)
    for table in reversed(every_table().values()):
        if table.name in evidence:
            amounts = added(amounts, {table.name: _delete_in_chunks(store, policy, table, run_id)})
    if hold is Hold.SCORES:
        if amounts:
            _note(store, policy, run_id)
        return amounts
    with store.session() as session:
        _require(session, run_id, policy.now)
        for table in reversed(every_table().values()):
            if table.name in of_run:
                amounts = added(amounts, {table.name: _amount(session, table.name, [run_id])})
                session.execute(delete(table).where(rows_of(table.name, [run_id])))
    return amounts


def _delete_in_chunks(store: Store, policy: Policy, table: Table, run_id: str) -> Amount:
    of_run = rows_of(table.name, [run_id])
    return delete_in_chunks(store, table, of_run, lambda session: _require(session, run_id, policy.now))


def delete_in_chunks(
    store: Store, table: Table, which: ColumnElement[bool], require: Callable[[Session], None] = lambda session: None
) -> Amount:
    """require: called within the first transaction, and raises to stop it."""
    done, key = Amount(), tuple_(*table.primary_key.columns)
    while True:
        with store.read() as session:  # most runs of scores have lost theirs already: no writer waits for that
            if session.execute(select(table.c[0]).where(which).limit(1)).first() is None:
                return done
        with store.session() as session:
            if not done.rows:
                require(session)
            some = select(*table.primary_key.columns).where(which).limit(CHUNK).subquery()
            some_rows = key.in_(select(*some.c))
            done += chosen(session, table, some_rows)
            session.execute(delete(table).where(some_rows))


# Rows of features that go by an age of their own.


def due_rows(store: Store, policy: Policy) -> Amounts:
    with store.read() as session:
        return added({name: chosen(session, table, which) for name, table, which in _aged(policy)})


def collect_rows(store: Store, policy: Policy, stopped: Stopped = lambda: False) -> Amounts:
    """Those that another row refers to stay."""
    amounts: Amounts = {}
    for name, table, which in reversed(_aged(policy)):
        if stopped():
            break
        try:
            amounts = added(amounts, {name: delete_in_chunks(store, table, which)})
        except IntegrityError:
            log.info("rows.kept", table=name, reason="other rows refer to them")
    return amounts


def _aged(policy: Policy) -> list[tuple[str, Table, ColumnElement[bool]]]:
    own = rules()
    tables = ((name, table) for name, table in every_table().items() if name in policy.rows_before)
    return [(name, table, table.c[own[name][1].at] < policy.rows_before[name]) for name, table in tables]


def _require(session: Session, run_id: str, since: dt.datetime) -> None:
    """Raise _HeldByNow when something rests on the run by now. Its row stays locked until the transaction ends."""
    session.get(Run, run_id, with_for_update=True, populate_existing=True)
    if held_by_now(session, run_id, since - HOUR):  # the clocks of a fleet's hosts differ a little
        raise _HeldByNow


def _note(store: Store, policy: Policy, run_id: str) -> None:
    with store.session() as session:
        run = session.get(Run, run_id, with_for_update=True)
        if run is not None:
            gone = f"{_GONE}{policy.now:%Y-%m-%d} (DESK_KEEP_RUN_DAYS)"
            run.notes = [*(note for note in run.notes if note != gone), gone]
            session.add(run)


def _amount(session: Session, name: str, run_ids: Collection[str]) -> Amount:
    return chosen(session, every_table()[name], rows_of(name, run_ids))

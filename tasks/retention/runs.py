"""Retention of runs: one that nothing holds is deleted; of one that scores alone hold, the evidence is.

Evidence goes in small transactions. The rest of a run goes in one, after it was looked up again whether something rests
on the run by now, so that a reader finds it whole or not at all. The foreign keys refuse whatever this should miss.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Set
from types import MappingProxyType

import structlog
from sqlalchemy import Table, delete, select, tuple_
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session

from chordesk.models.database.store import Store
from chordesk.models.database.tables import every_table
from chordesk.models.tables.runs import Run
from chordesk.tasks.retention.amounts import Amount, Amounts, added, chosen
from chordesk.tasks.retention.holds import Hold, held_by_now, holds
from chordesk.tasks.retention.owners import rows_of
from chordesk.tasks.retention.policy import EVIDENCE, HOUR, RUN, Policy

log = structlog.get_logger(__name__)

# Rows deleted in one transaction, for which other writers wait.
CHUNK = 500
Stopped = Callable[[], bool]


class _HeldByNow(Exception):
    """Something rests on the run since it was looked up."""


def due(store: Store, policy: Policy, emptied: Mapping[str, Set[str]] = MappingProxyType({})) -> Amounts:
    """Return the rows that `collect` would delete now, by table; `run` counts the runs that go. emptied: tables that
    have lost a run's rows by then, by its id."""
    amounts: Amounts = {}
    for run_id, hold in _old(store, policy).items():
        with store.read() as session:
            names = _going(hold) - emptied.get(run_id, frozenset())
            going = [table for table in every_table().values() if table.name in names]
            amounts = added(amounts, {table.name: _amount(session, table, run_id) for table in going})
    return amounts


def collect(store: Store, policy: Policy, stopped: Stopped = lambda: False) -> Amounts:
    """Delete what is due and return it by table. Safe at any time, beside other processes, and again after an end at
    any moment. stopped: ends it after the transaction in hand."""
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
    """Return the runs that end or shrink, the newest first: none goes before one that refers to it."""
    if policy.runs_before is None:
        return {}
    with store.read() as session:
        found = holds(session, policy.runs_before)
    return {run_id: found[run_id] for run_id in sorted(found, reverse=True) if found[run_id] < Hold.WHOLE}


def _going(hold: Hold) -> frozenset[str]:
    return EVIDENCE if hold is Hold.SCORES else EVIDENCE | RUN


def _collect(store: Store, policy: Policy, run_id: str, hold: Hold) -> Amounts:
    amounts: Amounts = {}
    for table in reversed(every_table().values()):
        if table.name in EVIDENCE:
            amounts = added(amounts, {table.name: _delete_in_chunks(store, policy, table, run_id)})
    if hold is Hold.SCORES:
        if amounts:
            _note(store, policy, run_id)
        return amounts
    with store.session() as session:
        _require(session, run_id, policy.now)
        for table in reversed(every_table().values()):
            if table.name in RUN:
                amounts = added(amounts, {table.name: _amount(session, table, run_id)})
                session.execute(delete(table).where(rows_of(table.name, run_id)))
    return amounts


def _delete_in_chunks(store: Store, policy: Policy, table: Table, run_id: str) -> Amount:
    done, key = Amount(), tuple_(*table.primary_key.columns)
    while True:
        with store.read() as session:  # most runs of scores have lost theirs already: no writer waits for that
            if session.execute(select(table.c[0]).where(rows_of(table.name, run_id)).limit(1)).first() is None:
                return done
        with store.session() as session:
            if not done.rows:
                _require(session, run_id, policy.now)
            some = select(*table.primary_key.columns).where(rows_of(table.name, run_id)).limit(CHUNK).subquery()
            some_rows = key.in_(select(*some.c))
            done += chosen(session, table, some_rows)
            session.execute(delete(table).where(some_rows))


def _require(session: Session, run_id: str, since: dt.datetime) -> None:
    """Raise _HeldByNow when something rests on the run that did not when it was looked up. Its row stays locked, so
    that on Postgres too nothing new refers to it until the transaction ends."""
    session.get(Run, run_id, with_for_update=True, populate_existing=True)
    if held_by_now(session, run_id, since - HOUR):  # the clocks of a fleet's hosts differ a little
        raise _HeldByNow


def _note(store: Store, policy: Policy, run_id: str) -> None:
    with store.session() as session:
        run = session.get(Run, run_id, with_for_update=True)
        if run is not None:
            gone = f"its tool calls and attempts were deleted on {policy.now:%Y-%m-%d} (DESK_KEEP_RUN_DAYS)"
            run.notes = [*(note for note in run.notes if note != gone), gone]
            session.add(run)


def _amount(session: Session, table: Table, run_id: str) -> Amount:
    return chosen(session, table, rows_of(table.name, run_id))

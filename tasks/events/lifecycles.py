"""Rows of conversations, turns and items: the last state of each as a runtime reports it, and the ends of lost ones.

Reported rows are upserted together. A row whose process died in the middle of it is ended by those that take over.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Insert, Table, or_
from sqlmodel import Session, SQLModel, col, select, update

from chordesk.agents.runtime import ConversationState, Lifecycle
from chordesk.models import event_log
from chordesk.models.database.store import Store
from chordesk.models.events import Envelope, EventType, LifecycleStatus, TurnLifecycle, event
from chordesk.models.states import AttemptEnd
from chordesk.models.tables.columns import dialect_insert, utcnow
from chordesk.models.tables.runs import Run
from chordesk.models.tables.runtime import EventHead, RuntimeConversation, RuntimeItem, RuntimeTurn

# Name of the row's table and its primary key: at most one waiting row has it.
Key = tuple[str, ...]
Row = dict[str, Any]

_CONVERSATION, _TURN, _ITEM = "conversation", "runtime_turn", "runtime_item"
_MODELS: dict[str, type[SQLModel]] = {_CONVERSATION: RuntimeConversation, _TURN: RuntimeTurn, _ITEM: RuntimeItem}


def key_of(lifecycle: Lifecycle) -> Key:
    if isinstance(lifecycle, ConversationState):
        return _CONVERSATION, lifecycle.id
    if isinstance(lifecycle, TurnLifecycle):
        return _TURN, lifecycle.thread_id, lifecycle.turn_id
    return _ITEM, lifecycle.turn_id, lifecycle.item_id


def row_of(lifecycle: Lifecycle, run_id: str) -> Row:
    if isinstance(lifecycle, ConversationState):
        return _conversation(lifecycle)
    return {**lifecycle.__dict__, "run_id": run_id}


def write(session: Session, rows: Mapping[Key, Row]) -> None:
    connection = session.connection()
    for name in _MODELS:
        if some := [row for key, row in sorted(rows.items(), key=lambda pair: pair[0]) if key[0] == name]:
            connection.execute(_upsert(session, name), some)


def _conversation(state: ConversationState) -> Row:
    return {
        "id": state.id,
        "run_id": state.ref.run_id,
        "step_id": state.scope.step_id,
        "role": state.scope.role,
        "subject": state.scope.subject,
        "runtime_kind": state.ref.runtime_kind.value,
        "thread_id": state.ref.thread_id,
        "thread_reason": state.reason,
        "kept": state.kept,
        "worker": state.worker,
        "active_turn_id": state.ref.active_turn_id,
        "opened_at": state.opened_at,
        "closed_at": state.closed_at,
    }


def _upsert(session: Session, name: str) -> Insert:
    insert = dialect_insert(session, _MODELS[name])
    table: Table = insert.table
    ended = "closed_at" if name == _CONVERSATION else "ended_at"
    statement: Insert = insert.on_conflict_do_update(
        index_elements=list(table.primary_key),
        set_={column.name: insert.excluded[column.name] for column in table.columns if not column.primary_key},
        where=or_(table.c[ended].is_(None), insert.excluded[ended].is_not(None)),
    )
    return statement


# For this long after a run's end its workers may still record how their turns ended.
GRACE = dt.timedelta(seconds=20)
# A sweep checks runs with an event within this time; once an hour all that are kept are checked.
LATELY = dt.timedelta(hours=1)
SILENT = "its process ended before it did"


def end_lost(session: Session, run_id: str, why: str, step_id: str | None = None) -> int:
    """End the open conversations of a run, or of one of its steps, and the turns and items in them, as failed; each
    such turn gets a `turn.failed`. Return the number of conversations. An older state that is written later does not
    reopen them (`lifecycles`). Rows are locked in the order in which a recorder writes them."""
    which = select(RuntimeConversation).where(
        RuntimeConversation.run_id == run_id, col(RuntimeConversation.closed_at).is_(None)
    )
    if step_id is not None:
        which = which.where(RuntimeConversation.step_id == step_id)
    open_ones = session.exec(which.order_by(col(RuntimeConversation.id)).with_for_update()).all()
    if not open_ones:
        return 0
    now = utcnow()
    by_turn = {one.active_turn_id: one for one in open_ones if one.active_turn_id is not None}
    for one in open_ones:
        one.active_turn_id, one.closed_at = None, now
        session.add(one)
    session.flush()
    failed = _fail(session, run_id, list(by_turn), now) if by_turn else []
    event_log.append(session, [_failed(by_turn[turn_id], turn_id, why) for turn_id in failed])
    return len(open_ones)


def end_left_over_turns(store: Store, now: dt.datetime, since: dt.datetime | None = None) -> int:
    """Of runs that ended some time ago and had an event after `since`: their workers would have recorded the end by
    now."""
    with store.read() as session:
        left = select(RuntimeConversation.id).where(
            RuntimeConversation.run_id == EventHead.run_id, col(RuntimeConversation.closed_at).is_(None)
        )
        run_ids = session.exec(
            select(EventHead.run_id)
            .join(Run, col(Run.id) == col(EventHead.run_id))
            .where(EventHead.updated_at >= (since or now - LATELY), col(Run.finished_at) < now - GRACE, left.exists())
        ).all()
    ended = 0
    for run_id in run_ids:
        with store.session() as session:
            ended += end_lost(session, run_id, SILENT)
    return ended


def _fail(session: Session, run_id: str, turn_ids: list[str], now: dt.datetime) -> list[str]:
    ends = {"status": LifecycleStatus.FAILED.value, "ended_at": now}
    turns = (
        update(RuntimeTurn)
        .where(col(RuntimeTurn.run_id) == run_id, col(RuntimeTurn.turn_id).in_(turn_ids))
        .where(col(RuntimeTurn.ended_at).is_(None))
        .values(ends)
        .returning(col(RuntimeTurn.turn_id))
        .execution_options(synchronize_session=False)
    )
    items = (
        update(RuntimeItem)
        .where(col(RuntimeItem.turn_id).in_(turn_ids), col(RuntimeItem.ended_at).is_(None))
        .values(ends)
        .execution_options(synchronize_session=False)
    )
    failed = sorted(session.scalars(turns))
    session.execute(items)
    return failed


def _failed(row: RuntimeConversation, turn_id: str, why: str) -> Envelope:
    payload = {"role": row.role, "subject": row.subject, "step": row.step_id}
    payload |= {"kind": AttemptEnd.LOST.value, "why": why}
    return event(EventType.TURN_FAILED, row.run_id, thread_id=row.thread_id, turn_id=turn_id, **payload)

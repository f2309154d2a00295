"""Rows of conversations, turns and items as a runtime reports them: the last state of each, upserted together.

A row that has ended stays ended: an older state that is written later changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Insert, Table, or_
from sqlalchemy.dialects import postgresql, sqlite
from sqlmodel import Session, SQLModel

from chordesk.agents.runtime import ConversationState, Lifecycle
from chordesk.models.events.lifecycle import TurnLifecycle
from chordesk.models.tables.composing import composed_once
from chordesk.models.tables.events import RuntimeConversation, RuntimeItem, RuntimeTurn

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
    """Return the columns of a lifecycle's row."""
    if isinstance(lifecycle, ConversationState):
        return _conversation(lifecycle)
    return {**lifecycle.__dict__, "run_id": run_id}


def write(session: Session, rows: Mapping[Key, Row]) -> None:
    """Upsert the rows in one order, so that two writers never wait for each other."""
    connection = session.connection()
    for name in _MODELS:
        if some := [row for key, row in sorted(rows.items(), key=lambda pair: pair[0]) if key[0] == name]:
            connection.execute(_upsert(name, connection.dialect.name), some)


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


@composed_once
def _upsert(name: str, dialect: str) -> Insert:
    table: Table = _MODELS[name].__table__  # type: ignore[attr-defined]
    insert = (sqlite if dialect == "sqlite" else postgresql).insert(table)
    ended = "closed_at" if name == _CONVERSATION else "ended_at"
    statement: Insert = insert.on_conflict_do_update(
        index_elements=list(table.primary_key),
        set_={column.name: insert.excluded[column.name] for column in table.columns if not column.primary_key},
        where=or_(table.c[ended].is_(None), insert.excluded[ended].is_not(None)),
    )
    return statement

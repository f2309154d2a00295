"""The statements of every checkpoint, built once: composing SQL costs more than running it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Delete, Update, bindparam, delete, update

from chordesk.models.tables.composing import composed_once
from chordesk.models.tables.graphs import GraphCheckpoint

_WITHIN = ":"  # in the place of a graph within a node: before the id of the node's task


@composed_once
def replace() -> Update:
    """Return the update of a checkpoint by the next one. Parameters: each column as new_NAME."""
    columns = GraphCheckpoint.__table__.c  # type: ignore[attr-defined]
    keys = [column for column in columns if column.primary_key]
    rest = [column for column in columns if not column.primary_key]
    return (
        update(GraphCheckpoint.__table__)  # type: ignore[attr-defined]
        .where(*(column == bindparam(f"new_{column.name}") for column in keys))
        .values({column.name: bindparam(f"new_{column.name}", type_=column.type) for column in rest})
    )


@composed_once
def forget(table: type[Any], which: str) -> Delete:
    """Return the deletion of some rows of a graph. Parameters: run, of_thread, and those of which: `all`; `within`, of
    graphs within its nodes; `old`, of other checkpoints than the `new` one `at` a place; `same`, of a write `at` a
    place, by_task and at_ordinal."""
    c = table.__table__.c
    own = delete(table.__table__).where(c.run_id == bindparam("run"), c.thread == bindparam("of_thread"))
    if which == "within":
        return own.where(c.place.contains(_WITHIN))
    if which == "old":
        return own.where(c.place == bindparam("at"), c.checkpoint_id != bindparam("new"))
    if which == "same":
        same = (c.task == bindparam("by_task"), c.ordinal == bindparam("at_ordinal"))
        return own.where(c.place == bindparam("at"), *same)
    return own

"""Long-term memory of graphs: a store of LangGraph in the desk's database, by namespace and key."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import orjson
from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
)
from sqlalchemy import ColumnElement, delete, func, or_
from sqlmodel import Session, col, select

from chordesk.models.database.store import Store
from chordesk.models.errors import GraphState, UsageError
from chordesk.models.settings import Settings
from chordesk.models.settings.sources import load_settings
from chordesk.models.tables.columns import dialect_insert, utcnow
from chordesk.models.tables.runs import GraphMemory

_BETWEEN = "."  # LangGraph allows none in a label
_COMPARED = {
    "$eq": lambda one, other: one == other,
    "$ne": lambda one, other: one != other,
    "$gt": lambda one, other: one > other,
    "$gte": lambda one, other: one >= other,
    "$lt": lambda one, other: one < other,
    "$lte": lambda one, other: one <= other,
}


def desk_store(settings: Settings | None = None) -> DeskStore:
    """Return the memory of a desk's graphs, for a program beside it. settings: by default those of the environment."""
    return DeskStore(Store((settings or load_settings()).database))


class DeskStore(BaseStore):
    """A store of LangGraph. A query finds the items with any of its words in their texts, those with the most first:
    there are no embeddings. A batch reads before it writes, and writes all or nothing."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Raises GraphState for a value that JSON cannot hold, and UsageError for a name with a NUL character."""
        given = list(ops)
        rows = {(one.namespace, one.key): _row(one) for one in given if isinstance(one, PutOp)}
        with self._store.read() as session:
            found = [_read(session, one) for one in given]
        if rows:
            with self._store.session() as session:
                for (namespace, key), row in rows.items():
                    _write(session, _joined(namespace), key, row)
        return found

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return await asyncio.to_thread(self.batch, list(ops))


def _read(session: Session, op: Op) -> Result:
    if isinstance(op, GetOp):
        row = session.get(GraphMemory, (_joined(op.namespace), op.key))
        return Item(**_fields(row)) if row is not None else None
    if isinstance(op, SearchOp):
        return _search(session, op)
    if isinstance(op, ListNamespacesOp):
        names = session.exec(select(GraphMemory.namespace).distinct()).all()
        all_names = (tuple(name.split(_BETWEEN)) for name in names)
        chosen = [name for name in all_names if all(_matches(one, name) for one in op.match_conditions or ())]
        return sorted({name[: op.max_depth] for name in chosen})[op.offset : op.offset + op.limit]
    return None


def _search(session: Session, op: SearchOp) -> list[SearchItem]:
    query = select(GraphMemory).order_by(col(GraphMemory.updated_at).desc(), col(GraphMemory.key))
    if op.namespace_prefix:
        query = query.where(_within(_joined(op.namespace_prefix)))
    if not op.filter and not op.query:
        rows = session.exec(query.offset(op.offset).limit(op.limit)).all()
        return [SearchItem(**_fields(row)) for row in rows]
    fitting = [row for row in session.exec(query) if _fits(row.value, op.filter or {})]
    words = set((op.query or "").casefold().split())
    scored = [(len(words & _words(row.value)) / len(words) if words else None, row) for row in fitting]
    best = sorted((one for one in scored if one[0] != 0.0), key=lambda one: -(one[0] or 0.0))
    return [SearchItem(**_fields(row), score=score) for score, row in best[op.offset : op.offset + op.limit]]


def _within(prefix: str) -> ColumnElement[bool]:
    # No LIKE: SQLite's does not tell capitals from small letters.
    start = func.substr(col(GraphMemory.namespace), 1, len(prefix) + 1)
    return or_(col(GraphMemory.namespace) == prefix, start == f"{prefix}{_BETWEEN}")


def _words(value: Any) -> set[str]:
    if isinstance(value, Mapping):
        return set().union(*(_words(one) for one in value.values()))
    if isinstance(value, list):
        return set().union(*(_words(one) for one in value))
    return {word.strip(".,;:!?\"'()[]") for word in str(value).casefold().split()}


def _fits(value: Any, wanted: Any) -> bool:
    """Whether a value is as a filter says: operators, mappings by their named fields, and all else by equality."""
    if not isinstance(wanted, Mapping):
        return bool(value == wanted)
    if any(key.startswith("$") for key in wanted):
        return all(_compared(value, operator, other) for operator, other in wanted.items())
    return isinstance(value, Mapping) and all(_fits(value.get(key), other) for key, other in wanted.items())


def _compared(value: Any, operator: str, other: Any) -> bool:
    if operator not in _COMPARED:
        raise ValueError(f"Unsupported operator: {operator}")
    try:
        return bool(_COMPARED[operator](value, other))
    except TypeError:  # a missing field is neither more nor less
        return False


def _matches(condition: MatchCondition, name: tuple[str, ...]) -> bool:
    path = condition.path
    part = name[: len(path)] if condition.match_type == "prefix" else name[-len(path) :]
    return len(name) >= len(path) and all(one in ("*", label) for one, label in zip(path, part, strict=True))


def _joined(namespace: tuple[str, ...]) -> str:
    return _BETWEEN.join(namespace)


def _fields(row: GraphMemory) -> dict[str, Any]:
    names = {"key": row.key, "namespace": tuple(row.namespace.split(_BETWEEN)), "value": row.value}
    return {**names, "created_at": row.created_at, "updated_at": row.updated_at}


def _row(op: PutOp) -> dict[str, Any] | None:
    """Return the value as it is stored; None deletes."""
    if any("\x00" in text for text in (*op.namespace, op.key)):
        raise UsageError(f"{op.key!r} has a NUL character", remedy="leave it out of names: no database stores it")
    if op.value is None:
        return None
    try:
        return dict(orjson.loads(orjson.dumps(op.value)))
    except (TypeError, orjson.JSONEncodeError) as error:
        raise GraphState(f"the value of {op.key!r} is nothing that JSON can hold: {error}") from error


def _write(session: Session, namespace: str, key: str, value: dict[str, Any] | None) -> None:
    if value is None:
        which = (col(GraphMemory.namespace) == namespace, col(GraphMemory.key) == key)
        session.connection().execute(delete(GraphMemory).where(*which))
        return
    now = utcnow()
    row = {"namespace": namespace, "key": key, "value": value, "created_at": now, "updated_at": now}
    insert = dialect_insert(session, GraphMemory).values(row)
    session.connection().execute(
        insert.on_conflict_do_update(index_elements=["namespace", "key"], set_={"value": value, "updated_at": now})
    )

"""Questions as rows that are written once, however often they are asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy.dialects import postgresql, sqlite
from sqlmodel import Session

from chordesk.models.database.store import new_row
from chordesk.models.tables.columns import new_id, utcnow
from chordesk.models.tables.composing import composed_once
from chordesk.models.tables.questions import Question


def question_row(**values: Any) -> Question:
    """Return the row of an open question that no session tracks."""
    defaults = {"id": new_id(), "created_at": utcnow(), "state": "open"}
    return new_row(Question, **defaults, **values)


def insert_absent(session: Session, rows: Sequence[Question]) -> None:
    """Insert the rows in one statement; one that is there by its source, market and external id stays as it is."""
    if rows:
        session.connection().execute(_insert(session.get_bind().dialect.name), [row.model_dump() for row in rows])


@composed_once
def _insert(dialect: str) -> Any:
    table = Question.__table__  # type: ignore[attr-defined]
    key = ["source", "market", "external_id"]
    return (sqlite if dialect == "sqlite" else postgresql).insert(table).on_conflict_do_nothing(index_elements=key)

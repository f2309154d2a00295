"""The session of the desk's transactions: it gets a row by its id with a statement that is composed once a table."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, bindparam, inspect, select
from sqlmodel import Session

from chordesk.models.tables.composing import composed_once


class RowSession(Session):
    """A session whose `get` by one key composes no statement: SQLAlchemy's own composes one each time, which takes
    longer than running it."""

    def get(self, entity: Any, ident: Any, **options: Any) -> Any:
        """Return the row of a key, None where there is none. One that this session has read is not read again."""
        if any(options.values()) or not isinstance(ident, str):
            return super().get(entity, ident, **options)
        key, statement = _by_key(entity)
        if self.identity_map.get((entity, (ident,), None)) is not None:
            return super().get(entity, ident)
        return self.execute(statement, {key: ident}).scalars().one_or_none()


@composed_once
def _by_key(entity: Any) -> tuple[str, Select[Any]]:
    """Return the name of the parameter and the statement for the row of a table with one column as its key."""
    (column,) = inspect(entity).primary_key
    return "key", select(entity).where(column == bindparam("key"))

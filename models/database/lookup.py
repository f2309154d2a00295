"""One row by its id, the beginning or the end of it."""

from __future__ import annotations

from typing import Any, TypeVar

from sqlalchemy import or_
from sqlmodel import Session, SQLModel, col, select

from chordesk.models.errors import NotFound, UsageError
from chordesk.models.text import ID_LETTERS

Row = TypeVar("Row", bound=SQLModel)

# What people call a row of a table, where it is not the table's name, and what lists them.
_NOUNS = {"runtime_approval": "request"}
_LISTS = {
    "run": "`desk runs list` shows them",
    "order": "`desk orders list` shows them",
    "turn": "a run's turns, and a thread's, have their ids",
    "report": "GET /reports lists them",
    "verdict": "GET /runs/RUN/verdicts lists a run's",
    "approval": "`desk approvals` lists what waits",
    "request": "`desk approvals` lists what waits",
}

ACTS = 8  # letters of an id with which one can act on its row: a slip of the hand names none by fewer


def by_prefix(
    session: Session, table: type[Row], part: str, *others: Any, least: int = 1, lists: str = "", noun: str = ""
) -> Row:
    """Return the row whose id is `part`, else the only one whose id begins with it, else the only one whose id ends
    with it, for which it needs ID_LETTERS letters. others: more columns with ids of the row; least: letters that a
    beginning has; lists, noun: what shows a feature's rows, and what one is called. Raises UsageError when several rows
    begin or end so or the letters are too few, NotFound when no row does."""
    if part and (exact := session.get(table, part)) is not None:
        return exact
    noun = noun or _NOUNS.get(name := str(table.__tablename__), name)
    lists = lists or _LISTS[noun]
    columns = (table.id, *others)  # type: ignore[attr-defined]
    begins = (col(column).startswith(part, autoescape=True) for column in columns)
    found = session.exec(select(table).where(or_(*begins)).limit(2)).all() if part else []
    if not found and len(part) >= ID_LETTERS:  # no index helps here: only where no id begins so
        ends = (col(column).endswith(part, autoescape=True) for column in columns)
        found = session.exec(select(table).where(or_(*ends)).limit(2)).all()
    if len(found) == 1:
        if len(part) < least and part not in (getattr(found[0], column.key) for column in columns):
            remedy = f"give the whole id, or its first {least} letters or more"
            raise UsageError(f"{part!r} is too little of the id of one {noun}", remedy=remedy)
        return found[0]
    if found:
        raise UsageError(f"more than one {noun} begins or ends with {part!r}", remedy=lists)
    raise NotFound(f"there is no {noun} {part!r}", remedy=lists)

"""Raw errors of the database as the desk's own, with what to do: for a command that ends with one."""

from __future__ import annotations

import sqlite3

from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from chordesk.models.database.soundness import corruption, one_line
from chordesk.models.database.store import is_lost
from chordesk.models.errors import DatabaseDown, DatabaseUnsound, DeskError

_FULL, _READ_ONLY = sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY
_REMEDIES = {
    sqlite3.SQLITE_BUSY: "another process keeps the database locked: try again, and end what hangs",
    _FULL: "make space on its disk, and try again",
    _READ_ONLY: "make the file and its folder writable for this user, or mount the disk for writing",
    sqlite3.SQLITE_IOERR: "its disk does not answer: see the system's log, and `desk doctor` once it does",
    sqlite3.SQLITE_CANTOPEN: "see that its folder is there and yours: `desk config` shows the path",
}


def as_desk_error(error: BaseException) -> DeskError | None:
    """Return the error with a remedy; None for one that does not come from the database, or from wrong SQL of ours,
    which is to be seen whole."""
    if (damage := corruption(error)) is not None:
        return DatabaseUnsound(f"the database is not sound: {damage}")
    if isinstance(error, PoolTimeout):
        return DatabaseDown("the database has no free connection", remedy="try again when less runs")
    original = getattr(error, "orig", error)
    code = getattr(original, "sqlite_errorcode", None)
    remedy = _REMEDIES.get(code & 0xFF) if code is not None else None
    if remedy is not None:
        return DatabaseDown(f"the database does not answer: {one_line(str(original))}", remedy=remedy)
    away = isinstance(error, SQLAlchemyError) and is_lost(error) and code is None
    if isinstance(error, DBAPIError) and (away or code is not None):
        remedy = "`desk doctor` says what is wrong with it; another version of the desk may have written it"
        return DatabaseDown(f"the database cannot be used: {one_line(str(original))}", remedy=remedy)
    return None

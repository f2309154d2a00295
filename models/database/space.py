"""Free space within a database's file, and giving it back to the disk."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from typing import Any

from chordesk.models.database.store import Store
from chordesk.models.errors import DatabaseDown


def free_bytes(store: Store) -> int | None:
    """Return the bytes within SQLite's file that new rows will use before it grows; None on Postgres."""
    if not store.is_sqlite:
        return None
    with _own_connection(store) as connection:
        free, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("freelist_count", "page_size"))
        return int(free) * int(size)


def vacuum(store: Store) -> int:
    """Write SQLite's file anew without its free space, and return how many bytes shorter it is. No other process can
    write meanwhile. Raises DatabaseDown."""
    before = free_bytes(store) or 0
    try:
        with _own_connection(store) as connection:
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as error:
        remedy = "end what uses the database, make as much space free as it takes, and try again"
        raise DatabaseDown(f"the database cannot be written anew: {error}", remedy=remedy) from None
    return before - (free_bytes(store) or 0)


@contextlib.contextmanager
def _own_connection(store: Store) -> Iterator[Any]:
    """Yield the driver's connection, outside any transaction: within one VACUUM is refused."""
    pooled = store.engine.raw_connection()
    try:
        yield pooled.driver_connection
    finally:
        pooled.close()

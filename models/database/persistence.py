"""Transactions that survive a lost database connection.

A transaction is written whole or not at all, so it may be retried. If only the commit's answer was lost, the retry
finds the step ended already and raises LeaseLost; nothing is written twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import structlog
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlmodel import Session

from chordesk.models.database.store import Store

log = structlog.get_logger(__name__)
T = TypeVar("T")

FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 3.0


def is_lost(error: Exception) -> bool:
    """Return True if the database was away, locked, out of connections, or chose this transaction to give way; False if
    it rejected the transaction."""
    if isinstance(error, (OperationalError, InterfaceError, PoolTimeout)):
        return True
    return isinstance(error, DBAPIError) and error.connection_invalidated


def transact(store: Store, do: Callable[[Session], T], patience_seconds: float) -> T:
    """Return the result of `do` from one writing transaction. While the database is away, retry with growing pauses for
    at most `patience_seconds`; then raise its last error."""
    until = time.monotonic() + patience_seconds
    pause = FIRST_PAUSE_SECONDS
    while True:
        try:
            with store.session() as session:
                return do(session)
        except DBAPIError as error:
            if not is_lost(error) or time.monotonic() + pause > until:
                raise
            log.warning("database.lost", error=str(error.orig), again_in_seconds=pause)
        time.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

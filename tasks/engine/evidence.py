"""Rogue calls on record while their turn still runs: a worker that is killed in it writes no rows at its end."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import structlog
from sqlmodel import Session, col, select

from chordesk.models import event_log
from chordesk.models.database.store import Store, transact
from chordesk.models.events import stored
from chordesk.models.tables.columns import dialect_insert
from chordesk.models.tables.runs import ToolCall, Turn

PATIENCE_SECONDS = 10.0  # with a database that is away; the turn's end writes the call as well

log = structlog.get_logger(__name__)


class Evidence:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._writer = ThreadPoolExecutor(1, "evidence")

    def witness(self, turn: Turn, call: ToolCall) -> None:
        """Write a call and its turn as it is if it never ends; does not wait. The turn's end replaces both."""
        self._writer.submit(self._write, turn, call)

    def _write(self, turn: Turn, call: ToolCall) -> None:
        try:
            transact(self._store, lambda session: write(session, turn, call), PATIENCE_SECONDS)
        except Exception as error:
            log.error("rogue_call.not_written", step=turn.step_id, tool=call.tool, error=str(error))


def write(session: Session, turn: Turn, call: ToolCall) -> None:
    """Rows that are there stay: the turn has ended, or the call is one of several."""
    written = 0
    for row in (turn, call):
        new = dialect_insert(session, type(row)).values(row.model_dump()).on_conflict_do_nothing()
        written = session.connection().execute(new).rowcount
    if written:
        event_log.append(session, stored(((turn,), (call,))))


def known(session: Session, calls: Sequence[str]) -> set[str]:
    """Return which of these calls are on record. calls: their ids."""
    return set(session.exec(select(ToolCall.id).where(col(ToolCall.id).in_(calls))).all()) if calls else set()

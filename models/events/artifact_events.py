"""Events of artifacts. They are appended in the transaction that writes the artifacts' rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from sqlmodel import SQLModel

from chordesk.models.events.envelope import Envelope, EventType, event
from chordesk.models.tables.board import Episode
from chordesk.models.tables.runs import Artifact, Turn


def stored(rows: Iterable[Iterable[SQLModel]]) -> list[Envelope]:
    """Return an event for each artifact among rows that are about to be written, with the thread of its turn."""
    every = [row for group in rows for row in group]
    turns = {row.id: row for row in every if isinstance(row, Turn)}
    return [_stored(row, turns.get(row.turn_id)) for row in every if isinstance(row, Artifact)]


def written(row: Episode) -> Envelope:
    """Return the event of an episode's content, which is about to be written."""
    data = row.content.encode()
    return event(
        EventType.ARTIFACT_WRITTEN,
        row.run_id,
        row.created_at,
        id=row.run_id,
        kind="text/markdown",
        digest=hashlib.sha256(data).hexdigest(),
        size=len(data),
        run=row.run_id,
        number=row.number,
    )


def _stored(row: Artifact, turn: Turn | None) -> Envelope:
    return event(
        EventType.ARTIFACT_STORED,
        row.run_id,
        row.created_at,
        thread_id=turn.thread_id if turn is not None else None,
        turn_id=turn.codex_turn_id if turn is not None else None,
        id=row.id,
        kind=row.kind,
        digest=row.digest,
        size=row.size,
        run=row.run_id,
        turn=row.turn_id,
        role=turn.role if turn is not None else None,
        subject=turn.subject if turn is not None else None,
    )

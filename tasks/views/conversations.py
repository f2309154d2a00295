"""The list of a run's conversations."""

from __future__ import annotations

import datetime as dt

from sqlmodel import Session, col, select

from chordesk.models.events import ConversationRef
from chordesk.models.tables.runtime import RuntimeConversation


class ConversationRow(ConversationRef):
    """A conversation of a run's step. thread_reason: why it uses this thread, such as `resumed`. closed_at: null while
    it is open; for a lost worker's conversation, the time at which the loss was noticed."""

    step_id: str
    role: str
    subject: str
    thread_reason: str
    kept: bool
    worker: str
    opened_at: dt.datetime
    closed_at: dt.datetime | None


def conversations(session: Session, run_id: str) -> list[ConversationRow]:
    """Return a run's conversations in the order in which they were opened."""
    rows = session.exec(
        select(RuntimeConversation)
        .where(RuntimeConversation.run_id == run_id)
        .order_by(col(RuntimeConversation.opened_at), col(RuntimeConversation.id))
    ).all()
    return [ConversationRow.of(row) for row in rows]

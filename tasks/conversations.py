"""Where a run talks and talked: its manifest's list of conversations."""

from __future__ import annotations

import datetime as dt

from sqlmodel import Session, col, select

from models.event_tables import Conversation
from models.lifecycle import ConversationRef


class ConversationRow(ConversationRef):
    """A conversation of a run's step. thread_reason: why it is this thread, such as `resumed`. closed_at: null while it
    is open; of one whose worker was lost, when that was noticed."""

    step_id: str
    role: str
    subject: str
    thread_reason: str
    kept: bool
    worker: str
    opened_at: dt.datetime
    closed_at: dt.datetime | None


def conversations(session: Session, run_id: str) -> list[ConversationRow]:
    """In the order in which they were opened."""
    rows = session.exec(
        select(Conversation)
        .where(Conversation.run_id == run_id)
        .order_by(col(Conversation.opened_at), col(Conversation.id))
    ).all()
    names = ConversationRow.model_fields
    return [ConversationRow.model_validate({name: getattr(row, name) for name in names}) for row in rows]

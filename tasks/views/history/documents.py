"""Where the report of a run was written, or why it is not there yet."""

from __future__ import annotations

import datetime as dt

from sqlmodel import Session

from chordesk.models.answers import Frozen
from chordesk.models.states import DocumentState
from chordesk.models.tables.runs import RunDocumentCopy


class WrittenDocument(Frozen):
    """The written report of a run; fields as of `models.tables.runs.RunDocumentCopy`. next_try: null when there is
    none."""

    state: DocumentState
    place: str
    tries: int
    error: str | None
    written_at: dt.datetime | None
    next_try: dt.datetime | None


def written_document(session: Session, run_id: str) -> WrittenDocument | None:
    """Return the state of a run's written report; None where nothing was to be written, or it was not begun."""
    row = session.get(RunDocumentCopy, run_id)
    if row is None:
        return None
    return WrittenDocument.of(row, next_try=row.due_at if row.state == DocumentState.DUE else None)

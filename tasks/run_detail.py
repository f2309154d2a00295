"""All there is to know of a run at once: for `desk runs show --json` and for programs that ask the service."""

from __future__ import annotations

from sqlmodel import Session

from models.tables import Run
from tasks.attempts import AttemptRow, attempts
from tasks.conversations import ConversationRow, conversations
from tasks.run_view import Progress, RunView, progress, view


class RunDetail(RunView):
    """The view of a run, how far it is, each attempt at its steps, and the conversations of these."""

    progress: Progress
    attempts: list[AttemptRow]
    conversations: list[ConversationRow]


def detail(session: Session, run: Run) -> RunDetail:
    whole = view(session, run)
    return RunDetail(
        **dict(whole),
        progress=progress(session, run.id),
        attempts=attempts(session, run),
        conversations=conversations(session, run.id),
    )

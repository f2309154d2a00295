"""The complete view of a run, for `desk runs show --json` and for the HTTP service."""

from __future__ import annotations

from sqlmodel import Session

from chordesk.models.settings import Settings
from chordesk.models.tables.runs import Run
from chordesk.tasks.engine.budgets import Cost, cost_of
from chordesk.tasks.views.artifacts import ArtifactRow, artifacts
from chordesk.tasks.views.attempts import AttemptRow, attempts
from chordesk.tasks.views.board.voices import VoiceRow, voice_rows
from chordesk.tasks.views.conversations import ConversationRow, conversations
from chordesk.tasks.views.grounded import GroundedReport, grounded_reports
from chordesk.tasks.views.history.documents import WrittenDocument, written_document
from chordesk.tasks.views.run_view import Progress, RunView, progress, view


class RunDetail(RunView):
    """The view of a run, its progress and cost so far, each attempt at its steps, their conversations and pictures,
    where the figures of its reports came from, each voice in each round with its conversation, and where its own report
    was written, null where it is written nowhere."""

    progress: Progress
    cost: Cost
    attempts: list[AttemptRow]
    conversations: list[ConversationRow]
    artifacts: list[ArtifactRow]
    grounded: list[GroundedReport]
    voices: list[VoiceRow]
    document: WrittenDocument | None


def detail(session: Session, settings: Settings, run: Run) -> RunDetail:
    """settings: of this process; their prices count."""
    whole = view(session, run)
    return RunDetail(
        **dict(whole),
        progress=progress(session, run.id),
        cost=cost_of(session, settings, run.id),
        attempts=attempts(session, run),
        conversations=conversations(session, run.id),
        artifacts=artifacts(session, run.id),
        grounded=grounded_reports(session, run),
        voices=voice_rows(session, run.id),
        document=written_document(session, run.id),
    )

"""The manifest of an episode: every voice in every round, with its conversation and what came of it."""

from __future__ import annotations

from sqlmodel import Session, col, select

from chordesk.agents.board.voices import voice_of
from chordesk.models.answers import Frozen
from chordesk.models.states import STEP_FINAL, StepKind
from chordesk.models.tables.runs import Step, Turn
from chordesk.models.tables.runtime import RuntimeConversation
from chordesk.tasks.workflows.episode.rounds import round_of


class VoiceRow(Frozen):
    """One voice in one round. state: of its step; thread, turn: by the runtime's own ids, of its running turn or of its
    last; running: whether that turn runs now; status, reason: how it ended; left_out: a line for each forecast that the
    board did not take."""

    voice: str
    round: int
    state: str
    thread: str | None
    turn: str | None
    running: bool
    status: str | None
    reason: str | None
    forecasts: int
    left_out: list[str]


def voice_rows(session: Session, run_id: str) -> list[VoiceRow]:
    """Return the voices of a run by round and voice; none for a run without an episode."""
    steps = session.exec(
        select(Step).where(Step.run_id == run_id, Step.kind == StepKind.VOICE).order_by(col(Step.created_at))
    ).all()
    if not steps:
        return []
    ids = [step.id for step in steps]
    turns = session.exec(select(Turn).where(col(Turn.step_id).in_(ids)).order_by(col(Turn.id))).all()
    conversations = session.exec(
        select(RuntimeConversation)
        .where(RuntimeConversation.run_id == run_id, col(RuntimeConversation.step_id).in_(ids))
        .order_by(col(RuntimeConversation.opened_at))
    ).all()
    last_turn = {turn.step_id: turn for turn in turns}
    last_conversation = {conversation.step_id: conversation for conversation in conversations}
    rows = [_row(step, last_turn.get(step.id), last_conversation.get(step.id)) for step in steps]
    return sorted(rows, key=lambda row: (row.round, row.voice))


def _row(step: Step, turn: Turn | None, conversation: RuntimeConversation | None) -> VoiceRow:
    running = step.state not in STEP_FINAL and conversation is not None and conversation.active_turn_id is not None
    running = running and conversation is not None and conversation.closed_at is None
    result = step.result
    return VoiceRow(
        voice=voice_of(step.role),
        round=round_of(step.subject),
        state=step.state,
        thread=conversation.thread_id if conversation is not None else turn.thread_id if turn is not None else None,
        turn=conversation.active_turn_id
        if running and conversation is not None
        else turn.codex_turn_id
        if turn is not None
        else None,
        running=running,
        status=result.get("status"),
        reason=result.get("reason") or step.error,
        forecasts=int(result.get("forecasts", 0)),
        left_out=list(result.get("left_out", ())),
    )

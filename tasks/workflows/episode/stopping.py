"""The stop of one voice: its running turn is interrupted by thread and turn, and it takes no other in its run."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from sqlalchemy import and_
from sqlmodel import Session, col, select

from chordesk.agents.board.voices import VOICES
from chordesk.models.database.persistence import transact
from chordesk.models.database.store import Store
from chordesk.models.errors import NotFound, UsageError
from chordesk.models.states import STEP_FINAL, StepKind
from chordesk.models.tables.events import RuntimeConversation
from chordesk.models.tables.runs import Step

STOPPED = "stopped"  # in the payload of a voice's step: the person who stopped it
POLL_SECONDS = 0.1
PATIENCE_SECONDS = 5.0

Interrupt = Callable[[str, str], bool]


@dataclass(slots=True)
class VoiceStop:
    """The stop of a voice. interrupted: thread and turn of each of its turns that a worker ended; over: whether its
    steps have ended."""

    run_id: str
    voice: str
    interrupted: list[tuple[str, str]] = field(default_factory=list)
    over: bool = False
    seconds: float = 0.0


def stop_voice(store: Store, run_id: str, voice: str, by: str, interrupt: Interrupt, seconds: float) -> VoiceStop:
    """Stop a voice of a run and wait at most so many seconds for the end of its steps.

    interrupt: ends a turn by thread and turn, and returns whether a worker did. Raises UsageError for what is no voice,
    NotFound when the voice has no step in the run.
    """
    if voice not in VOICES:
        raise UsageError(f"there is no voice {voice!r}", remedy=f"choose among {', '.join(VOICES)}")
    began = time.monotonic()
    found = VoiceStop(run_id, voice)
    if not transact(store, lambda session: _mark(session, run_id, voice, by), PATIENCE_SECONDS):
        raise NotFound(
            f"{voice} has no turn in run {run_id} that could be stopped", remedy="`desk board RUN` lists its voices"
        )
    while True:
        with store.read() as session:
            open_steps = _open(session, run_id, voice)
            turns = _running(session, [step.id for step in open_steps])
        found.over = not open_steps
        found.seconds = round(time.monotonic() - began, 3)
        if found.over or found.seconds >= seconds:
            return found
        found.interrupted += [turn for turn in turns if turn not in found.interrupted and interrupt(*turn)]
        time.sleep(POLL_SECONDS)


def _mark(session: Session, run_id: str, voice: str, by: str) -> int:
    """Note on each open step of a voice the person that stopped it; return how many there are."""
    steps = _open(session, run_id, voice)
    for step in steps:
        step.payload = {**step.payload, STOPPED: by}
        session.add(step)
    return len(steps)


def _open(session: Session, run_id: str, voice: str) -> list[Step]:
    mine = and_(col(Step.run_id) == run_id, col(Step.kind) == StepKind.VOICE, col(Step.role) == VOICES[voice].role)
    return list(session.exec(select(Step).where(mine, col(Step.state).not_in(STEP_FINAL))).all())


def _running(session: Session, step_ids: list[str]) -> list[tuple[str, str]]:
    """Return thread and turn of the turns that run for these steps."""
    rows = session.exec(
        select(RuntimeConversation.thread_id, RuntimeConversation.active_turn_id).where(
            col(RuntimeConversation.step_id).in_(step_ids),
            col(RuntimeConversation.active_turn_id).is_not(None),
            col(RuntimeConversation.closed_at).is_(None),
        )
    ).all()
    return [(thread, turn) for thread, turn in rows if turn is not None]

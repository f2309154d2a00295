"""The rounds of an episode: one voice's turn over the board, the joins between rounds, and the stop of one voice."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import and_
from sqlmodel import Session, col, select

from chordesk.agents.board.board import Board
from chordesk.agents.board.voices import VOICES, AcceptedOutput, accept, voice_of
from chordesk.agents.role_models import tier_of
from chordesk.models.answers import Interrupted, ReportStatus
from chordesk.models.board import SignalState, VoiceForecast, VoiceOutput
from chordesk.models.database.store import Store, transact
from chordesk.models.errors import NotFound, UsageError
from chordesk.models.states import STEP_FINAL, StepKind
from chordesk.models.tables.board import Forecast
from chordesk.models.tables.columns import new_id
from chordesk.models.tables.runs import Run, Step, Turn
from chordesk.models.tables.runtime import RuntimeConversation
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine.leases import HeldStep
from chordesk.tasks.engine.steps import ClaimedStep, NewStep
from chordesk.tasks.reading.boards import ROUND_PREFIX, board_signals, round_of
from chordesk.tasks.worker.turns import last_turn, retry_of, run_role, status_of, value_of
from chordesk.tasks.worker.work import Done, Ending
from chordesk.tasks.workflows.episode.boards import memory_of, round_view, subject_of
from chordesk.tasks.workflows.episode.signals import EpisodePlan, lost_with_its_worker
from chordesk.tools.market.clock import exchange_day

STOPPED = "stopped"  # in the payload of a voice's step: the person who stopped it
POLL_SECONDS = 0.1
PATIENCE_SECONDS = 5.0

Interrupt = Callable[[str, str], bool]


@dataclass(slots=True)
class VoiceStop:
    """The stop of a voice."""

    run_id: str
    voice: str
    # thread and turn of each of its turns that a worker ended
    interrupted: list[tuple[str, str]] = field(default_factory=list)
    over: bool = False  # whether its steps have ended
    seconds: float = 0.0


def stop_voice(store: Store, run_id: str, voice: str, by: str, interrupt: Interrupt, seconds: float) -> VoiceStop:
    """Stop a voice of a run and wait at most so many seconds for the end of its steps. interrupt: ends a turn by thread
    and turn, and returns whether a worker did. Raises UsageError for an unknown voice, NotFound when it has no
    step in the run."""
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
    steps = _open(session, run_id, voice)
    for step in steps:
        step.payload = {**step.payload, STOPPED: by}
        session.add(step)
    return len(steps)


def _open(session: Session, run_id: str, voice: str) -> list[Step]:
    mine = and_(col(Step.run_id) == run_id, col(Step.kind) == StepKind.VOICE, col(Step.role) == VOICES[voice].role)
    return list(session.exec(select(Step).where(mine, col(Step.state).not_in(STEP_FINAL))).all())


def _running(session: Session, step_ids: list[str]) -> list[tuple[str, str]]:
    rows = session.exec(
        select(RuntimeConversation.thread_id, RuntimeConversation.active_turn_id).where(
            col(RuntimeConversation.step_id).in_(step_ids),
            col(RuntimeConversation.active_turn_id).is_not(None),
            col(RuntimeConversation.closed_at).is_(None),
        )
    ).all()
    return [(thread, turn) for thread, turn in rows if turn is not None]


def round_name(number: int) -> str:
    return f"{ROUND_PREFIX}{number}"


def run_voice(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    """Run one voice's turn in one round, and store its forecasts. Whatever it answers, the round goes on."""
    if why := stopped_by(step.payload):
        return Done({"status": "interrupted", "reason": why, "forecasts": 0})
    now, settings = desk.market_of(step.run_id).clock.now(), desk.settings_of(step.run_id)
    voice, number = voice_of(step.role), round_of(step.subject)
    with desk.store.read() as session:
        run = session.get_one(Run, step.run_id)
        record = memory_of(session, run, voice, now, step.payload["unused"])
        view = round_view(session, run, number, exchange_day(now))
    board, brief = view.board, subject_of(view, voice, number, record, settings)
    model = tier_of(settings, step.role, step.payload["tier"])
    asked_of = {"model": model, "depth": step.payload["depth"]}
    turned = run_role(desk, step, held, step.role, step.subject, brief, **asked_of)
    if isinstance(turned.outcome, Interrupted) and (why := _stopped_meanwhile(desk, step)):
        return Done({"status": "interrupted", "reason": why, "forecasts": 0}, turned.rows)
    again = retry_of(desk, step, turned)
    if again is not None:
        return again
    status, reason = status_of(turned)
    answer = VoiceOutput.model_validate(value_of(turned)) if status is ReportStatus.COMPLETED else None
    given = accept(answer, board) if answer is not None else AcceptedOutput(())
    turn = last_turn(turned)
    rows = [_row(step, run, one, given, board, turn, now) for one in given.forecasts] if turn is not None else []
    result = {"status": status, "reason": reason, "forecasts": len(rows), "left_out": list(given.notes)}
    return Done(result, (*turned.rows, rows), error=reason if status is ReportStatus.FAILED else None)


def stopped_by(payload: Mapping[str, Any]) -> str | None:
    person = payload.get(STOPPED)
    return f"interrupted by {person}" if person else None


def _stopped_meanwhile(desk: Desk, step: ClaimedStep) -> str | None:
    with desk.store.read() as session:
        return stopped_by(session.get_one(Step, step.id).payload)


def _row(
    step: ClaimedStep, run: Run, one: VoiceForecast, given: AcceptedOutput, board: Board, turn: Turn, now: dt.datetime
) -> Forecast:
    question = board.questions_by_label[one.question]
    assert question.baseline is not None, "a question without one is left out"
    return Forecast(
        id=new_id(),
        run_id=step.run_id,
        step_id=step.id,
        turn_id=turn.id,
        question_id=question.id,
        account=run.account,
        voice=voice_of(step.role),
        round=round_of(step.subject),
        probability=one.probability,
        stated=given.stated[one.question],
        stake=one.stake,
        because=one.because,
        change=one.change,
        chain=one.chain,
        citations=[cited.model_dump() for cited in one.citations],
        baseline=question.baseline,
        author=turn.model,
        market_at=now,
    )


NO_SIGNAL = "no tool has a live signal: there is nothing to cite, and no voice was asked"
NO_POSITION = "no voice has a position in round 1: there is no round 2"


def start_rounds(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    """Post a tombstone for each tool that was lost with its worker, and start round 1."""
    with desk.store.read() as session:
        signals = board_signals(session, step.run_id)
        steps = session.exec(select(Step).where(Step.parent_id == step.id, Step.kind == StepKind.HARVEST)).all()
    posted = {one.tool for one in signals}
    now = desk.market_of(step.run_id).clock.now()
    lost = [lost_with_its_worker(row, now) for row in steps if row.subject not in posted]
    states = [one.state for one in signals]
    counts = {state.value: states.count(state) for state in SignalState}
    counts[SignalState.OFFLINE.value] += len(lost)
    result: dict[str, Any] = {"signals": counts}
    if not counts[SignalState.LIVE.value]:
        return Done({**result, "notes": [NO_SIGNAL]}, (lost,), [_tally(step)])
    plan = EpisodePlan.model_validate(step.payload)
    return Done(result, (lost,), round_steps(step, plan, 1, plan.in_round(1)))


def round_steps(step: ClaimedStep, plan: EpisodePlan, number: int, voices: Collection[str]) -> list[NewStep]:
    name = round_name(number)
    join = NewStep(StepKind.ROUND, str(step.parent_id), name, payload=step.payload, waits=True)
    asked = [voice for voice in VOICES.values() if voice.key in voices]
    steps = [NewStep(StepKind.VOICE, join.id, name, one.role, plan.of_voice(one.key)) for one in asked]
    return [join, *steps]


def end_round(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    number, plan = round_of(step.subject), EpisodePlan.model_validate(step.payload)
    with desk.store.read() as session:
        steps = session.exec(select(Step).where(Step.parent_id == step.id, Step.kind == StepKind.VOICE)).all()
        forecasts = _count(session, step.run_id, number)
    stopped = _stopped(steps)
    following = [voice for voice in plan.in_round(number + 1) if voice not in stopped]
    result: dict[str, Any] = {"forecasts": forecasts}
    if number >= plan.rounds or not following:
        return Done(result, children=[_tally(step)])
    if not forecasts:
        return Done({**result, "notes": [NO_POSITION]}, children=[_tally(step)])
    return Done(result, children=round_steps(step, plan, number + 1, following))


def _count(session: Session, run_id: str, number: int) -> int:
    found = session.exec(select(col(Forecast.id)).where(Forecast.run_id == run_id, Forecast.round == number)).all()
    return len(found)


def _stopped(steps: Sequence[Step]) -> set[str]:
    """Return the voices that a person interrupted: they take part in no later round."""
    return {voice_of(row.role) for row in steps if stopped_by(row.payload)}


def _tally(step: ClaimedStep) -> NewStep:
    return NewStep(StepKind.TALLY, str(step.parent_id), payload=step.payload)

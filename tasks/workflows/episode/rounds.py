"""The joins of an episode: the board starts round 1, and the end of a round starts the next one or the tally."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlmodel import Session, col, select

from chordesk.agents.board.voices import VOICES, voice_of
from chordesk.models.board.signals import SignalState
from chordesk.models.states import StepKind
from chordesk.models.tables.board import Forecast
from chordesk.models.tables.runs import Step
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine.leases import HeldStep
from chordesk.tasks.engine.steps import ClaimedStep, NewStep
from chordesk.tasks.worker.work import Done, Ending
from chordesk.tasks.workflows.episode.harvesting import lost_with_its_worker
from chordesk.tasks.workflows.episode.payloads import EpisodePlan, plan_in
from chordesk.tasks.workflows.episode.reading import board_signals
from chordesk.tasks.workflows.episode.voicing import round_name, round_of, stopped_by

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
    plan = plan_in(step.payload)
    return Done(result, (lost,), round_steps(step, plan, 1, plan.in_round(1)))


def round_steps(step: ClaimedStep, plan: EpisodePlan, number: int, voices: Collection[str]) -> list[NewStep]:
    """Return the join of a round and a step for each voice that takes part in it. step: the join before it."""
    name = round_name(number)
    join = NewStep(StepKind.ROUND, str(step.parent_id), name, payload=step.payload, waits=True)
    asked = [voice for voice in VOICES.values() if voice.key in voices]
    steps = [NewStep(StepKind.VOICE, join.id, name, one.role, plan.of_voice(one.key)) for one in asked]
    return [join, *steps]


def end_round(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    """Start the next round with the voices that have one left, or the tally."""
    number, plan = round_of(step.subject), plan_in(step.payload)
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

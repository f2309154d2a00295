"""One voice in one round: its turn over the board, and its forecasts as rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from chordesk.agents.board.accepting import AcceptedOutput, accept
from chordesk.agents.board.board import Board
from chordesk.agents.board.voices import voice_of
from chordesk.agents.role_models import tier_of
from chordesk.models.board.forecasts import VoiceForecast, VoiceOutput
from chordesk.models.research import Interrupted, ReportStatus
from chordesk.models.tables.board import Forecast
from chordesk.models.tables.columns import new_id
from chordesk.models.tables.runs import Run, Step, Turn
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine.leases import HeldStep
from chordesk.tasks.engine.steps import ClaimedStep
from chordesk.tasks.worker.turns import last_turn, retry_of, run_role, status_of, value_of
from chordesk.tasks.worker.work import Done, Ending
from chordesk.tasks.workflows.episode.reading import RoundViews
from chordesk.tasks.workflows.episode.records import memory_of
from chordesk.tasks.workflows.episode.stopping import STOPPED
from chordesk.tasks.workflows.episode.subjects import subject_of
from chordesk.tools.market.clock import exchange_day

ROUND_PREFIX = "round-"
_views = RoundViews()


def round_name(number: int) -> str:
    """Return the subject of a round's steps."""
    return f"{ROUND_PREFIX}{number}"


def round_of(subject: str) -> int:
    return int(subject.removeprefix(ROUND_PREFIX))


def run_voice(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    """Run one voice's turn in one round, and store its forecasts. Whatever it answers, the round goes on."""
    if why := stopped_by(step.payload):
        return Done({"status": "interrupted", "reason": why, "forecasts": 0})
    now, settings = desk.market_of(step.run_id).clock.now(), desk.settings_of(step.run_id)
    voice, number = voice_of(step.role), round_of(step.subject)
    with desk.store.read() as session:
        run = session.get_one(Run, step.run_id)
        record = memory_of(session, run, voice, now, step.payload["unused"])
    view = _views.of(desk.store, run, number, exchange_day(now))
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
    rows = [_row(step, run, one, board, turn, now) for one in given.forecasts] if turn is not None else []
    result = {"status": status, "reason": reason, "forecasts": len(rows), "left_out": list(given.notes)}
    return Done(result, (*turned.rows, rows), error=reason if status is ReportStatus.FAILED else None)


def stopped_by(payload: Mapping[str, Any]) -> str | None:
    """Return why a voice takes no turn, None when no person interrupted it."""
    person = payload.get(STOPPED)
    return f"interrupted by {person}" if person else None


def _stopped_meanwhile(desk: Desk, step: ClaimedStep) -> str | None:
    with desk.store.read() as session:
        return stopped_by(session.get_one(Step, step.id).payload)


def _row(step: ClaimedStep, run: Run, one: VoiceForecast, board: Board, turn: Turn, now: dt.datetime) -> Forecast:
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
        stake=one.stake,
        because=one.because,
        chain=one.chain,
        citations=[cited.model_dump() for cited in one.citations],
        baseline=question.baseline,
        author=turn.model,
        market_at=now,
    )

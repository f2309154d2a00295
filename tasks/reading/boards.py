"""The view of a run's board: questions, signals, forecasts with their citations, voices, and the tally."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from typing import Any

from sqlmodel import Session, col, select

from chordesk.agents.board.voices import voice_of
from chordesk.models.answers import Frozen
from chordesk.models.board import BoardQuestion, BoardSignal, implied
from chordesk.models.errors import UsageError
from chordesk.models.states import RUN_FINAL, STEP_FINAL, RunKind, StepKind
from chordesk.models.tables.board import Episode, EventPosition, Forecast, Question, SignalCitation
from chordesk.models.tables.runs import Run, Step, Turn, research_run
from chordesk.models.tables.runtime import RuntimeConversation
from chordesk.tasks.workflows.episode.boards import board_questions, board_signals, label_order
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


class ShownQuestion(BoardQuestion):
    """A question of the board with its outcome. state: open, resolved or void; outcome: null until it is resolved."""

    state: str
    outcome: float | None


class ShownSignal(BoardSignal):
    """A signal of the board. implied: the probability of YES that it implies, null where it implies none."""

    implied: float | None


class ShownCitation(Frozen):
    """One citation with code's decision on it; none before the tally."""

    label: str
    stance: str
    claim: str
    counts: bool | None
    reason: str | None
    copied: float | None


class ShownForecast(Frozen):
    """One forecast of a voice. question: its label; author: the model's label."""

    id: str
    voice: str
    round: int
    question: str
    probability: float
    baseline: float
    stake: float
    because: str
    chain: list[str]
    citations: list[ShownCitation]
    author: str
    turn_id: str


class ShownStake(Frozen):
    """Play money on one question. question: its label."""

    question: str
    side: str
    probability: float
    shares: float
    price: float
    cost: float
    payout: float | None


class TallyView(Frozen):
    """The tally of a board. content: markdown; summary: aggregates, citations and the rest as JSON."""

    number: int
    rounds: int
    used_round: int | None
    content: str
    summary: dict[str, Any]
    created_at: dt.datetime


class BoardView(Frozen):
    """The whole board of a run, as far as it has come. tally: null before its end."""

    run_id: str
    state: str
    account: str
    market: str
    market_now: dt.datetime
    questions: list[ShownQuestion]
    signals: list[ShownSignal]
    forecasts: list[ShownForecast]
    positions: list[ShownStake]
    voices: list[VoiceRow]
    tally: TallyView | None


def board_view(session: Session, run: Run) -> BoardView:
    """Return the board of a run. Raises UsageError for a run without one."""
    run_id = research_run(run)
    questions = _questions(session, run_id)
    if not questions:
        if run.kind == RunKind.EPISODE:
            why = "it had no question" if run.state in RUN_FINAL else "its questions are not chosen yet"
            raise UsageError(f"run {run.id} has no board: {why}", remedy=f"`desk runs show {run.id}` has its notes")
        remedy = "`desk episode` makes one; so does `desk screen` with DESK_ROUNDS=1"
        raise UsageError(f"run {run.id} has no board", remedy=remedy)
    labels = {row.id: row.label for row in questions}
    return BoardView(
        run_id=run_id,
        state=run.state,
        account=run.account,
        market=run.market,
        market_now=run.market_now,
        questions=questions,
        signals=[ShownSignal(**dict(one), implied=implied(one)) for one in board_signals(session, run_id)],
        forecasts=_forecasts(session, run_id, labels),
        positions=_positions(session, run_id, labels),
        voices=voice_rows(session, run_id),
        tally=tally_of(session, run_id),
    )


def tally_of(session: Session, run_id: str) -> TallyView | None:
    """Return the tally of a run's board; None for a run without one, or that has not come so far."""
    row = session.get(Episode, run_id)
    return TallyView.of(row) if row is not None else None


def _questions(session: Session, run_id: str) -> list[ShownQuestion]:
    asked = board_questions(session, run_id)
    rows = session.exec(select(Question).where(col(Question.id).in_([one.id for one in asked]))).all()
    stored = {row.id: row for row in rows}
    return [ShownQuestion(**dict(one), state=stored[one.id].state, outcome=stored[one.id].outcome) for one in asked]


def _forecasts(session: Session, run_id: str, labels: dict[str, str]) -> list[ShownForecast]:
    rows = session.exec(select(Forecast).where(Forecast.run_id == run_id)).all()
    judged: dict[str, list[SignalCitation]] = defaultdict(list)
    cited = select(SignalCitation).where(SignalCitation.run_id == run_id).order_by(col(SignalCitation.ordinal))
    for row in session.exec(cited).all():
        judged[row.forecast_id].append(row)
    found = [
        ShownForecast.of(row, question=labels[row.question_id], citations=_citations(row, judged[row.id]))
        for row in rows
    ]
    return sorted(found, key=lambda row: (row.round, label_order(row.question), row.voice))


def _citations(forecast: Forecast, judged: list[SignalCitation]) -> list[ShownCitation]:
    """Return the citations of a forecast with code's decision, or as the voice wrote them before the tally."""
    if judged:
        return [ShownCitation.of(row) for row in judged]
    return [
        ShownCitation(
            label=one["signal"], stance=one["stance"], claim=one["claim"], counts=None, reason=None, copied=None
        )
        for one in forecast.citations
    ]


def _positions(session: Session, run_id: str, labels: dict[str, str]) -> list[ShownStake]:
    rows = session.exec(select(EventPosition).where(EventPosition.run_id == run_id)).all()
    found = [ShownStake.of(row, question=labels.get(row.question_id, row.question_id)) for row in rows]
    return sorted(found, key=lambda row: label_order(row.question))

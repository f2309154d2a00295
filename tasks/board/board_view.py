"""The view of a run's board: questions, signals, forecasts with their citations, voices, and the tally."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sqlmodel import Session, col, select

from chordesk.agents.board.voices import voice_of
from chordesk.models.answers import Frozen
from chordesk.models.errors import UsageError
from chordesk.models.questions import BoardQuestion
from chordesk.models.states import RUN_FINAL, STEP_FINAL, RunKind, StepKind
from chordesk.models.tables.board import (
    Episode,
    EpisodeQuestion,
    EventPosition,
    Forecast,
    Question,
    Signal,
    SignalCitation,
)
from chordesk.models.tables.columns import Row
from chordesk.models.tables.runs import Run, Step, Turn, research_run
from chordesk.models.tables.runtime import RuntimeConversation

if TYPE_CHECKING:
    from chordesk.tasks.reading.chain import Builder


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
    steps = session.exec(
        select(Step).where(Step.run_id == run_id, Step.kind == StepKind.VOICE).order_by(col(Step.created_at))
    ).all()
    if not steps:
        return []
    ids = [step.id for step in steps]
    own = col(Turn.step_id).in_(ids), Turn.attempt > 0  # not what a person asked in a fork
    turns = session.exec(select(Turn).where(*own).order_by(col(Turn.id))).all()
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


def left_out(rows: Sequence[VoiceRow]) -> Iterator[dict[str, str]]:
    """Yield what a report lacks of the voices."""
    for row in rows:
        if row.reason:
            yield {"what": "voice", "reason": f"round {row.round}: {row.reason}", "role": row.voice}
        for line in row.left_out:
            yield {"what": "forecast", "reason": f"left out: {line}", "role": row.voice}


class ShownQuestion(BoardQuestion):
    """A question of the board with its outcome. state: open, resolved or void; outcome: null until it is resolved."""

    state: str
    outcome: float | None


class BoardView(Frozen):
    """The whole board of a run, as far as it has come."""

    run_id: str
    state: str
    account: str
    market: str
    market_now: dt.datetime
    questions: list[ShownQuestion]
    signals: list[Row[Signal]]
    forecasts: list[Row[Forecast]]  # by round, label of the question and voice; citations as the voice wrote them
    citations: list[Row[SignalCitation]]  # with code's decision on each; none before the tally
    positions: list[Row[EventPosition]]
    voices: list[VoiceRow]
    tally: Row[Episode] | None  # null before the run's end


def board_view(session: Session, run: Run) -> BoardView:
    run_id = research_run(run)
    questions = _questions(session, run_id)
    if not questions:
        if run.kind == RunKind.EPISODE:
            why = "it had no question" if run.state in RUN_FINAL else "its questions are not chosen yet"
            raise UsageError(f"run {run.id} has no board: {why}", remedy=f"`desk runs show {run.id}` has its notes")
        remedy = "`desk episode` makes one; so does `desk screen` with DESK_ROUNDS=1"
        raise UsageError(f"run {run.id} has no board", remedy=remedy)
    labels = {row.id: label_order(row.label) for row in questions}
    forecasts = session.exec(select(Forecast).where(Forecast.run_id == run_id))
    stakes = session.exec(select(EventPosition).where(EventPosition.run_id == run_id))
    return BoardView.of(
        run,
        run_id=run_id,
        questions=questions,
        signals=list(board_signals(session, run_id)),
        forecasts=sorted(forecasts, key=lambda row: (row.round, labels[row.question_id], row.voice)),
        citations=list(
            session.exec(
                select(SignalCitation)
                .where(SignalCitation.run_id == run_id)
                .order_by(col(SignalCitation.forecast_id), col(SignalCitation.ordinal))
            )
        ),
        positions=sorted(stakes, key=lambda row: labels.get(row.question_id, (0, ""))),
        voices=voice_rows(session, run_id),
        tally=session.get(Episode, run_id),
    )


def board_or_none(session: Session, run: Run) -> BoardView | None:
    """Return the board of a run with rounds of voices, and None of any other."""
    try:
        return board_view(session, run)
    except UsageError:
        return None


def tally_of(session: Session, run: Run) -> Row[Episode] | None:
    return session.get(Episode, run.id)


def voices_of_run(session: Session, run: Run) -> list[VoiceRow]:
    """Return each voice in each round, with its conversation."""
    return voice_rows(session, run.id)


def _questions(session: Session, run_id: str) -> list[ShownQuestion]:
    asked = board_questions(session, run_id)
    rows = session.exec(select(Question).where(col(Question.id).in_([one.id for one in asked]))).all()
    stored = {row.id: row for row in rows}
    return [ShownQuestion(**dict(one), state=stored[one.id].state, outcome=stored[one.id].outcome) for one in asked]


def board_questions(session: Session, run_id: str) -> tuple[BoardQuestion, ...]:
    rows = session.exec(
        select(EpisodeQuestion, Question)
        .join(Question, col(Question.id) == col(EpisodeQuestion.question_id))
        .where(EpisodeQuestion.run_id == run_id)
    ).all()
    found = [
        BoardQuestion(
            label=asked.label,
            id=question.id,
            text=question.text,
            subjects=tuple(question.subjects),
            baseline=asked.baseline,
            baseline_source=asked.baseline_source,
            closes_at=question.closes_at,
            chosen=asked.chosen,
            event=question.event,
            criteria=question.criteria,
            background=question.background,
        )
        for asked, question in rows
    ]
    return tuple(sorted(found, key=lambda one: label_order(one.label)))


def board_signals(session: Session, run_id: str) -> tuple[Signal, ...]:
    rows = session.exec(select(Signal).where(Signal.run_id == run_id)).all()
    return tuple(sorted(rows, key=lambda row: (row.tool, label_order(row.label))))


def label_order(label: str) -> tuple[int, str]:
    """Return the sort key of a label, in which Q10 comes after Q9."""
    return len(label), label


ROUND_PREFIX = "round-"


def round_of(subject: str) -> int:
    return int(subject.removeprefix(ROUND_PREFIX))


def lineage(made: Builder, run_id: str, symbol: str) -> list[str]:
    """Add the forecasts on a symbol, with the signals that they cite."""
    rows = made.session.exec(
        select(Forecast, Question, Turn)
        .join(Question, col(Question.id) == col(Forecast.question_id))
        .join(Turn, col(Turn.id) == col(Forecast.turn_id))
        .where(Forecast.run_id == run_id)
        .order_by(col(Forecast.round), col(Forecast.voice), col(Question.id))
    ).all()
    own = [row for row in rows if symbol in row[1].subjects]
    cited: dict[str, list[tuple[SignalCitation, Signal | None]]] = defaultdict(list)
    for citation, signal in made.session.exec(
        select(SignalCitation, Signal)
        .join(Signal, col(Signal.id) == col(SignalCitation.signal_id), isouter=True)  # it may cite what is not there
        .where(col(SignalCitation.forecast_id).in_([row[0].id for row in own]))
        .order_by(col(SignalCitation.ordinal))
    ).all():
        cited[citation.forecast_id].append((citation, signal))
    return [_add_forecast(made, forecast, question, turn, cited[forecast.id]) for forecast, question, turn in own]


def _add_forecast(
    made: Builder, row: Forecast, question: Question, turn: Turn, cited: Sequence[tuple[SignalCitation, Signal | None]]
) -> str:
    causes = [
        made.add(
            "signal", signal.id, signal.headline, (), signal.created_at,
            signal.model_dump(include={"tool", "state", "headline", "source", "as_of"}),
        )
        for _, signal in cited
        if signal is not None
    ]  # fmt: skip
    names = {"voice", "round", "question_id", "probability", "baseline", "because", "author"}
    citations = {"label", "stance", "claim", "counts", "reason", "signal_id"}
    facts = {
        **row.model_dump(include=names),
        "text": question.text,
        "citations": [citation.model_dump(include=citations) for citation, _ in cited],
    }
    label = f"{row.voice}, round {row.round}: {row.probability:.1%} against {row.baseline:.1%} on {question.text}"
    return made.add("forecast", row.id, label, causes, None, facts, turn)

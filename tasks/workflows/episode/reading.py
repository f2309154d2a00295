"""The board of a run as its tables have it: questions, signals, and the positions of voices."""

from __future__ import annotations

import datetime as dt
import threading
from collections import OrderedDict
from dataclasses import dataclass

from sqlmodel import Session, col, func, select

from chordesk.agents.board.board import Board
from chordesk.agents.board.rendering import board_text
from chordesk.models.board.forecasts import VoiceForecast, VoicePosition
from chordesk.models.board.questions import BoardQuestion
from chordesk.models.board.signals import BoardSignal
from chordesk.models.database.store import Store
from chordesk.models.tables.board import Episode, EpisodeQuestion, Forecast, Signal
from chordesk.models.tables.questions import Question
from chordesk.models.tables.runs import Run
from chordesk.tools.scoring.revision import BLIND


def read_board(session: Session, run: Run, day: dt.date) -> Board:
    """Return the board of a run; it is empty for a run without one. day: of its market.

    Before the tally its number is what the next episode of the account gets.
    """
    return Board(board_questions(session, run.id), board_signals(session, run.id), number_of(session, run), day, run.id)


@dataclass(frozen=True, slots=True)
class RoundView:
    """What all voices of a round are shown: the board, its text, and the positions of earlier rounds."""

    board: Board
    text: str
    positions: tuple[VoicePosition, ...]


class RoundViews:
    """The views of the latest rounds that this process worked on. A board is final when its first round starts, and the
    positions of a round when the next one does: the voices of a round share one view, read once."""

    def __init__(self, kept: int = 16) -> None:
        self._lock = threading.Lock()
        self._views: OrderedDict[tuple[str, str, int], RoundView] = OrderedDict()
        self._kept = kept

    def of(self, store: Store, run: Run, number: int, day: dt.date) -> RoundView:
        """Return the view of a round, by number. day: of the run's market."""
        key = (str(store.engine.url), run.id, number)
        with self._lock:
            if key not in self._views:
                self._views[key] = _round_view(store, run, number, day)
                while len(self._views) > self._kept:
                    self._views.popitem(last=False)
            return self._views[key]


def _round_view(store: Store, run: Run, number: int, day: dt.date) -> RoundView:
    with store.read() as session:
        board = read_board(session, run, day)
        earlier = tuple(one for one in positions(session, run.id) if one.round < number) if number > BLIND else ()
    return RoundView(board, board_text(board), earlier)


def number_of(session: Session, run: Run) -> int:
    """Return the number of a run's episode among those of its account; the next one before it has one."""
    episode = session.get(Episode, run.id)
    if episode is not None:
        return episode.number
    return (session.exec(select(func.max(Episode.number)).where(Episode.account == run.account)).one() or 0) + 1


def board_questions(session: Session, run_id: str) -> tuple[BoardQuestion, ...]:
    """Return the questions of a run's board by label; the baseline is that of the run."""
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
        )
        for asked, question in rows
    ]
    return tuple(sorted(found, key=lambda one: label_order(one.label)))


def board_signals(session: Session, run_id: str) -> tuple[BoardSignal, ...]:
    """Return the signals of a run's board by tool and label."""
    rows = session.exec(select(Signal).where(Signal.run_id == run_id)).all()
    ordered = sorted(rows, key=lambda row: (row.tool, label_order(row.label)))
    return tuple(BoardSignal.model_validate(row, from_attributes=True) for row in ordered)


def positions(session: Session, run_id: str) -> tuple[VoicePosition, ...]:
    """Return the forecasts of a run by round, voice and question."""
    labels = select(EpisodeQuestion.question_id, EpisodeQuestion.label).where(EpisodeQuestion.run_id == run_id)
    label_of = dict(session.exec(labels).all())
    rows = session.exec(select(Forecast).where(Forecast.run_id == run_id)).all()
    ordered = sorted(rows, key=lambda row: (row.round, row.voice, label_order(label_of[row.question_id])))
    return tuple(_position(row, label_of[row.question_id]) for row in ordered)


def _position(row: Forecast, label: str) -> VoicePosition:
    forecast = VoiceForecast.model_validate(
        {
            "question": label,
            "probability": row.probability,
            "stake": row.stake,
            "because": row.because,
            "citations": row.citations,
            "chain": row.chain,
        }
    )
    return VoicePosition(voice=row.voice, round=row.round, forecast=forecast, forecast_id=row.id)


def label_order(label: str) -> tuple[int, str]:
    """Return the sort key of a label, in which Q10 comes after Q9."""
    return len(label), label

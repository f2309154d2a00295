"""The board of a run as its tables have it, the past of an account's voices, and what turns are given of both."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlmodel import Session, col, func, select

from chordesk.agents.board.board import Board, PastRecord, board_text, voice_memory
from chordesk.agents.subjects import CitedFinding, SymbolForecast, VoiceSubject, voice_subject
from chordesk.models.board import VoiceForecast, VoicePosition
from chordesk.models.settings import Settings
from chordesk.models.tables.board import (
    Episode,
    EpisodeQuestion,
    Forecast,
    KarmaEntry,
    Question,
    Signal,
    SignalCitation,
)
from chordesk.models.tables.runs import Run
from chordesk.tasks.reading.boards import board_questions, board_signals, label_order
from chordesk.tools.scoring.statistics import ScoredForecast, alpha, brier, mean_of
from chordesk.tools.scoring.track_records import voice_forecasts
from chordesk.tools.scoring.voices import BLIND, error_correlation, last_positions


def read_board(session: Session, run: Run, day: dt.date) -> Board:
    """Return the board of a run; it is empty for a run without one. day: of its market. Before the tally its number is
    what the next episode of the account gets."""
    return Board(board_questions(session, run.id), board_signals(session, run.id), number_of(session, run), day, run.id)


@dataclass(frozen=True, slots=True)
class RoundView:
    """What all voices of a round are shown: the board, its text, and the positions of earlier rounds."""

    board: Board
    text: str
    positions: tuple[VoicePosition, ...]


def round_view(session: Session, run: Run, number: int, day: dt.date) -> RoundView:
    """Return the view of a round, by number; that of round 1 is blind. day: of the run's market."""
    board = read_board(session, run, day)
    earlier = tuple(one for one in positions(session, run.id) if one.round < number) if number > BLIND else ()
    return RoundView(board, board_text(board), earlier)


def number_of(session: Session, run: Run) -> int:
    episode = session.get(Episode, run.id)
    if episode is not None:
        return episode.number
    return (session.exec(select(func.max(Episode.number)).where(Episode.account == run.account)).one() or 0) + 1


def positions(session: Session, run_id: str) -> tuple[VoicePosition, ...]:
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
            "change": row.change,
            "citations": row.citations,
            "chain": row.chain,
        }
    )
    return VoicePosition(voice=row.voice, round=row.round, forecast=forecast, forecast_id=row.id, stated=row.stated)


_LAST = 40  # forecasts that are read for the last positions
_LEAST_TOGETHER = 20  # questions that all voices forecast, before their errors' correlation is used


def memory_of(session: Session, run: Run, voice: str, now: dt.datetime, unused: Sequence[str]) -> str | None:
    """None before the first position. now: market time. unused: tools of the last episode without a citation."""
    last = last_positions(voice_forecasts(session, run.account, now, voice))
    record = PastRecord(
        mean_of(last, lambda one: brier(one.probability, one.outcome)),
        mean_of(last, lambda one: alpha(one.probability, one.baseline, one.outcome)),
    )
    karma = karma_of(session, run.account, voice, now)
    return voice_memory(record, _past(session, run, voice, now), karma, now=now, unused=unused) or None


def karma_of(session: Session, account: str, voice: str, until: dt.datetime) -> float | None:
    mine = (KarmaEntry.account == account, KarmaEntry.voice == voice, col(KarmaEntry.market_at) <= until)
    return session.exec(select(func.sum(KarmaEntry.amount)).where(*mine)).one()


def _past(session: Session, run: Run, voice: str, now: dt.datetime) -> list[tuple[Forecast, Question]]:
    """A voice's last forecasts, each question of a run once: the last round's."""
    newest = (
        select(Forecast, Question)
        .join(Question, col(Question.id) == col(Forecast.question_id))
        .join(Run, col(Run.id) == col(Forecast.run_id))
        .where(
            col(Forecast.account) == run.account,
            col(Forecast.voice) == voice,
            col(Forecast.run_id) != run.id,
            col(Run.market) == run.market,
            col(Forecast.market_at) <= now,
        )
        # Of a run the first round comes first, and the last one stays.
        .order_by(col(Forecast.market_at).desc(), col(Forecast.round), col(Forecast.id))
        .limit(_LAST)
    )
    return list({(row.run_id, row.question_id): (row, question) for row, question in session.exec(newest)}.values())


def correlation_of(forecasts: Sequence[ScoredForecast]) -> float | None:
    errors: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for one in last_positions(forecasts):
        errors[one.run, one.question][one.source] = one.probability - one.outcome
    voices = sorted({one.source for one in forecasts})
    together = [found for found in errors.values() if found.keys() == set(voices)]
    if len(together) < _LEAST_TOGETHER:
        return None
    return error_correlation(np.array([[found[voice] for found in together] for voice in voices]))


MOST_SIGNALS = 5  # of one symbol, for the trader


def subject_of(view: RoundView, voice: str, number: int, record: str | None, settings: Settings) -> VoiceSubject:
    """The view of round 1 is blind, without any position. record: what the voice remembers."""
    board = view.board
    return voice_subject(voice, number, view.text, board.questions, board.signals, settings, view.positions, record)


def trader_board(session: Session, run_id: str) -> dict[str, SymbolForecast]:
    """Return what the voices of a run forecast of each symbol, for the trader; empty for a run without a tally."""
    episode = session.get(Episode, run_id)
    if episode is None:
        return {}
    subjects = {one.label: one.subjects for one in board_questions(session, run_id)}
    found: dict[str, SymbolForecast] = {}
    for one in episode.summary.get("questions", ()):
        if one["aggregate"] is None:
            continue
        made = _symbol_forecast(session, run_id, one)
        found |= dict.fromkeys(subjects.get(one["question"], ()), made)
    return found


def _symbol_forecast(session: Session, run_id: str, one: Mapping[str, Any]) -> SymbolForecast:
    aggregate = one["aggregate"]
    dissent = [{name: each[name] for name in ("voice", "probability", "because")} for each in aggregate["dissent"]]
    return {
        "question": one["text"],
        "probability": round(aggregate["probability"], 4),
        "baseline": one["baseline"],
        "round": aggregate["round"],
        "voices": aggregate["voices"],
        "dissent": dissent,  # type: ignore[typeddict-item]
        "signals": _cited(session, run_id, one["id"]),
    }


def _cited(session: Session, run_id: str, question_id: str) -> list[CitedFinding]:
    rows = session.exec(
        select(Signal, Forecast.voice)
        .join(SignalCitation, col(SignalCitation.signal_id) == col(Signal.id))
        .join(Forecast, col(Forecast.id) == col(SignalCitation.forecast_id))
        .where(SignalCitation.run_id == run_id, Forecast.question_id == question_id, SignalCitation.counts)
    ).all()
    voices: dict[str, set[str]] = defaultdict(set)
    signals = {signal.label: signal for signal, _ in rows}
    for signal, voice in rows:
        voices[signal.label].add(voice)
    ordered = sorted(signals, key=lambda label: (-len(voices[label]), label_order(label)))
    return [
        {
            "id": label,
            "headline": signals[label].headline,
            "direction": signals[label].direction,
            "voices": len(voices[label]),
        }
        for label in ordered[:MOST_SIGNALS]
    ]

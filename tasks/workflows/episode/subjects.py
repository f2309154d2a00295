"""What turns are given of a board: a voice's subject, and what the trader gets of the forecasts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from sqlmodel import Session, col, select

from chordesk.agents.subjects import CitedFinding, SymbolForecast, VoiceSubject, voice_subject
from chordesk.models.settings import Settings
from chordesk.models.tables.board import Episode, Forecast, Signal, SignalCitation
from chordesk.tasks.workflows.episode.reading import RoundView, board_questions, label_order

MOST_SIGNALS = 5  # of one symbol, for the trader


def subject_of(view: RoundView, voice: str, number: int, record: str | None, settings: Settings) -> VoiceSubject:
    """Return the subject of a voice in a round, by number; the view of round 1 is blind, without any position. record:
    what the voice remembers."""
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
    """Return the signals that citations of a question's forecasts count for, the most cited first."""
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

"""The complete view of a question: its row, and the verdicts, forecasts and positions that it scores."""

from __future__ import annotations

from typing import Any

from sqlmodel import Session, col, select

from chordesk.models.tables.board import EventPosition, Forecast, Question, VerdictQuestion
from chordesk.models.tables.runs import Verdict


def question_view(session: Session, question: Question) -> dict[str, Any]:
    """Return rows as plain data: question, verdicts, forecasts by time, positions."""
    verdicts = session.exec(
        select(Verdict)
        .join(VerdictQuestion, col(VerdictQuestion.verdict_id) == col(Verdict.id))
        .where(VerdictQuestion.question_id == question.id)
        .order_by(col(Verdict.created_at), col(Verdict.id))
    ).all()
    forecasts = session.exec(
        select(Forecast)
        .where(Forecast.question_id == question.id)
        .order_by(col(Forecast.market_at), col(Forecast.run_id), col(Forecast.round), col(Forecast.voice))
    ).all()
    positions = session.exec(
        select(EventPosition).where(EventPosition.question_id == question.id).order_by(col(EventPosition.opened_at))
    ).all()
    return {
        "question": question.model_dump(),
        "verdicts": [row.model_dump(include={"id", "run_id", "symbol", "rating", "confidence"}) for row in verdicts],
        "forecasts": [row.model_dump() for row in forecasts],
        "positions": [row.model_dump() for row in positions],
    }

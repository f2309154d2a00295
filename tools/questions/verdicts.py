"""The question by which a verdict is scored: whether its symbol beats the universe's median from that day on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog
from sqlalchemy.dialects import postgresql, sqlite
from sqlmodel import Session

from chordesk.models.board.questions import QuestionSource
from chordesk.models.errors import DeskError
from chordesk.models.research import Rating
from chordesk.models.settings import Settings
from chordesk.models.tables.composing import composed_once
from chordesk.models.tables.questions import Question, VerdictQuestion
from chordesk.models.tables.runs import Verdict
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.market.universe import NAMED
from chordesk.tools.questions.desk import relative_questions, store_relative
from chordesk.tools.questions.universes import named_universe

log = structlog.get_logger(__name__)
SCORED = (Rating.BUY, Rating.PASS)  # the others expect nothing


def verdict_question(market: MarketData, settings: Settings, verdict: Verdict) -> Callable[[Session], None] | None:
    """Return the writer of a verdict's question, for the transaction that writes the verdict; None for a rating that
    expects nothing, and where there can be no question, which never fails a verdict.

    It is the desk's own question on that symbol and day, over as many sessions, where that is there already.
    """
    if verdict.rating not in SCORED:
        return None
    rows, verdict_id = _rows(market, settings, verdict.symbol), verdict.id

    def write(session: Session) -> None:
        for question in store_relative(session, rows):
            link = {"verdict_id": verdict_id, "question_id": question.id}
            session.connection().execute(_insert(session.get_bind().dialect.name), link)

    return write if rows else None


def report_question(market: MarketData, settings: Settings, symbol: str) -> Callable[[Session], None] | None:
    """Return the writer of the question by which a report is scored that no verdict need follow; None where there can
    be none. It is the one of a verdict on that symbol and day."""
    rows = _rows(market, settings, symbol)

    def write(session: Session) -> None:
        store_relative(session, rows)

    return write if rows else None


def _rows(market: MarketData, settings: Settings, symbol: str) -> list[Question]:
    try:
        universe = universe_of_verdicts(market, settings)
        return relative_questions(market, [symbol], universe, settings.question_sessions, source=QuestionSource.VERDICT)
    except DeskError as error:
        log.warning("verdict.no_question", symbol=symbol, error=str(error))
        return []


def universe_of_verdicts(market: MarketData, settings: Settings) -> str:
    """Return the universe that verdicts are measured against, whatever symbols their run was on: the market's named
    one, else the desk's own."""
    if settings.universe.strip().lower() in NAMED:
        return settings.universe
    return named_universe(market) or settings.universe


@composed_once
def _insert(dialect: str) -> Any:
    table = VerdictQuestion.__table__  # type: ignore[attr-defined]
    return (sqlite if dialect == "sqlite" else postgresql).insert(table).on_conflict_do_nothing()

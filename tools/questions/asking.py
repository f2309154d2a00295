"""Questions as they are asked, each written once: the desk's own, and those that score verdicts."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import structlog
from sqlalchemy import bindparam, select
from sqlmodel import Session, SQLModel, col

from chordesk.models.answers import Rating
from chordesk.models.errors import DeskError
from chordesk.models.questions import BeatsMedian, QuestionSource
from chordesk.models.settings import Settings
from chordesk.models.tables.board import Question, VerdictQuestion
from chordesk.models.tables.columns import absent_insert, new_id, utcnow
from chordesk.models.tables.runs import Verdict
from chordesk.models.text import inert
from chordesk.tools.market.clock import clock_day, hours_of
from chordesk.tools.market.prices import no_current_price
from chordesk.tools.market.protocol import MarketClock, MarketData
from chordesk.tools.market.universe import NAMED, named_universe, universe_key, universe_of_rule, universe_text

MOST_TEXT = 500  # characters of a question
MOST_DETAIL = 20_000  # of what decides it, and of its background


def detail(text: str) -> str:
    """Return a venue's longer text, inert and not longer than is kept."""
    shown = inert(text).strip()
    return shown if len(shown) <= MOST_DETAIL else f"{shown[: MOST_DETAIL - 1]}…"


def question_row(**values: Any) -> Question:
    defaults: dict[str, Any] = {"id": new_id(), "created_at": utcnow(), "state": "open"}
    return Question(**{**defaults, **values})


def insert_absent(session: Session, rows: Sequence[Question]) -> None:
    """Insert the rows in one statement; one that is there by its source, market and external id stays as it is."""
    if rows:
        session.connection().execute(absent_insert(session, Question), [row.model_dump() for row in rows])


def ask_once(session: Session, row: Question) -> Question:
    """Write a question unless it is there; return it as it is stored."""
    return store_questions(session, [row])[row.external_id]


def store_questions(session: Session, rows: Sequence[Question]) -> dict[str, Question]:
    """Write questions of one source and market unless they are there; return them as stored, by external id."""
    if not rows:
        return {}
    insert_absent(session, rows)
    return stored_questions(session, [rows[0].source], rows[0].market, [row.external_id for row in rows])


EVEN, EVEN_ODDS = 0.5, "even odds"
# A question of a verdict is the same question; there is one row of both.
RELATIVE = (QuestionSource.DESK, QuestionSource.VERDICT)
_MOST_KEYS = 400  # parameters of one statement


def relative_questions(
    market: MarketData,
    symbols: Sequence[str],
    universe: str,
    sessions: int,
    *,
    source: QuestionSource = QuestionSource.DESK,
) -> list[Question]:
    """Return the question of each symbol as of now, in their order, as rows for `store_relative`.

    universe: as DESK_UNIVERSE names it. A symbol without a price of the market's latest session has no question:
    `unaskable` gives the reason. Raises UsageError for an invalid universe, MarketError when the market has no such
    named one or the exchange's calendar ends before the questions close.
    """
    day, kept = base_day(market.clock), universe_of_rule(universe, market)
    left_out = unaskable(market, symbols)
    asked = [symbol for symbol in dict.fromkeys(symbols) if symbol not in left_out]
    return [
        _relative_row(market, BeatsMedian(symbol=one, universe=kept, day=day, sessions=sessions), source)
        for one in asked
    ]


def store_relative(session: Session, rows: Sequence[Question]) -> list[Question]:
    if not rows:
        return []
    market, keys = rows[0].market, [row.external_id for row in rows]
    found = stored_questions(session, RELATIVE, market, keys)
    if len(found) < len(rows):
        insert_absent(session, [row for row in rows if row.external_id not in found])
        found = stored_questions(session, RELATIVE, market, keys)
    return [found[key] for key in keys]


def unaskable(market: MarketData, symbols: Iterable[str]) -> dict[str, str]:
    """Return why a question on a symbol could not be resolved, by symbol: it has no price to begin with."""
    reasons = {symbol: no_current_price(market, symbol) for symbol in symbols}
    return {symbol: reason for symbol, reason in reasons.items() if reason is not None}


def base_day(clock: MarketClock) -> dt.date:
    """Return the session whose close a question asked now counts from: the latest closed session, or the one under way,
    so that nothing of the time asked about has passed."""
    if clock.day is None and clock.is_open():
        return clock_day(clock)
    return clock.session()


def closing_of(rule: BeatsMedian) -> dt.datetime:
    hours = hours_of(rule.symbol)
    return hours.close_of(hours.after(rule.day, rule.sessions))


def external_id(rule: BeatsMedian) -> str:
    return f"{rule.symbol} {rule.day} +{rule.sessions} {universe_key(rule.universe)}"


def _relative_row(market: MarketData, rule: BeatsMedian, source: QuestionSource) -> Question:
    sessions = f"{rule.sessions} sessions" if rule.sessions > 1 else "session"
    whole = universe_text(rule.universe, market)
    return question_row(
        source=source,
        market=market.name,
        external_id=external_id(rule),
        text=f"Will {rule.symbol} beat {whole} median over the next {sessions} after {rule.day}?",
        rule=rule.model_dump(mode="json"),
        subjects=[rule.symbol],
        opens_at=market.clock.now(),
        closes_at=closing_of(rule),
        baseline=EVEN,
        baseline_source=EVEN_ODDS,
        author="desk",
    )


_STORED = (
    select(Question)
    .where(col(Question.source).in_(bindparam("sources", expanding=True)), col(Question.market) == bindparam("market"))
    .where(col(Question.external_id).in_(bindparam("keys", expanding=True)))
    .order_by(col(Question.id).desc())
)


def stored_questions(session: Session, sources: Sequence[str], market: str, keys: Sequence[str]) -> dict[str, Question]:
    """Return the stored questions of a market by their external ids, the first of each."""
    found: dict[str, Question] = {}
    for first in range(0, len(keys), _MOST_KEYS):
        which = {"sources": list(sources), "market": market, "keys": list(keys[first : first + _MOST_KEYS])}
        for row in session.scalars(_STORED, which):
            found[row.external_id] = row
    return found


log = structlog.get_logger(__name__)
SCORED = (Rating.BUY, Rating.PASS)  # the others expect nothing


def verdict_question(market: MarketData, settings: Settings, verdict: Verdict) -> Callable[[Session], None] | None:
    """Return the writer of a verdict's question, for the transaction that writes the verdict. None for a rating that
    expects nothing, and if there can be no question: that never fails a verdict. If the desk has asked the same already
    (symbol, day, sessions), the verdict is linked to that question."""
    if verdict.rating not in SCORED:
        return None
    rows = relative_rows(market, settings, verdict.symbol, settings.question_sessions)
    return question_writer(rows, VerdictQuestion, verdict_id=verdict.id)


def report_question(market: MarketData, settings: Settings, symbol: str) -> Callable[[Session], None] | None:
    """Return the writer of the question that scores a report, even if no verdict follows it: the question that a
    verdict on that symbol and day would have. None if there can be none."""
    return question_writer(relative_rows(market, settings, symbol, settings.question_sessions))


def question_writer(
    rows: Sequence[Question], link: type[SQLModel] | None = None, **asked_by: Any
) -> Callable[[Session], None] | None:
    """Return the writer of relative questions, and of a row of `link` from each to what asked it; None without any."""

    def write(session: Session) -> None:
        for question in store_relative(session, rows):
            if link is not None:
                session.connection().execute(absent_insert(session, link), {**asked_by, "question_id": question.id})

    return write if rows else None


def relative_rows(market: MarketData, settings: Settings, symbol: str, sessions: int) -> list[Question]:
    """Return the question on a symbol against the universe that verdicts are measured against; none where there can be
    none."""
    try:
        universe = universe_of_verdicts(market, settings)
        return relative_questions(market, [symbol], universe, sessions, source=QuestionSource.VERDICT)
    except DeskError as error:
        log.warning("verdict.no_question", symbol=symbol, error=str(error))
        return []


def universe_of_verdicts(market: MarketData, settings: Settings) -> str:
    """Return the universe that verdicts are measured against: the market's named universe, else the desk's own,
    whatever symbols the run was on."""
    if settings.universe.strip().lower() in NAMED:
        return settings.universe
    return named_universe(market) or settings.universe

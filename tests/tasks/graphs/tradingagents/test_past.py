"""The memory of earlier signals: outcomes of the run's market, a reflection each, and nothing of a later day."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from typing import Any

import pytest

from chordesk.tasks.graphs.tradingagents.chapter import outcome_of, past_of
from tests.fakes.responses import Refusal, Reply
from tests.tasks.graphs.tradingagents.kit import Tickers, tickers
from tests.toy.analyst import analyst

pytestmark = pytest.mark.process
EARLY, LATE = dt.date(2010, 2, 10), dt.date(2010, 3, 10)
MARKET = ("market",)


@pytest.fixture(scope="module")
def desk() -> Iterator[Tickers]:
    with tickers() as found:
        yield found


def play(desk: Tickers, ticker: str, day: dt.date) -> str:
    desk.model.requests.clear()
    run_id = desk.begin(ticker, analysts=MARKET, day=day)
    assert desk.play(run_id).state == "done"
    return run_id


def decided(desk: Tickers) -> str:
    """What the deciding agent was given."""
    return next(text for one in desk.model.calls() if "Decide on" in (text := json.dumps(one.body["input"])))


def test_a_signal_is_looked_at_again_when_its_outcome_is_known(desk: Tickers) -> None:
    first = play(desk, "IBM", EARLY)
    assert "Past analyses" not in decided(desk)
    second = play(desk, "IBM", LATE)
    text = decided(desk)
    assert "Past analyses of IBM (most recent first):" in text
    market = desk.app.desk.market_for(LATE)
    outcome = outcome_of(market, "IBM", EARLY)
    assert outcome is not None
    assert f"[2010-02-10 | IBM | Buy | {outcome.raw:+.1%} | {outcome.alpha:+.1%} | 5d]" in text
    bars = market.bars("IBM", 60)
    closes = dict(zip(bars.dates, bars.close, strict=True))
    days = [day for day in bars.dates if day >= EARLY]
    assert outcome.raw == pytest.approx(closes[days[5]] / closes[days[0]] - 1)
    (report,) = desk.reports(second)
    (kept,) = (report.answer or {})["reflections"]
    assert (kept["reportId"], kept["sessions"]) == (desk.reports(first)[0].id, 5)
    assert desk.turns(second)[0].role == "graph"
    third = play(desk, "IBM", LATE)
    assert desk.turns(third)[0].role == "Market Analyst"  # it is not asked again
    assert "Past analyses of IBM" in decided(desk)


def test_nothing_of_a_later_day_is_remembered(desk: Tickers) -> None:
    play(desk, "KO", LATE)
    play(desk, "KO", EARLY)
    assert "KO |" not in decided(desk)
    assert "2010-03" not in decided(desk)
    with desk.store.read() as session:
        past = past_of(session, "paper", "replay", dt.datetime(2010, 2, 11, tzinfo=dt.UTC))
    assert {signal.day for signal in past.signals} <= {EARLY}


def test_an_outcome_that_is_not_known_yet_has_none(desk: Tickers) -> None:
    market = desk.app.desk.market_for(dt.date(2010, 2, 12))
    assert outcome_of(market, "IBM", EARLY) is None
    assert outcome_of(market, "NOPE", dt.date(2010, 1, 5)) is None


def test_another_account_and_another_market_have_their_own_past(desk: Tickers) -> None:
    now = dt.datetime(2011, 1, 1, tzinfo=dt.UTC)
    play(desk, "PG", EARLY)
    with desk.store.read() as session:
        assert past_of(session, "paper", "replay", now).signals
        assert not past_of(session, "another", "replay", now).signals
        assert not past_of(session, "paper", "yahoo", now).signals


def test_a_reflection_that_the_model_refuses_is_asked_in_the_next_run(desk: Tickers) -> None:
    play(desk, "MMM", EARLY)

    def policy(body: dict[str, Any]) -> Reply:
        return Refusal("no") if "Reflect." in json.dumps(body["input"]) else analyst()(body)

    desk.model.policy = policy
    try:
        second = play(desk, "MMM", LATE)
    finally:
        desk.model.policy = analyst()
    assert (desk.reports(second)[0].answer or {})["reflections"] == []
    third = play(desk, "MMM", LATE)
    assert len((desk.reports(third)[0].answer or {})["reflections"]) == 1

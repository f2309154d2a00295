"""TradingAgents itself, from a checkout, on the desk: four analysts on a replayed day, and no request that leaves."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from chordesk.models.states import StepState
from tests.suite.reached import no_request
from tests.tasks.graphs.tradingagents.kit import DAY, Tickers, tickers
from tests.toy.checkout import needed

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def desk() -> Iterator[Tickers]:
    with tickers(needed(), TRADINGAGENTS_LLM_PROVIDER="openai") as found:
        yield found


def test_four_analysts_on_the_runs_market_and_nothing_leaves(desk: Tickers) -> None:
    with no_request() as reached:
        run_id = desk.begin("IBM", "KO")
        for step in desk.steps(run_id):
            desk.play_one(step)
    assert reached == []
    for step in desk.steps(run_id):
        assert (step.state, step.error) == (StepState.DONE, None)
    by_ticker = {name: [turn for turn in desk.turns(run_id) if turn.subject == name] for name in ("IBM", "KO")}
    assert {name: len(turns) for name, turns in by_ticker.items()} == {"IBM": 15, "KO": 15}
    for report in desk.reports(run_id):
        assert (report.status, report.verdict, report.answer["rating"]) == ("completed", "CONFIRMED", "Buy")
        assert [one["analyst"] for one in report.answer["reports"]] == ["market", "sentiment", "news", "fundamentals"]
        assert report.answer["debate"]["bull"].startswith("Bull Analyst:")
    seen = json.dumps([one.body["input"] for one in desk.model.calls()])
    assert "the desk's market replay as of 2010-03-10" in seen
    assert "StockTwits unavailable: the desk has no posts of it" in seen
    days = set(re.findall(r"\b(?:19|20)\d\d-\d\d-\d\d\b", seen))
    assert max(days) == DAY

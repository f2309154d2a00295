"""TradingAgents itself, from a checkout, on the desk: four analysts on a replayed day, and no request that leaves."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator

import pytest

from chordesk.models.states import StepState
from chordesk.tasks.workflows.graphs import chapters
from tests.patience import PATIENCE
from tests.suite.reached import no_request
from tests.tasks.workflows.tradingagents.kit import DAY, MANY, Tickers, tickers
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


def test_its_state_is_stored_at_every_node_and_goes_on_from_there(
    desk: Tickers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chapters, "CHAPTER", 0.0)
    run_id = desk.begin("GE")
    step = desk.play(run_id)
    assert (step.state, step.error) == (StepState.DONE, None)
    assert len(desk.steps(run_id)) > 15
    assert len(desk.turns(run_id)) == 15
    assert desk.reports(run_id)[0].status == "completed"
    assert desk.kept(run_id) == ([], [])


def test_twenty_tickers_at_once_are_each_their_own(desk: Tickers) -> None:
    desk.model.requests.clear()
    run_id = desk.begin(*MANY, analysts=("market", "social"))
    threads = [threading.Thread(target=desk.play_one, args=(step,)) for step in desk.steps(run_id)]
    with no_request() as reached:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
    assert reached == []
    assert {report.symbol: report.status for report in desk.reports(run_id)} == dict.fromkeys(MANY, "completed")
    for one in desk.model.calls():
        text = json.dumps(one.body["input"])
        named = set(re.findall(r"Daily prices of (\w+) from", text)) | set(re.findall(r"analyze is `(\w+)`", text))
        assert len(named) <= 1

"""Graphs of TradingAgents' shapes on tickers, through the real app-server: their turns, their data, their reports."""

from __future__ import annotations

import datetime as dt
import json
import re
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from chordesk.models.errors import UsageError
from chordesk.models.states import StepState
from tests.fakes.obedient import obedient
from tests.fakes.responses import Reply, Status
from tests.patience import PATIENCE
from tests.suite.reached import no_request
from tests.tasks.graphs.tradingagents.kit import DAY, MANY, TURNS, Tickers, tickers
from tests.toy.analyst import analyst

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def shared() -> Iterator[Tickers]:
    with tickers() as found:
        yield found


@pytest.fixture
def desk(shared: Tickers) -> Tickers:
    shared.model.policy = analyst()
    shared.model.requests.clear()
    return shared


def asked(desk: Tickers) -> list[str]:
    """What the model was given, a text for each call."""
    return [json.dumps(one.body["input"]) for one in desk.model.calls()]


def test_a_ticker_runs_to_its_end_and_its_signal_is_a_report(desk: Tickers) -> None:
    with no_request() as reached:
        run_id = desk.begin("IBM")
        step = desk.play(run_id)
    assert reached == []
    assert (step.state, step.error) == (StepState.DONE, None)
    assert [turn.role for turn in desk.turns(run_id)] == TURNS
    assert {turn.subject for turn in desk.turns(run_id)} == {"IBM"}
    (report,) = desk.reports(run_id)
    kept = (report.role, report.status, report.verdict, report.confidence, report.answer_schema)
    assert kept == ("tradingagents", "completed", "CONFIRMED", "medium", "GraphSignal")
    assert report.author == desk.turns(run_id)[-1].model
    answer = report.answer or {}
    assert (answer["rating"], answer["summary"]) == ("Buy", "as the reports have it")
    assert [one["analyst"] for one in answer["reports"]] == ["market", "sentiment", "news", "fundamentals"]
    assert all((*answer["debate"].values(), *answer["risk"].values()))
    assert step.result["output"] == answer
    assert desk.kept(run_id) == ([], [])


def test_its_data_are_of_the_runs_market_and_day(desk: Tickers) -> None:
    run_id = desk.begin("IBM", day=None)
    desk.play(run_id)
    text = "\n".join(asked(desk))
    assert "Daily prices of IBM from 2010-01-04 to 2010-03-10" in text
    assert "the desk's market replay as of 2010-03-10" in text
    assert "NO_DATA_AVAILABLE: macro indicators is not available" in text
    assert "NO_DATA_AVAILABLE: balance sheet is not available" in text
    assert "<StockTwits unavailable: the desk has no posts of it" in text
    assert "International Business Machines" in text or "IBM" in text
    assert max(re.findall(r"\b(?:19|20)\d\d-\d\d-\d\d\b", text)) == DAY
    by_tool = {call.tool: call.has_data for call in desk.calls(run_id)}
    assert by_tool["get_stock_data"]
    assert by_tool["get_verified_market_snapshot"]
    assert not by_tool["get_macro_indicators"]
    assert not by_tool["get_prediction_markets"]


@pytest.mark.parametrize(
    ("rating", "verdict"),
    [("Overweight", "CONFIRMED"), ("Hold", "CAUTION"), ("Underweight", "REJECT"), ("Sell", "REJECT")],
)
def test_a_rating_is_a_stance(desk: Tickers, rating: str, verdict: str) -> None:
    desk.model.policy = analyst(rating)
    run_id = desk.begin("IBM", analysts=("market",))
    desk.play(run_id)
    (report,) = desk.reports(run_id)
    assert ((report.answer or {})["rating"], report.verdict) == (rating, verdict)


def test_a_decision_without_a_rating_is_no_hold(desk: Tickers) -> None:
    def prose(body: dict[str, Any]) -> Reply:
        if "Decide on" in json.dumps(body["input"]):
            return obedient(body) if "answer" in body["text"]["format"]["schema"]["properties"] else Status(500, {})
        return analyst()(body)

    desk.model.policy = prose
    run_id = desk.begin("IBM", analysts=("market",))
    step = desk.play(run_id)
    (report,) = desk.reports(run_id)
    assert (report.status, report.verdict, report.answer) == ("failed", None, None)
    assert (step.state, step.error) == (StepState.FAILED, "the final decision names no rating")


def test_a_signal_without_any_data_counts_for_nothing(desk: Tickers) -> None:
    run_id = desk.begin("IBM", analysts=("news",))
    desk.play(run_id)
    (report,) = desk.reports(run_id)
    assert (report.status, report.verdict, report.reason) == ("no_data", None, "no tool of the graph had any data")
    assert (report.answer or {})["rating"] == "Buy"


def test_twenty_tickers_at_once_each_have_their_own_data(desk: Tickers) -> None:
    run_id = desk.begin(*MANY, analysts=("market", "social"))
    threads = [threading.Thread(target=desk.play_one, args=(step,)) for step in desk.steps(run_id)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert {(step.state, step.error) for step in desk.steps(run_id)} == {(StepState.DONE, None)}
    assert {report.symbol: report.status for report in desk.reports(run_id)} == dict.fromkeys(MANY, "completed")
    for text in asked(desk):
        named = set(re.findall(r"Daily prices of (\w+) from", text)) | set(re.findall(r"instrument is '(\w+)'", text))
        assert len(named) <= 1, text[:500]
    (config,) = sys.modules["tradingagents.dataflows.config"].SET
    assert set(config["data_vendors"].values()) == {"desk"}


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"tickers": ("IBM",), "analysts": ("market", "astrology")}, "--analysts has 'astrology'"),
        ({"tickers": ("IBM",), "analysts": ("news", "news")}, "--analysts has 'news' twice"),
        ({"tickers": ("IBM",), "analysts": ()}, "--analysts names none"),
        ({"tickers": ("IBM",), "depth": 0}, "--depth 0 is not from 1 to 10"),
        ({"tickers": ("NOPE",)}, "does not carry NOPE on 2010-03-10"),
        ({"tickers": ("I B M",)}, "what is no symbol"),
        ({"tickers": ("IBM",), "day": "2031-01-02"}, "--date 2031-01-02: "),
        ({"tickers": ("IBM",), "day": "2010-03-07"}, "--date 2010-03-07: "),
    ],
)
def test_a_wrong_request_opens_no_run(desk: Tickers, given: dict[str, Any], named: str) -> None:
    before = len(desk.runs())
    found = {**given, **({"day": dt.date.fromisoformat(given["day"])} if "day" in given else {})}
    with pytest.raises(UsageError) as caught:
        desk.begin(*found.pop("tickers"), **found)
    assert named in str(caught.value.args[0])
    assert caught.value.remedy
    assert len(desk.runs()) == before

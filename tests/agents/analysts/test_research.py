"""A research answer: CONFIRMED where every risk is known and low, with the day of the next earnings."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from chordesk.agents.analysts import complete_research, has_source
from chordesk.agents.turn_answers import RecordedCall
from chordesk.models.analysis import ResearchAnalysis, ResearchOutput
from tests.agents.analysts.kit import altered, recorded, subject
from tests.tools.charts.samples import apple_market

NEWS = ("news_list", {"symbols": ["AAPL"]})
EARNINGS = ("earnings_dates", {"symbols": ["AAPL"]})
OVERVIEW = ("company_get", {"symbols": ["AAPL"]})


def answer(**changes: Any) -> dict[str, Any]:
    found = {
        "recommendation": "pass", "confidence": "high", "newsRisk": "low", "earningsRisk": "low",
        "shortInterestRisk": "low", "summary": "Quiet.", "keyRisks": ["none"],
    }  # fmt: skip
    return ResearchOutput.model_validate({**found, **changes}).model_dump(mode="json")


@pytest.fixture
def calls(tmp_path: Path) -> list[RecordedCall]:
    return recorded(apple_market(), tmp_path, "research", NEWS, EARNINGS, OVERVIEW)


def dated(calls: list[RecordedCall], day: str) -> list[RecordedCall]:
    def add(payload: dict[str, Any]) -> None:
        if "earnings" in payload:
            payload["earnings"] = [{"symbol": "AAPL", "next": {"date": day, "daysUntil": 9}, "past": []}]

    return altered(calls, add)


def test_a_pass_with_low_risks_is_confirmed(calls: list[RecordedCall]) -> None:
    found = complete_research(answer(), subject(), calls)
    assert ResearchAnalysis.model_validate(found).model_dump(mode="json") == found
    assert (found["verdict"], found["earnings_date"]) == ("CONFIRMED", None)
    assert found["key_risks"] == ["none"]


@pytest.mark.parametrize("field", ["newsRisk", "earningsRisk", "shortInterestRisk"])
@pytest.mark.parametrize("risk", ["moderate", "high", None])
def test_a_risk_that_is_not_low_or_not_known_is_a_caution(
    calls: list[RecordedCall], field: str, risk: str | None
) -> None:
    found = complete_research(answer(**{field: risk}), subject(), calls)
    assert found["verdict"] == "CAUTION"
    assert complete_research(answer(recommendation="reject"), subject(), calls)["verdict"] == "REJECT"


def test_the_day_of_the_next_earnings_is_the_tools(calls: list[RecordedCall]) -> None:
    found = complete_research(answer(), subject(), dated(calls, "2010-05-20"))
    assert (found["verdict"], found["earnings_date"]) == ("CONFIRMED", "2010-05-20")


def test_a_name_and_a_price_are_no_research(calls: list[RecordedCall]) -> None:
    assert [call.answer.has_data for call in calls] == [False, False, True]
    assert not has_source(subject(), calls)
    news = calls[0]._replace(answer=dataclasses.replace(calls[0].answer, has_data=True))
    assert has_source(subject(), [news])

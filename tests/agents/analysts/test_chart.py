"""A chart answer: each level that it names has the price of the study, and one that no answer has is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chordesk.agents.analysts import complete_chart, has_chart
from chordesk.agents.turn_answers import AnswerError, RecordedCall
from chordesk.models.analysis import ChartAnalysis, ChartOutput
from tests.agents.analysts.kit import altered, recorded, subject
from tests.tools.charts.samples import apple_market

STUDY = ("chart_study_get", {"symbols": ["AAPL", "NOPE"]})
RENDER = ("chart_render", {"symbols": ["AAPL"], "overlays": ["levels", "fib"]})


def answer(**changes: Any) -> dict[str, Any]:
    found = {
        "recommendation": "bullish", "confidence": "high", "trendDirection": "up", "trendQuality": None,
        "extensionRisk": "moderate", "support": ["S2", "F61.8"], "resistance": ["R1"], "confluence": ["C1"],
        "summary": "It rises.", "keyRisks": ["extended"],
    }  # fmt: skip
    return ChartOutput.model_validate({**found, **changes}).model_dump(mode="json")


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> list[RecordedCall]:
    return recorded(apple_market(), Path(tmp_path_factory.mktemp("home")), "chart", STUDY, RENDER)


def test_levels_have_the_prices_of_the_study(calls: list[RecordedCall]) -> None:
    """Golden values of Apple's half year to 2010-05-05."""
    found = complete_chart(answer(), subject(), calls)
    assert ChartAnalysis.model_validate(found).model_dump(mode="json") == found
    assert found["support_levels"] == [
        {"id": "S2", "type": "support", "price": 217.0967, "touches": 3, "strength": "strong", "members": []},
        {"id": "F61.8", "type": "fib_61.8", "price": 220.684, "touches": None, "strength": None, "members": []},
    ]
    (top,) = found["resistance_levels"]
    assert (top["id"], top["price"], top["touches"]) == ("R1", 272.46, 1)
    (zone,) = found["confluence"]
    assert len(zone["members"]) >= 2
    assert (found["verdict"], found["symbol"], found["last"]) == ("CONFIRMED", "AAPL", "2010-05-05")
    assert found["atr14"] == pytest.approx(6.672868, abs=1e-4)
    assert found["adx14"] == pytest.approx(42.009384, abs=1e-4)
    assert found["trend"]["r2"] == pytest.approx(0.962915)
    assert (found["trend_direction"], found["trend_quality"], found["trend"]["quality"]) == ("up", None, "strong")


@pytest.mark.parametrize(
    ("recommendation", "verdict"),
    [("bullish", "CONFIRMED"), ("neutral", "CAUTION"), ("bearish", "CAUTION"), ("reject", "REJECT")],
)
def test_the_verdict_follows_the_recommendation(calls: list[RecordedCall], recommendation: str, verdict: str) -> None:
    assert complete_chart(answer(recommendation=recommendation), subject(), calls)["verdict"] == verdict


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"support": ["S1", "S9"]}, "support: no chart answer of this turn has 'S9' of AAPL; there are S1, S2"),
        ({"confluence": ["217.10"]}, "confluence: no chart answer of this turn has '217.10' of AAPL"),
        ({"support": ["R1"]}, "support: R1 at 272.46 is above the close of 255.9"),
        ({"resistance": ["S1"]}, "resistance: S1 at 227.73 is below the close of 255.9"),
    ],
)
def test_a_level_that_is_not_there_is_refused(calls: list[RecordedCall], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(AnswerError, match=message):
        complete_chart(answer(**changes), subject(), calls)


def test_levels_of_another_symbol_do_not_count(calls: list[RecordedCall]) -> None:
    with pytest.raises(AnswerError, match=r"'S2', 'F61.8' of IBM; there are none: look at the chart first"):
        complete_chart(answer(), subject("IBM"), calls)


def test_without_data_every_figure_is_none(calls: list[RecordedCall]) -> None:
    found = complete_chart(answer(support=[], resistance=[], confluence=[]), subject("NOPE"), calls)
    figures = ("interval", "first", "last", "close", "atr14", "adx14", "trend", "extension")
    assert {name: found[name] for name in figures} == dict.fromkeys(figures)
    assert found["support_levels"] == []


def test_intraday_charts_give_a_report_no_figures(calls: list[RecordedCall]) -> None:
    """Their levels have the ids of the days' ones, and their average true range is of another size."""

    def hours(payload: dict[str, Any]) -> None:
        for row in payload.get("studies") or payload.get("charts") or ():
            row.update(interval="hour", close=1.0, atr14=0.1)
            for level in row.get("support") or ():
                level["price"] = 0.5

    intraday = altered(calls, hours)
    assert complete_chart(answer(), subject(), [*calls, *intraday]) == complete_chart(answer(), subject(), calls)
    assert not has_chart(subject(), intraday)
    with pytest.raises(AnswerError, match="there are none"):
        complete_chart(answer(), subject(), intraday)


@pytest.mark.parametrize(("sessions", "enough"), [(62, False), (63, True), (126, True)])
def test_a_chart_is_of_as_many_sessions_as_a_trend_needs(tmp_path: Path, sessions: int, enough: bool) -> None:
    asked = {"symbols": ["AAPL"], "sessions": sessions}
    for tool in ("chart_study_get", "chart_render"):
        assert has_chart(subject(), recorded(apple_market(), tmp_path, "chart", (tool, asked))) is enough
    assert not has_chart(subject("IBM"), recorded(apple_market(), tmp_path, "chart", ("chart_study_get", asked)))

"""A thesis is refused where it contradicts itself or the answers of its turn; else code fills in its figures."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from pydantic import ValidationError

from chordesk.agents.thesis_pooling import kept
from chordesk.agents.turn_answers import AnswerError, RecordedCall
from chordesk.models.thesis import Invalidation, Thesis
from chordesk.tools.registry import ToolAnswer

NOW = dt.datetime(2010, 8, 12, 15, tzinfo=dt.UTC)
ROW = {"symbol": "IBM", "close": 100.0, "sma50": 95.0, "bollingerUpper": 108.0, "atr14": 2.0}
CALLS = [
    RecordedCall({}, ToolAnswer("technicals_get", True, {"cite": "kqz-a", "asOf": "2010-08-12T15:55:00-04:00",
                                                         "technicals": [ROW]}, True, True, 0.0), NOW)
]  # fmt: skip
GOOD: dict[str, Any] = {
    "direction": "up", "horizon": 20, "probability": 0.56, "move": 0.02, "moveLow": -0.05, "moveHigh": 0.08,
    "entry": None, "invalidation": {"level": "sma50", "event": None, "day": None},
    "catalysts": [{"event": "results", "day": "2010-08-20", "source": "kqz-a"}],
    "pointsFor": [{"text": "above its mean", "source": "kqz-a"}], "pointsAgainst": [], "change": "a close below it",
}  # fmt: skip


def of(**changes: Any) -> Any:
    return kept(Thesis.model_validate({**GOOD, **changes}), {"symbol": "IBM"}, CALLS)


def test_code_fills_in_the_figures_and_counts_what_is_null() -> None:
    found = of()
    assert (found.invalidation, found.invalidation_price, found.close) == (Invalidation(level="sma50"), 95.0, 100.0)
    assert found.missing == ["entry"]
    assert found.points_for[0].source == "kqz-a"
    nothing = kept(Thesis(), {"symbol": "IBM"}, [])
    assert (nothing.probability, nothing.close, len(nothing.missing)) == (None, None, 9)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"probability": 1.2}, "probability"),
        ({"probability": 0.4}, "beside its direction up"),
        ({"direction": "down", "probability": 0.6}, "beside its direction down"),
        ({"move": 0.2}, "outside its range"),
        ({"move": None, "moveLow": 0.2}, "the lower end comes first"),
        ({"horizon": 0}, "horizon"),
        ({"horizon": 121}, "horizon"),
        ({"invalidation": {"level": "sma50", "event": "results", "day": "2010-09-01"}}, "a level alone, or an event"),
        ({"invalidation": {"level": None, "event": "results", "day": None}}, "a level alone, or an event"),
        ({"catalysts": [{"event": "results", "day": "soon-enough"[:10], "source": "kqz-a"}]}, "is no day"),
        ({"pointsFor": GOOD["pointsFor"] * 4}, "pointsFor"),
    ],
)
def test_a_thesis_that_contradicts_itself_is_no_answer(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        of(**changes)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"invalidation": {"level": "bollingerUpper", "event": None, "day": None}}, "above the close of 100"),
        ({"direction": "down", "probability": 0.4}, "below the close of 100"),
        ({"invalidation": {"level": "S1", "event": None, "day": None}}, "no level of IBM is 'S1'; there are sma50"),
        ({"invalidation": {"level": None, "event": "results", "day": "2010-08-11"}}, "past: today is 2010-08-12"),
        ({"catalysts": [{"event": "results", "day": "2010-08-11", "source": "kqz-a"}]}, "past: today is 2010-08-12"),
        ({"pointsFor": [{"text": "of another turn", "source": "abc-a"}]}, "'abc-a'; there are kqz-a"),
    ],
)
def test_a_thesis_that_contradicts_its_turn_is_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(AnswerError, match=why):
        of(**changes)

"""The probability that a signal implies, and the questions that it concerns."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from chordesk.models.board.forecasts import LEAST_WHOLE, MAX_FINDINGS, Harvest, coherent, concerns
from chordesk.models.questions import BoardQuestion, implied
from chordesk.models.tables.board import SignalFinding


def finding(**values: Any) -> SignalFinding:
    usual = {"headline": "IBM +3.0 %", "data": {}, "source": "replay", "as_of": dt.datetime(2010, 8, 12, tzinfo=dt.UTC)}
    return SignalFinding(**{**usual, **values})


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"direction": "bullish", "confidence": 0.4}, 0.7),
        ({"direction": "short", "confidence": 0.4}, 0.3),
        ({"direction": "bullish", "confidence": 1.0}, 0.99),
        ({"direction": "neutral", "confidence": 0.8}, None),
        ({"direction": "bullish"}, None),
        ({"direction": "arb", "confidence": 0.4, "probability": 0.62}, 0.62),
        ({"probability": 0.0}, 0.01),
    ],
)
def test_a_signal_implies_a_probability_or_none(values: dict[str, Any], expected: float | None) -> None:
    assert implied(finding(**values), 0.5) == (None if expected is None else pytest.approx(expected))


def test_a_direction_moves_a_question_s_own_odds_and_never_against_them() -> None:
    up, down = (finding(direction=way, confidence=0.1) for way in ("bullish", "bearish"))
    assert implied(up, 0.9) == pytest.approx(0.9167, abs=1e-4)
    assert implied(down, 0.9) == pytest.approx(0.8804, abs=1e-4)
    assert implied(finding(probability=0.3, precision=0.1), 0.9) == 0.3
    assert implied(up.model_copy(update={"precision": 2.0}), 0.5) == pytest.approx(1.21 / (1.21 + 0.81))
    assert implied(up.model_copy(update={"precision": 0.0}), 0.9) == pytest.approx(0.9)


@given(
    st.lists(st.tuples(st.floats(0.001, 1), st.floats(0.001, 1), st.sampled_from([None, "A", "B"])), max_size=8),
)
def test_exclusive_questions_are_one_together_where_their_prices_are(
    rows: list[tuple[float, float, str | None]],
) -> None:
    closes = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
    asked = [
        BoardQuestion(
            label=f"Q{at}",
            id="",
            text="",
            subjects=(),
            baseline=price,
            baseline_source="",
            closes_at=closes,
            event=event,
        )
        for at, (_, price, event) in enumerate(rows)
    ]
    given_chances = {f"Q{at}": chance for at, (chance, _, _) in enumerate(rows)}
    found = coherent(given_chances, asked)
    for event in ("A", "B"):
        group = [one for one in asked if one.event == event]
        stated, total = (sum(each[one.label] for one in group) for each in (given_chances, found))
        if len(group) > 1 and (stated > 1 or sum(one.baseline or 0 for one in group) >= LEAST_WHOLE):
            assert total == pytest.approx(1)
        else:
            assert total == pytest.approx(stated)
    assert all(found[one.label] == given_chances[one.label] for one in asked if one.event is None)


def test_a_signal_concerns_a_question_by_subject_by_label_or_always() -> None:
    assert concerns(finding(subjects=("IBM",)), ("IBM",), "Q1")
    assert concerns(finding(subjects=("Q1",)), ("IBM",), "Q1")
    assert concerns(finding(), ("IBM",), "Q1")
    assert not concerns(finding(subjects=("GE", "Q2")), ("IBM",), "Q1")


def test_a_tool_has_at_most_five_findings() -> None:
    with pytest.raises(ValidationError, match="at most 5 items"):
        Harvest(findings=(finding(),) * (MAX_FINDINGS + 1))

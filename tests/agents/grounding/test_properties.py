"""What holds for every figure of an answer; hostile texts and answers."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chordesk.agents.grounding import ground
from chordesk.agents.grounding.figure_sources import index_of
from tests.agents.grounding.corpus import answers
from tests.examples import examples

FIELDS = {"rsi14": "RSI-14", "close": "the close", "volumeRatio": "volume", "atr14": "ATR-14"}


def figure_grounded(field: str, value: float, shown: str) -> int:
    answer = {"rows": [{"symbol": "AAPL", field: value}]}
    return ground({"summary": f"{FIELDS[field]} at {shown}."}, [("a_tool", {}, answer)], {"symbol": "AAPL"}).supported


@settings(max_examples=examples(200), deadline=None)
@given(st.sampled_from(sorted(FIELDS)), st.floats(0.05, 99_999), st.integers(2, 9))
def test_a_figure_of_the_answer_matches_at_every_precision_of_two_digits_or_more(
    field: str, value: float, digits: int
) -> None:
    decimals = max(digits - 1 - math.floor(math.log10(value)), 0)
    assert figure_grounded(field, value, f"{value:,.{decimals}f}") == 1


@settings(max_examples=examples(200), deadline=None)
@given(st.sampled_from(sorted(FIELDS)), st.floats(0.05, 99_999), st.integers(2, 9), st.integers(2, 9), st.booleans())
def test_a_last_digit_changed_by_two_or_more_does_not_match(
    field: str, value: float, digits: int, off: int, up: bool
) -> None:
    decimals = max(digits - 1 - math.floor(math.log10(value)), 0)
    other = round(value, decimals) + (off if up else -off) * 10.0**-decimals
    if other > 0:
        assert figure_grounded(field, value, f"{other:,.{decimals}f}") == 0


@pytest.mark.parametrize(
    "text",
    ["9" * 50_000, "1e999 10^400 NaN inf -0 .", "1,234,567" * 5_000, "٣" * 2_000, "1-" * 20_000, "%$" * 20_000,
     "(" * 20_000 + "RSI(" * 5_000, "a" * 100_000 + " 5%", "2026-02-31 99 April 0000-00-00", "\ud800 5% \x00 7"],
)  # fmt: skip
def test_a_hostile_text_is_grounded_and_ends(text: str) -> None:
    given_ = answers("amzn-2010-04-14")
    calls = [(call["tool"], call["arguments"], call["answer"]) for call in given_["calls"]]
    found = ground({"summary": text}, calls, given_["question"])
    assert found.supported <= found.figures


def test_a_hostile_answer_is_indexed_without_an_error() -> None:
    deep: Any = 1.5
    for _ in range(100):
        deep = [deep]
    answer = {
        "nan": math.nan, "inf": math.inf, "huge": 10**400, "deep": deep, "": {"/~": 2.5}, "text": "7" * 10_000,
        "columns": ["a", "b"], "rows": [[1, 2], [3], "x"], "date": "2026-99-99", "id": {"x": 1}, "symbol": ["A"],
    }  # fmt: skip
    found = ground({"summary": "It is 2.5 and 10^400."}, [("a_tool", {}, answer)], {"symbol": None, "x": None})
    assert found.figures == 2
    assert index_of([("a_tool", {}, answer)], {}).data

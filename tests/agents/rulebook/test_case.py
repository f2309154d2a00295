"""Questions that a policy may put to a case."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from chordesk.agents.rulebook.cases import MAX_CALLS, Call, Case, Output, clip, number

PLAN = [Call("a", {}), Call("b", {}), Call("c", {}), Call("a", {"x": 1}), Call("b", {"x": 1})]


def case(tools: str, *outputs: tuple[str, dict[str, Any]]) -> Case:
    return Case("quick", {}, frozenset(tools), [Output(tool, payload) for tool, payload in outputs])


@pytest.mark.parametrize("tools", ["", "a", "b", "ab", "bc", "abc"])
def test_planned_calls_are_made_in_order_if_offered_and_four_at_most(tools: str) -> None:
    made: list[Call] = []
    while (call := case(tools, *((one.tool, {}) for one in made)).next_call(PLAN)) is not None:
        made.append(call)
        assert len(made) <= MAX_CALLS == 4
    assert made == [call for call in PLAN if call.tool in tools][:4]


def missing(*rows: tuple[str | None, str]) -> dict[str, Any]:
    return {"missing": [{"symbol": symbol, "what": what, "reason": "r"} for symbol, what in rows]}


def test_gaps_name_tools_and_what_they_miss_once() -> None:
    outputs: Sequence[tuple[str, dict[str, Any]]] = [
        ("a", missing((None, "news"), ("AA", "bars"))),
        ("a", missing((None, "news"), ("BB", "bars"))),
        ("b", {"error": "took too long", "success": False}),
    ]
    asked = case("ab", *outputs)
    assert asked.gaps(["a", "b", "c"]) == [
        "c is not offered",
        "b failed: took too long",
        "news: r",
        "AA bars: r",
        "BB bars: r",
    ]
    assert asked.gaps(["a"], "BB") == ["b failed: took too long", "news: r", "BB bars: r"]


@pytest.mark.parametrize("payload", [{"rows": None}, {"rows": "x"}, {"rows": [1, None, "x"]}, {}])
def test_rows_of_an_odd_shape_are_none(payload: dict[str, Any]) -> None:
    asked = case("a", ("a", payload))
    assert asked.rows("a", "rows") == []
    assert asked.gaps(["a"]) == []


def test_a_failed_answer_has_no_rows() -> None:
    assert case("a", ("a", {"rows": [{"x": 1}], "success": False})).rows("a", "rows") == []
    assert case("a", ("a", {"rows": [{"x": 1}]})).rows("a", "rows") == [{"x": 1}]


@pytest.mark.parametrize(
    ("value", "expected"), [(1, 1.0), (0, 0.0), (-2.5, -2.5), (True, None), ("1", None), (None, None)]
)
def test_number(value: Any, expected: float | None) -> None:
    assert number({"x": value}, "x") == expected
    assert number({}, "x") is None


def test_clip_keeps_one_line_of_a_length() -> None:
    assert clip("a\n b\t\tc") == "a b c"
    assert clip("x" * 500, 10) == "x" * 9 + "…"

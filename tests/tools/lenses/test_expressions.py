"""The language of lenses' rules: against a slow evaluator of one name after the other, and hostile texts."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chordesk.models.errors import UsageError
from chordesk.tools.lenses.expressions import Kind, read
from tests.examples import examples

FIGURES = ("gap", "change", "rsi14", "sma20")
UNKNOWN = None
Tree = tuple[Any, ...]
_NUMBERS = st.sampled_from([0.0, 1.0, 2.5, 0.1, 70.0, 1e300])
_CELLS = st.sampled_from([math.nan, 0.0, -0.0, 1.0, -1.0, 0.1, 2.5, 50.0, 1e300, math.inf])


def _number(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    pair = st.tuples(st.sampled_from("+-*/"), inner, inner)
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        pair, st.tuples(st.just("-1"), inner), st.tuples(st.just("abs"), inner), st.tuples(st.just("rank"), inner),
        st.tuples(st.sampled_from(["min", "max"]), several),
    )  # fmt: skip


NUMBER = st.recursive(
    st.one_of(st.tuples(st.just("figure"), st.sampled_from(FIGURES)), st.tuples(st.just("number"), _NUMBERS)),
    _number,
    max_leaves=6,
)
_COMPARED = st.one_of(
    st.tuples(st.just("compare"), st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), NUMBER, NUMBER),
    st.tuples(st.just("between"), NUMBER, NUMBER, NUMBER),
    st.tuples(st.just("chain"), NUMBER, NUMBER, NUMBER),
)
TRUTH = st.recursive(
    _COMPARED,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["and", "or"]), inner, inner), st.tuples(st.just("not"), inner)
    ),
    max_leaves=4,
)  # fmt: skip
PANEL = st.integers(1, 5).flatmap(
    lambda size: st.fixed_dictionaries({name: st.lists(_CELLS, min_size=size, max_size=size) for name in FIGURES})
)


def written(tree: Tree) -> str:
    match tree:
        case ("figure", name):
            return str(name)
        case ("number", value):
            return repr(value)
        case ("+" | "-" | "*" | "/" | "and" | "or" as sign, first, second):
            return f"({written(first)} {sign} {written(second)})"
        case ("-1", inner):
            return f"(-{written(inner)})"
        case ("abs" | "rank" as name, inner):
            return f"{name}({written(inner)})"
        case ("min" | "max" as name, several):
            return f"{name}({', '.join(map(written, several))})"
        case ("compare", sign, first, second):
            return f"{written(first)} {sign} {written(second)}"
        case ("between", value, low, high):
            return f"between({written(value)}, {written(low)}, {written(high)})"
        case ("chain", low, value, high):
            return f"({written(low)} < {written(value)} <= {written(high)})"
        case ("not", inner):
            return f"(not ({written(inner)}))"
    raise AssertionError(tree)


def slow(tree: Tree, panel: dict[str, list[float]], at: int) -> Any:
    """One name's value: None is unknown. Nothing here is numpy's."""
    match tree:
        case ("figure", name):
            return _finite(panel[name][at])
        case ("number", value):
            return value
        case ("rank", inner):
            own, others = slow(inner, panel, at), [slow(inner, panel, one) for one in range(len(panel["gap"]))]
            known = sorted(one for one in others if one is not None)
            if own is None:
                return None
            places = [place for place, one in enumerate(known, start=1) if one == own]
            return sum(places) / len(places) / len(known)
        case ("and" | "or" | "not" as sign, *parts):
            return _kleene(sign, [slow(part, panel, at) for part in parts])
        case ("compare", sign, *parts):
            return _compared(sign, *(slow(part, panel, at) for part in parts))
        case ("between", *parts):
            value, low, high = (slow(part, panel, at) for part in parts)
            return _kleene("and", [_compared("<=", low, value), _compared("<=", value, high)])
        case ("chain", *parts):
            low, value, high = (slow(part, panel, at) for part in parts)
            return _kleene("and", [_compared("<", low, value), _compared("<=", value, high)])
    values = [slow(part, panel, at) for part in (tree[1] if tree[0] in ("min", "max") else tree[1:])]
    if any(one is None for one in values):
        return None
    return _finite(_counted(tree[0], values))


def _counted(sign: str, values: list[float]) -> float:
    match sign:
        case "min" | "max":
            return (min if sign == "min" else max)(values)
        case "abs" | "-1":
            return abs(values[0]) if sign == "abs" else -values[0]
        case "/":
            return values[0] / values[1] if values[1] else math.nan
    return {"+": values[0] + values[1], "-": values[0] - values[1], "*": values[0] * values[1]}[sign]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _compared(sign: str, first: float | None, second: float | None) -> bool | None:
    if first is None or second is None:
        return None
    return {
        "<": first < second, "<=": first <= second, ">": first > second, ">=": first >= second,
        "==": first == second, "!=": first != second,
    }[sign]  # fmt: skip


def _kleene(sign: str, values: list[bool | None]) -> bool | None:
    if sign == "not":
        return None if values[0] is None else not values[0]
    decides = sign == "or"
    return decides if decides in values else None if None in values else not decides


def _columns(panel: dict[str, list[float]]) -> dict[str, Any]:
    return {name: np.array(cells) for name, cells in panel.items()}


@settings(max_examples=examples(100))
@given(tree=TRUTH, panel=PANEL)
def test_truth_is_as_one_name_after_the_other(tree: Tree, panel: dict[str, list[float]]) -> None:
    size = len(panel["gap"])
    found = read(written(tree), FIGURES, "truth").truth(_columns(panel), size)
    expected = [slow(tree, panel, at) for at in range(size)]
    assert [bool(one) for one in found.true] == [one is True for one in expected]
    assert [bool(one) for one in found.unknown] == [one is None for one in expected]


@settings(max_examples=examples(100))
@given(tree=NUMBER, panel=PANEL)
def test_numbers_are_as_one_name_after_the_other(tree: Tree, panel: dict[str, list[float]]) -> None:
    size = len(panel["gap"])
    found = read(written(tree), FIGURES, "number").numbers(_columns(panel), size)
    for one, value in zip((slow(tree, panel, at) for at in range(size)), found, strict=True):
        assert math.isnan(value) if one is None else value == pytest.approx(one)


def test_a_figure_without_a_column_is_unknown_for_all() -> None:
    found = read("gap > 0 or rsi14 > 50", FIGURES, "truth").truth({"rsi14": np.array([60.0, 40.0])}, 2)
    assert (found.true.tolist(), found.unknown.tolist()) == ([True, False], [False, True])


PIECES = (*"gaprsi14 ()+-*/<>=!,.0'\"[]{}:_\\\n\x00#@", "and ", "not ", "rsi14", " > 0", "\uff47")


@settings(max_examples=examples(200))
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=12))
def test_any_text_is_read_or_refused(pieces: list[str]) -> None:
    for kind in ("truth", "number"):
        with suppress(UsageError):
            read("".join(pieces), FIGURES, kind)  # type: ignore[arg-type]


HOSTILE = [
    "().__class__.__bases__[0].__subclasses__()", "__import__('os').system('x')", "gap.real > 0", "gap[0] > 0",
    "(lambda: 1)() > 0", "[gap for gap in gap] > 0", "gap ** gap > 0", "gap // 1 > 0", "gap % 2 > 0", "gap @ gap > 0",
    "f'{gap}' > 0", "'a' > 'b'", "gap if gap > 0 else 1", "(gap := 1) > 0", "gap > True", "gap is gap", "gap in gap",
    "open(gap) > 0", "rank(gap, key=gap) > 0", "rank(*gap) > 0", "abs > 0", "rank > 1", "rsi\uff114 > 1",
    "\uff47ap > 0",
    "gap\x00> 0", "gap > 0 # or rsi14", "gap > 0; gap", "gap > 1j", "gap > 0x10", "gap > 1_000", "1and 2", "...",
    "gap > 0\ufeff", "rsi14 > 9e999", "rsi14 > " + "9" * 400, "(" * 400 + "gap" + ")" * 400 + " > 0",
    "gap > 0 " * 200,
    "gap > 0 and " * 70 + "gap > 0", "not " * 90 + "-" * 20 + "gap > 0", "gap +" * 99 + "gap > 0",
    "", "  ", "gap >", "and", "gap, rsi14",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_not_in_the_language_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        read(text, FIGURES, "truth", "where")
    assert refused.value.args[0].startswith("where ")
    assert refused.value.remedy
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        ("rsi14", "truth", "where is a number"),
        ("rsi14 > 1", "number", "where is true or false"),
        ("rsi4 > 1", "truth", "'rsi4', which is not a figure"),
        ("rank > 0", "truth", "'rank' without what it is of (it is a function: write rank(x))"),
        ("gap > between", "truth", "write between(x, low, high)"),
        ("rsi14 and gap > 0", "truth", "'rsi14' where true or false is asked for"),
        ("(gap > 0) + 1 > 0", "truth", "counts with 'gap > 0'"),
        ("between(gap, 1) ", "truth", "gives between 2 values"),
        (f"gap < {2**64}0 and gap < {'9' * 400}", "truth", "has a number that is too large (write a smaller number)"),
        ("+".join(["gap"] * 60) + " > 0", "truth", "has 121 parts, and at most 100"),
    ],
)
def test_a_refusal_names_the_value(text: str, kind: Kind, says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)):
        read(text, FIGURES, kind, "where")

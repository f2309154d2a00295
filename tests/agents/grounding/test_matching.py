"""The match of figures of a text to figures of tool answers: units, signs, rows, arithmetic, chance."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from chordesk.agents.grounding import capped, ground
from chordesk.models.answers import Citation, Grounding, is_grounded
from tests.agents.grounding.corpus import grounded

SIGNALS = {
    "symbol": "AAPL", "close": 180.0, "momentum20": 0.2731, "rsi14": 69.71, "fromHigh": -0.0312, "change": -0.0301,
    "volumeRatio": 1.19, "termSlope": -0.0013, "sessions": 236, "marketCap": 1_234_500_000.0,
}  # fmt: skip
AMZN = "amzn-2010-04-14"


def on_signals(text: str, **changes: Any) -> Grounding:
    answer = {"asOf": "2026-03-27T15:55:00-04:00", "signals": [{**SIGNALS, **changes}]}
    return ground({"summary": text}, [("signals_get", {"symbols": ["AAPL"]}, answer)], {"symbol": "AAPL"})


@pytest.mark.parametrize(
    ("text", "supported"),
    [
        ("momentum of 27.3%", True),
        ("momentum of 27.31%", True),
        ("momentum of 27%", True),
        ("momentum of 27.4%", False),
        ("momentum of 28%", False),
        ("momentum of 2731 bps", True),
        ("RSI of 69.7", True),
        ("RSI of 70", True),
        ("RSI of 69.8", False),
        ("volume of 1.2x its mean", True),
        ("volume of 1.3x its mean", False),
        ("a market cap of $1.2B", True),
        ("a market cap of $1,234.5 million", True),
        ("a market cap of $1.3B", False),
        ("down 3.0% on the day", True),
        ("it fell 3.0%", True),
        ("a change of -3.0%", True),
        ("up 3.0% on the day", False),
        ("a change of +3.0%", False),
        ("a term slope of -0.1%", True),
        ("a term slope of -0.2%", False),
        ("3.1% below its high", True),
        ("236 sessions of history", True),
        ("230 sessions of history", False),
    ],
)
def test_a_figure_matches_within_half_of_its_last_digit_and_with_its_sign(text: str, supported: bool) -> None:
    found = on_signals(text)
    assert (found.figures, found.supported) == (1, int(supported))


def test_a_citation_names_the_call_the_path_and_the_value() -> None:
    found = on_signals("RSI-14 stands at 69.7.")
    assert found.citations == [
        Citation(
            text="summary", figure="69.7", start=17, end=21, source="tool", call=0, tool="signals_get",
            path="/signals/0/rsi14", value=69.71,
        )
    ]  # fmt: skip


def test_a_figure_of_another_length_than_the_text_names_does_not_match() -> None:
    assert on_signals("60-day momentum of 27.3%").supported == 0
    assert on_signals("20-day momentum of 27.3%").supported == 1


def test_a_figure_of_a_call_s_arguments_or_of_the_subject_has_the_question_as_its_source() -> None:
    question = {"symbol": "AAPL", "constraints": {"maxOrderNotional": 5000.0}}
    calls: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("price_history_get", {"symbols": ["AAPL"], "sessions": 126}, {"histories": []})
    ]
    found = ground({"summary": "Over 126 sessions. An order is at most $5,000."}, calls, question)
    assert [(one.source, one.tool, one.path) for one in found.citations] == [
        ("question", "price_history_get", "/arguments/sessions"),
        ("question", None, "/constraints/maxOrderNotional"),
    ]


@pytest.mark.parametrize(
    ("text", "operation"),
    [
        ("S3 at 132.28 is 8.3% below the close of 144.28.", "- 1"),
        ("ATR-14 is 2.5% of the close.", "a / b"),
        ("A fall to S3, 132.28, costs 12.00 from 144.28.", "a - b"),
    ],
)
def test_a_figure_that_follows_by_plain_arithmetic_cites_both_operands(text: str, operation: str) -> None:
    found = grounded(AMZN, text)
    assert found.unsupported == []
    (derived,) = (one for one in found.citations if one.source == "derived")
    assert derived.operation is not None
    assert operation in derived.operation
    assert derived.other_path


@pytest.mark.parametrize("text", ["S3 at 132.28 is 9.6% below the close of 144.28.", "ATR-14 is 3.1% of the close."])
def test_a_wrong_result_of_arithmetic_has_no_source(text: str) -> None:
    assert [one.figure for one in grounded(AMZN, text).unsupported] == [text.split("%")[0].split()[-1] + "%"]


def test_a_row_that_the_text_names_is_the_one_that_counts() -> None:
    assert grounded(AMZN, "The 140 put expiring 21 May has a delta of -0.34.").unsupported == []
    other = grounded(AMZN, "The 135 put expiring 21 May has a delta of -0.34.").unsupported
    assert [one.figure for one in other] == ["-0.34"]


def test_a_figure_of_another_symbol_does_not_match_unless_the_text_names_it() -> None:
    assert [one.figure for one in grounded(AMZN, "RSI-14 stands at 54.6.").unsupported] == ["54.6"]
    assert grounded(AMZN, "RSI-14 of KO stands at 54.6.").unsupported == []


def test_the_count_of_an_answer_s_rows_is_a_figure() -> None:
    assert grounded("f-2010-04-14", "Three headlines were found.").unsupported == []
    assert grounded("f-2010-04-14", "Two of 3 headlines are on sales.").unsupported == []
    assert grounded("f-2010-04-14", "Five headlines were found.").supported == 0


def test_a_figure_in_the_text_of_an_answer_is_a_source() -> None:
    (one,) = grounded("f-2010-04-14", "March sales rose 43%.").citations
    assert (one.tool, one.value) == ("news_list", 43.0)


def test_a_report_is_grounded_alike_in_every_process() -> None:
    """The order of a set of strings is each process's own; the first operands of a derived figure are cited."""
    texts = (
        "Price is 0.9% above its 20-day moving average and 1.1% above the 50-day.",
        "Price is 1.1% above its 20-day moving average and 1.1% above the 50-day.",
    )
    show = "import sys; from tests.agents.grounding.corpus import grounded; "
    show += "print(grounded('ko-2010-04-14', *sys.argv[1:]).model_dump_json())"
    found = set()
    for seed in (1, 2):
        environ = {**os.environ, "PYTHONHASHSEED": str(seed)}
        command = [sys.executable, "-c", show, *texts]
        found.add(subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout)
    assert len(found) == 1


def test_a_text_without_figures_has_no_share() -> None:
    found = on_signals("It rises, and the S&P 500 does so too.")
    assert (found.figures, found.share) == (0, None)
    assert capped("high", found) == "high"


@pytest.mark.parametrize(
    ("text", "confidence", "most"),
    [
        ("RSI of 69.7.", "high", "high"),
        ("RSI of 12.3.", "high", "low"),
        ("RSI of 69.7. " * 10 + "RSI of 12.3.", "high", "medium"),
        ("RSI of 69.7. " * 10 + "RSI of 12.3.", "low", "low"),
    ],
)
def test_unsupported_figures_cap_the_confidence(text: str, confidence: str, most: str) -> None:
    assert capped(confidence, on_signals(text)) == most


@pytest.mark.parametrize(
    ("figures", "supported", "grounded_"),
    [
        (0, 0, True),
        (1, 0, True),
        (2, 1, True),
        (2, 0, False),
        (3, 1, False),
        (4, 2, True),
        (9, 4, False),
        (20, 19, True),
    ],
)
def test_with_several_figures_of_no_source_half_of_all_need_one(figures: int, supported: int, grounded_: bool) -> None:
    assert is_grounded(figures, supported) is grounded_


def test_only_figures_of_a_tool_on_the_subject_itself_are_sourced() -> None:
    question = {"symbol": "AAPL", "constraints": {"maxOrderNotional": 5000.0}}
    rows = [{**SIGNALS}, {**SIGNALS, "symbol": "KO", "rsi14": 44.44}]
    calls: list[tuple[str, dict[str, Any], dict[str, Any]]] = [("signals_get", {"sessions": 126}, {"signals": rows})]
    text = "RSI-14 is 69.7; that of KO is 44.44. An order is at most $5,000, over 126 sessions. It gained 77.7%."
    found = ground({"summary": text}, calls, question)
    assert (found.figures, found.supported, found.sourced) == (5, 4, 1)
    assert ground({"summary": "It rises."}, calls, question).sourced == 0
    assert grounded(AMZN, "S3 at 132.28 is 8.3% below the close of 144.28.").sourced == 3, "and what follows from them"

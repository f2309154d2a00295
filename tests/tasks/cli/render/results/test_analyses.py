"""Analyses on a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chordesk.models.analysis import AnalysisCheck
from chordesk.tasks.cli.show.results import analyses_report
from chordesk.tasks.reading.reports import AnalysisOrder, AnalysisRow, AnalystText
from tests.agents.synthesis.kit import PUT, options
from tests.tasks.cli.render.console import rendered

PICTURE = f"artifacts/{'ab' * 32}.png"


def row(**changes: Any) -> AnalysisRow:
    made: dict[str, Any] = {
        "id": "a1",
        "symbol": "HAL",
        "strategy": "csp",
        "recommendation": "select",
        "rating": "CAUTION",
        "confidence": "low",
        "contract": PUT,
        "figures": {"contract": options(source="modelled")},
        "checks": [AnalysisCheck(id="source", state="warn", text="the quotes are modelled")],
        "reasons": [],
        "key_risks": [f"risk {number}" for number in range(9)],
        "texts": [],
        "picture": PICTURE,
        "digest": "ab" * 32,
        "headline": "Sell it.",
        "summary": "It\x1b[31m holds.",
        "author": "codex:gpt-5.5",
        "order": AnalysisOrder(
            order_id="o1",
            state="denied",
            side="sell",
            quantity=1.0,
            limit_price=0.68,
            suppressed="the desk trades stocks only",
            message=None,
        ),
    }
    return AnalysisRow(**{**made, **changes})


def test_a_selection_is_shown_with_its_figures_checks_text_and_order() -> None:
    lines = [line.strip() for line in rendered(analyses_report([row()], Path("/desk"))).splitlines()]
    assert "HAL csp: select, verdict CAUTION, low confidence" in lines
    assert f"sell {PUT}: strike 26, expires 2010-09-17" in lines
    assert "bid 0.68, ask 0.73, mid 0.70 a share, 36 days" in lines
    assert "warn    the quotes are modelled" in lines
    assert [line for line in lines if line.startswith("risk: ")] == [f"risk: risk {number}" for number in range(4)]
    assert "codex:gpt-5.5: Sell it. It [31m holds." in lines
    assert f"order sell 1 {PUT} at 0.68: denied" in lines
    assert "the desk trades stocks only" in lines
    assert lines[lines.index("chart, in /desk:") + 1] == PICTURE


def test_a_calls_break_even_is_that_of_the_call_alone() -> None:
    call = "HAL100917C00030000"
    found = row(
        strategy="covered_call", contract=call, figures={"contract": options(contract=call, break_even=30.7, pop=0.9)}
    )
    shown = " ".join(rendered(analyses_report([found])).split())
    assert "break-even of the call alone 30.70, probability of ending below that 90%" in shown
    assert "probability of profit" not in shown


@pytest.mark.parametrize(
    ("strategy", "remedy"), [("csp", "--no-research analyses without it"), ("equity", "equity needs a market with")]
)
def test_missing_research_has_a_remedy_that_the_strategy_takes(strategy: str, remedy: str) -> None:
    reasons = ["research: no_data (no data from news_list)"]
    shown = rendered(analyses_report([row(strategy=strategy, recommendation="incomplete", reasons=reasons)]))
    assert remedy in shown
    assert ("--no-research" in shown) is (strategy == "csp")


def test_a_rejection_shows_its_reasons_and_no_contract() -> None:
    text = AnalystText(
        role="chart",
        status="completed",
        verdict="REJECT",
        confidence="high",
        summary="It falls.",
        reason=None,
        author="codex:gpt-5.5",
    )
    lost = text.model_copy(update={"role": "options", "status": "failed", "reason": "timeout", "verdict": None})
    found = row(
        recommendation="reject",
        reasons=["chart rejected it"],
        texts=[text, lost],
        order=None,
        headline=None,
        picture=None,
    )
    lines = [line.strip() for line in rendered(analyses_report([found])).splitlines()]
    assert "chart rejected it" in lines
    assert "chart REJECT (high), by codex:gpt-5.5: “It falls.”" in lines
    assert "options failed: timeout" in lines
    assert not [line for line in lines if line.startswith(("sell", "order", "chart,", "codex"))]

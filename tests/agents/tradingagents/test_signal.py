"""A final state as a signal: its rating, the desk's stance, and no rating where none is stated."""

from __future__ import annotations

from typing import Any

import pytest

from chordesk.agents.tradingagents.project import RATINGS, rating_of, signal_of
from chordesk.models.answers import GraphSignal, Stance


@pytest.mark.parametrize(
    ("text", "rating"),
    [
        ("**Rating**: Buy\n\n**Executive Summary**: Hold on to it.", "Buy"),
        ("Rating: **overweight**", "Overweight"),
        ("rating - Sell", "Sell"),
        ("**Recommendation**: Underweight", "Underweight"),
        ("The action: Hold. FINAL TRANSACTION PROPOSAL: **SELL**", "Sell"),
        ("**Rating**: Sell. The trader's action: Buy.", "Sell"),
        ("Rating: Buy. On reflection, rating: Sell.", None),
        ("Investors hold and buy it.", None),
        ("Rating: Buyer beware", None),
        ("Operating: Buy", None),
        ("", None),
    ],
)
def test_a_rating_is_what_a_text_labels_as_one(text: str, rating: str | None) -> None:
    assert rating_of(text) == rating


DECISION = "**Executive Summary**: Small.\n\n**Price Target**: 150.0\n\n**Time Horizon**: a year"


def state(rating: str, plan: str, proposal: str, **more: Any) -> dict[str, Any]:
    return {
        "final_trade_decision": f"**Rating**: {rating}\n\n" + DECISION,
        "investment_plan": f"**Recommendation**: {plan}",
        "trader_investment_plan": f"**Action**: {proposal}",
        "investment_debate_state": {
            "judge_decision": "j", "bull_history": "Bull Analyst: one\nBull Analyst: two",
            "bear_history": "\nBear Analyst: x",
        },
        "risk_debate_state": {"current_conservative_response": "too much\x00debt"},
        "market_report": "m",
        "sentiment_report": "",
        **more,
    }  # fmt: skip


def test_a_state_is_kept_by_its_decisions_and_the_ends_of_its_debates() -> None:
    found = signal_of(state("Buy", "Overweight", "Buy"))
    assert found is not None
    assert (found.rating, found.verdict, found.confidence, found.summary) == ("Buy", "CONFIRMED", "medium", "Small.")
    assert (found.price_target, found.time_horizon) == ("150.0", "a year")
    assert (found.debate.bull, found.debate.bear, found.debate.judge) == ("Bull Analyst: two", "Bear Analyst: x", "j")
    assert found.key_risks == ["too muchdebt"]
    assert [report.analyst for report in found.reports] == ["market"]
    assert GraphSignal.model_validate(found.model_dump(mode="json", by_alias=True)) == found


@pytest.mark.parametrize(
    ("decisions", "confidence"),
    [
        (("Buy", "Buy", "Buy"), "medium"),
        (("Sell", "Underweight", "Sell"), "medium"),
        (("Hold", "Hold", "Hold"), "medium"),
        (("Buy", "Buy", "Hold"), "low"),
        (("Buy", "Sell", "Buy"), "low"),
        (("Buy", "unclear", "Buy"), "low"),
    ],
)
def test_confidence_is_the_agreement_of_three_decisions(decisions: tuple[str, str, str], confidence: str) -> None:
    found = signal_of(state(*decisions))
    assert found is not None
    assert found.confidence == confidence


def test_every_rating_has_a_stance_and_none_is_made_up() -> None:
    stances = [found.verdict for rating in RATINGS if (found := signal_of(state(rating, "Buy", "Buy")))]
    assert stances == [Stance.CONFIRMED, Stance.CONFIRMED, Stance.CAUTION, Stance.REJECT, Stance.REJECT]
    assert signal_of({**state("Buy", "Buy", "Buy"), "final_trade_decision": "We shall see."}) is None
    assert signal_of({}) is None

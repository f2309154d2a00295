"""The report that a graph's final state is: its rating as the desk's stance, its decisions and the ends of its debates.

TradingAgents states a rating in its decision's text and no confidence. A text without a rating has none: its own parser
would make that a Hold.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from chordesk.agents.judging import storable
from chordesk.models.research import (
    Confidence,
    GraphDebate,
    GraphReflection,
    GraphReport,
    GraphRisk,
    GraphSignal,
    Stance,
)

RATINGS = ("Buy", "Overweight", "Hold", "Underweight", "Sell")
STANCES: Mapping[str, Stance] = {
    "Buy": Stance.CONFIRMED,
    "Overweight": Stance.CONFIRMED,
    "Hold": Stance.CAUTION,
    "Underweight": Stance.REJECT,
    "Sell": Stance.REJECT,
}
# By rank: a text that labels a rating need not agree with the proposals that it quotes.
_LABELS = tuple(
    re.compile(rf"\b{label}\W{{0,6}}[:\-]\W{{0,6}}({'|'.join(RATINGS)})\b", re.IGNORECASE)
    for label in ("rating", "recommendation", "final transaction proposal", "action")
)
_SECTION = re.compile(r"\*\*(Executive Summary|Price Target|Time Horizon)\*\*: *(.*?)(?=\n\*\*|\Z)", re.DOTALL)
_SUMMARY_CHARS, _TEXT_CHARS, _RISK_CHARS = 2000, 60_000, 400


def rating_of(text: str) -> str | None:
    """Return the rating that a text labels as such; None where it labels none, or several that differ."""
    labelled = ({match.group(1).capitalize() for match in label.finditer(text)} for label in _LABELS)
    found = next(filter(None, labelled), set())
    return next(iter(found)) if len(found) == 1 else None


def signal_of(state: Mapping[str, Any], reflections: Sequence[GraphReflection] = ()) -> GraphSignal | None:
    """Return the signal of a final state; None for one without a rating."""
    decision = _text(state, "final_trade_decision")
    rating = rating_of(decision)
    if rating is None:
        return None
    sections = {name: text.strip() for name, text in _SECTION.findall(decision)}
    debate, risk = state.get("investment_debate_state") or {}, state.get("risk_debate_state") or {}
    plan, proposal = _text(state, "investment_plan"), _text(state, "trader_investment_plan")
    safe = _text(risk, "current_conservative_response")
    return GraphSignal(
        rating=rating,
        verdict=STANCES[rating],
        confidence=_agreement(rating, plan, proposal),
        summary=(sections.get("Executive Summary") or decision)[:_SUMMARY_CHARS] or rating,
        key_risks=[safe[:_RISK_CHARS]] if safe else [],
        decision=decision,
        price_target=sections.get("Price Target"),
        time_horizon=sections.get("Time Horizon"),
        plan=plan,
        proposal=proposal,
        debate=GraphDebate(
            judge=_text(debate, "judge_decision"),
            bull=_end(_text(debate, "bull_history")),
            bear=_end(_text(debate, "bear_history")),
        ),
        risk=GraphRisk(
            judge=_text(risk, "judge_decision"),
            aggressive=_text(risk, "current_aggressive_response"),
            conservative=safe,
            neutral=_text(risk, "current_neutral_response"),
        ),
        reports=[
            GraphReport(analyst=name.removesuffix("_report"), text=_text(state, name))
            for name in ("market_report", "sentiment_report", "news_report", "fundamentals_report")
            if _text(state, name)
        ],
        reflections=list(reflections),
    )


def _agreement(rating: str, plan: str, proposal: str) -> Confidence:
    """Return medium where manager, trader and portfolio manager are of one side, else low. High is never stated for a
    project that states no confidence."""
    others = [rating_of(plan), rating_of(proposal)]
    return Confidence.MEDIUM if all(one and _side(one) == _side(rating) for one in others) else Confidence.LOW


def _side(rating: str) -> int:
    return (RATINGS.index(rating) > 2) - (RATINGS.index(rating) < 2)


def _text(state: Mapping[str, Any], name: str) -> str:
    return str(storable(str(state.get(name) or "")))[:_TEXT_CHARS]


def _end(history: str) -> str:
    """Return the last turn of a debate's history."""
    last = re.split(r"\n(?=(?:Bull|Bear) Analyst:)", history.strip())[-1]
    return last.strip()

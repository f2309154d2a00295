"""Answers of the analysts (chart, options, research), and the text around a synthesis.

An analyst names levels and contracts by the ids that tools gave; code fills in their figures, so that none is retyped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from models.research import Confidence, Frozen, Wire

Strategy = Literal["csp", "covered_call", "equity"]
Depth = Literal["quick", "standard", "deep"]
Risk = Literal["low", "moderate", "high"]
Recommendation = Literal["select", "reject", "incomplete"]
CheckState = Literal["ok", "warn", "fail", "unknown"]

# The analysts of a strategy, in the order in which they report; and the kind of contract that it writes.
ANALYSTS: Mapping[Strategy, tuple[str, ...]] = {
    "csp": ("chart", "options", "research"),
    "covered_call": ("chart", "options", "research"),
    "equity": ("chart", "research"),
}
WRITES: Mapping[Strategy, Literal["put", "call"]] = {"csp": "put", "covered_call": "call"}

_Summary = Annotated[str, Field(min_length=1, max_length=8000)]
_Id = Annotated[str, Field(min_length=1, max_length=40)]
_Contract = Annotated[str, Field(min_length=1, max_length=21)]


class AnalysisRequest(Frozen):
    """What an analysis was asked for; in the payload of its steps as `analysis`. max_delta: of |delta|; min_weekly_roc:
    return on capital a week as a fraction, 0.005 is 0.5 %; days: calendar days to expiry; contracts: of one order."""

    strategy: Strategy = "csp"
    max_delta: float = Field(0.30, gt=0, le=1, allow_inf_nan=False)
    min_weekly_roc: float = Field(0.005, ge=0, le=1, allow_inf_nan=False)
    min_days: int = Field(14, ge=1, le=400)
    max_days: int = Field(45, ge=1, le=400)
    contracts: int = Field(1, ge=1, le=1000)

    @model_validator(mode="after")
    def _days_in_order(self) -> AnalysisRequest:
        if self.min_days > self.max_days:
            raise ValueError(f"{self.min_days} to {self.max_days} days to expiry is no range")
        return self


class AnalysisCheck(Frozen):
    """One check of a synthesis, made by code. figures: the numbers that it rests on."""

    id: str
    state: CheckState
    text: str
    figures: dict[str, Any] = {}


class ChartOutput(Wire):
    """The chart analyst's answer. support, resistance, confluence: ids of levels, the most important first. A field is
    None where the chart does not show it."""

    recommendation: Literal["bullish", "bearish", "neutral", "reject"]
    confidence: Confidence
    trend_direction: Literal["up", "down", "sideways"] | None
    trend_quality: Literal["strong", "moderate", "weak"] | None
    extension_risk: Risk | None
    support: list[_Id]
    resistance: list[_Id]
    confluence: list[_Id]
    summary: _Summary
    key_risks: list[str]


class OptionsOutput(Wire):
    """The options analyst's answer. contract: OCC symbol of the contract to write, None with `reject`; alternatives:
    other contracts, the best first."""

    recommendation: Literal["select", "reject"]
    confidence: Confidence
    contract: _Contract | None
    alternatives: list[_Contract]
    premium: Literal["rich", "fair", "poor"] | None
    summary: _Summary
    key_risks: list[str]


class ResearchOutput(Wire):
    """The research analyst's answer. A risk is None where no source has data on it."""

    recommendation: Literal["pass", "reject"]
    confidence: Confidence
    news_risk: Risk | None
    earnings_risk: Risk | None
    short_interest_risk: Risk | None
    summary: _Summary
    key_risks: list[str]


class SynthesisOutput(Wire):
    """The text around a synthesis that code made."""

    headline: Annotated[str, Field(min_length=1, max_length=300)]
    summary: _Summary
    key_risks: list[str]

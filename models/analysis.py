"""Answers of the analysts (chart, options, research), and the text around a synthesis.

An analyst names levels and contracts by the ids that tools gave; code fills in their figures, so that none is retyped.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from models.research import Confidence, Wire

Strategy = Literal["csp", "covered_call", "equity"]
Risk = Literal["low", "moderate", "high"]

_Summary = Annotated[str, Field(min_length=1, max_length=8000)]
_Id = Annotated[str, Field(min_length=1, max_length=40)]
_Contract = Annotated[str, Field(min_length=1, max_length=21)]


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

"""Forecasts: what a voice answers in one round, and a position as the other voices see it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

CitationStance = Literal["build", "disagree", "quote"]
ROUNDS = (1, 2)


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class CitedSignal(_Part):
    """One citation. signal: label of a signal on the board; claim: what the voice makes of it, in its own language."""

    signal: str
    stance: CitationStance
    claim: str


class VoiceForecast(_Part):
    """One forecast. question: its label; probability of YES, 0 to 1; stake: 0 to 1, the share of the voice's budget for
    this episode that it puts behind the forecast; chain: labels of signals that it connects."""

    question: str
    probability: float = Field(ge=0, le=1)
    stake: float = Field(ge=0, le=1)
    because: str
    citations: list[CitedSignal]
    chain: list[str]


class VoiceOutput(_Part):
    """The answer of a voice in one round; a question that it leaves out it does not forecast."""

    forecasts: list[VoiceForecast]


class VoicePosition(BaseModel):
    """A voice's forecast of one round on one question, as the board keeps it. forecast_id: of its row."""

    model_config = ConfigDict(frozen=True)

    voice: str
    round: int
    forecast: VoiceForecast
    forecast_id: str = ""

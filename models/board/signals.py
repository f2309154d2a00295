"""Signals: what a tool found, with its source, as a board shows it."""

from __future__ import annotations

import datetime as dt
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

MAX_FINDINGS = 5  # of one tool on one board
CLIP = (0.01, 0.99)  # of a probability that a signal implies


class SignalState(StrEnum):
    LIVE = "live"
    OFFLINE = "offline"  # its tool failed: a tombstone with the reason
    DORMANT = "dormant"  # its tool worked and has nothing to say now


SignalDirection = Literal["bullish", "bearish", "long", "short", "neutral", "arb", "contrarian"]
_UP, _DOWN = ("bullish", "long"), ("bearish", "short")


class SignalFinding(BaseModel):
    """One finding of a tool. headline: made by code from `data`; confidence: 0 to 1 with its basis, null where the tool
    has none; subjects: symbols, or labels of questions, that it concerns, empty for all; probability: of YES for a
    question on its subject, where the tool gives one itself; as_of: market time of the newest datum."""

    model_config = ConfigDict(frozen=True)

    headline: str
    data: dict[str, Any]
    confidence: float | None = Field(default=None, ge=0, le=1)
    basis: str = ""
    direction: SignalDirection = "neutral"
    subjects: tuple[str, ...] = ()
    source: str
    as_of: dt.datetime
    probability: float | None = Field(default=None, ge=0, le=1)


class Harvest(BaseModel):
    """The answer of one tool: at most MAX_FINDINGS findings, best first; without one, why it is dormant."""

    model_config = ConfigDict(frozen=True)

    findings: tuple[SignalFinding, ...] = Field(default=(), max_length=MAX_FINDINGS)
    dormant: str | None = None


class BoardSignal(SignalFinding):
    """A finding on a board. label: its name there, such as momentum-1; owner: the voice whose tool it is, or `desk`."""

    label: str
    id: str
    tool: str
    owner: str
    state: SignalState


def implied(finding: SignalFinding) -> float | None:
    """Return the probability of YES that a finding implies: its own, or one half moved by half its confidence in its
    direction; None where it has no direction or no confidence."""
    if finding.probability is not None:
        return min(max(finding.probability, CLIP[0]), CLIP[1])
    if finding.confidence is None or finding.direction not in _UP + _DOWN:
        return None
    moved = finding.confidence / 2 if finding.direction in _UP else -finding.confidence / 2
    return min(max(0.5 + moved, CLIP[0]), CLIP[1])


def concerns(finding: SignalFinding, subjects: tuple[str, ...], label: str) -> bool:
    """Return whether a finding concerns a question, by the question's subjects and label."""
    return not finding.subjects or label in finding.subjects or bool(set(finding.subjects) & set(subjects))

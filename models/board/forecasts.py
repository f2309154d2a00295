"""What the voices of a board are given, what they answer, and how they use it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from chordesk.models.questions import BoardQuestion, QuestionSource, VoiceForecast
from chordesk.models.tables.board import SignalFinding

VENUES = (QuestionSource.MANIFOLD, QuestionSource.POLYMARKET, QuestionSource.KALSHI)


LEAST_WHOLE = 0.98  # of prices of exclusive questions: less than the rest is their spread


def coherent(given: Mapping[str, float], questions: Iterable[BoardQuestion]) -> dict[str, float]:
    """Return probabilities by label that are at most 1 over the questions of an event of which at most one comes true,
    and 1 where the prices of these questions leave nothing to another outcome. What is not so is divided by its sum."""
    events: dict[str, list[BoardQuestion]] = defaultdict(list)
    for question in questions:
        if question.event is not None and question.label in given:
            events[question.event].append(question)
    found = dict(given)
    for group in events.values():
        total = math.fsum(given[one.label] for one in group)
        whole = math.fsum(one.baseline or 0.0 for one in group) >= LEAST_WHOLE
        if len(group) > 1 and (total > 1 or (whole and total > 0)):
            found |= {one.label: given[one.label] / total for one in group}
    return found


def concerns(finding: SignalFinding, subjects: Collection[str], label: str) -> bool:
    return not finding.subjects or label in finding.subjects or bool(set(finding.subjects) & set(subjects))


MAX_FINDINGS = 5  # of one tool on one board


class Harvest(BaseModel):
    """The answer of one tool: at most MAX_FINDINGS findings, best first; without one, why it is dormant."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    findings: tuple[SignalFinding, ...] = Field(default=(), max_length=MAX_FINDINGS)
    dormant: str | None = None


class VoiceOutput(BaseModel):
    """The answer of a voice in one round; a question that it leaves out it does not forecast."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    forecasts: list[VoiceForecast]


class Conduct(StrEnum):
    """How a voice used the board in an episode. It is shown and earns nothing: whatever code can count here can be
    done without knowing anything."""

    ISOLATED = "isolated"  # cited no tool although a foreign signal was live
    OWN_TOOL = "own_tool"  # cited its own tool alone
    SYNTHESIS = "synthesis"  # cited two tools
    DEEP_SYNTHESIS = "deep_synthesis"  # cited three tools or more
    CHAIN = "chain"  # connected two tools on one question and moved
    COPIED = "copied"  # a citation in the signal's own text; it is void


SKILL_OF_ALPHA = 100.0

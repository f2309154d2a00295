"""The day a model was trained to, and whether a forecast lies before it: then the model may have read the outcome."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from enum import StrEnum

from chordesk.tools.scoring.summary import CODE

RULES = "rulebook"


class CutoffSide(StrEnum):
    """The side of a model's cutoff on which a forecast lies. Rules and code have read nothing: they are exempt."""

    AFTER = "after"
    BEFORE = "before"
    UNKNOWN = "unknown"
    EXEMPT = "exempt"


def cutoffs_of(setting: str) -> dict[str, dt.date]:
    """Return the last training day by model of DESK_MODEL_CUTOFFS, which the settings have checked."""
    parts = (part.strip().partition("=") for part in setting.split(";") if part.strip())
    return {model.strip(): dt.date.fromisoformat(day.strip()) for model, _, day in parts}


def side_of(author: str, day: dt.date, cutoffs: Mapping[str, dt.date]) -> CutoffSide:
    """Return the side for a model's label, such as codex:gpt-5.5, and the market's day of a forecast.

    A model is named with its runtime or without. The cutoff day itself lies before.
    """
    if author == CODE or author.partition(" ")[0] == RULES:
        return CutoffSide.EXEMPT
    cutoff = cutoffs.get(author) or cutoffs.get(author.partition(":")[2])
    if cutoff is None:
        return CutoffSide.UNKNOWN
    return CutoffSide.AFTER if day > cutoff else CutoffSide.BEFORE

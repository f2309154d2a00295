"""The settings DESK_ASKING_..."""

from __future__ import annotations

from pydantic import BaseModel

from chordesk.models.settings.schema import of_process


class AskingSettings(BaseModel):
    tokens: int = of_process(
        60_000, "most tokens of a question that a model answers; the run's budget, if that is smaller", "20000",
        ge=1_000, le=100_000_000,
    )  # fmt: skip
    hourly: int = of_process(
        20, "questions that a model answers for one person on a phone within an hour", "5", ge=0, le=10_000
    )
    days: int = of_process(
        90, "days after which questions, answers and proposals are deleted; 0 keeps them", "30", ge=0, le=36_500
    )

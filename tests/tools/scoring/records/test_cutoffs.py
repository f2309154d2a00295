"""Sides of a model's cutoff."""

from __future__ import annotations

import datetime as dt

import pytest

from chordesk.models.settings import Settings
from chordesk.tools.scoring.verdict_calibration import cutoffs_of, side_of

DAY = dt.date(2025, 6, 30)


def test_a_setting_gives_days_by_model() -> None:
    settings = Settings(model_cutoffs="gpt-5.5=2025-06-30; litellm:anthropic/c=2024-01-01 ;")
    found = cutoffs_of(settings.model_cutoffs)
    assert found == {"gpt-5.5": DAY, "litellm:anthropic/c": dt.date(2024, 1, 1)}
    assert cutoffs_of("") == {}


@pytest.mark.parametrize(
    ("author", "day", "side"),
    [
        ("codex:gpt-5.5", DAY, "before"),
        ("codex:gpt-5.5", DAY + dt.timedelta(days=1), "after"),
        ("gpt-5.5", DAY, "before"),
        ("litellm:anthropic/c", dt.date(2024, 1, 2), "after"),
        ("litellm:other", DAY, "unknown"),
        ("rulebook (rules, no model)", DAY, "exempt"),
        ("code", DAY, "exempt"),
    ],
)
def test_a_forecast_lies_on_one_side(author: str, day: dt.date, side: str) -> None:
    cutoffs = {"gpt-5.5": DAY, "litellm:anthropic/c": dt.date(2024, 1, 1)}
    assert side_of(author, day, cutoffs) == side

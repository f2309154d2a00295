"""A voice's memory: its record, bounded, and never an outcome from the future."""

from __future__ import annotations

import datetime as dt

from hypothesis import given
from hypothesis import strategies as st

from chordesk.agents.board.board import MOST_CHARS, PastPosition, PastRecord, voice_memory
from chordesk.models.board import KarmaSum
from chordesk.tools.scoring.statistics import DatedMean

NOW = dt.datetime(2026, 2, 17, 21, 0, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
RECORD = PastRecord(DatedMean(0.2312, 0.01, 40, 12), DatedMean(0.0188, 0.0072, 40, 12))
KARMA = {KarmaSum.CONDUCT: 3.5, KarmaSum.SKILL: -12.25}


def past(days: int, outcome: float | None = None, known: int | None = None, text: str = "Will A rise?") -> PastPosition:
    at = NOW - days * DAY
    return PastPosition(text, 0.62, 0.5, at, outcome, None if known is None else NOW - known * DAY)


def test_a_memory_with_every_part() -> None:
    text = voice_memory(RECORD, [past(9, 1.0, 2), past(3)], KARMA, now=NOW, unused=["funding", "events"])
    assert text.splitlines() == [
        "Record: 40 resolved questions on 12 dates, Brier 0.231, alpha +0.0188 (standard error 0.0072). "
        "Above 0 beats the baseline.",
        "Karma: conduct +3.50, skill -12.25.",
        "No voice used last time: funding, events.",
        "Last positions:",
        '- 2026-02-14 "Will A rise?": 62% against 50%, open',
        '- 2026-02-08 "Will A rise?": 62% against 50%, outcome 100%',
    ]


def test_an_outcome_or_position_of_the_future_is_not_known() -> None:
    text = voice_memory(PastRecord(), [past(9, 1.0, -1), past(-1, 0.0, 0), past(5, 0.0)], {}, now=NOW)
    assert "outcome" not in text
    assert text.count("open") == 2
    assert "2026-02-18" not in text


def test_a_first_episode_has_no_memory() -> None:
    assert voice_memory(PastRecord(), [], {}, now=NOW) == ""


def test_an_error_that_is_not_known_is_not_given() -> None:
    text = voice_memory(PastRecord(DatedMean(0.25, None, 1, 1), DatedMean(0.0, None, 1, 1)), [], {}, now=NOW)
    assert "its error is not known yet" in text
    assert "Karma: none booked yet." in text


@given(st.lists(st.text(max_size=500), max_size=40), st.lists(st.text(max_size=200), max_size=40))
def test_any_text_is_bounded_and_forges_no_line(texts: list[str], tools: list[str]) -> None:
    text = voice_memory(RECORD, [past(2, text=one) for one in texts], KARMA, now=NOW, unused=tools)
    assert len(text) <= MOST_CHARS
    for line in text.splitlines():
        assert line.startswith(("Record:", "Karma:", "No voice", "Last positions:", "- 2026"))

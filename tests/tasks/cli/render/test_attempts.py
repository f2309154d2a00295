"""Attempts at a run's steps as text."""

from __future__ import annotations

import datetime as dt

from chordesk.tasks.cli.show.runs import attempts_report
from chordesk.tasks.reading.run_details import AttemptRow
from tests.tasks.cli.render.console import rendered

AT = dt.datetime(2026, 11, 20, 12, 0, tzinfo=dt.UTC)


def row(step: str, outcome: str, attempt: int = 1, reason: str | None = None) -> AttemptRow:
    return AttemptRow(
        step_id=step, kind="report", role="risk", subject="IBM", attempt=attempt, max_attempts=3, owner="w@h:1:a",
        started_at=AT, ended_at=AT, outcome=outcome, reason=reason, seconds=1.5,
    )  # fmt: skip


def test_a_stop_on_purpose_is_no_attempt_that_went_wrong() -> None:
    assert attempts_report([row("a", "done"), row("b", "stopped", reason="quick rejected it")]) is None


def test_a_lost_attempt_is_listed_with_the_next_one() -> None:
    shown = attempts_report([row("a", "lost", reason="no renewal"), row("a", "done", 2), row("b", "stopped")])
    assert shown is not None
    assert rendered(shown).splitlines() == [
        "Attempts that did not go well, of 1 done, 1 lost, 1 stopped",
        "  report risk IBM",
        "    1 of 3  lost after 1.5 s on w@h: no renewal",
        "    2 of 3  done after 1.5 s on w@h",
    ]

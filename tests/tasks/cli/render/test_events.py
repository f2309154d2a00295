"""An event as a line on a terminal."""

from __future__ import annotations

import datetime as dt

from chordesk.models.events import DESK, EventType, event
from chordesk.tasks.cli.show.desk_status import VALUE_CHARS, event_line

AT = dt.datetime(2026, 11, 20, 12, 0, 5, tzinfo=dt.UTC)


def line(type_: EventType, run_id: str = "0" * 32, *, with_run: bool = False, **payload: object) -> str:
    one = event(type_, run_id, **payload).model_copy(update={"sequence": 7, "occurred_at": AT})  # type: ignore[arg-type]
    return event_line(one, with_run=with_run).plain


def test_the_subject_comes_first_and_empty_values_are_left_out() -> None:
    found = line(EventType.STATUS_ENDED, step="abc", why=None, attempt=2, state="done", role="quick", subject="IBM")
    assert found == f"{AT.astimezone():%H:%M:%S}      7  status.ended      quick IBM done attempt=2"


def test_of_many_runs_each_line_names_its_own() -> None:
    assert f"  {'0' * 14}      7  run.started" in line(EventType.RUN_STARTED, with_run=True)
    assert "  desk                7  order.trading" in line(EventType.ORDER_TRADING, DESK, with_run=True)


def test_a_long_value_is_cut() -> None:
    found = line(EventType.ITEM_COMPLETED, type="agentMessage", text="a\nb" + "c" * 500)
    assert found.endswith("c…")
    assert len(found) < 60 + VALUE_CHARS

"""Migrations of existing rows."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy import text

from chordesk.models.database.store import Store, upgrade
from chordesk.models.events import event_log
from tests.models.migrations.old_database import AT, OldDatabase, insert, old_database, put


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'desk.db'}"


@pytest.mark.parametrize(
    ("fills", "opening"), [([], 900.0), ([("buy", 10, 20.0, 1.0), ("sell", 4, 25.0, 0.5)], 1001.5)]
)
def test_an_account_that_traded_began_with_what_its_fills_moved(
    url: str, fills: list[tuple[str, float, float, float]], opening: float
) -> None:
    with old_database(url, "0003") as old:
        with old.engine.begin() as connection:
            insert(connection, "account", name="paper", cash=900.0)
            insert(connection, "account", name="other", cash=5.0)
            insert(connection, "run", id="r")
            insert(connection, "step", id="s", run_id="r")
            insert(connection, "turn", id="t", run_id="r", step_id="s")
            insert(connection, "decision", id="d", run_id="r", step_id="s", turn_id="t")
            insert(connection, "order", id="o", run_id="r", decision_id="d", state="denied")
            for number, (side, quantity, price, commission) in enumerate(fills):
                figures = {"side": side, "quantity": quantity, "price": price, "commission": commission}
                insert(connection, "fill", id=str(number), order_id="o", account="paper", **figures)
        upgrade(url)
        assert {row["name"]: row["opening_cash"] for row in old.rows("account")} == {"paper": opening, "other": 5.0}


def test_events_are_read_from_batches_as_they_were_from_rows(url: str) -> None:
    before, after = events_through_batches(url)
    assert len(before) == len(PLACES)
    assert after == before


# More than one batch and more than one read; a run of which some is gone.
PLACES = [("a", number) for number in range(1, 1031)] + [("b", number) for number in (4, 5, 9)]


def events_through_batches(url: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Bring the rows of an empty database's events into batches, read them there, and bring them back; return the rows
    before and after."""
    with old_database(url, "0006") as old:
        with old.engine.begin() as connection:
            for run_id, number in PLACES:
                content = {"domain": "item", "type": "item.completed", "payload": f'{{"number":{number},"text":"ü"}}'}
                ids = {"run_id": run_id, "event_id": f"{run_id}{number}", "thread_id": "t" if number % 2 else None}
                at = f"2026-01-01 00:{number % 60:02}:00.000001"
                put(connection, "event", sequence=number, occurred_at=at, **ids, **content)
            put(connection, "event_head", run_id="a", last=1030, trimmed=0, updated_at=AT)
            put(connection, "event_head", run_id="b", last=9, trimmed=3, updated_at=AT)
        before = _event_rows(old)
        upgrade(url)
        _check_batches(url)
        old.downgrade("0006")
        return before, _event_rows(old)


def _event_rows(old: OldDatabase) -> list[dict[str, Any]]:
    found = sorted(old.rows("event"), key=lambda row: (row["run_id"], row["sequence"]))
    return [{**row, "payload": _loaded(row["payload"])} for row in found]


def _check_batches(url: str) -> None:
    store = Store(url)
    with store.read() as session:
        found = {run: event_log.read(session, run, after, 2000) for run, after in (("a", 0), ("b", 3))}
        sizes = text("select run_id, last - first + 1 from event_batch order by run_id, last")
        batches = session.connection().execute(sizes).all()
    store.close()
    assert [(one.run_id, one.sequence) for one in [*found["a"], *found["b"]]] == PLACES
    last = found["a"][-1]
    assert (last.event_id, last.thread_id, last.payload) == ("a1030", None, {"number": 1030, "text": "ü"})
    assert last.occurred_at == dt.datetime(2026, 1, 1, 0, 10, 0, 1, dt.UTC)
    assert {size for run, size in batches if run == "a"} == {20, 10}
    assert [size for run, size in batches if run == "b"] == [2, 1]


def test_a_report_of_an_older_version_has_no_answer_and_keeps_the_rest(url: str) -> None:
    seen = report_through_versions(url)
    assert seen.upgraded == [{**seen.before[0], "answer": None, "answer_schema": None}]
    assert seen.answered == [({"a": [1]}, "ValidatorOutput")]
    assert seen.downgraded == seen.before
    assert seen.linked == "p"


class ReportVersions(NamedTuple):
    """Rows of a report before an upgrade, after it, with an answer, and after the downgrade; and its verdict's link."""

    before: list[dict[str, Any]]
    upgraded: list[dict[str, Any]]
    answered: list[tuple[Any, str]]
    downgraded: list[dict[str, Any]]
    linked: str


def report_through_versions(url: str) -> ReportVersions:
    """Upgrade and downgrade an empty database with one report, and return its rows."""
    with old_database(url, "0007") as old:
        with old.engine.begin() as connection:
            insert(connection, "run", id="r")
            insert(connection, "step", id="s", run_id="r")
            insert(connection, "turn", id="t", run_id="r", step_id="s")
            insert(connection, "candidate", id="c", run_id="r")
            ids = {"run_id": "r", "step_id": "s", "candidate_id": "c", "turn_id": "t"}
            insert(connection, "report", id="p", summary="It rises.", **ids)
            insert(connection, "verdict", id="v", run_id="r", candidate_id="c")
            insert(connection, "verdict_report", verdict_id="v", report_id="p")
        before = old.rows("report")
        old.upgrade("0008")
        upgraded = old.rows("report")
        with old.engine.begin() as connection:
            connection.execute(text("update report set answer = '{\"a\": [1]}', answer_schema = 'ValidatorOutput'"))
        answered = [(_loaded(row["answer"]), row["answer_schema"]) for row in old.rows("report")]
        old.downgrade("0007")
        linked = old.value("select report_id from verdict_report")
        return ReportVersions(before, upgraded, answered, old.rows("report"), linked)


def test_a_candidate_that_no_lens_put_forward_loses_its_confidence_and_gets_it_back(url: str) -> None:
    confidence = "select confidence from candidate"
    with old_database(url, "0011") as old:
        with old.engine.begin() as connection:
            insert(connection, "run", id="r")
            insert(connection, "candidate", id="c", run_id="r")
            connection.execute(text("update candidate set confidence = null"))
        assert old.value(confidence) is None
        old.downgrade("0010")
        assert old.value(confidence) == "speculative"
        old.upgrade("0011")
        assert old.value(confidence) == "speculative"


def test_an_order_of_an_older_version_is_a_day_order_that_protects_nothing(url: str) -> None:
    with old_database(url, "0011") as old:
        with old.engine.begin() as connection:
            insert(connection, "run", id="r")
            insert(connection, "step", id="s", run_id="r")
            insert(connection, "decision", id="d", run_id="r", step_id="s")
            insert(connection, "order", id="o", run_id="r", decision_id="d", state="denied")
            insert(connection, "fill", id="f", order_id="o", account="paper")
        before = old.rows("order")
        old.upgrade("0012")
        added = {"stop_price": None, "trail_percent": None, "time_in_force": "day", "protects": None}
        assert old.rows("order") == [{**before[0], **added}]
        old.downgrade("0011")
        assert old.rows("order") == before
        assert old.value("select order_id from fill") == "o"


def test_a_report_and_a_decision_keep_their_author_under_its_new_name(url: str) -> None:
    names = ("report", "decision")
    with old_database(url, "0013") as old:
        with old.engine.begin() as connection:
            insert(connection, "run", id="r")
            insert(connection, "step", id="s", run_id="r")
            insert(connection, "turn", id="t", run_id="r", step_id="s")
            insert(connection, "candidate", id="c", run_id="r")
            ids = {"run_id": "r", "step_id": "s", "turn_id": "t"}
            insert(connection, "report", id="p", candidate_id="c", spoken_by="codex:gpt-5.5", **ids)
            insert(connection, "decision", id="d", spoken_by="ann@desk", **ids)
        before = [old.rows(name) for name in names]
        old.upgrade("0014")
        assert [old.value(f"select author from {name}") for name in names] == ["codex:gpt-5.5", "ann@desk"]
        old.downgrade("0013")
        assert [old.rows(name) for name in names] == before


def _loaded(payload: Any) -> Any:
    """Return a JSON column's value; SQLite gives it as text."""
    return json.loads(payload) if isinstance(payload, str) else payload

"""Migrations of existing rows."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import JSON, Connection, create_engine, inspect, text

from models.database.store import Store, _alembic, upgrade
from models.events import event_log

AT = "2026-01-01 00:00:00.000000"


def insert(connection: Connection, table: str, **given: Any) -> None:
    """A row with what is given, and with something in every other column that must have a value."""
    plain: dict[type, Any] = {int: 0, float: 0.0, bool: False, dt.datetime: AT, JSON().python_type: "[]"}
    columns = [row for row in inspect(connection).get_columns(table) if not row["nullable"] and not row["default"]]
    needed = {row["name"]: plain.get(row["type"].python_type, "x") for row in columns}
    put(connection, table, **{**needed, **given})


def put(connection: Connection, table: str, **values: Any) -> None:
    names, marks = ", ".join(f'"{name}"' for name in values), ", ".join(f":{name}" for name in values)
    connection.execute(text(f'insert into "{table}" ({names}) values ({marks})'), values)


@pytest.mark.parametrize(
    ("fills", "opening"), [([], 900.0), ([("buy", 10, 20.0, 1.0), ("sell", 4, 25.0, 0.5)], 1001.5)]
)
def test_an_account_that_traded_began_with_what_its_fills_moved(
    tmp_path: Path, fills: list[tuple[str, float, float, float]], opening: float
) -> None:
    url = f"sqlite:///{tmp_path / 'desk.db'}"
    engine = create_engine(url)
    with engine.connect() as connection:
        config = _alembic(url)
        config.attributes["connection"] = connection
        command.upgrade(config, "0003")
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
        connection.commit()
    upgrade(url)
    with engine.connect() as connection:
        rows = connection.execute(text("select name, opening_cash from account")).all()
    assert {row.name: row.opening_cash for row in rows} == {"paper": opening, "other": 5.0}


def test_events_are_read_from_batches_as_they_were_from_rows(tmp_path: Path) -> None:
    events_go_into_batches_and_out_again(f"sqlite:///{tmp_path / 'desk.db'}")


def events_go_into_batches_and_out_again(url: str) -> None:
    """More than one batch and more than one read; a run of which some is gone. The database is empty."""
    engine = create_engine(url)

    def migrate(change: Callable[[Config, str], None]) -> None:
        with engine.connect() as connection:
            config = _alembic(url)
            config.attributes["connection"] = connection
            change(config, "0006")
            connection.commit()

    def rows() -> list[dict[str, Any]]:
        with engine.connect() as connection:
            found = connection.execute(text("select * from event order by run_id, sequence")).mappings()
            return [{**row, "payload": _loaded(row["payload"])} for row in found]

    migrate(command.upgrade)
    places = [("a", number) for number in range(1, 1031)] + [("b", number) for number in (4, 5, 9)]
    with engine.begin() as connection:
        for run_id, number in places:
            content = {"domain": "item", "type": "item.completed", "payload": f'{{"number":{number},"text":"ü"}}'}
            ids = {"run_id": run_id, "event_id": f"{run_id}{number}", "thread_id": "t" if number % 2 else None}
            at = f"2026-01-01 00:{number % 60:02}:00.000001"
            put(connection, "event", sequence=number, occurred_at=at, **ids, **content)
        put(connection, "event_head", run_id="a", last=1030, trimmed=0, updated_at=AT)
        put(connection, "event_head", run_id="b", last=9, trimmed=3, updated_at=AT)
    before = rows()
    upgrade(url)
    store = Store(url)
    with store.read() as session:
        found = {run: event_log.read(session, run, after, 2000) for run, after in (("a", 0), ("b", 3))}
        sizes = text("select run_id, last - first + 1 from event_batch order by run_id, last")
        batches = session.connection().execute(sizes).all()
    store.close()
    assert [(one.run_id, one.sequence) for one in [*found["a"], *found["b"]]] == places
    last = found["a"][-1]
    assert (last.event_id, last.thread_id, last.payload) == ("a1030", None, {"number": 1030, "text": "ü"})
    assert last.occurred_at == dt.datetime(2026, 1, 1, 0, 10, 0, 1, dt.UTC)
    assert {size for run, size in batches if run == "a"} == {20, 10}
    assert [size for run, size in batches if run == "b"] == [2, 1]
    migrate(command.downgrade)
    assert rows() == before
    engine.dispose()


def test_a_report_of_an_older_version_has_no_answer_and_keeps_the_rest(tmp_path: Path) -> None:
    seen = report_through_versions(f"sqlite:///{tmp_path / 'desk.db'}")
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
    engine = create_engine(url)

    def migrate(change: Callable[[Config, str], None], revision: str) -> None:
        with engine.connect() as connection:
            config = _alembic(url)
            config.attributes["connection"] = connection
            change(config, revision)
            connection.commit()

    def rows() -> list[dict[str, Any]]:
        with engine.connect() as connection:
            return [dict(row) for row in connection.execute(text("select * from report")).mappings()]

    migrate(command.upgrade, "0007")
    with engine.begin() as connection:
        insert(connection, "run", id="r")
        insert(connection, "step", id="s", run_id="r")
        insert(connection, "turn", id="t", run_id="r", step_id="s")
        insert(connection, "candidate", id="c", run_id="r")
        insert(
            connection, "report", id="p", run_id="r", step_id="s", candidate_id="c", turn_id="t", summary="It rises."
        )
        insert(connection, "verdict", id="v", run_id="r", candidate_id="c")
        insert(connection, "verdict_report", verdict_id="v", report_id="p")
    before = rows()
    migrate(command.upgrade, "0008")
    upgraded = rows()
    with engine.begin() as connection:
        connection.execute(text("update report set answer = '{\"a\": [1]}', answer_schema = 'ValidatorOutput'"))
    answered = [(_loaded(row["answer"]), row["answer_schema"]) for row in rows()]
    migrate(command.downgrade, "0007")
    with engine.connect() as connection:
        linked = connection.execute(text("select report_id from verdict_report")).scalar_one()
    found = ReportVersions(before, upgraded, answered, rows(), linked)
    engine.dispose()
    return found


def test_a_candidate_that_no_lens_put_forward_loses_its_confidence_and_gets_it_back(tmp_path: Path) -> None:
    engine = create_engine(url := f"sqlite:///{tmp_path / 'desk.db'}")

    def migrate(change: Callable[[Config, str], None], revision: str) -> None:
        with engine.connect() as connection:
            config = _alembic(url)
            config.attributes["connection"] = connection
            change(config, revision)
            connection.commit()

    def confidence() -> Any:
        with engine.connect() as connection:
            return connection.execute(text("select confidence from candidate")).scalar_one()

    migrate(command.upgrade, "0011")
    with engine.begin() as connection:
        insert(connection, "run", id="r")
        insert(connection, "candidate", id="c", run_id="r")
        connection.execute(text("update candidate set confidence = null"))
    assert confidence() is None
    migrate(command.downgrade, "0010")
    assert confidence() == "speculative"
    migrate(command.upgrade, "0011")
    assert confidence() == "speculative"
    engine.dispose()


def _loaded(payload: Any) -> Any:
    """SQLite gives a JSON column as text."""
    return json.loads(payload) if isinstance(payload, str) else payload

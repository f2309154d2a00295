"""Upgrades of the schema: an upgrade that fails midway leaves the database as it was, on SQLite and on a real
PostgreSQL; one of a schema that this version does not know is refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event, inspect, make_url, text

from chordesk.models.database.store import current, knows, require_current, upgrade
from chordesk.models.errors import DatabaseDown, DatabaseUnfit
from tests.parts import needs
from tests.postgres import Server


@contextmanager
def failing_at(beginning: str) -> Iterator[None]:
    """Let every connection refuse the statements that begin so."""

    def refuse(_: Any, __: Any, statement: str, *___: Any) -> None:
        if statement.strip().startswith(beginning):
            raise RuntimeError("the disk is full")

    event.listen(Engine, "before_cursor_execute", refuse)
    try:
        yield
    finally:
        event.remove(Engine, "before_cursor_execute", refuse)


def an_upgrade_fails_and_is_repeated(url: str) -> None:
    engine = create_engine(url)
    with failing_at("CREATE TABLE verdict_report"), pytest.raises(RuntimeError, match="the disk is full"):
        upgrade(url)
    assert inspect(engine).get_table_names() == []
    upgrade(url)
    found, newest = current(url)
    assert found == newest
    assert "verdict_report" in inspect(engine).get_table_names()
    engine.dispose()


def test_an_upgrade_that_fails_changes_nothing(tmp_path: Path) -> None:
    an_upgrade_fails_and_is_repeated(f"sqlite:///{tmp_path / 'desk.db'}")


@pytest.mark.postgres
def test_an_upgrade_that_fails_changes_nothing_on_postgres(postgres: Server) -> None:
    an_upgrade_fails_and_is_repeated(postgres.empty())


@pytest.mark.postgres
def test_a_database_that_takes_no_writes_is_refused(postgres: Server) -> None:
    """As a managed server has it while its disk is full."""
    url = postgres.migrated()
    name = make_url(url).database
    with create_engine(url).begin() as connection:
        connection.execute(text(f'alter database "{name}" set default_transaction_read_only = on'))
    for use in (upgrade, require_current):
        with pytest.raises(DatabaseUnfit, match="takes no writes"):
            use(url)


@pytest.mark.parametrize("revision", ["0028", "9999"])
def test_a_database_of_a_schema_that_is_not_known_is_left_alone(tmp_path: Path, revision: str) -> None:
    url = f"sqlite:///{tmp_path / 'desk.db'}"
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("create table alembic_version (version_num varchar(32) not null)"))
        connection.execute(text("insert into alembic_version values (:revision)"), {"revision": revision})
    assert not knows(revision)
    with pytest.raises(DatabaseDown, match=f"is at revision {revision}, which this version .* does not know"):
        upgrade(url)
    assert inspect(engine).get_table_names() == ["alembic_version"]
    engine.dispose()


def a_database_of_another_state_is_refused(url: str) -> None:
    upgrade(url)
    engine = create_engine(url)
    changes = ("alter table turn drop column way", "alter table step add column mood varchar not null default 'x'")
    with engine.begin() as connection:
        connection.execute(text(changes[0]))
        connection.execute(text("update identity set migrations = 'others'"))
    refused = "is of another version, though its revision is the same: it has no turn.way"
    for check in (upgrade, require_current):
        with pytest.raises(DatabaseUnfit, match=refused) as found:
            check(url)
        assert "use the version that wrote it" in found.value.remedy
    with engine.begin() as connection:
        connection.execute(text("alter table turn add column way varchar"))
        connection.execute(text(changes[1]))
    require_current(url)  # a column with a default is no trouble, and neither is a remark in a migration
    with engine.begin() as connection:
        connection.execute(text("drop index ix_turn_thread_id"))
    upgrade(url)
    assert "ix_turn_thread_id" in {index["name"] for index in inspect(engine).get_indexes("turn")}
    with engine.begin() as connection:
        connection.execute(text("drop table identity"))
    with pytest.raises(DatabaseUnfit, match="it has no table identity"):
        require_current(url)
    engine.dispose()


def test_a_database_whose_tables_are_of_another_state_is_refused_by_name(tmp_path: Path) -> None:
    a_database_of_another_state_is_refused(f"sqlite:///{tmp_path / 'desk.db'}")


@pytest.mark.postgres
def test_a_database_whose_tables_are_of_another_state_is_refused_by_name_on_postgres(postgres: Server) -> None:
    a_database_of_another_state_is_refused(postgres.empty())


@needs("alerts")
def test_tables_of_the_desks_own_feature_that_are_behind_are_named_with_the_remedy(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'desk.db'}"
    upgrade(url)
    with create_engine(url).begin() as connection:
        connection.execute(text("drop table alembic_version_alerts"))
    with pytest.raises(DatabaseUnfit, match="the feature alerts: its tables are not made yet") as raised:
        require_current(url)
    assert "desk db upgrade" in str(raised.value.remedy)
    with pytest.raises(DatabaseUnfit, match=r"its migration to revision 0001 failed, .* already exists") as raised:
        upgrade(url)  # they are there: what made them is lost
    assert "run `desk db upgrade` again" in str(raised.value.remedy)

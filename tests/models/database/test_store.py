"""The database: pragmas, transactions, migrations, and foreign keys that keep lineage whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlmodel import SQLModel, select

from chordesk.models.database import store as store_module
from chordesk.models.database.store import Store, current, require_current, upgrade
from chordesk.models.errors import DatabaseDown, SettingError
from chordesk.models.tables.orders import Account
from chordesk.models.tables.runs import Turn
from tests.builders import a_report, a_run, a_step, a_turn
from tests.databases import ALL_BUT_LINES
from tests.models.database.writers import cash_after


@pytest.fixture
def url(tmp_path: Path) -> str:
    found = f"sqlite:///{tmp_path / 'deep' / 'desk.db'}"
    upgrade(found)
    return found


def test_upgrade_brings_an_empty_database_to_the_newest_revision_and_is_repeatable(url: str) -> None:
    upgrade(url)
    found, newest = current(url)
    assert found == newest
    require_current(url)


def test_migrations_and_tables_agree(url: str) -> None:
    store = Store(url)
    with store.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection, opts=ALL_BUT_LINES), SQLModel.metadata) == []


def test_sqlite_runs_in_wal_mode_with_foreign_keys_and_a_busy_timeout(url: str) -> None:
    store = Store(url)
    with store.read() as session:
        names = ("journal_mode", "foreign_keys", "busy_timeout")
        values = {name: session.execute(text(f"pragma {name}")).scalar() for name in names}
    assert values == {"journal_mode": "wal", "foreign_keys": 1, "busy_timeout": store_module.BUSY_SECONDS * 1000}


def test_a_failed_transaction_leaves_nothing(url: str) -> None:
    store = Store(url)
    with pytest.raises(RuntimeError), store.session() as session:
        session.add(Account(name="paper", cash=1.0))
        session.flush()
        raise RuntimeError
    with store.read() as session:
        assert session.exec(select(Account)).all() == []


def test_a_write_in_a_reading_session_is_not_kept(url: str) -> None:
    store = Store(url)
    with store.read() as session:
        session.add(Account(name="paper", cash=1.0))
        session.flush()
    with store.read() as session:
        assert session.exec(select(Account)).all() == []


def test_writers_of_many_threads_lose_nothing(url: str) -> None:
    assert cash_after(Store(url), writers=8, times=20) == 160.0


def test_a_turn_that_a_report_rests_on_cannot_be_deleted(url: str) -> None:
    store = Store(url)
    with store.session() as session:
        run = a_run(session)
        step = a_step(session, run)
        turn = a_turn(session, step)
        a_report(session, step, turn)
        turn_id = turn.id
    with pytest.raises(IntegrityError), store.session() as session:
        session.delete(session.get_one(Turn, turn_id))


def test_a_report_without_a_turn_cannot_be_written(url: str) -> None:
    store = Store(url)
    with pytest.raises(IntegrityError), store.session() as session:
        step = a_step(session, a_run(session))
        a_report(session, step, None)


def test_a_slot_of_the_schedule_has_one_run(url: str) -> None:
    store = Store(url)
    with store.session() as session:
        a_run(session, schedule="premarket", slot="2026-11-20")
    with pytest.raises(IntegrityError), store.session() as session:
        a_run(session, schedule="premarket", slot="2026-11-20")


@pytest.mark.parametrize(
    "address",
    [
        "not a url",
        "mysql://desk:hidden@host/desk",
        "oracle://desk:hidden@host/desk",
        "nonsense://desk:hidden@host/desk",
        "postgresql+asyncpg://desk:hidden@host/desk",
        "postgresql://desk:hidden@host:hidden/desk@",
    ],
)
def test_an_address_that_is_none_is_refused_by_name(address: str) -> None:
    with pytest.raises(SettingError, match=r"DESK_DATABASE_URL=.*postgresql\+psycopg://USER:PASSWORD@HOST") as caught:
        Store(address)
    assert "hidden" not in str(caught.value)


def test_a_folder_that_cannot_be_made_is_named_with_its_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "deep"
    with pytest.raises(DatabaseDown, match=rf"{folder} cannot be made: Not a directory \(set DESK_HOME"):
        upgrade(f"sqlite:///{folder / 'desk.db'}")


@pytest.mark.parametrize("ask", [current, require_current, upgrade])
def test_a_file_that_is_no_database_is_named_with_its_remedy(tmp_path: Path, ask: Callable[[str], object]) -> None:
    path = tmp_path / "desk.db"
    path.write_bytes(b"a letter, and not a database " * 40)
    with pytest.raises(DatabaseDown, match=rf"sqlite:///{path} is not sound: file is not a database \(stop the desk"):
        ask(f"sqlite:///{path}")
    assert path.read_bytes().startswith(b"a letter")


def test_a_server_that_is_away_is_a_database_that_is_down() -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(DatabaseDown, match="does not answer"):
        current("postgresql+psycopg://127.0.0.1:1/none?connect_timeout=1")

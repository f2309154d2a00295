"""A damaged database is found, marked until a whole check clears it, and keeps steps and orders from beginning."""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DatabaseError

from chordesk.models.database import page_sums, soundness
from chordesk.models.database.failures import as_desk_error
from chordesk.models.database.store import Store, seal
from chordesk.models.errors import DatabaseDown, DatabaseUnsound
from chordesk.models.settings import Settings
from chordesk.models.settings.sources import load_settings
from chordesk.models.shortages import shortages
from chordesk.models.states import TradingState
from chordesk.tools.orders.halting import trading_state
from tests.databases import make_database

PAGE = 4096


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    settings = load_settings({"DESK_HOME": str(tmp_path)}, tmp_path)
    make_database(settings.database)
    return settings


def root_of(path: Path, name: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()
    return int(page)


def flip(path: Path, page: int, at: int = 0) -> None:
    with path.open("r+b") as file:
        file.seek((page - 1) * PAGE + at)
        old = file.read(8)
        file.seek((page - 1) * PAGE + at)
        file.write(bytes(255 - byte for byte in old))


def test_a_damaged_page_is_found_and_marked_until_the_file_is_sound_again(settings: Settings, tmp_path: Path) -> None:
    path = tmp_path / "desk.db"
    root = root_of(path, "run")
    shutil.copy(path, tmp_path / "good")
    assert soundness.watch(settings).why is None
    flip(path, root)
    with pytest.raises(DatabaseUnsound, match=r"is not sound: .*desk restore PLACE --into FOLDER"):
        soundness.require(settings)
    assert [one.out for one in shortages(settings) if one.what == "soundness"] == [True]
    shutil.copy(tmp_path / "good", path)
    assert soundness.watch(settings).why is None
    assert soundness.marked(settings) is None


def test_what_only_the_whole_check_sees_keeps_its_mark_until_a_whole_check(settings: Settings, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "desk.db")) as connection:
        connection.execute("PRAGMA foreign_keys=OFF")
        columns = connection.execute("PRAGMA table_info(turn)").fetchall()
        names = [column[1] for column in columns if column[3] or column[5]]
        marks = ", ".join("'1'" for _ in names)
        connection.execute(f"INSERT INTO turn ({', '.join(names)}) VALUES ({marks})")
        connection.commit()
    assert soundness.watch(settings).why is None, "every page is well"
    found = soundness.watch(settings, whole=True)
    assert found.why is not None
    assert "refers to one of" in found.why
    assert soundness.watch(settings).why is not None, "a marked database is checked whole"


def test_a_statement_that_meets_damage_marks_it_and_halts_every_account(settings: Settings, tmp_path: Path) -> None:
    flip(tmp_path / "desk.db", root_of(tmp_path / "desk.db", "run"))
    with closing(Store(settings.database)) as store:
        with pytest.raises(DatabaseError) as failed, store.read() as session:
            session.execute(text("select * from run")).all()
        found = as_desk_error(failed.value)
        assert isinstance(found, DatabaseUnsound)
        assert "\n" not in str(found)
        with store.read() as session:
            state, why = trading_state(session, settings, settings.account)
    assert state is TradingState.HALTED
    assert why.startswith("the database is not sound: database disk image")


def test_other_failures_mark_nothing_and_have_a_remedy(settings: Settings, tmp_path: Path) -> None:
    with closing(Store(settings.database)) as store, closing(sqlite3.connect(tmp_path / "desk.db")) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(DatabaseError) as failed, store.engine.connect() as connection:
            connection.connection.cursor().execute("PRAGMA busy_timeout=0")
            connection.execute(text("insert into identity (id) values (9)"))
    found = as_desk_error(failed.value)
    assert isinstance(found, DatabaseDown)
    assert "keeps the database locked" in found.remedy
    assert soundness.marked(settings) is None


def test_any_byte_that_changes_in_a_sealed_file_is_found(settings: Settings, tmp_path: Path) -> None:
    path, chance = tmp_path / "desk.db", random.Random(7)
    seal(settings.database)
    assert soundness.watch(settings).why is None
    whole = path.read_bytes()
    for _ in range(40):
        at, size = chance.randrange(len(whole)), chance.choice((1, 64))
        path.write_bytes(whole[:at] + bytes(255 - byte for byte in whole[at : at + size]) + whole[at + size :])
        found = soundness.look(settings.database)
        assert found.why is not None
        assert f"page {at // PAGE + 1} " in found.why or "and 1 more" in found.why
    path.write_bytes(whole[:-PAGE])
    assert soundness.look(settings.database).why is not None, "a page is gone"
    path.write_bytes(whole)
    assert soundness.look(settings.database, whole=True).why is None


def test_a_writer_compares_the_pages_before_it_removes_their_sums(settings: Settings, tmp_path: Path) -> None:
    path, sums = tmp_path / "desk.db", tmp_path / "desk.db-sums"
    seal(settings.database)
    with closing(Store(settings.database)) as store:
        with store.read() as session:
            session.execute(text("SELECT 1"))
        assert sums.exists(), "a reader changes nothing"
        write(store)
        assert not sums.exists()
        seal(settings.database)
        assert sums.exists()
    flip(path, path.stat().st_size // PAGE, 4000)
    with closing(Store(settings.database)) as store:
        write(store)
    assert soundness.marked(settings) is not None
    seal(settings.database)
    assert soundness.watch(settings, whole=True).why is not None, "a write does not make it sound"
    sums.unlink()
    assert soundness.watch(settings, whole=True).why is None, "as a person says who changed it"


def test_the_name_of_a_folder_is_no_option_of_its_seal(settings: Settings, tmp_path: Path) -> None:
    path = tmp_path / "50%3f #1?mode=ro" / "desk.db"
    path.parent.mkdir()
    with closing(sqlite3.connect(tmp_path / "desk.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(tmp_path / "desk.db", path)
    assert page_sums.seal(path)
    assert page_sums.changed_pages(path) == []
    flip(path, 2, 100)
    assert page_sums.changed_pages(path) == [2]


def write(store: Store) -> None:
    with store.session() as session:
        session.execute(text("CREATE TABLE IF NOT EXISTS own (place INTEGER)"))
        session.execute(text("INSERT INTO own VALUES (1)"))

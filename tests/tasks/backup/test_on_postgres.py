"""Backup and restore of a real PostgreSQL."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from chordesk.models.database.store import Store
from chordesk.models.errors import BackupError, UsageError
from chordesk.models.settings.sources import load_settings
from chordesk.tasks.backup.making import restore
from chordesk.tools.orders.audit_reading import check_logs
from chordesk.tools.orders.halting import trading_state
from tests.patience import PATIENCE
from tests.postgres import Server
from tests.tasks.backup.kit import BY, DeskData, filled, reseal, restored, rows
from tests.tasks.backup.test_backup import CHANGED

# The same cases run on SQLite, where coverage counts their lines.
pytestmark = [pytest.mark.postgres, pytest.mark.no_cover]


@pytest.fixture
def data(postgres_url: str, tmp_path: Path) -> Iterator[DeskData]:
    home = tmp_path / "home"
    home.mkdir()
    settings = load_settings({"DESK_HOME": str(home), "DESK_DATABASE_URL": postgres_url}, home)
    made = filled(DeskData(settings, Store(postgres_url)))
    yield made
    made.store.close()


def test_all_comes_back(data: DeskData, postgres: Server, tmp_path: Path) -> None:
    data.backup(tmp_path / "copy")
    empty = postgres.empty()
    done, found = restored(tmp_path / "copy", tmp_path / "new", DESK_DATABASE_URL=empty)
    with closing(found.store):
        assert rows(found.store, CHANGED) == rows(data.store, CHANGED)
        assert check_logs(found.store, found.settings)[0].whole
        with found.store.read() as session:
            assert str(trading_state(session, found.settings, "paper")[0]) == "halted"
    assert (done.lines, done.manifest.database) == (3, "postgresql")


def test_each_backup_beside_writers_is_of_one_point_in_time(data: DeskData, postgres: Server, tmp_path: Path) -> None:
    over = threading.Event()

    def write() -> None:
        own = DeskData(data.settings, Store(data.settings.database))
        count = 0
        while not over.is_set():
            count += 1
            own.picture(f"p{count}".encode() * 200)
            own.line(size=count)
        own.store.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        made = [data.backup(tmp_path / f"copy{number}").manifest for number in range(2)]
    finally:
        over.set()
        writer.join(PATIENCE)
    assert made[0].runs < made[1].runs
    for number in range(2):
        url = postgres.empty()
        done, found = restored(tmp_path / f"copy{number}", tmp_path / f"new{number}", DESK_DATABASE_URL=url)
        found.store.close()
        assert (done.manifest.missing, done.manifest.chains[0].problems) == ([], [])


def test_a_database_with_tables_is_refused(data: DeskData, tmp_path: Path) -> None:
    data.backup(tmp_path / "copy")
    before = rows(data.store)
    environ = {"DESK_HOME": str(tmp_path / "new"), "DESK_DATABASE_URL": data.settings.database}
    with pytest.raises(UsageError, match="is not empty"):
        restore(load_settings(environ, tmp_path), str(tmp_path / "copy"), BY)
    assert rows(data.store) == before
    with pytest.raises(UsageError, match="this one is sqlite"):
        restore(load_settings({"DESK_HOME": str(tmp_path / "new")}, tmp_path), str(tmp_path / "copy"), BY)


def test_a_damaged_dump_leaves_both_places_empty(data: DeskData, postgres: Server, tmp_path: Path) -> None:
    """Damaged before its SHA-256 was taken: cut, cut in the text within, with another's statement, with a row too
    many."""
    data.backup(tmp_path / "copy")
    path = tmp_path / "copy" / "database.copy.gz"
    whole = path.read_bytes()
    text = gzip.decompress(whole)
    statement = text.replace(b"COPY ", b"COPY (select 1) TO PROGRAM 'touch x'; COPY ", 1)
    run = text.index(b"\n", text.index(b'COPY "run"' if b'COPY "run"' in text else b"COPY run ")) + 1
    twice = text[:run] + text[run : text.index(b"\n", run) + 1] + text[run:]
    for damaged in (whole[:-500], *map(gzip.compress, (text[:-500], statement, twice))):
        path.write_bytes(damaged)
        _refused(tmp_path, postgres.empty(), "database.copy.gz is not a sound database")


def test_a_database_of_which_the_log_is_wrong_is_emptied_again(
    data: DeskData, postgres: Server, tmp_path: Path
) -> None:
    """The rows are there when it is found, so the same place takes another backup."""
    data.backup(tmp_path / "other")
    data.backup(tmp_path / "copy")
    path = tmp_path / "copy" / "audit" / "audit.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"denied"', b'"bought"', 1))
    url = postgres.empty()
    _refused(tmp_path, url, "the audit log of the backup is not whole")
    done, found = restored(tmp_path / "other", tmp_path / "new", DESK_DATABASE_URL=url)
    found.store.close()
    assert done.lines == 3


def _refused(folder: Path, url: str, why: str) -> None:
    """See that a restore of its `copy`, sealed anew, is refused and leaves neither a data folder nor anything in the
    database."""
    reseal(folder / "copy")
    environ = {"DESK_HOME": str(folder / "new"), "DESK_DATABASE_URL": url}
    with pytest.raises(BackupError, match=why):
        restore(load_settings(environ, folder), str(folder / "copy"), BY)
    assert not (folder / "new").exists()
    with closing(Store(url)) as store, store.engine.connect() as connection:
        query = "select relname from pg_class where relnamespace = 'public'::regnamespace"
        assert connection.exec_driver_sql(query).all() == []

"""The weekly trial of a backup: what it restores, what it finds, and who hears of it."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from sqlmodel import select

from chordesk.models.database.store import open_current
from chordesk.models.errors import BackupError
from chordesk.models.settings import Settings
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runtime import Notice
from chordesk.tasks.backup import drill
from chordesk.tasks.backup.making import backup
from chordesk.tasks.reading import backup_trials
from chordesk.tasks.reading.desk_status import status
from chordesk.tools.orders.audit import log_path
from tests.databases import make_database


def test_the_newest_backup_is_restored_each_week_and_a_damaged_one_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(home=tmp_path / "desk")
    make_database(settings.database)
    store, place = open_current(settings.database), tmp_path / "backups" / "1"
    with store.session() as session:
        session.connection().exec_driver_sql("update identity set made_at = ?", (str(utcnow().replace(tzinfo=None)),))
    assert not drill.is_due(settings, store), "a new desk has nothing to lose"
    assert drill.run(settings, store, "me").place == drill.TRIAL
    backup(settings, store, str(place), None)
    drill.note_made(settings, str(place))
    done = drill.run(settings, store, "me")
    assert (done.ok, done.place) == (True, str(place))
    assert backup_trials.last(settings) == done
    assert not drill.is_due(settings, store)
    monkeypatch.setattr(drill, "utcnow", lambda: utcnow() + dt.timedelta(days=7))
    assert drill.is_due(settings, store)
    database = place / "database.sqlite"
    database.write_bytes(database.read_bytes()[:-4096])
    done = drill.run(settings, store, "me")
    assert done.ok is False
    assert "CANNOT BE RESTORED" in str(backup_trials.last(settings))
    with store.read() as session:
        (notice,) = session.exec(select(Notice)).all()
    assert notice.kind == "backup_failed"
    assert notice.facts["place"] == str(place)
    assert [path.name for path in (tmp_path / "backups").iterdir()] == ["1"], "a trial changes no backup"
    store.close()


def test_a_folder_in_the_place_of_the_audit_log_is_named(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "desk")
    make_database(settings.database)
    log_path(settings).mkdir(parents=True)
    store = open_current(settings.database)
    with pytest.raises(BackupError, match="is not a file"):
        backup(settings, store, str(tmp_path / "backup"), None)
    store.close()
    assert not (tmp_path / "backup").exists()
    assert "is not a file" in status(settings, running=False).trouble["audit log"]

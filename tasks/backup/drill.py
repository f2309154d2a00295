"""The weekly trial of a backup: the newest one that was made here, else a new one, restored into a temporary folder and
compared. A backup that was never restored is a hope.
"""

from __future__ import annotations

import datetime as dt
import json
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import structlog
from sqlalchemy.engine import make_url

from chordesk.models import notices
from chordesk.models.database.store import Store
from chordesk.models.errors import BackupError, DatabaseDown, DeskError, UsageError
from chordesk.models.events import DESK
from chordesk.models.files import replacing
from chordesk.models.notice_channels import NoticeKind
from chordesk.models.settings import Settings
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runtime import Notice
from chordesk.models.text import utc_seconds
from chordesk.tasks.backup.making import backup, verify
from chordesk.tasks.backup.places import BackupPlace
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.reading.backup_trials import EVERY, FILE, Trial, last, table_of

log = structlog.get_logger(__name__)

FIRST = dt.timedelta(days=1)  # a desk's age from which on there is something to lose
NEWEST = "newest-backup.json"
ROOM = 3  # times the database, for a copy and what is restored from it
TRIAL = "a trial backup"


def note_made(settings: Settings, place: str) -> None:
    """Remember the newest backup, which the next trial restores. A folder that takes no file changes no backup."""
    with suppress(OSError), replacing(settings.home / NEWEST) as file:
        file.write(json.dumps({"place": place, "at": utcnow().isoformat()}).encode())


def is_due(settings: Settings, store: Store) -> bool:
    """Return whether a week has passed since the last trial, or a day since the desk was made."""
    if not store.is_sqlite:
        return False
    if (before := last(settings)) is not None:
        return utcnow() - before.at >= EVERY or before.at > utcnow()
    with store.read() as session:
        made = session.connection().exec_driver_sql("select made_at from identity").scalar_one()
    return utcnow() - dt.datetime.fromisoformat(str(made)).replace(tzinfo=dt.UTC) >= FIRST


def run(settings: Settings, store: Store, by: str) -> Trial:
    """Make the trial, and keep its result; one that fails is a notice."""
    done = _made(settings, store, by)
    with replacing(settings.home / FILE) as file:
        file.write(done.model_dump_json().encode())
    if done.ok is False:
        key = f"{NoticeKind.BACKUP_FAILED.value}:{done.at.date()}"
        facts = {"place": done.place, "why": done.told}
        with store.session() as session:
            if not notices.is_noted(session, key):
                kind = NoticeKind.BACKUP_FAILED.value
                notices.note(session, Notice(key=key, kind=kind, subject="", facts=facts, run_id=DESK,
                                             occurred_at=done.at))  # fmt: skip
    return done


def run_if_due(desk: Desk) -> None:
    if is_due(desk.settings, desk.store):
        done = run(desk.settings, desk.store, desk.owner)
        (log.error if done.ok is False else log.info)("backup.tried", place=done.place, ok=done.ok, told=done.told)


def _made(settings: Settings, store: Store, by: str) -> Trial:
    at, place = utcnow(), TRIAL
    try:
        if (why := _no_room(settings)) is not None:
            return Trial(at=at, place=place, ok=None, told=why)
        with tempfile.TemporaryDirectory(prefix="desk-trial-") as folder:
            place = _newest(settings) or TRIAL
            if place == TRIAL:
                backup(settings, store, f"{folder}/backup", None)
            done = verify(settings, f"{folder}/backup" if place == TRIAL else place, by)
    except (DatabaseDown, OSError) as error:  # of a database or a disk that is away now
        return Trial(at=at, place=place, ok=None, told=str(error))
    except DeskError as error:
        return Trial(at=at, place=place, ok=False if isinstance(error, BackupError | UsageError) else None,
                     told=str(error))  # fmt: skip
    found = done.manifest
    told = f"{found.runs:,} runs and {found.orders:,} orders as of {utc_seconds(found.at)}"
    return Trial(at=at, place=place, ok=True, told=f"{told}; the audit log was not whole" if done.broken else told)


def _newest(settings: Settings) -> str | None:
    """Return the newest backup where it still is; one that was moved away is not ours to look for."""
    place = table_of(settings.home / NEWEST).get("place")
    if not isinstance(place, str):
        return None
    with suppress(DeskError):
        return place if (folder := BackupPlace(place).folder) is None or folder.exists() else None
    return None


def _no_room(settings: Settings) -> str | None:
    size = Path(make_url(settings.database).database or "").stat().st_size
    folder = tempfile.gettempdir()
    if (free := shutil.disk_usage(folder).free) < ROOM * size:
        return f"{folder} has {free:,} bytes free, and a trial takes {ROOM * size:,}: set TMPDIR to a folder with room"
    return None

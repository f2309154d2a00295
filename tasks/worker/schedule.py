"""Beat and its state in Redis: the entries of the schedule, on exchange days, in New York time.

Beat has plain crontabs; the task itself checks whether a day is a session of the exchange, and (schedule, slot) is
unique in the database, so a tick that comes twice starts one run.
"""

from __future__ import annotations

import datetime as dt
import json
import signal
import time
from collections.abc import Iterable, Sequence
from typing import Any, cast
from zoneinfo import ZoneInfo

import redis
import structlog
from celery import Celery
from celery.schedules import crontab

from chordesk.models.answers import Frozen
from chordesk.tasks.engine import kinds
from chordesk.tasks.schedules import Entry
from chordesk.tasks.worker import celery_fixes

# A tick missed while beat was down fires once on restart; older than this it would screen at the wrong hour.
TICK_EXPIRES_SECONDS = 1800
BEAT_PREFIX = "desk:beat:"  # of its keys in Redis
LOCK, DUE = f"{BEAT_PREFIX}:lock", f"{BEAT_PREFIX}:schedule"


def beat_schedule(entries: Iterable[Entry]) -> dict[str, dict[str, Any]]:
    """Return what beat sends, by the names of the entries that are on."""
    return {one.name: _crontab(one, *one.at.split(":")) for one in entries if one.enabled}


def _crontab(entry: Entry, hour: str, minute: str) -> dict[str, Any]:
    return {
        "task": kinds.task_name(kinds.scheduled()[entry.kind].kind),
        "schedule": crontab(hour=str(int(hour)), minute=str(int(minute)), day_of_week="mon-fri"),
        "kwargs": {"schedule": entry.name},
        "options": {"expires": TICK_EXPIRES_SECONDS},
    }


class BeatEntry(Frozen):
    """One entry of the schedule. last: when it was last sent, None before the first time; next: when it is due."""

    name: str
    last: dt.datetime | None
    next: dt.datetime


class BeatState(Frozen):
    """Whether a beat runs, which its lock of some seconds shows, and its entries, the next one first; those of a beat
    that has ended stay known."""

    running: bool
    entries: list[BeatEntry]


def beat_state(client: redis.Redis) -> BeatState:
    due = cast("list[tuple[bytes, float]]", client.zrange(DUE, 0, -1, withscores=True))
    return BeatState(running=bool(client.exists(LOCK)), entries=[_entry(client, key.decode(), at) for key, at in due])


def _entry(client: redis.Redis, key: str, at: float) -> BeatEntry:
    meta = json.loads(cast("bytes | None", client.hget(key, "meta")) or b"{}")
    # Before its first run the entry has the time at which it was made, and no run counted.
    last = _moment(meta["last_run_at"]) if meta.get("total_run_count") else None
    return BeatEntry(name=key.removeprefix(BEAT_PREFIX), last=last, next=dt.datetime.fromtimestamp(at, dt.UTC))


def _moment(parts: dict[str, Any]) -> dt.datetime:
    zone = parts["timezone"]
    place = ZoneInfo(zone) if isinstance(zone, str) else dt.timezone(dt.timedelta(seconds=zone))
    names = ("year", "month", "day", "hour", "minute", "second", "microsecond")
    return dt.datetime(**{name: int(parts[name]) for name in names}, tzinfo=place).astimezone(dt.UTC)


# Beat that outlives its Redis. RedBeat ends with an error when Redis goes away or has lost its lock; here it begins
# anew, which writes the schedule again and takes the lock again.

log = structlog.get_logger(__name__)

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 4.0
STEADY_SECONDS = 30.0
# Where RedBeat keeps its client and its settings on the app; made again with the next start.
_KEPT = ("redbeat_redis", "redbeat_conf")


def run_beat(app: Celery, arguments: Sequence[str]) -> int:
    """Run beat until it is asked to end, and return its exit code."""
    pause = FIRST_PAUSE_SECONDS
    while True:
        began = time.monotonic()
        try:
            return celery_fixes.run_celery(app, arguments)
        except Exception as error:
            # Beat's own handler would ask a scheduler that is gone; a signal in the pause just ends the process.
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            pause = FIRST_PAUSE_SECONDS if time.monotonic() - began > STEADY_SECONDS else pause
            log.warning("beat.begins_anew", error=f"{type(error).__name__}: {error}", in_seconds=pause)
        for name in _KEPT:
            if hasattr(app, name):
                delattr(app, name)
        time.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

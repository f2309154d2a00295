"""RedBeat's scheduler, which the process's health follows. Loaded by Celery, by its name, in beat alone."""

from __future__ import annotations

import datetime as dt
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar

import structlog
from celery import Celery
from redbeat import RedBeatScheduler
from redbeat.schedulers import get_redis
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from chordesk.models.errors import DeskError
from chordesk.models.tables.columns import utcnow
from chordesk.tasks import life
from chordesk.tasks.schedules import beat_schedule_now
from chordesk.tasks.worker import celery_fixes

log = structlog.get_logger(__name__)

READ_SECONDS = 3.0  # between two looks at what people have changed
STALLED_SECONDS = 30.0  # it ticks at least once a second, unless Redis is away


class WatchedScheduler(RedBeatScheduler):  # type: ignore[misc]
    """Scheduler of a beat that is ready once it has ticked. A second beat waits for the lock of the first, and does
    not tick.

    A Redis that has lost the schedule gets it again, with the time of this process's last tick: what came due meanwhile
    is sent once.
    """

    last_tick: ClassVar[dt.datetime | None] = None  # of this process, which makes a scheduler for each connection

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._ticked: float | None = None
        self._looked: float | None = None
        super().__init__(*arguments, **options)
        self.app.desk.watch.health.ready_by(self._why_not)

    def setup_schedule(self) -> None:
        self._read()
        lost = self._lost()
        self._forget_changed()
        super().setup_schedule()
        for key in lost if WatchedScheduler.last_tick is not None else ():
            self.Entry.from_key(key, app=self.app).reschedule(WatchedScheduler.last_tick)

    @property
    def schedule(self) -> dict[str, Any]:
        """This process's own schedule, of settings and database: entries in Redis may name other tasks, which would be
        sent signed."""
        own = self.app.conf.beat_schedule
        return {name: one for name, one in super().schedule.items() if name in own and _is(one, own[name])}

    def tick(self, *arguments: Any, **options: Any) -> float:
        # Lost with the lock, RedBeat ends, and begins anew.
        if self._read() or self._lost():
            self.setup_schedule()
        pause: float = super().tick(*arguments, **options)
        self._ticked, WatchedScheduler.last_tick = time.monotonic(), self.app.now()
        life.waits("redis", None)
        life.beat()
        return pause

    def close(self) -> None:
        # From the handler of SIGTERM: an error of a Redis that is away would take the place of the end, and beat would
        # begin anew. The lock runs out by itself.
        with suppress(RedisError):
            super().close()

    def _read(self) -> bool:
        """Take over what people have changed, and return whether there is any. A database that is away changes
        nothing."""
        if self._looked is not None and time.monotonic() - self._looked < READ_SECONDS:
            return False
        self._looked, desk = time.monotonic(), self.app.desk
        try:
            with desk.store.read() as session:
                found = beat_schedule_now(session, desk.settings, utcnow())
        except (DeskError, SQLAlchemyError) as error:
            log.warning("beat.schedule_not_read", error=type(error).__name__)
            return False
        changed = found != self.app.conf.beat_schedule
        self.app.conf.beat_schedule = found
        return bool(changed)

    def _forget_changed(self) -> None:
        """Drop the entries of Redis that are another than this process's: a new time counts from now on, and is not
        due because it lies between now and the last start."""
        for name, own in self.app.conf.beat_schedule.items():
            with suppress(KeyError):
                entry = self.Entry.from_key(self.Entry.generate_key(self.app, name), app=self.app)
                if not _is(entry, own):
                    entry.delete()

    def _lost(self) -> list[str]:
        conf = self.app.redbeat_conf
        there = set(get_redis(self.app).zrange(conf.schedule_key, 0, -1))
        keys = [self.Entry.generate_key(self.app, name) for name in conf.schedule]
        return [key for key in keys if key not in there]

    def _why_not(self) -> str | None:
        if self._ticked is None:
            return "it is starting, or waits for the lock of another beat"
        age = time.monotonic() - self._ticked
        return f"the schedule last ticked {age:.0f} s ago: it waits for Redis" if age > STALLED_SECONDS else None


def _is(entry: Any, own: dict[str, Any]) -> bool:
    found = {"task": entry.task, "schedule": entry.schedule, "kwargs": entry.kwargs, "options": entry.options}
    return found == own and not entry.args


# Beat that outlives its Redis. RedBeat ends with an error when Redis goes away or has lost its lock; here it begins
# anew, which writes the schedule again and takes the lock again.

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
            life.waits("redis", life.FOR_REDIS if isinstance(error, RedisError) else f"it began anew after {error}")
            life.beat()
        for name in _KEPT:
            if hasattr(app, name):
                delattr(app, name)
        time.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

"""Shortages where a worker runs: looked for each second and said when they change. While one leaves no room the worker
takes no step; what it has begun ends, and the rest stays due in the database."""

from __future__ import annotations

import platform
import threading
import time
from collections import deque
from collections.abc import Callable

import structlog
from sqlmodel import Session

from chordesk.models import event_log, home, notices
from chordesk.models.database.store import Store
from chordesk.models.events import DESK, EventType, event
from chordesk.models.notice_channels import NoticeKind
from chordesk.models.settings import Settings
from chordesk.models.shortages import HOME, Shortage, shortages
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runtime import Notice
from chordesk.tasks.engine import step_queries

log = structlog.get_logger(__name__)

LOOK_SECONDS = 1.0
POLL_SECONDS = 0.1
KEPT_MOST = 100  # changes that wait for a database that can be written
LATELY_SECONDS = 60.0
NOTICE_SECONDS = 600  # the same state of the same resource within this is no news


class ShortageWatch:
    """What is short for this process, as of the last look. Threads share it; before `start` nothing is."""

    def __init__(self, settings: Settings, store: Callable[[], Store], ending: Callable[[], bool]) -> None:
        self.short: tuple[Shortage, ...] = ()
        self._settings, self._store, self._ending = settings, store, ending
        self._changes: deque[Notice] = deque(maxlen=KEPT_MOST)
        self._lock = threading.Lock()
        self._away = (0.0, "")  # when the data folder was away last, and why
        self._held_back = False  # steps, whose messages may be lost since

    def start(self) -> None:
        self.look()
        threading.Thread(target=self._loop, name="room", daemon=True).start()

    def why_not(self) -> str | None:
        """Return why no step may begin, None while one may. Whether the data folder is there is looked at each time."""
        if (away := home.why_away(self._settings.home)) is not None:
            return away
        return next((str(one) for one in self.short if one.out), None)

    def wait(self) -> bool:
        """Wait until there is room, and return True, or False as soon as the process is to end."""
        while not self._ending():
            if self.why_not() is None:
                return True
            time.sleep(POLL_SECONDS)
        return False

    def look(self) -> str | None:
        with self._lock:
            before, now = {one.key: one for one in self.short}, {one.key: one for one in shortages(self._settings)}
            for key, one in now.items():
                if key not in before or before[key].out != one.out:
                    self._changes.append(_notice(one, "out" if one.out else "short"))
                    if one.what == HOME:  # the database, from which others hear of it, may be in the folder
                        log.error("home.away", why=one.where)
            self._changes += [_notice(one, "enough") for key, one in before.items() if key not in now]
            self._away = next(((time.monotonic(), str(one)) for one in now.values() if one.what == HOME), self._away)
            self.short = tuple(now.values())
            why = self.why_not()
            self._held_back |= why is not None
        return why

    def why_failed(self) -> str | None:
        """Return why a step that failed now may have had no room. A data folder that is back counts for some time: what
        it broke is told late."""
        away, why = self._away
        lately = why if why and time.monotonic() - away < LATELY_SECONDS else None
        return self.look() or lately

    def _loop(self) -> None:
        said = ""
        while not self._ending():
            try:
                why = self.look()
                self._tell(go_on=why is None and self._held_back)
                said = ""
            except Exception as error:
                if (line := f"{type(error).__name__}: {getattr(error, 'orig', None) or error}") != said:
                    log.warning("room.not_told", error=line)
                said = line
            time.sleep(LOOK_SECONDS)

    def _tell(self, *, go_on: bool) -> None:
        """go_on: there is room again: all steps are sent anew, since Redis may have lost or refused their messages."""
        if not self._changes and not go_on:
            return
        changes = list(self._changes)
        with self._store().session() as session:
            for one in changes:
                _write(session, one)
            if go_on:
                step_queries.mark_unsent(session)
        with self._lock:
            for one in changes:
                log.warning("room.changed", **one.facts)
                if one in self._changes:
                    self._changes.remove(one)
            if go_on and self.why_not() is None:
                self._held_back = False


def _notice(one: Shortage, state: str) -> Notice:
    host, now = platform.node() or "localhost", utcnow()
    kind, period = NoticeKind.ROOM.value, int(now.timestamp() // NOTICE_SECONDS)
    facts = {"state": state, "what": one.what, "where": one.where, "left": one.left, "whole": one.whole}
    key = f"{kind}:{host}:{one.key}:{state}:{period}"
    return Notice(key=key, kind=kind, subject=host, facts=facts, run_id=DESK, occurred_at=now)


def _write(session: Session, one: Notice) -> None:
    if not notices.is_noted(session, one.key):
        notices.note(session, one)
        event_log.append(session, [event(EventType.DESK_ROOM, DESK, one.occurred_at, host=one.subject, **one.facts)])

"""The lives of the desk's processes, as a worker looks at them: one that the desk lacks for a while is news."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import structlog
from sqlalchemy.exc import IntegrityError

from chordesk.models import event_log, notices
from chordesk.models.events import DESK, EventType, event
from chordesk.models.notice_channels import NoticeKind
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runtime import Notice
from chordesk.tasks import life
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine.shortage_watch import NOTICE_SECONDS
from chordesk.tasks.life import Life

log = structlog.get_logger(__name__)

LOOK_SECONDS = 3.0
NEWS_SECONDS = 15.0  # supervisord starts what died anew within some, and a machine may be busy for so long
RUNS_AGAIN = life.State.RUNS.value


class LifeWatch:
    """Writes a notice and an event for a process that is frozen, dead or unreachable for NEWS_SECONDS, and for one that
    lives again. Each worker looks; the key of a notice makes it one."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._lacking: dict[str, Life] = {}
        self._due = 0.0

    def look(self) -> None:
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + LOOK_SECONDS
        found = {one.called: one for one in life.of_desk(self._desk.settings)}
        for name, one in found.items():
            known = self._lacking.get(name)
            if one.alarming and (one.seconds or 0.0) >= NEWS_SECONDS and (known is None or known.state != one.state):
                self._tell(one, one.state.value)
                self._lacking[name] = one
        for name in [name for name in self._lacking if not _lacks(found, name)]:
            self._tell(found.get(name) or self._lacking[name], RUNS_AGAIN if name in found else "gone")
            del self._lacking[name]

    def _tell(self, one: Life, state: str) -> None:
        now = utcnow()
        kind, period = NoticeKind.PROCESS.value, int(now.timestamp() // NOTICE_SECONDS)
        facts: dict[str, Any] = {"state": state, "pid": one.pid, "seconds": round(one.seconds or 0.0), "why": one.why}
        key = f"{kind}:{one.host}:{one.name}:{one.pid}:{state}:{period}"
        with suppress(IntegrityError), self._desk.store.session() as session:  # another worker told it meanwhile
            if notices.is_noted(session, key):
                return
            notice = Notice(key=key, kind=kind, subject=one.called, facts=facts, run_id=DESK, occurred_at=now)
            notices.note(session, notice)
            event_log.append(session, [event(EventType.DESK_PROCESS, DESK, now, process=one.called, **facts)])
        log.warning("life.changed", process=one.called, **facts)


def _lacks(found: Mapping[str, Life], name: str) -> bool:
    return name in found and found[name].alarming

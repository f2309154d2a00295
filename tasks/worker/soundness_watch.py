"""The database and the audit log, read again in the background of a desk at work: the quick check every ten minutes,
all of both once a day and, of the log, each hour; and once a week a backup is restored for trial.

One process does each, the one whose sweep comes first. It does so in a thread of its own, with pauses: a check of a
large database takes minutes, and the sweep must not wait for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import redis
import structlog
from sqlalchemy.exc import SQLAlchemyError

from chordesk.models.database import soundness
from chordesk.models.errors import DeskError
from chordesk.tasks.bootstrap import Desk
from chordesk.tools.orders.audit_watch import halt_if_broken

log = structlog.get_logger(__name__)

QUICK_KEY, QUICK_SECONDS = "desk:quick-check", 600
WHOLE_KEY, WHOLE_SECONDS = "desk:integrity-check", 86_400
AUDIT_KEY, AUDIT_SECONDS = "desk:audit-check", 3_600
PAUSE_SECONDS = 0.2  # between two tables
_running = threading.Lock()  # one check at a time in a process


def check_if_due(desk: Desk) -> None:
    """Begin the checks that are due in a thread; their failures are logged and retried with the next time."""
    try:
        due = [work for key, seconds, work in _WORK if desk.redis_client.set(key, desk.owner, nx=True, ex=seconds)]
    except redis.RedisError as error:
        log.warning("watch.failed", error=str(error).splitlines()[0])
        return
    if due:
        threading.Thread(target=_run, args=(desk, due), name="soundness", daemon=True).start()


def _run(desk: Desk, due: list[Callable[[Desk], None]]) -> None:
    with _running:
        for work in due:
            try:
                work(desk)
            except (DeskError, SQLAlchemyError, OSError) as error:
                log.warning("watch.failed", error=f"{type(error).__name__}: {getattr(error, 'orig', None) or error}")


def quick(desk: Desk) -> None:
    _told(soundness.watch(desk.settings))


def whole(desk: Desk) -> None:
    """A check that the end of its process cut short is made by the next one."""
    pause = soundness.paced(lambda: desk.drain.requested, PAUSE_SECONDS)
    _told(soundness.watch(desk.settings, whole=True, pause=pause))
    if desk.drain.requested:
        desk.redis_client.delete(WHOLE_KEY)


def audit_log(desk: Desk) -> None:
    """The whole log: what each pass of orders reads is the lines since the last checkpoint."""
    halt_if_broken(desk.store, desk.settings, desk.settings.account, desk.owner, whole=True)


def _told(found: soundness.Soundness) -> None:
    if found.why is not None:
        log.error("database.unsound", why=found.why)


_WORK: list[tuple[str, int, Callable[[Desk], None]]] = [
    (AUDIT_KEY, AUDIT_SECONDS, audit_log),
    (QUICK_KEY, QUICK_SECONDS, quick),
    (WHOLE_KEY, WHOLE_SECONDS, whole),
]


def also(key: str, seconds: int, work: Callable[[Desk], None]) -> None:
    """Add work of a package that workers do not import. seconds: between two looks, by whichever process is first."""
    if key not in {known for known, _, _ in _WORK}:
        _WORK.append((key, seconds, work))

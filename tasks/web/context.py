"""The parts of a desk that the routes share, and values that take long to read: workers and checks, as last asked."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any, Generic, TypeVar

import structlog
from fastapi import Depends, Request
from pydantic import Field, ValidationError

from chordesk.models.answers import Frozen
from chordesk.models.database.store import Store
from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings, running_desk
from chordesk.models.settings.running_desk import PUBLISHED, differing, snapshot, with_values
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.doctor.check import Check, CheckContext, CheckEntry, run_checks
from chordesk.tasks.events.feed import Feed
from chordesk.tasks.reading import run_parts
from chordesk.tasks.reading.desk_status import DeskStatus, WorkerRow, status, status_type
from chordesk.tasks.web.page.page_sessions import Sessions
from chordesk.tasks.worker.messages import WorkerNotifier

AGAIN = "start this service again: it then has the settings of the running desk"


@dataclass(frozen=True, slots=True)
class ServiceContext:
    """The parts of one desk for the routes. They may be used from any thread, but the feed from its loop alone."""

    desk: Desk
    feed: Feed
    notifier: WorkerNotifier
    sessions: Sessions

    @property
    def settings(self) -> Settings:
        return self.desk.settings

    @property
    def store(self) -> Store:
        return self.desk.store

    def running_desk(self) -> Settings | None:
        """None without one; they may differ from this service's. Raises SettingError, UsageError."""
        table = running_desk.read(self.settings.home)
        if not running_desk.has_settings(table):
            return None
        try:
            return with_values(self.settings, {name: table[name] for name in PUBLISHED if name in table})
        except ValidationError:
            raise UsageError("the running desk is of another version than this service", remedy=AGAIN) from None

    def differing(self, theirs: Settings | None) -> dict[str, Any]:
        ours = snapshot(self.settings)
        return {name: ours[name] for name in differing(ours, snapshot(theirs))} if theirs is not None else {}

    def require_agreement(self) -> None:
        """Raise UsageError with both values: a run would be opened with what its workers do not use."""
        theirs = self.running_desk()
        if theirs is None or not (ours := self.differing(theirs)):
            return
        has = snapshot(theirs)
        wrong = "; ".join(f"{name}={value!r}, and the running desk has {has[name]!r}" for name, value in ours.items())
        raise UsageError(f"this service was started with {wrong}", remedy=AGAIN)


def _context(request: Request) -> ServiceContext:
    found: ServiceContext = request.app.state.context
    return found


Context = Annotated[ServiceContext, Depends(_context)]


T = TypeVar("T")
OLD = 10  # an answer this many times as old as `fresh` does not count
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class KeptValue(Generic[T]):
    """What is known."""

    age: float | None  # seconds since its reading began, None like the value before the first reading has ended
    refreshing: bool  # it is being read again
    value: T | None


class Watch(Generic[T]):
    """The value as it was last read. Threads may share it; whichever finds it older than `fresh` seconds has it read
    again by a thread of its own; callers do not wait unless they pass `wait`. A reading that fails is logged, and tried
    again with the next look."""

    def __init__(self, name: str, fresh: float, read: Callable[[], T]) -> None:
        self._name, self._fresh, self._read = name, fresh, read
        self._lock = threading.Lock()
        self._known: tuple[float, T] | None = None
        self._reading: Future[None] | None = None

    def look(self, wait: float = 0.0) -> KeptValue[T]:
        """Refresh an answer that is not fresh. Without one, or with a much older one, wait up to so many seconds."""
        with self._lock:
            if self._older_than(self._fresh) and self._reading is None:
                self._reading = Future()
                # A daemon: a reading that hangs must not keep the service from ending.
                threading.Thread(target=self._refresh, args=[self._reading], name=self._name, daemon=True).start()
            reading = self._reading if self._older_than(OLD * self._fresh) else None
        if reading is not None and wait:
            with suppress(TimeoutError):
                reading.result(wait)
        return self.known()

    def known(self) -> KeptValue[T]:
        with self._lock:
            known, refreshing = self._known, self._reading is not None
        return KeptValue(time.monotonic() - known[0] if known else None, refreshing, known[1] if known else None)

    def _older_than(self, seconds: float) -> bool:
        return self._known is None or time.monotonic() - self._known[0] > seconds

    def _refresh(self, done: Future[None]) -> None:
        began = time.monotonic()
        try:
            found = self._read()
            with self._lock:
                self._known = began, found
        except Exception:
            log.exception("api.not_read", what=self._name)
        finally:
            with self._lock:
                self._reading = None
            done.set_result(None)


STATUS_FRESH_SECONDS = 5.0
DOCTOR_FRESH_SECONDS = 60.0
DOCTOR_SECONDS = 10.0  # for each check; all run at once
SLOW_FRESH_SECONDS = 3600.0

Age = Annotated[float | None, Field(ge=0, description="seconds since it was read; null before the first time")]


class KeptStatus(Frozen):
    """The state by part. refreshing: it is being read again; status: None before it was read for the first time."""

    age: Age
    refreshing: bool
    status: DeskStatus | None


@cache
def kept_status_type() -> type[KeptStatus]:
    return run_parts.widened(KeptStatus, status=status_type() | None)


class KeptWorkers(Frozen):
    """The workers that answered when they were last asked; None before that. trouble: queues that none of them serves,
    and why they could not be asked."""

    age: Age
    refreshing: bool
    workers: list[WorkerRow] | None
    turns_in_flight: int | None
    trouble: dict[str, str]


class KeptChecks(Frozen):
    """The checks as they last ended, in the order of `desk doctor`; None before that. left_out: slow checks that
    nobody has requested yet."""

    age: Age
    refreshing: bool
    checks: list[Check] | None
    left_out: list[str]


def every_check() -> tuple[CheckEntry, ...]:
    from chordesk.tasks.doctor.checklist import ALL  # a ninth of what the service has to load, and seldom asked for

    return ALL


@dataclass(frozen=True, slots=True)
class Fleet:
    """What one service knows of its desk's processes and of its surroundings."""

    status: Watch[DeskStatus]
    doctor: Watch[list[Check]]
    slow: Watch[list[Check]]

    def checks(self, *, whole: bool) -> KeptChecks:
        quick = self.doctor.look(DOCTOR_SECONDS)
        slow = self.slow.look(DOCTOR_SECONDS) if whole else self.slow.known()
        found = {one.name: one for one in (*(quick.value or ()), *(slow.value or ()))}
        return KeptChecks(
            age=quick.age,
            refreshing=quick.refreshing or slow.refreshing,
            checks=[found[one.name] for one in every_check() if one.name in found] if quick.value is not None else None,
            left_out=[one.name for one in every_check() if one.slow and one.name not in found],
        )

    def workers(self) -> KeptWorkers:
        kept: KeptValue[DeskStatus] = self.status.look()
        found = kept.value
        parts = found.trouble.items() if found is not None else ()
        return KeptWorkers(
            age=kept.age,
            refreshing=kept.refreshing,
            workers=found.workers if found is not None else None,
            turns_in_flight=found.turns_in_flight if found is not None else None,
            trouble={part: why for part, why in parts if part not in ("redis", "database")},
        )


def fleet_of(context: ServiceContext) -> Fleet:
    """Return the fleet of a service. Making one asks no worker and makes no check."""
    return Fleet(
        Watch("status", STATUS_FRESH_SECONDS, lambda: _status(context)),
        Watch("doctor", DOCTOR_FRESH_SECONDS, lambda: _checks(context)),
        Watch("slow checks", SLOW_FRESH_SECONDS, lambda: _slow_checks(context)),
    )


def _status(context: ServiceContext) -> DeskStatus:
    theirs = context.running_desk()
    settings = theirs or context.settings
    return status(settings, running=theirs is not None, app=context.notifier.app, store=context.store)


def _checks(context: ServiceContext) -> list[Check]:
    made = [replace(one, seconds=min(one.seconds, DOCTOR_SECONDS)) for one in every_check() if not one.slow]
    return run_checks(CheckContext(context.settings, context.desk), made)


def _slow_checks(context: ServiceContext) -> list[Check]:
    return run_checks(CheckContext(context.settings, context.desk), [one for one in every_check() if one.slow])


def _fleet(request: Request) -> Fleet:
    found: Fleet = request.app.state.fleet
    return found


FleetPart = Annotated[Fleet, Depends(_fleet)]

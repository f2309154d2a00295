"""The parts of a desk that the routes share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request
from pydantic import ValidationError

from chordesk.models.database.store import Store
from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings, running_desk
from chordesk.models.settings.running_desk import PUBLISHED, differing, snapshot, with_values
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.events.feed import Feed
from chordesk.tasks.web.page.sessions import Sessions
from chordesk.tasks.worker.app import WorkerNotifier

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
        """Return the settings of the `desk up` that runs on the home now; None without one. They may be others than
        those with which this service was started. Raises SettingError, UsageError."""
        table = running_desk.read(self.settings.home)
        if not running_desk.has_settings(table):
            return None
        try:
            return with_values(self.settings, {name: table[name] for name in PUBLISHED if name in table})
        except ValidationError:
            raise UsageError("the running desk is of another version than this service", remedy=AGAIN) from None

    def differing(self, theirs: Settings | None) -> dict[str, Any]:
        """Return this service's value of each setting for which the running desk has another one."""
        ours = snapshot(self.settings)
        return {name: ours[name] for name in differing(ours, snapshot(theirs))} if theirs is not None else {}

    def require_agreement(self) -> None:
        """Raise UsageError with both values when the running desk has other settings: a run would be opened with what
        its workers do not use."""
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

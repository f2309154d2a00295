"""The parts of a desk that the routes share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from models.database.store import Store
from models.settings import Settings
from tasks.bootstrap import Desk
from tasks.events.feed import Feed
from tasks.worker.notifier import WorkerNotifier


@dataclass(frozen=True, slots=True)
class ServiceContext:
    """The parts of one desk for the routes. They may be used from any thread, but the feed from its loop alone."""

    desk: Desk
    feed: Feed
    notifier: WorkerNotifier

    @property
    def settings(self) -> Settings:
        return self.desk.settings

    @property
    def store(self) -> Store:
        return self.desk.store


def _context(request: Request) -> ServiceContext:
    found: ServiceContext = request.app.state.context
    return found


Context = Annotated[ServiceContext, Depends(_context)]

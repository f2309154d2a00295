"""What the routes share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from models.settings import Settings
from models.store import Store
from tasks.bootstrap import Desk
from tasks.events.feed import Feed
from tasks.messenger import Messenger


@dataclass(frozen=True, slots=True)
class Site:
    """One desk, as the service sees it. Its parts may be used from any thread, but the feed from its loop alone."""

    desk: Desk
    feed: Feed
    messenger: Messenger

    @property
    def settings(self) -> Settings:
        return self.desk.settings

    @property
    def store(self) -> Store:
        return self.desk.store


def _site(request: Request) -> Site:
    found: Site = request.app.state.site
    return found


Here = Annotated[Site, Depends(_site)]

"""Apps as of a worker, and alerts on them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from celery import Celery

from chordesk.tasks.alerts.adding import add_alert
from chordesk.tasks.alerts.alert_pass import look_around
from chordesk.tools.alerts.keeping import Draft
from tests.tasks.worker.conftest import address as address
from tests.tasks.worker.conftest import make_app as make_app


class Watched:
    """A desk whose replay goes from day to day, with its alerts."""

    def __init__(self, app: Celery) -> None:
        self.app = app

    def on(self, day: dt.date) -> Watched:
        self.app.desk.settings = self.app.desk.settings.model_copy(update={"replay_date": day})
        return self

    def add(self, name: str, when: str, on: str | None = None, given: tuple[str, ...] = (), **more: Any) -> None:
        desk, draft = self.app.desk, Draft(name=name, when=when, on=on, by="ann", **more)
        with desk.store.session() as session:
            add_alert(session, desk.settings, draft, list(given), desk.account_market())

    def look(self) -> dict[str, int]:
        return look_around(self.app)


@pytest.fixture
def watched(make_app: Callable[..., Celery]) -> Callable[..., Watched]:
    return lambda **values: Watched(make_app(**values))

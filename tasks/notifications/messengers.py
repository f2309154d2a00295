"""Messengers of features: services on which people are written to and write back, run by the process that sends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

import structlog
from sqlmodel import Session

from chordesk.models import features
from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.models.settings.schema import MESSENGERS
from chordesk.tasks.notifications.channels import Answer, Channel

log = structlog.get_logger(__name__)
AGAIN_SECONDS = 5.0


class Wire(Protocol):
    """A channel that messages can be sent to. service: its name for people, such as Slack."""

    channel: Channel
    service: str

    def send(self, title: str, text: str) -> Answer:
        """Send one message and return what became of it; from any thread, several at once."""
        ...


class Messenger(Protocol):
    """A service of a feature in this process."""

    def wires(self) -> Sequence[Wire]:
        """Return a wire for each person who may be written to now. Asked every few seconds."""
        ...

    def run(self, stop: threading.Event, holds: Callable[[Session], bool]) -> None:
        """Work until `stop` is set, in a thread of its own. holds: whether this process is the one that sends; in a
        transaction, which is then fenced by it."""
        ...


def chosen(settings: Settings) -> dict[str, str]:
    """Return the names for people of the messengers that these settings switch on, by name."""
    return {name: one.shown for name, one in MESSENGERS.items() if getattr(settings, one.setting, None) is not None}


def run(one: Messenger, stop: threading.Event, holds: Callable[[Session], bool]) -> None:
    """Run a messenger until `stop` is set, and begin again where it fails: what it cannot do delays no notice."""
    while not stop.is_set():
        try:
            one.run(stop, holds)
            return
        except Exception:
            log.exception("notify.messenger_failed")
            stop.wait(AGAIN_SECONDS)


def built(settings: Settings, store: Store) -> list[Messenger]:
    """Raises SettingError for settings that a messenger cannot work with."""
    return [
        features.part("messengers", name, MESSENGERS[name].build, Callable)(settings, store)
        for name in chosen(settings)
    ]

"""Metrics and health of the process that sends notifications."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.tasks.notifications.sender import Sender
from chordesk.tasks.telemetry.emit import ProcessWatch, Telemetry
from chordesk.tasks.telemetry.gauges import Exporter, Reading, read_notifications

ROLE = "notify"


@contextmanager
def watched(settings: Settings, store: Store, sender: Sender, owner: str, stop: threading.Event) -> Iterator[None]:
    """Serve them while the block runs. owner: this process's name; stop: set once it is to end. Raises SettingError
    when the address cannot be had."""

    def read() -> Reading:
        with store.read() as session:
            return read_notifications(session)

    telemetry = Telemetry(settings, lambda: owner)
    watch = ProcessWatch(ROLE, lambda: telemetry, dict)
    watch.add(Exporter({"database": read}).collect)
    watch.health.stops_by(stop.is_set)
    watch.health.ready_by(sender.why_not)
    watch.serve(ROLE)
    try:
        yield
    finally:
        watch.close()
        telemetry.close()

"""Checks of the channels, and a message to try them."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from chordesk.models.answers import Frozen
from chordesk.models.settings import Settings
from chordesk.tasks.notifications.channels import Answer, Channel, channels

TRIAL_SECONDS = 30.0
TITLE = "Desk: a test"
TEXT = "A test of this channel: nothing has happened."


class Trial(Frozen):
    """What a channel answered to a test. error: None when it took the message."""

    channel: str
    service: str
    sent: bool
    error: str | None


def services(settings: Settings) -> dict[str, str]:
    """apprise's name of each channel's service. Raises SettingError. Loads apprise: for a process that ends."""
    found = channels(settings)
    from chordesk.tasks.notifications.apprise_wire import wires

    return {name: wire.service for name, wire in wires(found).items()}


def services_apart(settings: Settings) -> dict[str, str]:
    """Return the same from a process of its own, for one that lives long and does not send."""
    channels(settings)  # its errors cost no process
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(services, settings).result()


def try_out(some: Sequence[Channel]) -> list[Trial]:
    """Send a test message to each of these channels at once, and return what they answered. Raises SettingError."""
    from chordesk.tasks.notifications.apprise_wire import wires

    made, answers = wires(some), dict[str, Answer]()

    def send(name: str) -> None:
        answers[name] = made[name].send(TITLE, TEXT)

    threads = [threading.Thread(target=send, args=(name,), daemon=True) for name in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TRIAL_SECONDS)
    late = Answer(False, f"no answer within {TRIAL_SECONDS:g} s")
    found = {name: answers.get(name, late) for name in made}
    return [
        Trial(channel=name, service=made[name].service, sent=one.sent, error=one.error) for name, one in found.items()
    ]


def preflight(settings: Settings) -> None:
    if settings.notify_channels is not None:
        services_apart(settings)

"""`desk notify` with its subcommands: the process that sends, the test of channels, and the record."""

from __future__ import annotations

import os
import socket
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from chordesk.models.database.store import Store, require_current
from chordesk.models.settings import Settings
from chordesk.tasks.cli.notifications import listing
from chordesk.tasks.cli.output import emit, print_line, table
from chordesk.tasks.cli.services.processes import forget_credentials
from chordesk.tasks.cli.shell import Json, checked
from chordesk.tasks.notifications import channels, checking
from chordesk.tasks.notifications.checking import Trial
from chordesk.tasks.services import signals
from chordesk.tasks.worker import logs

if TYPE_CHECKING:
    from chordesk.tasks.notifications.sender import Sender

NOT_SENT = 1
Name = Annotated[str | None, typer.Argument(metavar="CHANNEL", help="One channel; all of them by default.")]

HELP = "Notifications of people: send them, test the channels, show what was sent."
commands = typer.Typer(name="notify", help=HELP, no_args_is_help=True)
commands.command("list")(listing.list_)
commands.command("channels")(listing.overview)


@commands.command()
def run() -> None:
    """Send notifications in the foreground; a second process waits until the first one ends."""
    forget_credentials()
    settings = checked().settings
    logs.configure(settings)
    found = channels.channels(settings)
    # Loaded here: no other process has use for the library.
    from chordesk.tasks.notifications.sender import Sender
    from chordesk.tasks.notifications.wire import wires

    made = wires(found)
    require_current(settings.database)
    owner = f"notify@{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
    names = ", ".join(f"{name} ({wire.service})" for name, wire in made.items())
    stop = threading.Event()
    with closing(Store(settings.database)) as store:
        sender = Sender(store, settings, made, owner)
        with _watched(settings, store, sender, owner, stop), ThreadPoolExecutor(1, "notify") as pool, signals.raised():
            print_line(f"sending to {names}")
            # Not in this thread: a stop signal must not end a transaction in the middle.
            sending = pool.submit(sender.run, stop)
            try:
                sending.result()
            finally:
                stop.set()


def _watched(
    settings: Settings, store: Store, sender: Sender, owner: str, stop: threading.Event
) -> AbstractContextManager[None]:
    """Return a block with metrics and health, if a port is set for them."""
    if not settings.metrics_port:
        return nullcontext()
    from chordesk.tasks.cli.notifications.watching import watched  # it loads the client library

    return watched(settings, store, sender, owner, stop)


@commands.command("test")
def try_out(channel: Name = None, as_json: Json = False) -> None:
    """Send a test message to each channel and print what it answered; exit code 1 when one did not take it."""
    settings = checked().settings
    some = channels.chosen(channels.channels(settings), channel)
    found = checking.try_out(some)
    emit(found, lambda rows: table(("Channel", "Service", "Answer"), [_row(one) for one in rows]), as_json=as_json)
    if not all(one.sent for one in found):
        raise typer.Exit(NOT_SENT)


def _row(one: Trial) -> tuple[str, str, str]:
    return one.channel, one.service, "sent" if one.sent else f"not sent: {one.error}"

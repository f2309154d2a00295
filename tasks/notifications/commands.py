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
from rich.console import Group, RenderableType
from rich.text import Text

from chordesk.models.settings import Settings
from chordesk.tasks.cli.output import emit, paragraph, print_line, table
from chordesk.tasks.cli.processes import configured, forget_credentials
from chordesk.tasks.cli.shell import Json, checked, looks, opened

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from chordesk.models.database.store import Store
    from chordesk.models.tables.runtime import Notification
    from chordesk.tasks.notifications.channel_checks import Trial
    from chordesk.tasks.notifications.messengers import Wire
    from chordesk.tasks.notifications.outbox import ChannelRow, NotificationsState

NOTHING = "nothing was sent yet"
NO_CHANNEL = "no process has sent yet: set DESK_NOTIFY_CHANNELS and start `desk up`, or `desk notify run`"


@looks("nothing was sent yet")
def list_(
    channel: Annotated[str | None, typer.Option(help="To this channel.")] = None,
    limit: Annotated[int, typer.Option(help="How many.", min=1, max=1000)] = 20,
    as_json: Json = False,
) -> None:
    """List messages, the newest first: sent, waiting, merged or given up."""
    from chordesk.tasks.notifications import outbox

    with opened()[1].read() as session:
        rows = outbox.sent(session, limit, channel)
    emit(rows, lambda _: _messages(rows) if rows else NOTHING, as_json=as_json)


def overview(as_json: Json = False) -> None:
    """Show the channels, without their URLs, and how each one stands."""
    from chordesk.tasks.notifications import outbox

    with opened()[1].read() as session:
        found = outbox.state(session)
    emit(found, lambda _: _overview(found) if found.channels else NO_CHANNEL, as_json=as_json)


def status_lines(found: NotificationsState) -> RenderableType | None:
    """Return what `desk status` says of channels: those with a failure, and that no process sends."""
    if not found.channels:
        return None
    parts: list[RenderableType] = []
    if not found.sending:
        parts.append(Text(f"notifications: no process sends; {found.untaken} events wait", style="yellow"))
    for one in found.channels:
        if one.given_up or one.error:
            why = f" ({paragraph(one.error)})" if one.error else ""
            counts = f"{one.waiting} wait, {one.given_up} given up in 24 h"
            parts.append(Text(f"notifications to {one.name}: {counts}{why}", style="yellow"))
    return Group(*parts) if parts else None


def _messages(rows: Sequence[Notification]) -> RenderableType:
    columns = ("When (UTC)", "Channel", "State", "Attempts", "Message")
    return table(columns, [_message(row) for row in rows])


def _message(row: Notification) -> tuple[str, ...]:
    from chordesk.models.notice_channels import NotificationState

    state = f"{row.state} ({row.held})" if row.held else row.state
    text = paragraph(f"{row.title.removeprefix('Desk: ')}. {row.text}", 160)
    failed = f" [{paragraph(row.error, 120)}]" if row.error and row.state != NotificationState.SENT else ""
    when = row.sent_at or row.created_at
    return f"{when:%Y-%m-%d %H:%M:%S}", row.channel, state, str(row.attempts), f"{text}{failed}"


def _overview(found: NotificationsState) -> RenderableType:
    columns = ("Channel", "Service", "Kinds", "Quiet", "Waiting", "Sent (24 h)", "Given up (24 h)", "Last sent (UTC)")
    rows = table(columns, [_channel(one) for one in found.channels])
    failing = [Text(f"{one.name}: {paragraph(one.error)}", style="yellow") for one in found.channels if one.error]
    line = "a process sends" if found.sending else "no process sends: start `desk up`, or `desk notify run`"
    return Group(rows, *failing, Text(line, style="" if found.sending else "yellow"))


def _channel(one: ChannelRow) -> tuple[str, ...]:
    from chordesk.models.notice_channels import NoticeKind

    kinds = "all" if set(NoticeKind) <= set(one.kinds) else ", ".join(one.kinds)
    last = f"{one.last_sent_at:%Y-%m-%d %H:%M:%S}" if one.last_sent_at is not None else ""
    counts = (str(one.waiting), str(one.sent), str(one.given_up))
    return (one.name, one.service, kinds, one.quiet or "", *counts, last)


if TYPE_CHECKING:
    from collections.abc import Sequence

    from chordesk.tasks.notifications.sender import Sender

NOT_SENT = 1
Name = Annotated[str | None, typer.Argument(metavar="CHANNEL", help="One channel; all of them by default.")]


commands = typer.Typer(
    name="notify", help="Notify people: send, test the channels, show what was sent.", no_args_is_help=True
)
commands.command("list")(list_)
commands.command("channels")(overview)


@commands.command()
def run() -> None:
    """Send notifications and run messengers in the foreground; a second process waits."""
    from chordesk.models.database.store import Store, require_current
    from chordesk.models.settings.schema import MESSENGERS
    from chordesk.tasks.notifications import channels, messengers
    from chordesk.tasks.running_processes import present
    from chordesk.tasks.services import stop_signals

    forget_credentials()
    settings = configured("notify_channels", *(name for one in MESSENGERS.values() for name in one.settings))
    on = messengers.chosen(settings)
    made: Mapping[str, Wire] = {}
    if settings.notify_channels is not None or not on:
        found = channels.channels(settings)
        # Loaded here: no other process has use for the library.
        from chordesk.tasks.notifications.apprise_wire import wires

        made = wires(found)
    from chordesk.tasks.notifications.sender import Sender

    require_current(settings.database)
    owner = f"notify@{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
    names = ", ".join((*(f"{name} ({wire.service})" for name, wire in made.items()), *on.values()))
    stop = threading.Event()
    with closing(Store(settings.database)) as store, present(settings, "notify"):
        running = messengers.built(settings, store)
        sender = Sender(store, settings, made, owner, running)
        with (
            _watched(settings, store, sender, owner, stop),
            ThreadPoolExecutor(1 + len(running), "notify") as pool,
            stop_signals.raised(),
        ):
            print_line(f"sending to {names}")
            # Not in this thread: a stop signal must not end a transaction in the middle.
            sending = pool.submit(sender.run, stop)
            for one in running:
                pool.submit(messengers.run, one, stop, sender.holds)
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
    from chordesk.tasks.notifications.watching import watched  # it loads the client library

    return watched(settings, store, sender, owner, stop)


@commands.command("test")
def try_out(channel: Name = None, as_json: Json = False) -> None:
    """Send a test message to each channel; exit code 1 when one fails."""
    from chordesk.tasks.notifications import channel_checks, channels

    settings = checked().settings
    some = channels.chosen(channels.channels(settings), channel)
    found = channel_checks.try_out(some)
    emit(found, lambda rows: table(("Channel", "Service", "Answer"), [_row(one) for one in rows]), as_json=as_json)
    if not all(one.sent for one in found):
        raise typer.Exit(NOT_SENT)


def _row(one: Trial) -> tuple[str, str, str]:
    return one.channel, one.service, "sent" if one.sent else f"not sent: {one.error}"

"""`desk notify list` and `desk notify channels`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from chordesk.models.notifications import NoticeKind, NotificationState
from chordesk.tasks.cli.output import emit, paragraph, table
from chordesk.tasks.cli.shell import Json, opened
from chordesk.tasks.notifications import messages
from chordesk.tasks.notifications.messages import ChannelRow, NotificationsState, Sent

NOTHING = "nothing was sent yet"
NO_CHANNEL = "no process has sent yet: set DESK_NOTIFY_CHANNELS and start `desk up`, or `desk notify run`"


def list_(
    channel: Annotated[str | None, typer.Option(help="To this channel.")] = None,
    limit: Annotated[int, typer.Option(help="How many.", min=1, max=1000)] = 20,
    as_json: Json = False,
) -> None:
    """List messages, the newest first: what was sent, waits, was merged into another one, or was given up."""
    with opened()[1].read() as session:
        rows = messages.sent(session, limit, channel)
    emit(rows, lambda _: _messages(rows) if rows else NOTHING, as_json=as_json)


def overview(as_json: Json = False) -> None:
    """Show the channels as the process that sends has them, without their URLs, and how each one stands."""
    with opened()[1].read() as session:
        found = messages.state(session)
    emit(found, lambda _: _overview(found) if found.channels else NO_CHANNEL, as_json=as_json)


def _messages(rows: list[Sent]) -> RenderableType:
    columns = ("When (UTC)", "Channel", "State", "Attempts", "Message")
    return table(columns, [_message(row) for row in rows])


def _message(row: Sent) -> tuple[str, ...]:
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
    kinds = "all" if len(one.kinds) == len(NoticeKind) else ", ".join(one.kinds)
    last = f"{one.last_sent_at:%Y-%m-%d %H:%M:%S}" if one.last_sent_at is not None else ""
    counts = (str(one.waiting), str(one.sent), str(one.given_up))
    return (one.name, one.service, kinds, one.quiet or "", *counts, last)

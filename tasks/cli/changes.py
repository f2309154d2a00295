"""`desk changes`: what changed on the account since somebody last looked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from chordesk.tasks.cli.output import emit, paragraph, table
from chordesk.tasks.cli.shell import Json, looks, opened

if TYPE_CHECKING:
    from chordesk.tasks.reading.changes import Changes

commands = typer.Typer()


@commands.command("changes")
@looks("nothing has changed", as_json="null")
def changes(
    since: Annotated[
        str | None, typer.Option(help="90m, 6h, 2d, 1w, a day, or a time; else the exchange's last close.")
    ] = None,
    account: Annotated[str | None, typer.Option(help="An account; else the desk's.")] = None,
    most: Annotated[int, typer.Option("--limit", help="How many, the newest first.", min=1, max=1000)] = 40,
    as_json: Json = False,
) -> None:
    """Show what changed since you looked: runs, orders, ratings, money.

    Also fills, theses, plans, halts, settings, and tokens that were spent.
    """
    from chordesk.models.tables.columns import utcnow
    from chordesk.tasks.reading.accounts import find_account
    from chordesk.tasks.reading.changes import changes as read
    from chordesk.tasks.reading.changes import since_of

    settings, store = opened()
    begun = since_of(since, settings, utcnow())
    with store.read() as session:
        found = read(session, settings, find_account(session, settings, account or settings.account), begun, most)
    emit(found, lambda seen: _shown(seen, settings.exchange), as_json=as_json)


def _shown(found: Changes, exchange: str) -> RenderableType:
    from chordesk.models.exchanges import at_exchange, zone_of
    from chordesk.tasks.reading.changes import summary

    rows = [
        (f"{one.at.astimezone(zone_of(exchange)):%m-%d %H:%M}", one.kind, paragraph(one.text)) for one in found.changes
    ]
    lines: list[RenderableType] = [Text(summary(found, at_exchange(found.since, exchange)))]
    if rows:
        lines.append(table(("When", "What", "Change"), rows, narrow="Change"))
    if (left := sum(found.counts.values()) - len(found.changes)) > 0:
        lines.append(Text(f"and {left} more: desk changes --limit {len(found.changes) + left}"))
    return Group(*lines)

"""`desk watchlist`: named lists of symbols, for alerts."""

from __future__ import annotations

from typing import Annotated

import typer

from chordesk.models.text import one_line, utc_seconds
from chordesk.tasks.cli.output import emit, print_line, table
from chordesk.tasks.cli.shell import Json, looks, opened, whoami

commands = typer.Typer(name="watchlist", help="Named lists of symbols, for alerts.", no_args_is_help=True)
NOTHING = "no watch list yet"
Name = Annotated[str, typer.Argument(help="Name of the list, such as tech.")]


@commands.command("list")
@looks(NOTHING)
def list_(as_json: Json = False) -> None:
    """List the watch lists with their symbols."""
    from chordesk.tools.alerts.keeping import watchlists

    _, store = opened()
    with store.read() as session:
        rows = list(watchlists(session))
    plain = [row.model_dump(mode="json") for row in rows]
    cells = [
        (
            row.name,
            str(len(row.symbols)),
            one_line(", ".join(row.symbols), 80),
            f"{row.by}, {utc_seconds(row.changed_at)}",
        )
        for row in rows
    ]
    heads = ("List", "Symbols", "", "By")
    emit(plain, lambda _: table(heads, cells) if rows else f"{NOTHING}: desk watchlist add tech AAPL", as_json=as_json)


@commands.command()
def add(
    name: Name, symbols: Annotated[list[str], typer.Argument(help="Symbols; the list is made if there is none.")]
) -> None:
    """Add symbols to a list, or begin it."""
    from chordesk.tasks.bootstrap import Desk
    from chordesk.tools.alerts.keeping import watch

    settings, store = opened()
    with store.session() as session:
        row, again = watch(session, settings, name, symbols, whoami(), Desk(settings, "cli").account_market())
    had = f"; it had {one_line(', '.join(again), 80)} already" if again else ""
    print_line(f"{name} has {len(row.symbols)} symbol{'s' * (len(row.symbols) != 1)}{had}")


@commands.command()
def remove(
    name: Name, symbols: Annotated[list[str] | None, typer.Argument(help="Symbols; without any the whole list.")] = None
) -> None:
    """Remove symbols from a list, or the list."""
    from chordesk.tools.alerts.keeping import unwatch

    settings, store = opened()
    with store.session() as session:
        left = unwatch(session, settings, name, symbols or [], whoami())
    print_line(f"{name} has {len(left.symbols)} symbols" if left is not None else f"{name} is removed")

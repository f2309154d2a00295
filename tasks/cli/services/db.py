"""`desk db`: the database's migrations."""

from __future__ import annotations

import typer

from chordesk.models.database import store
from chordesk.models.settings.sources import load_settings
from chordesk.models.urls import masked
from chordesk.tasks.cli.output import emit, print_line
from chordesk.tasks.cli.shell import Json

NOT_CURRENT = 1

commands = typer.Typer(name="db", help="The database and its migrations.", no_args_is_help=True)


@commands.command()
def upgrade() -> None:
    """Bring the database to this version's schema."""
    settings = load_settings()
    before, _ = store.current(settings.database)
    store.upgrade(settings.database)
    after, _ = store.current(settings.database)
    done = "is up to date" if before == after else f"went from revision {before or 'none'} to {after}"
    print_line(f"{masked(settings.database)} {done}")


@commands.command()
def current(as_json: Json = False) -> None:
    """Show the database's revision and the newest one; exit code 1 when they differ."""
    settings = load_settings()
    found, newest = store.current(settings.database)
    plain = {"database": masked(settings.database), "revision": found, "newest": newest}
    text = f"{plain['database']}: revision {found or 'none'}, newest {newest}"
    emit(plain, lambda _: text, as_json=as_json)
    if found != newest:
        raise typer.Exit(NOT_CURRENT)

"""`desk db`: the database's migrations."""

from __future__ import annotations

from typing import Annotated

import typer

from models import store
from models.setting_sources import load_settings
from models.urls import masked
from tasks.cli.output import console, print_json

NOT_CURRENT = 1


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="The database and its migrations.", no_args_is_help=True)
    group.command("upgrade")(upgrade)
    group.command("current")(current)
    app.add_typer(group, name="db")


def upgrade() -> None:
    """Bring the database to this version's schema."""
    settings = load_settings()
    before, _ = store.current(settings.database)
    store.upgrade(settings.database)
    after, _ = store.current(settings.database)
    done = "is up to date" if before == after else f"went from revision {before or 'none'} to {after}"
    console().print(f"{masked(settings.database)} {done}", highlight=False)


def current(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show the database's revision and the newest one; exit code 1 when they differ."""
    settings = load_settings()
    found, newest = store.current(settings.database)
    if as_json:
        print_json({"database": masked(settings.database), "revision": found, "newest": newest})
    else:
        out = console()
        out.print(f"{masked(settings.database)}: revision {found or 'none'}, newest {newest}", highlight=False)
    if found != newest:
        raise typer.Exit(NOT_CURRENT)

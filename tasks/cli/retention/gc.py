"""`desk gc`: delete what the policy of retention no longer keeps, count it, or measure what is kept."""

from __future__ import annotations

import contextlib
import datetime as dt
from typing import Annotated

import typer

from chordesk.models.database.store import Store, free_bytes, vacuum
from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import is_up
from chordesk.models.tables.columns import utcnow
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.cli.output import emit, print_line, warn
from chordesk.tasks.cli.retention.tables import amounts_table, bytes_text, sizes_tables
from chordesk.tasks.cli.shell import Json, opened
from chordesk.tasks.retention import collection
from chordesk.tasks.retention.amounts import measure
from chordesk.tasks.retention.policy import policy_of

NAME = "gc"

commands = typer.Typer()


@commands.command()
def gc(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count what would go, and change nothing.")] = False,
    older_than: Annotated[
        float | None, typer.Option(help="Days, in place of every age of the settings; at least 1.", min=1)
    ] = None,
    sizes: Annotated[
        bool, typer.Option("--sizes", help="Measure the database and the pictures instead: bytes of each kind.")
    ] = False,
    give_back: Annotated[
        bool, typer.Option("--vacuum", help="Then give free space of SQLite's file back to the disk; the desk is down.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Delete what is older than the settings keep: runs, events, rollouts, pictures; never what an order or a score
    rests on. A desk at work does so by itself, and may go on meanwhile."""
    settings, store = opened()
    if sizes:
        found = measure(store, settings.home)
        emit(found, lambda _: sizes_tables(found), as_json=as_json)
        return
    if give_back and not dry_run:
        _require_vacuum(settings, store)
    age = dt.timedelta(days=older_than) if older_than is not None else None
    policy = policy_of(settings, utcnow(), age)
    with contextlib.closing(Desk(settings, NAME, records=False)) as desk:
        done = collection.due(desk, policy) if dry_run else collection.collect(desk, policy)
    emit(done, lambda _: amounts_table(done.amounts, dry_run=dry_run), as_json=as_json)
    warn(f"not looked at: {text}" for text in done.skipped)
    if not dry_run and not as_json:
        _report_space(store, give_back)


def _require_vacuum(settings: Settings, store: Store) -> None:
    if not store.is_sqlite:
        raise UsageError(
            "--vacuum is for SQLite; Postgres's autovacuum makes the space of deleted rows free for new ones by itself",
            remedy="to give it back to the disk: VACUUM (FULL) in psql, which locks each table meanwhile",
        )
    if is_up(settings.home):
        raise UsageError(
            "--vacuum writes the whole database anew, and no worker could write meanwhile", remedy="stop the desk first"
        )


def _report_space(store: Store, give_back: bool) -> None:
    if not store.is_sqlite:
        print_line("Postgres's autovacuum makes the space of deleted rows free for new ones; its files do not shrink")
    elif give_back:
        print_line(f"{bytes_text(vacuum(store))} given back to the disk")
    else:
        free = bytes_text(free_bytes(store) or 0)
        print_line(f"{free} of the database are free for new rows; `desk gc --vacuum` gives them back to the disk")

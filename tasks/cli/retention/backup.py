"""`desk backup` and `desk restore`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from pydantic import SecretStr

from chordesk.models.database.store import Store, require_current
from chordesk.models.settings import Settings
from chordesk.models.settings.sources import load_settings
from chordesk.tasks.backup.making import Made
from chordesk.tasks.backup.making import backup as back_up
from chordesk.tasks.backup.restoring import Restored
from chordesk.tasks.backup.restoring import restore as bring_back
from chordesk.tasks.cli.output import emit, warn
from chordesk.tasks.cli.retention.tables import bytes_text
from chordesk.tasks.cli.services.version import version
from chordesk.tasks.cli.shell import Json, whoami

commands = typer.Typer()


@commands.command()
def backup(
    place: Annotated[str, typer.Argument(help="A new folder, or an fsspec address such as s3://BUCKET/NAME.")],
    as_json: Json = False,
) -> None:
    """Back the desk up as of one point in time while it works: database, audit log, HALT file, pictures, rollouts."""
    settings = load_settings()
    require_current(settings.database)
    store = Store(settings.database)
    try:
        made = back_up(settings, store, place, version())
    finally:
        store.close()
    emit(made, lambda _: _made(made), as_json=as_json)
    warn(f"the audit log was not whole already: {one}" for chain in made.manifest.chains for one in chain.problems[:1])
    warn(f"not in this data folder, so not in the backup: {name}" for name in made.manifest.missing[:_MOST])
    warn(f"{path} is what a killed backup left: remove it, unless another machine writes it" for path in made.leftovers)


@commands.command()
def restore(
    place: Annotated[str, typer.Argument(help="The folder or fsspec address of a backup.")],
    into: Annotated[
        str | None,
        typer.Option(
            help="An empty data folder, or the URL of an empty Postgres database; those of the settings by default."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Restore a backup into an empty place and verify it; the desk there is halted until a person resumes it."""
    done = bring_back(_target(load_settings(), into), place, whoami())
    emit(done, lambda _: _restored(done, into), as_json=as_json)


_MOST = 5


def _target(settings: Settings, into: str | None) -> Settings:
    """Return the settings of the place to restore to. Raises SettingError."""
    if into is None:
        return settings
    if "://" in into:
        return settings.model_copy(update={"database_url": SecretStr(into)})
    return settings.model_copy(update={"home": Path(into).expanduser().absolute(), "database_url": None})


def _made(made: Made) -> str:
    found = made.manifest
    lines = sum(chain.lines for chain in found.chains if chain.included)
    return "\n".join((
        f"{made.place}: the desk as of {found.at:%Y-%m-%d %H:%M:%S} UTC, schema {found.revision}",
        f"{found.runs:,} runs, {found.open_runs} of them open, {found.orders:,} orders, {lines:,} lines of the audit "
        f"log; {len(found.files):,} files, {bytes_text(made.bytes)}",
        *(f"not in it: {text}" for text in found.left_out),
    ))  # fmt: skip


def _restored(done: Restored, into: str | None) -> str:
    found = done.manifest
    upgraded = f", upgraded from schema {done.upgraded_from}" if done.upgraded_from else ""
    shell = f"DESK_HOME={done.home} " if into is not None and "://" not in into else ""
    mandates = f"mandates taken back: {', '.join(map(str, done.disarmed))}; " if done.disarmed else ""
    elsewhere = [chain.place for chain in found.chains if not chain.included]
    return "\n".join((
        f"{done.home}: the desk as of {found.at:%Y-%m-%d %H:%M:%S} UTC{upgraded}; {found.runs:,} runs, "
        f"{found.open_runs} of them open, {found.orders:,} orders",
        f"verified: {len(found.files):,} files, {done.lines:,} lines of the audit log, the lineage of every order",
        f"{mandates}HALTED: {', '.join(done.halted)}. Orders may have been sent after that time. Next:",
        *(f"  bring back the audit log of {place}" for place in elsewhere),
        "  keep TRADER_LIVE off, and see that the old desk is down for good",
        f"  {shell}desk up           # in a terminal of its own; open runs go on, and send no order",
        f"  {shell}desk reconcile    # with each broker: what it has and this desk does not know",
        f"  {shell}desk resume       # once they agree, each account by itself; real money needs `desk arm` anew",
    ))  # fmt: skip

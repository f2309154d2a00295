"""`desk stop`: end a run now, with all its turns."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Annotated

import typer

from models.errors import RedisDown, UsageError
from models.setting_sources import load_settings
from models.settings import Settings
from models.store import Store, require_current
from tasks.cli.output import console, print_json
from tasks.messenger import Messenger
from tasks.run_view import find_run
from tasks.stopping import Stop, stop_runs, unfinished
from tasks.telemetry.commits import telling

MARGIN_SECONDS = 6.0  # past a lease: what is held by a dead worker ends with its lease


def register(app: typer.Typer) -> None:
    app.command()(stop)


def stop(
    runs: Annotated[list[str] | None, typer.Argument(help="Ids of runs, or the beginning of each.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every run that has not ended.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Stop runs: interrupt their turns, submit nothing of them, and say when nothing of them runs any more."""
    if bool(runs) == every:
        raise UsageError("name a run, or give --all", remedy="`desk runs list` shows the runs; --all stops every one")
    settings = load_settings()
    require_current(settings.database)
    store = Store(settings.database)
    with store.read() as session:
        named = [find_run(session, run).id for run in runs or []]
        ids = unfinished(session) if every else list(dict.fromkeys(named))
    with telling(settings, store, "stop"):
        found = stop_runs(store, settings, ids, _teller(settings), settings.lease_seconds + MARGIN_SECONDS)
    if as_json:
        print_json([dataclasses.asdict(each) for each in found])
    elif not found:
        console().print("no run is going on")
    for each in found if not as_json else ():
        console().print(describe(each), highlight=False, soft_wrap=True)
    raise typer.Exit(0 if all(each.over for each in found) else 1)


def describe(stop: Stop) -> str:
    """What became of one run, as a sentence."""
    if stop.was == stop.state and stop.over:
        return f"run {stop.run_id} had ended already: {stop.was}"
    done = f"{stop.waiting} steps had not begun, {stop.interrupted} were interrupted"
    if stop.over:
        return f"run {stop.run_id} {stop.state} after {stop.seconds:.1f} s: {done}"
    return (
        f"run {stop.run_id} is still stopping after {stop.seconds:.1f} s: {stop.left} steps are held by workers that "
        f"do not let go; it ends with their leases, see: desk runs show {stop.run_id}"
    )


def _teller(settings: Settings) -> Callable[[list[str]], None]:
    """Hands ids to the workers; without Redis they find the mark in the database by themselves."""
    messenger = Messenger(settings)

    def tell(ids: list[str]) -> None:
        try:
            messenger.stop(ids)
        except RedisDown as error:
            typer.echo(f"{error.args[0]}; workers find out within {settings.lease_seconds / 3:g} s", err=True)

    return tell

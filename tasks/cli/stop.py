"""`desk stop`: end a run now, with all its turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, NoReturn

import typer

from chordesk.models.database.store import Store
from chordesk.models.errors import RedisDown, UsageError
from chordesk.models.settings import Settings
from chordesk.tasks.cli.output import emit
from chordesk.tasks.cli.shell import Json, opened, whoami
from chordesk.tasks.telemetry.commits import emitted
from chordesk.tasks.views.run_view import find_run
from chordesk.tasks.worker.app import WorkerNotifier
from chordesk.tasks.worker.stopping import Stop, stop_runs, unfinished
from chordesk.tasks.workflows.episode.rounds import stop_voice

MARGIN_SECONDS = 6.0  # past a lease: what is held by a dead worker ends with its lease

commands = typer.Typer()


@commands.command()
def stop(
    runs: Annotated[list[str] | None, typer.Argument(help="Ids of runs, or the beginning of each.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every run that has not ended.")] = False,
    voice: Annotated[
        str | None, typer.Option(help="Only this voice of the run's board, such as weaver; the others go on.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Stop runs: interrupt their turns, submit none of their orders, and wait until nothing of them runs any more."""
    if bool(runs) == every:
        raise UsageError("name a run, or give --all", remedy="`desk runs list` shows the runs; --all stops every one")
    settings, store = opened()
    if voice is not None:
        _stop_voice(settings, store, runs or [], voice, as_json=as_json)
    with store.read() as session:
        named = [find_run(session, run).id for run in runs or []]
        ids = unfinished(session) if every else list(dict.fromkeys(named))
    with emitted(settings, store, "stop"):
        found = stop_runs(store, settings, ids, _notifier(settings), settings.lease_seconds + MARGIN_SECONDS)
    emit(found, lambda _: "\n".join(map(describe, found)) or "no run is active", as_json=as_json)
    raise typer.Exit(0 if all(each.over for each in found) else 1)


def _stop_voice(settings: Settings, store: Store, runs: Sequence[str], voice: str, *, as_json: bool) -> NoReturn:
    """Stop one voice of one run, and end the command."""
    if len(runs) != 1:
        raise UsageError("--voice goes with one run", remedy="name the run whose voice it is")
    with store.read() as session:
        run_id = find_run(session, runs[0]).id
    notifier = WorkerNotifier(settings)
    found = stop_voice(store, run_id, voice, whoami(), notifier.interrupt, settings.lease_seconds + MARGIN_SECONDS)
    turns = ", ".join(f"turn {turn} of thread {thread}" for thread, turn in found.interrupted) or "no turn was running"
    end = f"stopped after {found.seconds:.1f} s" if found.over else "is still held by its worker"
    emit(found, lambda _: f"{voice} of run {run_id} {end}: {turns}", as_json=as_json)
    raise typer.Exit(0 if found.over else 1)


def describe(stop: Stop) -> str:
    """Return the outcome for one run as a sentence."""
    if stop.was == stop.state and stop.over:
        return f"run {stop.run_id} had already ended: {stop.was}"
    done = f"{stop.waiting} steps had not begun, {stop.interrupted} were interrupted"
    if stop.over:
        return f"run {stop.run_id} {stop.state} after {stop.seconds:.1f} s: {done}"
    return (
        f"run {stop.run_id} is still stopping after {stop.seconds:.1f} s: {stop.left} steps are still held by "
        f"workers; it ends when their leases expire, see: desk runs show {stop.run_id}"
    )


def _notifier(settings: Settings) -> Callable[[list[str]], None]:
    """Return a function that sends run ids to the workers; without Redis they find the mark in the database."""
    notifier = WorkerNotifier(settings)

    def notify(ids: list[str]) -> None:
        try:
            notifier.stop(ids)
        except RedisDown as error:
            typer.echo(f"{error.args[0]}; workers notice it within {settings.lease_seconds / 3:g} s", err=True)

    return notify

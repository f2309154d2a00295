"""Commands about runs: `desk runs`, `desk watch`, `desk stop` and `desk report`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from chordesk.models.errors import DeskError, UsageError
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import standing_of_run
from chordesk.models.settings.sources import load_settings
from chordesk.models.states import RunState
from chordesk.models.text import inert, json_shown
from chordesk.tasks.cli.output import console, emit, print_line
from chordesk.tasks.cli.shell import Json, OneRun, day_of, looks, opened, run_of, standing_line, whoami

if TYPE_CHECKING:
    from chordesk.models.database.store import Store
    from chordesk.models.events import Envelope
    from chordesk.tasks.bootstrap import Desk
    from chordesk.tasks.events.feed import Feed
    from chordesk.tasks.reading.run_details import RunDetail
    from chordesk.tasks.reading.run_list import RunRow
    from chordesk.tasks.reports.report_schema import Document, Format
    from chordesk.tasks.worker.control import Stop

commands = typer.Typer()


runs_commands = typer.Typer(name="runs", help="List runs and show their results.", no_args_is_help=True)


@runs_commands.command("list")
@looks("no runs yet")
def list_runs(
    limit: Annotated[int, typer.Option(help="How many, the newest first.", min=1, max=1000)] = 20,
    kind: Annotated[str | None, typer.Option(help="Only of this kind, such as screen.")] = None,
    state: Annotated[RunState | None, typer.Option(help="Only in this state.")] = None,
    every: Annotated[bool, typer.Option("--all", help="With the runs that another run opened on past days.")] = False,
    as_json: Json = False,
) -> None:
    """List runs, the newest first."""
    from chordesk.tasks.cli.show.run_display import run_list
    from chordesk.tasks.reading.run_list import RunFilter, run_page

    settings, store = opened()
    with store.read() as session:
        runs: Sequence[RunRow] = run_page(session, settings, RunFilter(kind, state, with_children=every), limit).runs
        if as_json:  # as GET /runs answers; the table has no room for it
            from chordesk.tasks.reading.run_details import listed

            runs = listed(session, runs)
    narrowed = kind is not None or state is not None
    nothing = "no such runs" if narrowed else "no runs yet; start one with: desk screen"
    emit(runs, lambda found: run_list(found) if found else nothing, as_json=as_json)


@runs_commands.command()
@looks("no run yet", as_json="null")
def show(
    run: OneRun = None,
    symbol: Annotated[str | None, typer.Option("--lineage", help="Show the lineage of this symbol's orders.")] = None,
    as_json: Json = False,
) -> None:
    """Show a run: candidates, verdicts, actions; or the lineage of one symbol."""
    from chordesk.tasks.cli.show.order_display import lineage_report
    from chordesk.tasks.reading.chain import chain
    from chordesk.tasks.reading.run_details import detail

    settings, store = opened()
    with store.read() as session:
        row = run_of(session, run)
        if symbol is not None:
            emit(chain(session, row, symbol), partial(lineage_report, home=settings.home), as_json=as_json)
            return
        whole = detail(session, settings, row)
    emit(whole, partial(_report, settings.home), as_json=as_json)


def _report(home: Path, run: RunDetail) -> RenderableType:
    from chordesk.tasks.cli.show.results import grounding_report
    from chordesk.tasks.cli.show.run_display import (
        artifacts_report,
        attempts_report,
        conversations_report,
        document_line,
        progress_line,
        run_report,
        shown_parts,
    )

    pictures = artifacts_report(run.artifacts, home)
    grounding = grounding_report(run.grounded)
    parts = [
        run_report(run, home),
        grounding,
        pictures,
        *shown_parts(run, "detail"),
        conversations_report(run.conversations),
        attempts_report(run.steps),
        document_line(run.document),
    ]
    waits = [Text(inert(str(one)), style="yellow") for one in run.progress.waits]
    first = [] if run.progress.final else [Text(progress_line(run.progress))]
    return Group(*first, *waits, *(part for part in parts if part is not None))


@runs_commands.command("adopt")
def adopt_run(
    run: Annotated[str, typer.Argument(help="A run's id or the beginning of it.")],
    model: Annotated[str, typer.Option(help="The model: rulebook, codex:NAME, endpoint:NAME or local:NAME.")],
    as_json: Json = False,
) -> None:
    """Let a run go on with another model, of this desk.

    For a run that waits for a worker with its model. The audit log has who did it.
    """
    from chordesk.tasks.worker.control import adopt, with_model

    settings, store = opened()
    with store.session() as session:
        row = run_of(session, run, acts=True)
        lines = adopt(session, with_model(settings, model), row.id, whoami())
        found = {"run_id": row.id, "model": row.model, "runs": len(lines)}
    emit(found, lambda _: "\n".join(lines), as_json=as_json)


WENT_WRONG = frozenset({RunState.FAILED, RunState.STOPPED})


@commands.command()
@looks("no run yet", as_json="null", answered=False)
def watch(
    run: Annotated[
        str | None, typer.Argument(help="A run's id or the beginning of it; `desk` for events of no run.")
    ] = None,
    since: Annotated[int | None, typer.Option(help="Only events after this one; 0 is before the first.", min=0)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON envelope per line for programs.")] = False,
) -> None:
    """Show a run's events, or live those of the whole desk.

    A run's past events come first, then its live ones until it ends.
    """
    from chordesk.tasks.cli.start import INTERRUPTED

    if run is None and since is not None:
        raise UsageError("--since goes with a run", remedy="name the run: sequences are counted per run")
    settings, store = opened()
    try:
        last = asyncio.run(_watch(store, settings, run, since or 0, as_json=as_json))
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    finally:
        store.close()
    failed = last is not None and last.payload.get("state") in WENT_WRONG
    raise typer.Exit(1 if failed else 0)


async def _watch(store: Store, settings: Settings, run: str | None, since: int, *, as_json: bool) -> Envelope | None:
    from chordesk.models.events import DESK, EventType
    from chordesk.tasks.cli.show.status_display import event_line
    from chordesk.tasks.events.feed import Feed

    out = console()
    if run not in (None, DESK) and not as_json:
        out.print(_standing(store, str(run)))
        sys.stdout.flush()
    address = settings.redis_url.get_secret_value() if settings.redis_url is not None else None
    ended = None
    async with Feed(store, address) as feed, aclosing(_events(feed, store, run, since)) as events:
        async for one in events:
            if as_json:
                sys.stdout.write(json_shown(one.model_dump_json()) + "\n")
            else:
                out.print(event_line(one, with_run=run is None), soft_wrap=True, highlight=False)
            sys.stdout.flush()
            if one.type is EventType.RUN_COMPLETED:
                ended = one
    return ended if run is not None else None


def _standing(store: Store, run: str) -> Text:

    with store.read() as session:
        row = run_of(session, run)
    return standing_line(standing_of_run(row.settings, row.account, row.model, row.market, row.market_now))


def _events(feed: Feed, store: Store, run: str | None, since: int) -> AsyncGenerator[Envelope]:
    from chordesk.models.events import DESK

    if run is None:
        return feed.follow_desk()
    if run == DESK:
        return feed.follow(DESK, since)
    with store.read() as session:
        return feed.follow(run_of(session, run).id, since)


MARGIN_SECONDS = 6.0  # past a lease: what is held by a dead worker ends with its lease


@commands.command()
def stop(
    runs: Annotated[list[str] | None, typer.Argument(help="Ids of runs, or the beginning of each.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every run that has not ended.")] = False,
    as_json: Json = False,
) -> None:
    """Stop runs, and wait until nothing of them runs any more.

    Their turns are interrupted, and none of their orders is submitted.
    """
    from chordesk.tasks.telemetry.commits import emitted
    from chordesk.tasks.worker.control import stop_runs, unfinished

    if bool(runs) == every:
        raise UsageError("name a run, or give --all", remedy="`desk runs list` shows the runs; --all stops every one")
    settings, store = opened()
    with store.read() as session:
        named = [run_of(session, run, acts=True).id for run in runs or []]
        ids = unfinished(session) if every else list(dict.fromkeys(named))
    with emitted(settings, store, "stop"):
        found = stop_runs(store, settings, ids, _notifier(settings), settings.lease_seconds + MARGIN_SECONDS)
    emit(found, lambda _: "\n".join(map(describe, found)) or "no run is active", as_json=as_json)
    raise typer.Exit(0 if all(each.over for each in found) else 1)


def describe(stop: Stop) -> str:
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
    from chordesk.tasks.worker.messages import WorkerNotifier

    notifier = WorkerNotifier(settings)

    def notify(ids: list[str]) -> None:
        try:
            notifier.stop(ids)
        except DeskError as error:  # no Redis, or no key that signs messages
            typer.echo(f"{error.args[0]}; workers notice it within {settings.lease_seconds / 3:g} s", err=True)

    return notify


STDOUT = "-"


@commands.command("report")
@looks("no run yet", answered=False)
def report(
    run: OneRun = None,
    day: Annotated[str | None, typer.Option(help="The desk's day in New York instead: YYYY-MM-DD.")] = None,
    symbol: Annotated[str | None, typer.Option(help="A symbol across all runs of the account instead.")] = None,
    wanted: Annotated[str, typer.Option("--format", help="md, html or json.")] = "md",
    out: Annotated[
        str, typer.Option(help="File, folder or fsspec address to write to; - prints it.", metavar="PATH|-")
    ] = STDOUT,
    force: Annotated[
        bool, typer.Option("--force", help="Write over a file that is no report of the desk, too.")
    ] = False,
) -> None:
    """Report on a run, a day or a symbol: HTML, markdown, JSON.

    It has the way from each hit to its fills, and names what was missing. Written after each run with
    DESK_REPORT_URL.
    """
    from chordesk.models.database.store import require_current
    from chordesk.tasks.bootstrap import Desk
    from chordesk.tasks.reports.formats import rendered
    from chordesk.tasks.reports.report_files import OutputPlace

    chosen = _format(wanted)
    _at_most_one(run, day, symbol)
    settings = load_settings()
    require_current(settings.database)
    place = OutputPlace(out) if out != STDOUT else None
    with closing(Desk(settings, "report")) as desk:
        found = _document(desk, run, day, symbol)
        text = rendered(found, chosen)
    if place is None:
        sys.stdout.write(text)
        return
    name = f"{found.title.replace(' ', '-')}.{chosen}" if place.is_folder() else None
    print_line(place.write(text, name, force=force))


def _document(desk: Desk, run: str | None, day: str | None, symbol: str | None) -> Document:
    from chordesk.tasks.reports.documents import day_document, run_document, symbol_document

    if day is not None:
        return day_document(desk, day_of("--day", day))
    if symbol is not None:
        return symbol_document(desk, symbol)
    with desk.store.read() as session:
        run_id = run_of(session, run).id
    return run_document(desk, run_id)


def _format(wanted: str) -> Format:
    from chordesk.tasks.reports.report_schema import Format

    if wanted not in get_args(Format):
        raise UsageError(f"--format {wanted!r} is no format", remedy=f"there are {', '.join(get_args(Format))}")
    return cast(Format, wanted)


def _at_most_one(run: str | None, day: str | None, symbol: str | None) -> None:
    given = [name for name, value in (("RUN", run), ("--day", day), ("--symbol", symbol)) if value is not None]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} together", remedy="give one of RUN, --day and --symbol")


commands.add_typer(runs_commands)

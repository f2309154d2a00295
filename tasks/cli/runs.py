"""`desk runs`: what was run, how it ended, and what each order rests on."""

from __future__ import annotations

from typing import Annotated

import typer

from models.setting_sources import load_settings
from models.store import Store, require_current
from tasks import run_view
from tasks.cli.output import console, print_json
from tasks.cli.render import progress_line, run_list, run_report
from tasks.cli.render_attempts import attempts_report
from tasks.cli.render_conversations import conversations_report
from tasks.cli.render_lineage import lineage_report
from tasks.lineage import lineage
from tasks.run_detail import detail

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def register(app: typer.Typer) -> None:
    runs = typer.Typer(help="What was run, and what came of it.", no_args_is_help=True)
    runs.command("list")(list_runs)
    runs.command("show")(show)
    app.add_typer(runs, name="runs")


def list_runs(
    limit: Annotated[int, typer.Option(help="How many, the newest first.", min=1, max=1000)] = 20,
    as_json: Json = False,
) -> None:
    """List runs, the newest first."""
    with _store().read() as session:
        runs = run_view.list_runs(session, limit)
    if as_json:
        print_json([run.model_dump(mode="json") for run in runs])
        return
    if not runs:
        console().print("no runs yet; start one with: desk screen")
        return
    console().print(run_list(runs))


def show(
    run: Annotated[str, typer.Argument(help="A run's id, or the beginning of it.")],
    symbol: Annotated[str | None, typer.Option("--lineage", help="What this symbol's orders rest on.")] = None,
    as_json: Json = False,
) -> None:
    """Show a run: candidates, verdicts, the trader's actions; or the lineage of one symbol."""
    with _store().read() as session:
        row = run_view.find_run(session, run)
        if symbol is not None:
            found = lineage(session, row, symbol)
            print_json(found) if as_json else console().print(lineage_report(found))
            return
        whole = detail(session, row)
    if as_json:
        print_json(whole.model_dump(mode="json"))
        return
    out = console()
    if not whole.progress.final:
        out.print(progress_line(whole.progress), highlight=False)
    out.print(run_report(whole))
    for report in (conversations_report(whole.conversations), attempts_report(whole.attempts)):
        if report is not None:
            out.print(report)


def _store() -> Store:
    settings = load_settings()
    require_current(settings.database)
    return Store(settings.database)

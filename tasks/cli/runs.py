"""`desk runs`: list past and present runs, and show one with its results and the lineage of its orders."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from chordesk.tasks.cli.output import emit
from chordesk.tasks.cli.render.attempts import attempts_report
from chordesk.tasks.cli.render.conversations import conversations_report
from chordesk.tasks.cli.render.lineage import lineage_report
from chordesk.tasks.cli.render.results.board import voices_report
from chordesk.tasks.cli.render.results.documents import document_line
from chordesk.tasks.cli.render.results.grounding import grounding_report
from chordesk.tasks.cli.render.runs import artifacts_report, progress_line, run_list, run_report
from chordesk.tasks.cli.shell import Json, opened
from chordesk.tasks.views import run_view
from chordesk.tasks.views.history.listing import RunFilter, run_page
from chordesk.tasks.views.lineage import lineage
from chordesk.tasks.views.run_detail import RunDetail, detail

commands = typer.Typer(name="runs", help="List runs and show their results.", no_args_is_help=True)


@commands.command("list")
def list_runs(
    limit: Annotated[int, typer.Option(help="How many, the newest first.", min=1, max=1000)] = 20,
    as_json: Json = False,
) -> None:
    """List runs, the newest first."""
    settings, store = opened()
    with store.read() as session:
        runs = run_page(session, settings, RunFilter(), limit).runs
    nothing = "no runs yet; start one with: desk screen"
    emit(runs, lambda found: run_list(found) if found else nothing, as_json=as_json)


@commands.command()
def show(
    run: Annotated[str, typer.Argument(help="A run's id, or the beginning of it.")],
    symbol: Annotated[str | None, typer.Option("--lineage", help="Show the lineage of this symbol's orders.")] = None,
    as_json: Json = False,
) -> None:
    """Show a run: candidates, verdicts, the trader's actions; or the lineage of one symbol."""
    settings, store = opened()
    with store.read() as session:
        row = run_view.find_run(session, run)
        if symbol is not None:
            emit(lineage(session, row, symbol), partial(lineage_report, home=settings.home), as_json=as_json)
            return
        whole = detail(session, settings, row)
    emit(whole, partial(_report, settings.home), as_json=as_json)


def _report(home: Path, run: RunDetail) -> RenderableType:
    pictures = artifacts_report(run.artifacts, home)
    grounding = grounding_report(run.grounded)
    parts = [
        run_report(run, home),
        grounding,
        pictures,
        voices_report(run.voices),
        conversations_report(run.conversations),
        attempts_report(run.attempts),
        document_line(run.document),
    ]
    first = () if run.progress.final else (Text(progress_line(run.progress)),)
    return Group(*first, *(part for part in parts if part is not None))

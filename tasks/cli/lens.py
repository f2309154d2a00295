"""`desk lens`: the lenses that screens look through, and trials of a rule over past sessions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from chordesk.models.errors import DeskError
from chordesk.tasks.cli.output import emit, fail, print_line
from chordesk.tasks.cli.shell import Json, checked, day_of, looks, make_own, opened, run_of

if TYPE_CHECKING:
    from chordesk.models.settings import Settings
    from chordesk.tasks.bootstrap import Desk

Name = Annotated[str, typer.Argument(help="A lens's name.")]
Names = Annotated[list[str] | None, typer.Argument(help="Lenses by name; by default your own.")]

commands = typer.Typer(name="lens", help="Lenses of screens: the desk's, and your own in files.", no_args_is_help=True)


@commands.command("list")
def list_lenses(as_json: Json = False) -> None:
    """List the lenses: the desk's, packages' and your own."""
    from chordesk.tasks.cli.show.lens_display import lens_list
    from chordesk.tasks.lenses import rows

    emit(rows(checked().settings), lens_list, as_json=as_json)


@commands.command()
def show(name: Name, as_json: Json = False) -> None:
    """Show a lens: its rule, its words, what it looks at."""
    from chordesk.tasks.cli.show.lens_display import lens_report
    from chordesk.tasks.lenses import lens_named

    emit(lens_named(name, checked().settings), lens_report, as_json=as_json)


@commands.command()
def check(names: Names = None, as_json: Json = False) -> None:
    """Check files of lenses, and say what each finds today.

    A faulty lens, or one over a figure that the market does not have, ends with exit code 2.
    """
    from chordesk.agents.desk_roles import own_lenses
    from chordesk.tasks.cli.show.lens_display import check_report
    from chordesk.tasks.lenses import check as checked_lens

    with looking() as desk:
        wanted = names or list(own_lenses(desk.settings))
        if not wanted:
            print_line(f"there is no own lens in {desk.settings.home / 'lenses'}: see the page on lenses")
            return
        faulty = 0
        for name in wanted:
            try:
                emit(checked_lens(desk, name), check_report, as_json=as_json)
            except DeskError as error:
                faulty = fail(error, 2)
    if faulty:
        raise typer.Exit(faulty)


@commands.command()
@looks("no run has kept a lens", answered=False)
def diff(
    name: Name,
    run: Annotated[str | None, typer.Argument(help="A run's id, or the beginning of it; else the last screen.")] = None,
    as_json: Json = False,
) -> None:
    """Show what changed in a lens since a run used it."""
    from chordesk.tasks.lenses import difference

    settings, store = opened()
    with store.read() as session:
        id_, text = difference(session, settings, name, run_of(session, run) if run is not None else None)
    emit({"run": id_, "diff": text}, lambda _: text or f"nothing has changed since run {id_[:16]}", as_json=as_json)


@commands.command("test")
def try_over_sessions(
    name: Name,
    first: Annotated[str | None, typer.Option("--from", help="First day, YYYY-MM-DD; by default of the data.")] = None,
    last: Annotated[str | None, typer.Option("--to", help="Last day, YYYY-MM-DD.")] = None,
    every: Annotated[int, typer.Option(help="Every so many-th session.", min=1)] = 1,
    universe: Annotated[str | None, typer.Option(help="sp500, a file of symbols, or symbols by comma.")] = None,
    as_json: Json = False,
) -> None:
    """Try a lens's rule over past sessions, without a run.

    Hits, returns against the median of the universe, turnover, overlap with other lenses, and what luck would make of
    as many tries.
    """
    from chordesk.tasks.cli.show.lens_display import trial_report
    from chordesk.tasks.lenses import try_out

    days = [day_of(option, text) if text else None for option, text in (("--from", first), ("--to", last))]
    with looking() as desk:
        make_own(desk.settings)
        found = try_out(desk, name, days[0], days[1], every, universe)
    emit(found, trial_report, as_json=as_json)


@contextlib.contextmanager
def looking(settings: Settings | None = None) -> Iterator[Desk]:
    from chordesk.tasks.bootstrap import Desk

    desk = Desk(settings or checked().settings, "lens", records=False)
    try:
        yield desk
    finally:
        desk.close()

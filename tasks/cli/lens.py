"""`desk lens`: the lenses that screens look through, and trials of a rule over past sessions."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from chordesk.models.errors import DeskError, UsageError
from chordesk.tasks.cli.output import console, emit, fail, print_line
from chordesk.tasks.cli.shell import Json, checked, day_of, looks, make_own, opened, run_of, whoami

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

    with _desk() as desk:
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
    with _desk() as desk:
        make_own(desk.settings)
        found = try_out(desk, name, days[0], days[1], every, universe)
    emit(found, trial_report, as_json=as_json)


@commands.command()
def new(
    words: Annotated[str, typer.Argument(help="What the lens looks for, in a sentence or more.")],
    where: Annotated[str, typer.Option(help="Its rule, such as 'momentum60 > 0.05 and rsi14 < 65'.")] = "",
    score: Annotated[str, typer.Option(help="A number by which the names that pass are ordered.")] = "",
    high: Annotated[str, typer.Option(help="Which hits have the confidence high.")] = "",
    by: Annotated[str, typer.Option(help="rule, model or both; by default both with a rule.")] = "",
    name: Annotated[str | None, typer.Option(help="Its name; by default made of its first words.")] = None,
) -> None:
    """Write a lens of your own, see what it finds, and keep it or not.

    It is checked, tried on the last 60 sessions and shown; a person at a terminal keeps it. No screen uses it before
    --lens or DESK_LENSES names it.
    """
    from chordesk.tasks.cli.show.lens_display import check_report, draft_report, trial_report
    from chordesk.tasks.lens_drafts import as_draft, drafted, keep, name_of, place_of, tried_lately
    from chordesk.tasks.lenses import check as checked_lens

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        reason = "a new lens is looked at by a person before it is kept, and this is not a terminal"
        raise UsageError(reason, remedy="write lenses/NAME.md in the home, and check it: desk lens check NAME")
    own, called = checked().settings, name or name_of(words)
    text = drafted(words, {"by": by, "where": where, "score": score, "high": high})
    used, lens = as_draft(own, called, text)
    make_own(own)
    with _desk(used) as desk:
        path = place_of(own, called)
        console().print(draft_report(path, path.read_text(encoding="utf-8") if path.is_file() else None, text))
        console().print(check_report(checked_lens(desk, called)))
        if (tried := tried_lately(desk, lens)) is not None:
            console().print(trial_report(tried))
        if not typer.confirm(f"keep it as {path}?", default=False):
            raise typer.Exit(1)
        keep(desk, lens, text, whoami())
    print_line(f"kept; screen with it: desk screen --lens {called}")


@contextlib.contextmanager
def _desk(settings: Settings | None = None) -> Iterator[Desk]:
    from chordesk.tasks.bootstrap import Desk

    desk = Desk(settings or checked().settings, "lens", records=False)
    try:
        yield desk
    finally:
        desk.close()

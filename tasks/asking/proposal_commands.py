"""`desk proposals`: acts that were proposed, and a person's answer to each."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from chordesk.models.errors import UsageError
from chordesk.models.text import inert, one_line
from chordesk.tasks.asking.display import TERMINAL, card_text
from chordesk.tasks.cli.output import emit, print_line, table
from chordesk.tasks.cli.shell import Json, looks, opened, whoami

if TYPE_CHECKING:
    from chordesk.tasks.proposals import Proposed

commands = typer.Typer(name="proposals", help="What was proposed, and waits for a yes or no.", no_args_is_help=True)
NOTHING = "nothing was proposed yet"
NOT_DONE = 1
Id = Annotated[str, typer.Argument(help="Id of the proposal, or the beginning of it.")]


@commands.command("list")
@looks(NOTHING)
def list_(
    every: Annotated[bool, typer.Option("--all", help="With what is over, the newest first.")] = False,
    as_json: Json = False,
) -> None:
    """List what waits for a yes or no."""
    from chordesk.tasks.asking.proposing import newest, proposed, waiting

    settings, store = opened()
    with store.read() as session:
        rows = newest(session, 50) if every else waiting(session)
        found = [proposed(row, settings) for row in rows]
    cells = [
        (one.id[:12], one_line(one.title, 70), one.cost if one.open else one_line(one.fate, 70), inert(one.by))
        for one in found
    ]
    none = NOTHING if every else "no proposal waits"
    heads = ("Proposal", "Act", "", "Asked by")
    emit(
        [one.model_dump(mode="json") for one in found],
        lambda _: table(heads, cells) if cells else none,
        as_json=as_json,
    )


@commands.command()
@looks(NOTHING, as_json="null")
def show(id_: Id, as_json: Json = False) -> None:
    """Show a proposal: what it does, what it costs, and what became of it."""
    from chordesk.tasks.asking.confirming import find_row
    from chordesk.tasks.asking.proposing import proposed

    settings, store = opened()
    with store.read() as session:
        found = proposed(find_row(session, id_), settings)
    emit(found.model_dump(mode="json"), lambda _: card_text(found), as_json=as_json)


@commands.command()
def confirm(
    id_: Id,
    expect: Annotated[
        str | None, typer.Option(help="Hash of the card you saw, at least 12 letters: in place of being asked.")
    ] = None,
) -> None:
    """Do what was proposed, once. A terminal shows it and asks first."""
    from chordesk.tasks.asking.confirming import confirm as confirm_in
    from chordesk.tasks.asking.confirming import find_row, finish
    from chordesk.tasks.asking.proposing import proposed
    from chordesk.tasks.bootstrap import Desk
    from chordesk.tasks.cli.start import reached
    from chordesk.tasks.proposals import Office, ProposalScope, find

    settings, store = opened()
    with store.read() as session:
        found = proposed(find_row(session, id_), settings)
    if found.open and expect is None:
        expect = _confirmed(found)
    with closing(Desk(settings, "proposals")) as desk:
        app = reached(settings) if found.open and find(found.kind).opens else None
        office = Office(settings, store, lambda: desk, (lambda: app) if app is not None else None)
        with store.session() as session:
            row = confirm_in(session, office, found.id, expect or "", whoami(), f"the {TERMINAL}", tuple(ProposalScope))
            ended = row.id
        finish(office, ended)
        with store.read() as session:
            found = proposed(find_row(session, ended), settings)
    print_line(f"{inert(found.title)}: {inert(found.fate)}")
    if found.state not in ("done", "confirmed"):
        raise typer.Exit(NOT_DONE)


@commands.command()
def dismiss(id_: Id) -> None:
    """Say no: nothing is done."""
    from chordesk.tasks.asking.confirming import dismiss as dismiss_in
    from chordesk.tasks.asking.confirming import office_of
    from chordesk.tasks.asking.proposing import proposed
    from chordesk.tasks.bootstrap import Desk

    settings, store = opened()
    with closing(Desk(settings, "proposals")) as desk, store.session() as session:
        found = proposed(dismiss_in(session, office_of(desk), id_, whoami(), f"the {TERMINAL}"), settings)
    print_line(f"{inert(found.title)}: {inert(found.fate)}")


def _confirmed(found: Proposed) -> str:
    """Show the card and ask; return its hash."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        remedy = f"a script gives --expect {found.shown[:12]}, the hash of the card that it has read"
        raise UsageError("nobody is at a terminal to confirm it; nothing was done", remedy=remedy)
    print_line(card_text(found))
    if not typer.confirm("do it?", default=False):
        raise typer.Exit(NOT_DONE)
    return found.shown

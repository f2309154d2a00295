"""`desk runs leaks`: what a mask hides, looked for in what models were shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from chordesk.models.text import inert
from chordesk.tasks.cli.output import emit
from chordesk.tasks.cli.shell import Json, OneRun, looks, opened, run_of

if TYPE_CHECKING:
    from chordesk.agents.measure.mask.leak_audit import Audit

commands = typer.Typer()
MOST_LEAKS = 20


@commands.command("leaks")
@looks("no run yet", as_json="null", answered=False)
def leaks(run: OneRun = None, as_json: Json = False) -> None:
    """Look for what DESK_MASK hides in all that a run's models were shown; exit code 1 if found.

    A backtest's sessions are read with it.
    """
    from chordesk.tasks.bootstrap import Desk
    from chordesk.tasks.measure.leaks import audits

    settings, store = opened()
    with store.read() as session:
        row = run_of(session, run)
        found = audits(session, Desk(settings), row)
    emit(found, lambda one: "\n".join(_leak_lines(one)), as_json=as_json)
    raise typer.Exit(1 if found.leaks else 0)


def _leak_lines(found: Audit) -> list[str]:
    read = f"{found.conversations:,} conversations, {found.texts:,} texts, {found.characters:,} characters"
    lines = [f"{len(found.leaks)} leaks of {', '.join(found.kinds)} in {read}"]
    shown = found.leaks[:MOST_LEAKS]
    lines += [inert(f"  {one.kind}: {one.what}, to {one.role} of {one.subject}: {one.excerpt}") for one in shown]
    return lines + ([f"  and {len(found.leaks) - MOST_LEAKS} more (--json has all)"] * (found.leaks[MOST_LEAKS:] != []))

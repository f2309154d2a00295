"""`desk audit`: check the audit log, and show its lines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from chordesk.models.database.store import Store
from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings
from chordesk.tasks.cli.output import emit, print_json
from chordesk.tasks.cli.render.orders import log_table, order_history
from chordesk.tasks.cli.shell import Json, opened
from chordesk.tasks.views.order_view import find_order, order_view
from chordesk.tools.orders.audit_reading import CheckedChain, check_logs, entries_of

NOT_WHOLE = 1
MOST_PROBLEMS = 20
With = Annotated[
    list[Path] | None, typer.Option("--with", help="A copy of another data folder's audit.jsonl.", dir_okay=False)
]

commands = typer.Typer(
    name="audit", help="The log of every order: append-only, hash-chained, anchored.", no_args_is_help=True
)


@commands.command()
def verify(also: With = None, as_json: Json = False) -> None:
    """Find any line that was altered, is missing or was cut off; exit code 1 if there is one."""
    checked = _check(*opened(), also)
    if as_json:
        print_json([_plain(one) for one in checked])
    else:
        _print_checks(checked)
    if not all(one.whole for one in checked):
        raise typer.Exit(NOT_WHOLE)


@commands.command()
def show(
    order: Annotated[str | None, typer.Option(help="Show the history of this order: its id, or its beginning.")] = None,
    last: Annotated[int, typer.Option(help="Without --order: how many lines, the newest last.", min=1)] = 20,
    also: With = None,
    as_json: Json = False,
) -> None:
    """Show an order's history from the screener's hit on, or the last lines of the log."""
    settings, store = opened()
    checked = _check(settings, store, also)
    if order is not None:
        with store.read() as session:
            found = order_view(session, find_order(session, order))
        entries = entries_of(checked, found["order"]["id"])
        emit({**found, "log": entries}, lambda _: order_history(found, entries), as_json=as_json)
    else:
        lines = sorted((line for one in checked for line in one.reading.entries), key=lambda line: (line.at, line.n))
        emit(lines[-last:], log_table, as_json=as_json)
    if not all(one.whole for one in checked):
        typer.echo("the log is not whole, see: desk audit verify", err=True)


def _check(settings: Settings, store: Store, also: list[Path] | None) -> list[CheckedChain]:
    try:
        return check_logs(store, settings, also or [])
    except OSError as error:
        raise UsageError(
            f"{error.filename} cannot be read: {error.strerror}", remedy="give the path of a log"
        ) from None


def _print_checks(checked: list[CheckedChain]) -> None:
    if not checked:
        typer.echo("nothing is on record yet")
    for one in checked:
        state = "whole" if one.whole else "NOT WHOLE"
        typer.echo(f"{one.file or one.place}: {one.count} lines anchored, {state} (chain {one.chain[:12]})")
        for problem in one.reading.problems[:MOST_PROBLEMS]:
            typer.echo(f"  {problem}")
        if len(one.reading.problems) > MOST_PROBLEMS:
            typer.echo(f"  and {len(one.reading.problems) - MOST_PROBLEMS} more (--json has them)")
        if one.reading.abandoned:
            typer.echo(f"  {one.reading.abandoned} lines struck out: their transactions did not commit")
        if one.reading.beyond:
            typer.echo(f"  {one.reading.beyond} lines beyond the anchor: not committed, or just being written")


def _plain(one: CheckedChain) -> dict[str, Any]:
    return {
        "chain": one.chain,
        "place": one.place,
        "file": str(one.file) if one.file else None,
        "lines": one.count,
        "whole": one.whole,
        "problems": one.reading.problems,
        "abandoned": one.reading.abandoned,
        "beyond": one.reading.beyond,
    }

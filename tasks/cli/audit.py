"""`desk audit`: whether the log is whole, and what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from models.errors import UsageError
from models.setting_sources import load_settings
from models.settings import Settings
from models.store import Store, require_current
from tasks.cli.output import console, print_json
from tasks.cli.render_orders import log_table, story
from tasks.order_view import find_order, order_view
from tools.orders.auditing import Checked, check_logs, entries_of

NOT_WHOLE = 1
MOST_PROBLEMS = 20
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
With = Annotated[
    list[Path] | None, typer.Option("--with", help="A copy of another data folder's audit.jsonl.", dir_okay=False)
]


def register(app: typer.Typer) -> None:
    audit = typer.Typer(help="The log of every order: append-only, hash-chained, anchored.", no_args_is_help=True)
    audit.command()(verify)
    audit.command()(show)
    app.add_typer(audit, name="audit")


def verify(also: With = None, as_json: Json = False) -> None:
    """Find any line that was altered, is missing or was cut off; exit code 1 if there is one."""
    settings = load_settings()
    checked = _check(settings, also)
    if as_json:
        print_json([_plain(one) for one in checked])
    else:
        _tell(checked)
    if not all(one.whole for one in checked):
        raise typer.Exit(NOT_WHOLE)


def show(
    order: Annotated[str | None, typer.Option(help="The story of this order: its id, or the beginning of it.")] = None,
    last: Annotated[int, typer.Option(help="Without --order: how many lines, the newest last.", min=1)] = 20,
    also: With = None,
    as_json: Json = False,
) -> None:
    """Tell the story of an order from the screener's hit on, or show the last lines of the log."""
    settings = load_settings()
    if order is not None:
        _story(settings, order, also, as_json)
        return
    checked = _check(settings, also)
    lines = sorted((line for one in checked for line in one.reading.entries), key=lambda line: (line.at, line.n))
    if as_json:
        print_json(lines[-last:])
    else:
        console().print(log_table(lines[-last:]), highlight=False)
    _warn(checked)


def _story(settings: Settings, order: str, also: list[Path] | None, as_json: bool) -> None:
    checked = _check(settings, also)
    with Store(settings.database).read() as session:
        found = order_view(session, find_order(session, order))
    entries = entries_of(checked, found["order"]["id"])
    if as_json:
        print_json({**found, "log": entries})
    else:
        console().print(story(found, entries), highlight=False)
    _warn(checked)


def _check(settings: Settings, also: list[Path] | None) -> list[Checked]:
    require_current(settings.database)
    try:
        return check_logs(Store(settings.database), settings, also or [])
    except OSError as error:
        raise UsageError(
            f"{error.filename} cannot be read: {error.strerror}", remedy="give the path of a log"
        ) from None


def _warn(checked: list[Checked]) -> None:
    if not all(one.whole for one in checked):
        typer.echo("the log is not whole, see: desk audit verify", err=True)


def _tell(checked: list[Checked]) -> None:
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


def _plain(one: Checked) -> dict[str, Any]:
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

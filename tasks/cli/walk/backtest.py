"""`desk backtest`: let the desk play past sessions, and follow it to its end."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

import typer

from chordesk.models.errors import UsageError
from chordesk.tasks.bootstrap import desk_of
from chordesk.tasks.cli.shell import Json
from chordesk.tasks.cli.start import Wait, connected, see
from chordesk.tasks.views.run_view import find_run
from chordesk.tasks.workflows.backtest import open_backtest, resume_backtest

commands = typer.Typer()


@commands.command()
def backtest(
    first: Annotated[str | None, typer.Option("--from", help="First day, YYYY-MM-DD.")] = None,
    last: Annotated[str | None, typer.Option("--to", help="Last day, YYYY-MM-DD.")] = None,
    every: Annotated[int, typer.Option(help="Every so many-th session; 5 is one a week.")] = 1,
    rounds: Annotated[int, typer.Option(help="Rounds of voices before the trader: 0, 1 or 2.")] = 0,
    universe: Annotated[str | None, typer.Option(help="sp500, a file of symbols, or symbols by comma.")] = None,
    memory: Annotated[
        str, typer.Option(help="What a day repeats of earlier days: off (days in parallel) or on (in order).")
    ] = "off",
    resume: Annotated[str | None, typer.Option(help="A backtest to go on with, by its id.")] = None,
    wait: Wait = True,
    as_json: Json = False,
) -> None:
    """Let the whole desk play past sessions on an account of its own, and compare it with the universe itself."""
    if resume is not None:
        if first is not None or last is not None or universe is not None:
            remedy = "its days and universe are those that it was begun with; leave --from, --to and --universe out"
            raise UsageError("--resume goes on with a backtest as it is", remedy=remedy)
        app = connected()
        with desk_of(app).store.read() as session:
            source = find_run(session, resume).id
        return see(app, resume_backtest(app, source), wait=wait, as_json=as_json)
    days = _day("--from", first), _day("--to", last)
    if rounds not in (0, 1, 2):
        raise UsageError(f"--rounds {rounds} is not a number of rounds", remedy="give 0, 1 or 2")
    if memory not in ("on", "off"):
        raise UsageError(f"--memory {memory!r} is neither on nor off", remedy="give --memory on or --memory off")
    if universe is not None and not universe.strip():
        raise UsageError("--universe is empty", remedy="give sp500, a file of symbols, or symbols by comma")
    app = connected()
    run = open_backtest(app, *days, every=every, rounds=rounds, universe=universe, memory=memory)
    return see(app, run, wait=wait, as_json=as_json)


def _day(name: str, given: str | None) -> dt.date:
    if given is None:
        raise UsageError(
            f"{name} is missing", remedy="give the first and the last day: --from YYYY-MM-DD --to YYYY-MM-DD"
        )
    try:
        return dt.date.fromisoformat(given)
    except ValueError:
        raise UsageError(f"{name} {given!r} is no day", remedy="write it as 2010-03-01") from None

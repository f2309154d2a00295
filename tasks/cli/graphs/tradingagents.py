"""`desk tradingagents`: play TradingAgents on tickers as a run of the desk, and follow it to its end."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

import typer

from chordesk.agents.tradingagents.project import ANALYSTS, find_project, require_installed, require_request
from chordesk.models.errors import UsageError
from chordesk.tasks.cli.shell import Json
from chordesk.tasks.cli.start import Wait, connected, see
from chordesk.tasks.workflows.tradingagents.opening import DEPTH, open_tradingagents

commands = typer.Typer()


@commands.command()
def tradingagents(
    tickers: Annotated[list[str], typer.Argument(help="The symbols to analyse, a graph each.")],
    analysts: Annotated[
        str, typer.Option(help="market, social, news, fundamentals, by comma; they follow each other so.")
    ] = ",".join(ANALYSTS),
    depth: Annotated[int, typer.Option(help="Rounds of each debate.")] = DEPTH,
    date: Annotated[str | None, typer.Option(help="YYYY-MM-DD, a session of a market that replays.")] = None,
    wait: Wait = True,
    as_json: Json = False,
) -> None:
    """Play TradingAgents on symbols as durable work: a graph each on the run's market; its signal is a report."""
    named = [part.strip() for part in analysts.split(",") if part.strip()]
    require_request(named, depth)
    day = _day(date)
    require_installed()
    app = connected()
    find_project()  # whether it loads shows before a run is opened; it may change the environment by a .env of its own
    see(app, open_tradingagents(app, tickers, named, depth, day), wait=wait, as_json=as_json)


def _day(given: str | None) -> dt.date | None:
    if given is None:
        return None
    try:
        return dt.date.fromisoformat(given)
    except ValueError:
        raise UsageError(f"--date {given!r} is no date", remedy="write YYYY-MM-DD") from None

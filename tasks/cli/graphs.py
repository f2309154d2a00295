"""`desk graph` and `desk tradingagents`: graphs of LangGraph as durable work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from chordesk.models.errors import UsageError
from chordesk.tasks.cli.shell import Json, day_of
from chordesk.tasks.cli.start import Wait, connected, see

commands = typer.Typer()


@commands.command()
def graph(
    factory: Annotated[str | None, typer.Argument(help="MODULE:FACTORY; the module is listed in DESK_GRAPHS.")] = None,
    given: Annotated[
        list[str] | None, typer.Option("--input", help="JSON object, or @FILE; repeat the option for a graph each.")
    ] = None,
    resume: Annotated[
        str | None, typer.Option(help="In place of both: a run, whose failed graphs go on where they were.")
    ] = None,
    wait: Wait = True,
    as_json: Json = False,
) -> None:
    """Run a LangGraph graph as durable work.

    Each of its model calls is a turn, and it goes on where it was.
    """
    from chordesk.models.database.lookup import by_prefix
    from chordesk.models.tables.runs import Run
    from chordesk.tasks.workflows.graph import open_graphs, resume_graphs

    if resume is not None:
        if factory or given:
            raise UsageError("--resume goes with no factory and no --input", remedy="the run has both")
        app = connected()
        with app.desk.store.read() as session:
            source = by_prefix(session, Run, resume).id
        see(app, resume_graphs(app, source), wait=wait, as_json=as_json)
        return
    if not (factory and given):
        missing = "no --input is given" if factory else "no MODULE:FACTORY is given"
        raise UsageError(missing, remedy="""write desk graph MODULE:FACTORY --input '{"n": 1}'""")
    inputs = {str(number): _object(text) for number, text in enumerate(given, 1)}
    app = connected()
    see(app, open_graphs(app, factory, inputs), wait=wait, as_json=as_json)


def _object(given: str) -> dict[str, Any]:
    import orjson

    text, place = given, "--input"
    if given.startswith("@"):
        place = f"--input {given}"
        try:
            text = Path(given[1:]).expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{place} cannot be read: {error}", remedy="name a file of JSON after @") from None
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        remedy = """give a JSON object, such as '{"ticker": "IBM"}', or @FILE"""
        raise UsageError(f"{place} is no JSON: {error}", remedy=remedy) from None
    if not isinstance(value, dict):
        raise UsageError(f"{place} is no object but {text:.80}", remedy="""give a JSON object, such as '{"n": 1}'""")
    return value


@commands.command()
def tradingagents(
    tickers: Annotated[list[str], typer.Argument(help="The symbols to analyse, a graph each.")],
    analysts: Annotated[
        str, typer.Option(help="Which of these, by comma; they follow each other so.")
    ] = "market,social,news,fundamentals",
    depth: Annotated[int, typer.Option(help="Rounds of each debate.")] = 1,
    date: Annotated[str | None, typer.Option(help="YYYY-MM-DD, a session of a market that replays.")] = None,
    wait: Wait = True,
    as_json: Json = False,
) -> None:
    """Run TradingAgents on symbols as durable work.

    A graph each on the run's market; its signal is a report.
    """
    from chordesk.agents.tradingagents.project import find_project, require_installed, require_request
    from chordesk.tasks.workflows.tradingagents.opening import open_tradingagents

    named = [part.strip() for part in analysts.split(",") if part.strip()]
    require_request(named, depth)
    day = day_of("--date", date) if date is not None else None
    require_installed()
    app = connected()
    find_project()  # whether it loads shows before a run is opened; it may change the environment by a .env of its own
    see(app, open_tradingagents(app, tickers, named, depth, day), wait=wait, as_json=as_json)

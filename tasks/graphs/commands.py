"""`desk graph` and `desk tradingagents`: graphs of LangGraph as durable work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from chordesk.models.errors import UsageError
from chordesk.models.files import expanded
from chordesk.tasks.cli.output import emit, table
from chordesk.tasks.cli.shell import Json, day_of, opened, run_of
from chordesk.tasks.cli.start import Wait, connected, see

if TYPE_CHECKING:
    from chordesk.models.database.store import Store

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
    history: Annotated[
        str | None, typer.Option(help="In place of all: a run, to show the steps of its graphs.")
    ] = None,
    name: Annotated[str | None, typer.Option("--graph", help="With --resume: this graph alone.")] = None,
    at: Annotated[int | None, typer.Option(help="With --resume: from this step of --history on.")] = None,
    update: Annotated[
        str | None, typer.Option(help="With --resume: JSON object, or @FILE, to update the state with first.")
    ] = None,
    node: Annotated[
        str | None, typer.Option("--as", help="With --update: the node that wrote it, so to speak.")
    ] = None,
    wait: Wait = True,
    as_json: Json = False,
) -> None:
    """Run a LangGraph graph as durable work.

    Each of its model calls is a turn, and it goes on where it was.
    """
    from chordesk.tasks.graphs.workflow import fork_graph, open_graphs, resume_graphs

    if (resume or history) is not None and (factory or given):
        raise UsageError("--resume and --history go with no factory and no --input", remedy="the run has both")
    if node is not None and update is None:
        raise UsageError("--as goes with --update", remedy="say what the node wrote")
    if history is not None:
        _show_history(history, as_json=as_json)
        return
    forks = (name, at, update) != (None, None, None)
    if resume is None and forks:
        raise UsageError("--graph, --at and --update go with --resume RUN", remedy="name the run whose graph goes on")
    if resume is not None:
        values = _object(update, "--update") if update is not None else None
        app = connected()
        source = _run_id(app.desk.store, resume)
        run = fork_graph(app, source, name, at, values, node) if forks else resume_graphs(app, source)
        see(app, run, wait=wait, as_json=as_json)
        return
    if not (factory and given):
        missing = "no --input is given" if factory else "no MODULE:FACTORY is given"
        raise UsageError(missing, remedy="""write desk graph MODULE:FACTORY --input '{"n": 1}'""")
    inputs = {str(number): _object(text, "--input") for number, text in enumerate(given, 1)}
    app = connected()
    see(app, open_graphs(app, factory, inputs), wait=wait, as_json=as_json)


def _run_id(store: Store, given: str) -> str:
    with store.read() as session:
        return run_of(session, given).id


def _show_history(given: str, *, as_json: bool) -> None:
    from chordesk.tasks.graphs.workflow import history_of

    settings, store = opened()
    rows = history_of(store, settings, _run_id(store, given))
    columns = ("graph", "step", "written by", "goes on at", "time (UTC)")

    def shown(_: object) -> Any:
        cells = [(r.graph, str(r.step), r.source, ", ".join(r.next), f"{r.at:%Y-%m-%d %H:%M:%S}") for r in rows]
        return table(columns, cells) if cells else "nothing of its graphs is kept"

    emit([row.model_dump() for row in rows], shown, as_json=as_json)


def _object(given: str, option: str) -> dict[str, Any]:
    import orjson

    from chordesk.models.outside import Oversized, held

    text, place = given, option
    if given.startswith("@"):
        place = f"{option} {given}"
        try:
            with expanded(given[1:]).open("rb") as file:
                text = held(place, file).decode("utf-8")
        except (OSError, UnicodeDecodeError, Oversized) as error:
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
    from chordesk.agents.graphs.tradingagents.project import find_project, require_installed, require_request
    from chordesk.tasks.graphs.tradingagents.ticker_opening import open_tradingagents

    named = [part.strip() for part in analysts.split(",") if part.strip()]
    require_request(named, depth)
    day = day_of("--date", date) if date is not None else None
    require_installed()
    app = connected()
    find_project()  # whether it loads shows before a run is opened; it may change the environment by a .env of its own
    see(app, open_tradingagents(app, tickers, named, depth, day), wait=wait, as_json=as_json)

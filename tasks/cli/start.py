"""`desk screen`, `desk research`, `desk analyze`, `desk trade`: start a run and, by default, follow it to its end."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer
from celery import Celery
from rich.console import Console

from chordesk.models.database.store import require_current
from chordesk.models.errors import SettingError, UsageError
from chordesk.models.settings import LENSES
from chordesk.models.settings.running_desk import Standing, standing_of_run
from chordesk.models.states import RunState
from chordesk.models.tables.runs import Run
from chordesk.tasks.bootstrap import desk_of, redis_url
from chordesk.tasks.cli.live import follow
from chordesk.tasks.cli.output import console, emit
from chordesk.tasks.cli.parsing.analysis import analysis_depth, analysis_request
from chordesk.tasks.cli.render import spending as render
from chordesk.tasks.cli.render.runs import run_report
from chordesk.tasks.cli.render.standing import standing_line
from chordesk.tasks.cli.shell import Json, checked
from chordesk.tasks.redis_clients import wait_ready
from chordesk.tasks.views.outlook import Outlook, outlook
from chordesk.tasks.views.run_view import find_run, view
from chordesk.tasks.worker.app import create_app
from chordesk.tasks.workflows.analyze import open_analysis
from chordesk.tasks.workflows.research import open_portfolio, open_research
from chordesk.tasks.workflows.screen import open_screen
from chordesk.tasks.workflows.trade import open_trade

REDIS_SECONDS = 3.0
INTERRUPTED = 130
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Follow the run to its end.")]
commands = typer.Typer()


@commands.command()
def screen(
    universe: Annotated[str | None, typer.Option(help="sp500, a file of symbols, or symbols by comma.")] = None,
    most: Annotated[int | None, typer.Option("--max", help="Candidates kept.", min=1, max=500)] = None,
    lens: Annotated[list[str] | None, typer.Option(help="A lens; repeat the option for several.")] = None,
    wait: Wait = True,
    as_json: Json = False,
) -> None:
    """Screen a universe, research the candidates, and let the trader decide."""
    lenses = _lenses(lens)
    if universe is not None and not universe.strip():
        raise UsageError("--universe is empty", remedy="give sp500, a file of symbols, or symbols by comma")
    app = connected()
    run = open_screen(app, universe, lenses, most)
    see(app, run, wait=wait, as_json=as_json)


@commands.command()
def research(
    symbols: Annotated[list[str] | None, typer.Argument(help="The symbols to research.")] = None,
    portfolio: Annotated[
        bool, typer.Option("--portfolio", help="Research the account's holdings, each role when it is due.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="With --portfolio: run every role, due or not.")] = False,
    wait: Wait = True,
    as_json: Json = False,
) -> None:
    """Research the symbols you name, or the account's holdings; the run ends with their verdicts."""
    if bool(symbols) == portfolio:
        what = "both symbols and --portfolio are given" if portfolio else "neither symbols nor --portfolio are given"
        raise UsageError(what, remedy="name symbols, or give --portfolio for the account's holdings")
    if force and not portfolio:
        raise UsageError("--force goes with --portfolio", remedy="symbols that you name are researched in any case")
    app = connected()
    run = open_research(app, symbols) if symbols else open_portfolio(app, force=force)
    see(app, run, wait=wait, as_json=as_json)


@commands.command()
def analyze(
    symbols: Annotated[list[str], typer.Argument(help="The symbols to analyse.")],
    strategy: Annotated[str, typer.Option(help="csp, covered_call or equity.")] = "csp",
    depth: Annotated[
        str | None, typer.Option(help="quick (no text around the synthesis), standard or deep; DESK_DEPTH by default.")
    ] = None,
    max_delta: Annotated[float | None, typer.Option(help="Largest |delta| of a contract; 0.30 by default.")] = None,
    min_roc: Annotated[
        float | None, typer.Option(help="Least return on capital, percent a week; 0.5 by default.")
    ] = None,
    dte: Annotated[str | None, typer.Option(help="Days to expiry, FEWEST-MOST; 14-45 by default.")] = None,
    contracts: Annotated[int | None, typer.Option(help="Contracts of one order; 1 by default.")] = None,
    with_chart: Annotated[
        bool, typer.Option("--chart/--no-chart", help="Ask the chart analyst; without it at most CAUTION.")
    ] = True,
    with_research: Annotated[
        bool, typer.Option("--research/--no-research", help="Ask the research analyst; without it at most CAUTION.")
    ] = True,
    orders: Annotated[bool, typer.Option("--orders/--no-orders", help="Propose an order for what is selected.")] = True,
    wait: Wait = True,
    as_json: Json = False,
) -> None:
    """Analyse symbols: chart, options, research, a synthesis by code, and a proposed put or covered call."""
    limits = {"max_delta": max_delta, "min_roc": min_roc, "dte": dte, "contracts": contracts}
    asked = analysis_request(strategy, **limits, chart=with_chart, research=with_research, orders=orders)  # type: ignore[arg-type]
    wanted = analysis_depth(depth)
    app = connected()
    see(app, open_analysis(app, symbols, asked, wanted), wait=wait, as_json=as_json)


@commands.command()
def trade(
    run: Annotated[str, typer.Argument(help="The run with the verdicts to trade on.")],
    wait: Wait = True,
    as_json: Json = False,
) -> None:
    """Let the trader decide on the verdicts of an earlier run."""
    app = connected()
    with desk_of(app).store.read() as session:
        source = find_run(session, run).id
    see(app, open_trade(app, source), wait=wait, as_json=as_json)


def connected() -> Celery:
    """Return an app with a reachable Redis and a current database, so that no run is opened that workers could never
    start."""
    settings = checked().settings
    app = create_app(settings, "cli")
    require_current(settings.database)
    wait_ready(redis_url(settings), REDIS_SECONDS)
    return app


def _lenses(named: list[str] | None) -> list[str] | None:
    if named is None:
        return None
    found = [part.strip() for item in named for part in item.split(",") if part.strip()] or [",".join(named)]
    for lens in found:
        if lens not in LENSES:
            raise SettingError(f"--lens {lens!r} is not a lens", remedy=f"choose among {', '.join(LENSES)}")
    return list(dict.fromkeys(found))


def see(app: Celery, run: Run | None, *, wait: bool, as_json: bool) -> None:
    """Follow a run that begins to its end and print it; exit code 1 for one that failed or was stopped."""
    assert run is not None, "only a scheduled slot can be taken already"
    out, store = console(), desk_of(app).store
    try:
        if not as_json:
            _head(app, run, out)
        if not wait:
            begun = {"run_id": run.id, "state": run.state, "standing": _standing(run), "outlook": _outlook(app, run)}
            emit(begun, lambda _: f"see it with: desk runs show {run.id}", as_json=as_json)
            return
        seen = follow(store, run.id, out, quiet=as_json)
    except KeyboardInterrupt:
        typer.echo(f"the run continues; see it with: desk runs show {run.id}", err=True)
        raise typer.Exit(INTERRUPTED) from None
    with store.read() as session:
        found = view(session, session.get_one(Run, run.id))
    emit(found, partial(run_report, home=desk_of(app).settings.home), as_json=as_json)
    raise typer.Exit(1 if seen.state in (RunState.FAILED, RunState.STOPPED) else 0)


def _standing(run: Run) -> Standing:
    return standing_of_run(run.settings, run.account, run.model, run.market, run.market_now)


def _head(app: Celery, run: Run, out: Console) -> None:
    """Print the id of a run that begins, what it runs on, and what it may spend."""
    out.print(f"run {run.id} started", highlight=False)
    out.print(standing_line(_standing(run)))
    for line in render.outlook(_outlook(app, run)):
        out.print(line, highlight=False, markup=False)


def _outlook(app: Celery, run: Run) -> Outlook:
    desk = desk_of(app)
    with desk.store.read() as session:
        return outlook(session, desk.settings, run)

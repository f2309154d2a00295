"""`desk screen`, `desk research`, `desk trade`: start a run and, unless told otherwise, follow it to its end."""

from __future__ import annotations

from typing import Annotated

import typer
from celery import Celery

from models.errors import SettingError, UsageError
from models.setting_sources import load_settings
from models.settings import LENSES
from models.states import RunState
from models.store import require_current
from models.tables import Run
from tasks.app import create_app
from tasks.bootstrap import desk_of, redis_url
from tasks.cli.live import follow
from tasks.cli.output import console, print_json
from tasks.cli.render import run_report
from tasks.run_view import find_run, view
from tasks.runs import open_portfolio, open_research, open_screen, open_trade
from tasks.services.redis import wait_ready

REDIS_SECONDS = 3.0
INTERRUPTED = 130
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Follow the run to its end.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def register(app: typer.Typer) -> None:
    for command in (screen, research, trade):
        app.command()(command)


def screen(
    universe: Annotated[str | None, typer.Option(help="sp500, a file of symbols, or symbols by comma.")] = None,
    most: Annotated[int | None, typer.Option("--max", help="Candidates kept.", min=1, max=500)] = None,
    lens: Annotated[list[str] | None, typer.Option(help="A lens; may be given again.")] = None,
    wait: Wait = True,
    as_json: Json = False,
) -> None:
    """Screen a universe, research the candidates, and let the trader decide."""
    lenses = _lenses(lens)
    if universe is not None and not universe.strip():
        raise UsageError("--universe is empty", remedy="give sp500, a file of symbols, or symbols by comma")
    app = _app()
    run = open_screen(app, universe, lenses, most)
    _see(app, run, wait=wait, as_json=as_json)


def research(
    symbols: Annotated[list[str] | None, typer.Argument(help="The symbols to research.")] = None,
    portfolio: Annotated[
        bool, typer.Option("--portfolio", help="What the account holds, each role when it is due.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="With --portfolio: every role, due or not.")] = False,
    wait: Wait = True,
    as_json: Json = False,
) -> None:
    """Research symbols that you name, or what the account holds; the run ends with their verdicts."""
    if bool(symbols) == portfolio:
        what = "both symbols and --portfolio are given" if portfolio else "there is nothing to research"
        raise UsageError(what, remedy="name symbols, or give --portfolio for what the account holds")
    if force and not portfolio:
        raise UsageError("--force goes with --portfolio", remedy="symbols that you name are researched in any case")
    app = _app()
    run = open_research(app, symbols) if symbols else open_portfolio(app, force=force)
    _see(app, run, wait=wait, as_json=as_json)


def trade(
    run: Annotated[str, typer.Argument(help="The run whose verdicts to trade on.")],
    wait: Wait = True,
    as_json: Json = False,
) -> None:
    """Let the trader decide on the verdicts of an earlier run."""
    app = _app()
    with desk_of(app).store.read() as session:
        source = find_run(session, run).id
    _see(app, open_trade(app, source), wait=wait, as_json=as_json)


def _app() -> Celery:
    """An app whose Redis answers and whose database is at this version's schema: a run that nobody could ever take
    up is not opened."""
    settings = load_settings()
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


def _see(app: Celery, run: Run | None, *, wait: bool, as_json: bool) -> None:
    assert run is not None, "only a scheduled slot can be taken already"
    out, store = console(), desk_of(app).store
    if not wait:
        if as_json:
            print_json({"run_id": run.id, "state": run.state})
        else:
            out.print(f"run {run.id} started; see it with: desk runs show {run.id}", highlight=False)
        return
    if not as_json:
        out.print(f"run {run.id} started ({run.model} speaks, market {run.market})", highlight=False)
    try:
        seen = follow(store, run.id, out, quiet=as_json)
    except KeyboardInterrupt:
        typer.echo(f"the run goes on without you; see it with: desk runs show {run.id}", err=True)
        raise typer.Exit(INTERRUPTED) from None
    with store.read() as session:
        found = view(session, session.get_one(Run, run.id))
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        out.print(run_report(found))
    raise typer.Exit(1 if seen.state in (RunState.FAILED, RunState.STOPPED) else 0)

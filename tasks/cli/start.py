"""Commands that start a run (screen, research, analyze, trade) and by default follow it to its end."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Protocol, cast, get_args

import typer
from rich.console import Console
from rich.live import Live

from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import Standing, standing_of_run
from chordesk.models.states import RunState
from chordesk.models.text import inert
from chordesk.tasks.cli.output import console, emit
from chordesk.tasks.cli.shell import Json, checked, run_of, standing_line, whoami

if TYPE_CHECKING:
    from chordesk.models.analysis import AnalysisRequest, Depth, Strategy
    from chordesk.models.tables.runs import Run
    from chordesk.tasks.reading.outlook import Outlook
    from chordesk.tasks.reading.runs import Progress
    from chordesk.tasks.services.stack import Stack
    from chordesk.tasks.worker.messages import DeskApp
    from chordesk.tasks.workflows.runs import Look

POLL_SECONDS = 0.4
PLAYED_SECONDS = 1.0  # a look costs what some steps do


class Player(Protocol):
    """Plays a run in this process."""

    def add(self, walk: Run) -> None: ...

    def play(self, seconds: float) -> None:
        """Play for about so long."""
        ...


def follow(
    app: DeskApp, run: Run, *, quiet: bool = False, player: Player | None = None, stack: Stack | None = None
) -> Progress:
    """Show progress until the run ends. Ctrl-C leaves the run going: it belongs to the workers. player: plays it here,
    between two looks. stack: raises ServiceError when it has ended, and the workers with it."""
    from chordesk.tasks.reading.runs import progress

    if player is not None:
        player.add(run)

    def look(show: Callable[[Progress], None]) -> Progress:
        while True:
            with app.desk.store.read() as session:
                seen = progress(session, run.id, app.desk.settings)
            show(seen if player is None else seen.model_copy(update={"waits": []}))  # it waits for this process alone
            if seen.final:
                return seen
            if stack is not None:
                stack.poll()
            if player is not None:
                player.play(PLAYED_SECONDS)
            else:
                time.sleep(POLL_SECONDS)

    if quiet:
        return look(lambda seen: None)
    out = console()
    # Colours may be forced on a pipe; a view that is drawn over itself needs a real terminal.
    if out.is_terminal and not out.is_dumb_terminal and out.file.isatty():
        from chordesk.tasks.cli.show.run_display import progress_panel

        with Live(console=out, refresh_per_second=4, transient=True) as live:
            return look(lambda seen: live.update(progress_panel(seen)))
    return look(_Lines(out).show)


class _Lines:
    """Prints a line when something has changed, at most one a second; what the run waits for when that is new."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last = ""
        self._at = 0.0
        self._waits: set[str] = set()

    def show(self, seen: Progress) -> None:
        from chordesk.tasks.cli.show.run_display import progress_line

        now_waits = {one.what: str(one) for one in seen.waits}
        for text in (text for what, text in now_waits.items() if what not in self._waits):
            self._console.print(f"{seen.seconds:6.1f} s  {inert(text)}", soft_wrap=True, highlight=False)
        self._waits = set(now_waits)
        line = progress_line(seen)
        now = time.monotonic()
        if line != self._last and (seen.final or now - self._at >= 1.0):
            self._last, self._at = line, now
            self._console.print(f"{seen.seconds:6.1f} s  {line}", soft_wrap=True, highlight=False)


_DAYS = re.compile(r"(\d{1,4})-(\d{1,4})")
_MOST_DAYS, _MOST_CONTRACTS = 400, 1000


def analysis_request(
    strategy: str | None,
    *,
    max_delta: float | None = None,
    min_roc: float | None = None,
    dte: str | None = None,
    contracts: int | None = None,
    chart: bool = True,
    research: bool | None = None,
    orders: bool = True,
    across_earnings: bool = False,
) -> AnalysisRequest:
    """None takes the default, or what the market has. min_roc: percent a week. Raises UsageError."""
    from chordesk.models.analysis import WRITES, AnalysisRequest

    chosen = _strategy(strategy) if strategy is not None else None
    if chosen is not None and chosen not in WRITES and not chart:
        reason = f"the strategy {chosen} rests on the chart, and research alone decides nothing"
        raise UsageError(reason, remedy="leave --no-chart out")
    given = {"--max-delta": max_delta, "--min-roc": min_roc, "--dte": dte, "--contracts": contracts}
    if (
        chosen is not None
        and chosen not in WRITES
        and (extra := [name for name, value in given.items() if value is not None])
    ):
        reason = f"{' and '.join(extra)} is of a contract, and the strategy {chosen} writes none"
        raise UsageError(reason, remedy=f"leave it out, or choose --strategy {' or '.join(WRITES)}")
    if chosen not in (None, "csp") and across_earnings:
        reason = f"--across-earnings is of a written put, and the strategy is {chosen}"
        raise UsageError(reason, remedy="leave it out, or choose --strategy csp")
    found = {
        "strategy": chosen,
        "research": research,
        "max_delta": _within("--max-delta", max_delta, 0.01, 1),
        "min_weekly_roc": _share(_within("--min-roc", min_roc, 0, 100)),
        "contracts": _within("--contracts", contracts, 1, _MOST_CONTRACTS),
        **(_days(dte) if dte is not None else {}),
    }
    asked = {name: value for name, value in found.items() if value is not None}
    flags = {"chart": chart, "orders": orders, "across_earnings": across_earnings}
    return AnalysisRequest.model_validate({**flags, **asked})


def analysis_depth(depth: str | None) -> Depth | None:
    from chordesk.models.analysis import Depth

    if depth is not None and depth not in get_args(Depth):
        raise UsageError(f"--depth {depth!r} is no depth", remedy=f"choose among {', '.join(get_args(Depth))}")
    return cast("Depth | None", depth)


def _strategy(text: str) -> Strategy:
    from chordesk.models.analysis import Strategy

    if text not in get_args(Strategy):
        raise UsageError(f"--strategy {text!r} is no strategy", remedy=f"choose among {', '.join(get_args(Strategy))}")
    return cast(Strategy, text)


def _within(name: str, value: float | None, least: float, most: float) -> float | None:
    if value is not None and not least <= value <= most:  # a NaN, too
        raise UsageError(f"{name} {value:g} is out of range", remedy=f"give {least:g} to {most:g}")
    return value


def _share(percent: float | None) -> float | None:
    return percent / 100 if percent is not None else None


def _days(text: str) -> dict[str, int]:
    remedy = f"give the fewest and the most days to expiry, such as 14-45, 1 to {_MOST_DAYS}"
    found = _DAYS.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"--dte {text!r} is no range of days", remedy=remedy)
    first, last = int(found[1]), int(found[2])
    if first > last:
        raise UsageError(f"--dte {text} begins after its end", remedy=remedy)
    if first < 1 or last > _MOST_DAYS:
        raise UsageError(f"--dte {text} is out of range", remedy=remedy)
    return {"min_days": first, "max_days": last}


REDIS_SECONDS = 3.0
INTERRUPTED = 130
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Follow the run to its end.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Start without asking.")]
Budget = Annotated[int | None, typer.Option(help="Tokens of the run in place of DESK_BUDGET_RUN_TOKENS.", min=1)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the forecast of turns, tokens and cost, and stop.")]
Lenses = Annotated[list[str] | None, typer.Option("--lens", help="A lens; repeat the option for several.")]
commands = typer.Typer()


@commands.command()
def screen(
    universe: Annotated[str | None, typer.Option(help="sp500, a file of symbols, or symbols by comma.")] = None,
    most: Annotated[int | None, typer.Option("--max", help="Candidates kept.", min=1, max=500)] = None,
    lens: Lenses = None,
    budget: Budget = None,
    wait: Wait = True,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Screen a universe, research it, and let the trader decide."""
    from chordesk.tasks.workflows.screen import open_screen

    lenses = lens_options(lens)
    if universe is not None and not universe.strip():
        raise UsageError("--universe is empty", remedy="give sp500, a file of symbols, or symbols by comma")
    app = connected(dry_run=dry_run)
    run = open_screen(
        app, universe, lenses, most, look=forecast(app, budget, yes=yes, dry_run=dry_run, as_json=as_json)
    )
    see(app, run, wait=wait, as_json=as_json)


@commands.command()
def research(
    symbols: Annotated[list[str] | None, typer.Argument(help="The symbols to research.")] = None,
    portfolio: Annotated[
        bool, typer.Option("--portfolio", help="Research what is held, each role when it is due.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="With --portfolio: run every role, due or not.")] = False,
    budget: Budget = None,
    wait: Wait = True,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Research symbols, or the account's holdings.

    The run ends with their verdicts.
    """
    from chordesk.tasks.workflows.research import open_portfolio, open_research

    if bool(symbols) == portfolio:
        what = "both symbols and --portfolio are given" if portfolio else "neither symbols nor --portfolio are given"
        raise UsageError(what, remedy="name symbols, or give --portfolio for the account's holdings")
    if force and not portfolio:
        raise UsageError("--force goes with --portfolio", remedy="symbols that you name are researched in any case")
    app = connected(dry_run=dry_run)
    look = forecast(app, budget, yes=yes, dry_run=dry_run, as_json=as_json)
    run = open_research(app, symbols, look) if symbols else open_portfolio(app, force=force, look=look)
    see(app, run, wait=wait, as_json=as_json)


@commands.command()
def analyze(
    symbols: Annotated[list[str], typer.Argument(help="The symbols to analyse.")],
    strategy: Annotated[
        str | None, typer.Option(help="csp, covered_call or equity; by default csp where there are option chains.")
    ] = None,
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
        bool | None,
        typer.Option("--research/--no-research", help="Ask the research analyst; by default where there are sources."),
    ] = None,
    orders: Annotated[bool, typer.Option("--orders/--no-orders", help="Propose an order for what is selected.")] = True,
    across_earnings: Annotated[
        bool, typer.Option("--across-earnings", help="Leave to write a put that lives past its earnings.")
    ] = False,
    budget: Budget = None,
    wait: Wait = True,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Analyse symbols, and propose a put or a covered call.

    Chart, options, research, and a synthesis by code. Without option chains the shares are analysed.
    """
    from chordesk.tasks.workflows.analyze import open_analysis

    limits = {"max_delta": max_delta, "min_roc": min_roc, "dte": dte, "contracts": contracts}
    flags = {"chart": with_chart, "research": with_research, "orders": orders, "across_earnings": across_earnings}
    asked = analysis_request(strategy, **limits, **flags)  # type: ignore[arg-type]
    wanted = analysis_depth(depth)
    app = connected(dry_run=dry_run)
    look = forecast(app, budget, yes=yes, dry_run=dry_run, as_json=as_json)
    see(app, open_analysis(app, symbols, asked, wanted, look), wait=wait, as_json=as_json)


@commands.command()
def trade(
    run: Annotated[str, typer.Argument(help="The run with the verdicts to trade on.")],
    budget: Budget = None,
    wait: Wait = True,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Let the trader decide on the verdicts of an earlier run."""
    from chordesk.tasks.workflows.trade import open_trade

    app = connected(dry_run=dry_run)
    with app.desk.store.read() as session:
        source = run_of(session, run).id
    look = forecast(app, budget, yes=yes, dry_run=dry_run, as_json=as_json)
    see(app, open_trade(app, source, look), wait=wait, as_json=as_json)


@commands.command()
def close(
    symbol: Annotated[str, typer.Argument(help="A symbol or contract that the account holds.")],
    why: Annotated[str, typer.Option(help="The reason, for the record.")] = "closed by a person",
    wait: Wait = True,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before the order is made.")] = False,
    as_json: Json = False,
) -> None:
    """Close one position: an order that passes the desk's checks.

    Its stop is withdrawn when it is sent. Where the desk's approval is a person's, it waits in `desk approvals`.
    """
    from chordesk.tasks.workflows.trade import open_close
    from chordesk.tools.decimals import plain
    from chordesk.tools.orders.closing import closing_action, resting_entries

    app, position = connected(), symbol.strip().upper()
    with app.desk.store.read() as session:
        action = closing_action(session, app.desk.settings, position, why)
        resting = resting_entries(session, app.desk.settings.account, position)
    for line in resting:
        typer.echo(line, err=True)
    what = f"{action['side']} {plain(action['quantity'])} {position} at market on account {app.desk.settings.account}"
    asks = not yes and not as_json and sys.stdin.isatty() and sys.stdout.isatty()
    if asks and not typer.confirm(f"{what}?", default=False):
        raise typer.Exit()
    see(app, open_close(app, position, whoami(), why), wait=wait, as_json=as_json)


def connected(*, dry_run: bool = False) -> DeskApp:
    """dry_run: nothing is started, so the app sends nothing and needs no Redis."""
    settings = checked().settings
    return planner(settings) if dry_run else reached(settings)


def planner(settings: Settings) -> DeskApp:
    from chordesk.models.database.store import require_current
    from chordesk.tasks.bootstrap import Desk
    from chordesk.tasks.worker.messages import DeskApp

    require_current(settings.database)
    app = DeskApp("forecast", broker="memory://", set_as_current=False)
    app.desk = Desk(settings, "cli")
    return app


def reached(settings: Settings) -> DeskApp:
    """With a reachable Redis and a current database: no run is opened that workers could never start."""
    from chordesk.models.database.store import require_current
    from chordesk.tasks.redis_clients import redis_url, wait_ready
    from chordesk.tasks.worker.app import create_app

    app = create_app(settings, "cli")
    require_current(settings.database)
    wait_ready(redis_url(settings), REDIS_SECONDS)
    return app


def forecast(app: DeskApp, budget: int | None, *, yes: bool, dry_run: bool, as_json: bool) -> Look:
    """Return what gives a run its budget and prints what it may come to before it is written: a dry run ends there, and
    a person at a terminal is asked where it costs tokens."""
    from chordesk.tasks.reading.outlook import spending
    from chordesk.tasks.workflows.runs import with_budget

    def look(run: Run) -> None:
        with app.desk.store.read() as session:
            found = spending(session, app.desk.settings, run)
        if dry_run:
            emit(found, lambda one: f"forecast: {one.said}", as_json=as_json)
            raise typer.Exit()
        if as_json:
            return
        console().print(f"forecast: {found.said}", soft_wrap=True, highlight=False, markup=False)
        asks = found.asks_models and not yes and sys.stdin.isatty() and sys.stdout.isatty()
        if asks and not typer.confirm("start it?", default=True):
            raise typer.Exit()

    return with_budget(budget, look)


def lens_options(named: list[str] | None) -> list[str] | None:
    if named is None:
        return None
    return [part.strip() for item in named for part in item.split(",") if part.strip()] or [",".join(named)]


def see(app: DeskApp, run: Run | None, *, wait: bool, as_json: bool, player: Player | None = None) -> None:
    from chordesk.models.tables.runs import Run
    from chordesk.tasks.cli.show.run_display import run_report
    from chordesk.tasks.reading.runs import view

    assert run is not None, "only a scheduled slot can be taken already"
    try:
        if not as_json:
            _head(app, run, console())
        if not wait:
            begun = {"run_id": run.id, "state": run.state, "standing": _standing(run), "outlook": _outlook(app, run)}
            emit(begun, lambda _: f"see it with: desk runs show {run.id}", as_json=as_json)
            return
        seen = follow(app, run, quiet=as_json, player=player)
    except KeyboardInterrupt:
        goes_on = "the run continues; see it with: desk runs show"
        if player is not None:
            goes_on = "workers go on with the run, where there are some; without: desk backtest --resume"
        typer.echo(f"{goes_on} {run.id}", err=True)
        raise typer.Exit(INTERRUPTED) from None
    with app.desk.store.read() as session:
        found = view(session, session.get_one(Run, run.id))
    emit(found, partial(run_report, home=app.desk.settings.home), as_json=as_json)
    raise typer.Exit(1 if seen.state in (RunState.FAILED, RunState.STOPPED) else 0)


def _standing(run: Run) -> Standing:
    return standing_of_run(run.settings, run.account, run.model, run.market, run.market_now)


def _head(app: DeskApp, run: Run, out: Console) -> None:
    from chordesk.tasks.cli.show import amount_text

    out.print(f"run {run.id} started", highlight=False)
    out.print(standing_line(_standing(run)))
    for line in amount_text.outlook(_outlook(app, run)):
        out.print(line, highlight=False, markup=False)
    for lack in run.params.get("lacks", ()):
        out.print(f"note: {lack}", soft_wrap=True, highlight=False, markup=False)


def _outlook(app: DeskApp, run: Run) -> Outlook:
    from chordesk.tasks.reading.outlook import outlook

    desk = app.desk
    with desk.store.read() as session:
        return outlook(session, desk.settings, run)

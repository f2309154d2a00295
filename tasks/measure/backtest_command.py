"""`desk backtest`: past sessions, played on workers or in this process."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings
from chordesk.tasks.cli.options import added
from chordesk.tasks.cli.shell import Json, checked, day_of, make_own, run_of
from chordesk.tasks.cli.start import DryRun, Lenses, Wait, Yes, forecast, lens_options, reached, see

if TYPE_CHECKING:
    from chordesk.tasks.measure.playing import Player
    from chordesk.tasks.worker.messages import DeskApp

InProcess = Annotated[
    bool | None,
    typer.Option(
        "--in-process/--on-workers", help="Where it is played; by default in this process where no model is asked."
    ),
]
commands = typer.Typer()


@commands.command()
def backtest(
    first: Annotated[str | None, typer.Option("--from", help="First day, YYYY-MM-DD.")] = None,
    last: Annotated[str | None, typer.Option("--to", help="Last day, YYYY-MM-DD.")] = None,
    every: Annotated[int, typer.Option(help="Every so many-th session; 5 is one a week.")] = 1,
    universe: Annotated[str | None, typer.Option(help="sp500, a file of symbols, or symbols by comma.")] = None,
    lens: Lenses = None,
    memory: Annotated[
        str, typer.Option(help="What a day repeats of earlier days: off (days in parallel) or on (in order).")
    ] = "off",
    resume: Annotated[str | None, typer.Option(help="A backtest to go on with, by its id.")] = None,
    in_process: InProcess = None,
    budget: Annotated[
        int | None, typer.Option(help="Tokens of each day in place of DESK_BUDGET_RUN_TOKENS.", min=1)
    ] = None,
    wait: Wait = True,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Let the whole desk play past sessions.

    It has an account of its own, and is compared with the universe itself.
    """
    from chordesk.tasks.measure.backtest import open_backtest

    if resume is not None:
        if (first, last, universe, lens, budget) != (None,) * 5 or dry_run:
            remedy = "its days, universe, lenses and budget are those that it was begun with; leave these options out"
            raise UsageError("--resume goes on with a backtest as it is", remedy=remedy)
        _resume(resume, in_process, wait=wait, as_json=as_json)
        return
    days = _session_day("--from", first), _session_day("--to", last)
    if memory not in ("on", "off"):
        raise UsageError(f"--memory {memory!r} is neither on nor off", remedy="give --memory on or --memory off")
    if universe is not None and not universe.strip():
        raise UsageError("--universe is empty", remedy="give sp500, a file of symbols, or symbols by comma")
    with walking(checked().settings, in_process, wait) as (app, player):
        look = forecast(app, budget, yes=yes, dry_run=dry_run, as_json=as_json)
        run = open_backtest(
            app, *days, every=every, universe=universe, memory=memory, lenses=lens_options(lens), look=look, **added()
        )
        see(app, run, wait=wait, as_json=as_json, player=player)


@contextmanager
def walking(
    settings: Settings,
    in_process: bool | None = None,
    wait: bool = True,
    walks: Callable[[Settings], Sequence[Settings]] = lambda settings: [settings],
) -> Iterator[tuple[DeskApp, Player | None]]:
    """Yield the app to open backtests with, and what plays them here where they ask no model: that takes no Redis and
    no workers. walks: returns the settings of each backtest. Raises UsageError where `in_process` asks for what cannot
    be had."""
    from chordesk.agents.role_models import asks_a_model, runtimes_of
    from chordesk.models.database.store import require_current
    from chordesk.models.settings.running_desk import backtest_account

    if in_process and not wait:
        raise UsageError("--in-process plays a backtest until it ends", remedy="leave --no-wait out")
    make_own(settings)
    require_current(settings.database)
    played = [one.on_backtest(backtest_account("")) for one in walks(settings)]
    asking = [one for one in played if asks_a_model(one)]
    if in_process and asking:
        runtimes = ", ".join(sorted(runtimes_of(asking[0])))
        raise UsageError(
            f"--in-process asks no model, and this backtest has {runtimes}",
            remedy="leave it out, set DESK_PROVIDER=rulebook without DESK_ROLE_MODELS, or DESK_CASSETTES=replay",
        )
    if asking or not wait or in_process is False:
        yield reached(settings), None
        return
    from chordesk.tasks.measure.playing import Player

    with closing(Player(settings)) as player:
        yield player.app, player


def _resume(part: str, in_process: bool | None, *, wait: bool, as_json: bool) -> None:
    from chordesk.models.database.store import Store
    from chordesk.models.settings.running_desk import in_run
    from chordesk.tasks.measure.backtest import resume_backtest, unfinished

    def kept(settings: Settings) -> list[Settings]:
        with closing(Store(settings.database)) as store, store.read() as session:
            return [in_run(settings, run_of(session, part).settings)]

    with walking(checked().settings, in_process, wait, kept) as (app, player):
        with app.desk.store.read() as session:
            source = run_of(session, part)
            going = unfinished(session, source) if player is not None else None
        run = going or resume_backtest(app, source.id)
        see(app, run, wait=wait, as_json=as_json, player=player)


def _session_day(name: str, given: str | None) -> dt.date:
    if given is None:
        raise UsageError(
            f"{name} is missing", remedy="give the first and the last day: --from YYYY-MM-DD --to YYYY-MM-DD"
        )
    return day_of(name, given)

"""`desk benchmark`: the desk on public benchmarks, on a user's own copy of their data."""

from __future__ import annotations

import datetime as dt
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from sqlmodel import col, select

from chordesk.models import features
from chordesk.models.errors import DeskError, UsageError
from chordesk.models.states import RunKind, RunState
from chordesk.tasks.cli.output import console, emit, print_line, table
from chordesk.tasks.cli.shell import Json, day_of
from chordesk.tasks.cli.start import follow

if TYPE_CHECKING:
    from chordesk.models.settings import Settings
    from chordesk.tasks.services.plan import Plan
    from chordesk.tasks.worker.messages import DeskApp
    from chordesk.tools.benchmarks.benchmark import Answered, Ask, Benchmark, Board, Measured, Play, Played, Row

commands = typer.Typer()
# What the desk plays with besides its model: its market, account and schedule are the benchmark's.
MODEL = (
    "DESK_PROVIDER", "DESK_MODEL", "DESK_ROLE_MODELS", "DESK_EFFORT", "DESK_CODEX", "DESK_LITELLM", "DESK_LOCAL",
    "DESK_VOICE", "DESK_PRICES", "DESK_BUDGET",
)  # fmt: skip
LONGEST_SECONDS = 24 * 3600.0
QUESTIONS = 50


@commands.command("benchmark")
def run(
    name: Annotated[str, typer.Argument(help="forecastbench, stockbench, trades, or one that a package adds.")],
    folder: Annotated[Path, typer.Option("--from", help="Your copy of the benchmark's data.")],
    sets: Annotated[list[str] | None, typer.Option("--set", help="A question set's day, YYYY-MM-DD; all else.")] = None,
    forecasts: Annotated[Path | None, typer.Option(help="Score this file, in the leaderboard's format, too.")] = None,
    export: Annotated[Path | None, typer.Option(help="Write own forecasts there, in the leaderboard's format.")] = None,
    play: Annotated[
        bool | None, typer.Option("--play/--no-play", help="Let the desk play or forecast; or code alone.")
    ] = None,
    questions: Annotated[
        int | None, typer.Option(help="Let voices forecast so many questions; 50 by default.", min=1)
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the choice of questions.")] = 0,
    rounds: Annotated[int, typer.Option(help="Rounds of the voices.", min=1, max=2)] = 1,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before tokens are spent.")] = False,
    home: Annotated[Path, typer.Option(help="The folder of the desk that plays; wiped at the start.")] = Path(
        ".benchmark"
    ),
    as_json: Json = False,
) -> None:
    """Measure the desk on a public benchmark.

    Its rows stand beside the published ones. The desk that plays has a home of its own and the model of the
    environment's settings, rules by default.
    """
    from chordesk.tools.benchmarks.benchmark import Given

    found, plays = _benchmark(name), play is not False
    given = Given(
        (lambda asked: _play(asked, home, quiet=as_json)) if plays else None,
        [day_of("--set", one) for one in sets or ()],
        forecasts,
        export,
        (lambda asked: _forecast(asked, home, rounds, yes=yes, quiet=as_json)) if plays else None,
        questions or QUESTIONS,
        seed,
    )
    asked = {
        "sets": bool(sets), "forecasts": forecasts is not None, "export": export is not None, "play": bool(play),
        "questions": questions is not None or seed != 0 or rounds != 1,
    }  # fmt: skip
    if unknown := [option for option, there in asked.items() if there and option not in found.options]:
        known = ", ".join(sorted(found.options)) or "none"
        option = {"sets": "set", "questions": "questions, --seed and --rounds"}.get(unknown[0], unknown[0])
        raise UsageError(f"{name} has no use for --{option}", remedy=f"it knows: {known}")
    if asked["questions"] and not plays:
        raise UsageError("--questions, --seed and --rounds are for voices, and --no-play asks none", remedy="drop one")
    if not folder.is_dir():
        raise UsageError(f"--from {folder} is no folder", remedy="name your copy of the benchmark's data")
    measured = found.measure(folder.absolute(), given)
    shown = replace(measured, rows=[*measured.rows, *found.published])
    emit(
        {"benchmark": name, "note": found.note, "rows": [row._asdict() for row in shown.rows],
         "details": shown.details, "lines": shown.lines},
        lambda _: _report(found, shown),
        as_json=as_json,
    )  # fmt: skip


def _benchmark(name: str) -> Benchmark:
    places: dict[str, str] = features.added({}, "benchmarks")
    if name not in places:
        remedy = f"there are {', '.join(sorted(places))}"
        raise UsageError(f"no benchmark has the name {name}", remedy=remedy)
    found: Benchmark = features.part("benchmarks", name, places[name])
    return found


def _report(found: Benchmark, measured: Measured) -> RenderableType:
    def cells(row: Row) -> Sequence[str]:
        figures = ((row.figures.get(name), style) for name, style in found.columns.items())
        return [row.who, *("-" if one is None else format(one, style) for one, style in figures), row.source]

    names = ["who", *found.columns, "source"]
    rows = table(names, map(cells, measured.rows), found.purpose, right=found.columns)
    return Group(rows, *measured.lines, found.note)


def _play(asked: Play, home: Path, *, quiet: bool) -> Played:
    """Let a desk of its own walk over the sessions, and return its account after each."""
    from chordesk.agents.role_models import asks_a_model
    from chordesk.models.database.store import Store
    from chordesk.models.settings.running_desk import backtest_account
    from chordesk.models.settings.sources import load
    from chordesk.tasks.services import demo, plan
    from chordesk.tools.benchmarks.benchmark import Played

    notify = _ignored if quiet else print_line
    place = demo.fresh_home(home)
    own = _environment(
        place, "files", asked.first, DESK_DATA=str(asked.data), DESK_SLIPPAGE_BPS=f"{asked.slippage_basis_points:g}"
    )
    loaded = load(own, place)
    settings = loaded.settings
    notify(f"a desk in {place} plays {asked.first} to {asked.last}; model: {settings.model_label}")
    if asks_a_model(settings.on_backtest(backtest_account(""))):
        made = plan.make(loaded, own, place, plan.Choice(beat=False))
        ended_well = _walk_on_workers(made, asked, notify, quiet=quiet)
    else:
        ended_well = _walk_here(settings, asked, quiet=quiet)
    with closing(Store(settings.database)) as store, store.read() as session:
        ended = demo.newest(session, RunKind.BACKTEST)
        summary = ended.summary.get("backtest") if ended is not None else None
    if not ended_well or not summary:
        raise DeskError("the walk did not end well", remedy=f"`DESK_HOME={place} desk runs list`")
    values = [row["equity"] for row in summary["curve"] if row["equity"] is not None]
    return Played(settings.model_label, values)


def _walk_on_workers(made: Plan, asked: Play, notify: Callable[[str], None], *, quiet: bool) -> bool:
    from chordesk.tasks.services import demo, signals
    from chordesk.tasks.services.stack import desk_stack

    days = ("--from", str(asked.first), "--to", str(asked.last), "--universe", _universe(asked))
    with signals.raised(), desk_stack(made, notify) as stack:
        command = ("backtest", *days, *(["--json"] if quiet else []))
        return not demo.follow(stack, demo.SeenProcesses(), *command, seconds=LONGEST_SECONDS, quiet=quiet)


def _walk_here(settings: Settings, asked: Play, *, quiet: bool) -> bool:
    from chordesk.agents.role_models import require_roles
    from chordesk.models.database.store import upgrade
    from chordesk.tasks.worker.logs import configure
    from chordesk.tasks.worker.playing import Player
    from chordesk.tasks.workflows.backtest import open_backtest

    configure(settings)
    require_roles(settings)
    upgrade(settings.database)
    with closing(Player(settings)) as player:
        run = open_backtest(player.app, asked.first, asked.last, universe=_universe(asked))
        player.add(run)
        seen = follow(player.app.desk.store, settings, run.id, console(), quiet=quiet, player=player)
    return seen.state not in (RunState.FAILED, RunState.STOPPED)


def _universe(asked: Play) -> str:
    return ",".join(sorted(path.stem for path in (asked.data / "bars").glob("*.csv")))


def _environment(home: Path, market: str, day: dt.date, **more: str) -> dict[str, str]:
    from chordesk.models.settings.variables import names_setting
    from chordesk.tasks.services.demo import FORCED

    kept = {key: value for key, value in os.environ.items() if not names_setting(key) or key.startswith(MODEL)}
    forced = {key: value for key, value in FORCED.items() if key not in ("DESK_PROVIDER", "DESK_REPLAY_OPTIONS")}
    return {
        "DESK_PROVIDER": "rulebook",
        **kept,
        **forced,
        "DESK_MARKET": market,
        "DESK_REPLAY_DATE": str(day),
        "DESK_STOCK_ONLY": "true",
        "DESK_OPTIONS_MODE": "stocks-only",
        "DESK_HOME": str(home),
        **more,
    }


def _ignored(_: str) -> None:
    pass


def _forecast(asked: Ask, home: Path, rounds: int, *, yes: bool, quiet: bool) -> Answered:
    """Let the voices of a desk of its own forecast the boards, one after the other: a later one knows the outcomes that
    have come since. Their market is DESK_DATA's where it is set, else the exchange's calendar."""
    from chordesk.models.settings.sources import load
    from chordesk.models.tables.columns import utcnow
    from chordesk.tasks.services import demo, plan, signals
    from chordesk.tasks.services.stack import desk_stack
    from chordesk.tasks.worker.app import create_app
    from chordesk.tools.question_files import Importing, import_files

    notify = _ignored if quiet else print_line
    place, data = demo.fresh_home(home), os.environ.get("DESK_DATA")
    files = {"DESK_DATA": str(Path(data).absolute())} if data else {}
    own = _environment(place, "files" if data else "calendar", asked.boards[0].day, **files)
    made = plan.make(load(own, place), own, place, plan.Choice(beat=False))
    notify(f"a desk in {place} forecasts {len(asked.boards)} boards; model: {made.settings.model_label}")
    with signals.raised(), desk_stack(made, notify) as stack:
        app = create_app(made.settings, "cli")
        report = import_files(app.desk.store, asked.files, Importing("desk benchmark", utcnow(), utcnow()))
        notify(f"{report.new:,} questions imported; no outcome is known before its day")
        _confirm(app, len(asked.boards) * rounds, yes=yes, quiet=quiet)
        runs = []
        for board in asked.boards:
            stack.poll()
            runs += _held(app, board, rounds, quiet=quiet)
        return _answered(app, runs)


def _confirm(app: DeskApp, rounds: int, *, yes: bool, quiet: bool) -> None:
    """Say what so many rounds of all voices may cost; a person at a terminal is asked where it is more than nothing."""
    from chordesk.tasks.reading.outlook import spending
    from chordesk.tasks.workflows.runs import new_run

    run = new_run(app.desk, RunKind.EPISODE, {"rounds": rounds})
    with app.desk.store.read() as session:
        found = spending(session, app.desk.settings, run)
    if quiet:
        return
    print_line(f"forecast: {found.said}")
    asks = found.asks_models and not yes and sys.stdin.isatty() and sys.stdout.isatty()
    if asks and not typer.confirm("start it?", default=True):
        raise typer.Exit()


def _held(app: DeskApp, board: Board, rounds: int, *, quiet: bool) -> list[str]:
    """Hold an episode on those of a board's questions that are open on its day, and return its run; none without."""
    from chordesk.models.tables.board import Question
    from chordesk.tasks.workflows.episode.opening import open_episode
    from chordesk.tools.questions.reading import askable

    desk = app.desk
    market = desk.market_for(board.day)
    with desk.store.read() as session:
        named = session.exec(select(Question.id).where(col(Question.external_id).in_(board.questions))).all()
        ids = [one.id for one in askable(session, market, market.clock.now(), named)]
    run = open_episode(app, questions=ids, rounds=rounds, market=market) if ids else None
    if run is None:
        return []
    follow(desk.store, desk.settings, run.id, console(), quiet=True)
    if not quiet:
        print_line(f"{board.day}: {len(ids)} questions, run {run.id}")
    return [run.id]


def _answered(app: DeskApp, runs: Sequence[str]) -> Answered:
    from chordesk.models.tables.board import EpisodeQuestion, Forecast, Question
    from chordesk.models.tables.runs import Turn
    from chordesk.tools.benchmarks.benchmark import Answered

    voices: dict[str, dict[str, float]] = {"": {}}
    blind: dict[str, float] = {}
    with app.desk.store.read() as session:
        asked = (
            select(EpisodeQuestion, Question.external_id).join(Question).where(col(EpisodeQuestion.run_id).in_(runs))
        )
        for row, key in session.exec(asked):
            pooled = row.informed if row.informed is not None else row.blind
            if pooled is not None:
                voices[""][key] = pooled
            if row.informed is not None and row.blind is not None:
                blind[key] = row.blind
        own = select(Forecast, Question.external_id).join(Question).where(col(Forecast.run_id).in_(runs))
        for forecast, key in session.exec(own.order_by(col(Forecast.voice), col(Forecast.round))):
            voices.setdefault(forecast.voice, {})[key] = forecast.probability
        turns = session.exec(select(Turn).where(col(Turn.run_id).in_(runs))).all()
    tokens = sum(one.total_tokens or 0 for one in turns)
    return Answered(app.desk.settings.model_label, voices, len(turns), tokens, blind or None)

"""`desk benchmark`: the desk on public benchmarks, on a user's own copy of their data."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from sqlmodel import col, select

from chordesk.models import features
from chordesk.models.errors import DeskError, UsageError
from chordesk.models.states import RunKind, RunState
from chordesk.tasks.cli.output import emit, print_line, table
from chordesk.tasks.cli.shell import Json, day_of
from chordesk.tasks.cli.start import follow, forecast
from chordesk.tasks.measure.backtest_command import walking

if TYPE_CHECKING:
    from chordesk.models.benchmarks import Answered, Ask, Benchmark, Board, Measured, Play, Played, Row
    from chordesk.tasks.services.stack import Stack
    from chordesk.tasks.worker.messages import DeskApp

commands = typer.Typer()
# What the desk plays with besides its model: its market, account and schedule are the benchmark's.
MODEL = (
    "DESK_PROVIDER", "DESK_MODEL", "DESK_ROLE_MODELS", "DESK_EFFORT", "DESK_CODEX", "DESK_LITELLM", "DESK_LOCAL",
    "DESK_VOICE", "DESK_PRICES", "DESK_BUDGET",
)  # fmt: skip
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
    from chordesk.models.benchmarks import Given

    found, plays = _benchmark(name), play is not False
    given = Given(
        (lambda asked: _play(asked, home, yes=yes, quiet=as_json)) if plays else None,
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
        {"benchmark": name, "note": found.note, "columns": dict(found.columns),
         "rows": [row._asdict() for row in shown.rows], "details": shown.details, "lines": shown.lines},
        lambda _: _report(found, shown),
        as_json=as_json,
    )  # fmt: skip


def _benchmark(name: str) -> Benchmark:
    places: dict[str, str] = features.added({}, "benchmarks")
    if name not in places:
        remedy = f"there are {', '.join(sorted(places))}"
        raise UsageError(f"no benchmark has the name {name}", remedy=remedy)
    found: Benchmark = features.part("benchmarks", name, places[name], kind="measure")
    return found


def _report(found: Benchmark, measured: Measured) -> RenderableType:
    def cells(row: Row) -> Sequence[str]:
        figures = ((row.figures.get(name), style) for name, style in found.columns.items())
        return [row.who, *("-" if one is None else format(one, style) for one, style in figures), row.source]

    names = ["who", *found.columns, "source"]
    rows = table(names, map(cells, measured.rows), found.purpose, right=found.columns)
    return Group(rows, *measured.lines, found.note)


def _play(asked: Play, home: Path, *, yes: bool, quiet: bool) -> Played:
    """Let a desk of its own walk over the sessions, and return its account after each."""
    from chordesk.agents.role_models import asks_a_model, require_roles
    from chordesk.models.benchmarks import Played
    from chordesk.models.settings.running_desk import backtest_account
    from chordesk.models.settings.sources import load
    from chordesk.models.tables.runs import Run
    from chordesk.tasks.measure.backtest import open_backtest
    from chordesk.tasks.samples import demo
    from chordesk.tasks.services import plan, stop_signals
    from chordesk.tasks.services.stack import desk_stack

    notify = _ignored if quiet else print_line
    place = demo.fresh_home(home)
    own = _environment(
        place, "files", asked.first, DESK_DATA=str(asked.data), DESK_SLIPPAGE_BPS=f"{asked.slippage_basis_points:g}"
    )
    loaded = load(own, place)
    settings, stack = loaded.settings, None
    require_roles(settings)
    notify(f"a desk in {place} plays {asked.first} to {asked.last}; model: {settings.model_label}")
    with ExitStack() as held:
        if asks_a_model(settings.on_backtest(backtest_account(""))):
            made = plan.make(loaded, own, place, plan.Choice(beat=False))
            held.enter_context(stop_signals.raised())
            stack, settings = held.enter_context(desk_stack(made, notify)), made.settings
        app, player = held.enter_context(walking(settings))
        look = forecast(app, None, yes=yes, dry_run=False, as_json=quiet)
        run = open_backtest(app, asked.first, asked.last, universe=_universe(asked), look=look)
        follow(app, run, quiet=quiet, player=player, stack=stack)
        with app.desk.store.read() as session:
            ended = session.get_one(Run, run.id)
    summary = ended.summary.get("backtest")
    if ended.state in (RunState.FAILED, RunState.STOPPED) or not summary:
        raise DeskError("the walk did not end well", remedy=f"`DESK_HOME={place} desk runs show {run.id}`")
    values = [row["equity"] for row in summary["curve"] if row["equity"] is not None]
    return Played(settings.model_label, values, summary.get("exposure"))


def _universe(asked: Play) -> str:
    return ",".join(sorted(path.stem for path in (asked.data / "bars").glob("*.csv")))


def _environment(home: Path, market: str, day: dt.date, **more: str) -> dict[str, str]:
    from chordesk.models.settings.variables import names_setting
    from chordesk.tasks.samples.demo import FORCED

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
    from chordesk.tasks.samples import demo
    from chordesk.tasks.services import plan, stop_signals
    from chordesk.tasks.services.stack import desk_stack
    from chordesk.tasks.worker.app import create_app
    from chordesk.tasks.workflows.runs import new_run
    from chordesk.tools.board.question_files import Importing, import_files

    notify = _ignored if quiet else print_line
    place, data = demo.fresh_home(home), os.environ.get("DESK_DATA")
    files = {"DESK_DATA": str(Path(data).absolute())} if data else {}
    own = _environment(place, "files" if data else "calendar", asked.boards[0].day, **files)
    made = plan.make(load(own, place), own, place, plan.Choice(beat=False))
    notify(f"a desk in {place} forecasts {len(asked.boards)} boards; model: {made.settings.model_label}")
    with stop_signals.raised(), desk_stack(made, notify) as stack:
        app = create_app(made.settings, "cli")
        report = import_files(app.desk.store, asked.files, Importing("desk benchmark", utcnow(), utcnow()))
        notify(f"{report.new:,} questions imported; no outcome is known before its day")
        whole = new_run(app.desk, RunKind.EPISODE, {"rounds": len(asked.boards) * rounds})
        forecast(app, None, yes=yes, dry_run=False, as_json=quiet)(whole)
        runs = []
        for board in asked.boards:
            runs += _held(app, board, rounds, stack, quiet=quiet)
        return _answered(app, runs)


def _held(app: DeskApp, board: Board, rounds: int, stack: Stack, *, quiet: bool) -> list[str]:
    """Hold an episode on those of a board's questions that are open on its day, and return its run; none without."""
    from chordesk.models.tables.board import Question
    from chordesk.tasks.board.episode.opening import open_episode
    from chordesk.tools.questions.stored_questions import askable

    desk = app.desk
    market = desk.market_for(board.day)
    with desk.store.read() as session:
        named = session.exec(select(Question.id).where(col(Question.external_id).in_(board.questions))).all()
        ids = [one.id for one in askable(session, market, market.clock.now(), named)]
    run = open_episode(app, questions=ids, rounds=rounds, market=market) if ids else None
    if run is None:
        return []
    follow(app, run, quiet=True, stack=stack)
    if not quiet:
        print_line(f"{board.day}: {len(ids)} questions, run {run.id}")
    return [run.id]


def _answered(app: DeskApp, runs: Sequence[str]) -> Answered:
    from chordesk.models.benchmarks import Answered
    from chordesk.models.tables.board import EpisodeQuestion, Forecast, Question
    from chordesk.models.tables.runs import Turn

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
        for said, key in session.exec(own.order_by(col(Forecast.voice), col(Forecast.round))):
            voices.setdefault(said.voice, {})[key] = said.probability
        turns = session.exec(select(Turn).where(col(Turn.run_id).in_(runs))).all()
    tokens = sum(one.total_tokens or 0 for one in turns)
    return Answered(app.desk.settings.model_label, voices, len(turns), tokens, blind or None)

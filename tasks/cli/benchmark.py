"""`desk benchmark`: the desk on public benchmarks, on a user's own copy of their data."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType

from chordesk.models import features
from chordesk.models.errors import DeskError, UsageError
from chordesk.models.states import RunKind
from chordesk.tasks.cli.output import emit, print_line, table
from chordesk.tasks.cli.shell import Json, day_of

if TYPE_CHECKING:
    from chordesk.tools.benchmarks.benchmark import Benchmark, Measured, Play, Played, Row

commands = typer.Typer()
# What the desk plays with besides its model: its market, account and schedule are the benchmark's.
MODEL = ("DESK_PROVIDER", "DESK_MODEL", "DESK_ROLE_MODELS", "DESK_EFFORT", "DESK_CODEX", "DESK_LITELLM")
LONGEST_SECONDS = 24 * 3600.0


@commands.command("benchmark")
def run(
    name: Annotated[str, typer.Argument(help="forecastbench, stockbench, or one that a package adds.")],
    folder: Annotated[Path, typer.Option("--from", help="Your copy of the benchmark's data.")],
    sets: Annotated[list[str] | None, typer.Option("--set", help="A question set's day, YYYY-MM-DD; all else.")] = None,
    forecasts: Annotated[Path | None, typer.Option(help="Score this file, in the leaderboard's format, too.")] = None,
    export: Annotated[Path | None, typer.Option(help="Write own forecasts there, in the leaderboard's format.")] = None,
    play: Annotated[bool | None, typer.Option("--play/--no-play", help="Let the desk play; or code alone.")] = None,
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

    found = _benchmark(name)
    given = Given(
        None if play is False or "play" not in found.options else lambda asked: _play(asked, home, quiet=as_json),
        [day_of("--set", one) for one in sets or ()],
        forecasts,
        export,
    )
    asked = {"sets": bool(sets), "forecasts": forecasts is not None, "export": export is not None, "play": bool(play)}
    if unknown := [option for option, there in asked.items() if there and option not in found.options]:
        known = ", ".join(sorted(found.options)) or "none"
        raise UsageError(f"{name} has no use for --{unknown[0].removesuffix('s')}", remedy=f"it knows: {known}")
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
    from chordesk.models.database.store import Store
    from chordesk.models.settings.sources import load
    from chordesk.tasks.services import demo, plan, signals
    from chordesk.tasks.services.stack import desk_stack
    from chordesk.tools.benchmarks.benchmark import Played

    notify = (lambda _: None) if quiet else print_line
    own = _environment(asked, demo.fresh_home(home))
    place = Path(own["DESK_HOME"])
    made = plan.make(load(own, place), own, place, plan.Choice(beat=False))
    notify(f"a desk in {place} plays {asked.first} to {asked.last}; model: {made.settings.model_label}")
    days = ("--from", str(asked.first), "--to", str(asked.last), "--universe", _universe(asked))
    with signals.raised(), desk_stack(made, notify) as stack:
        command = ("backtest", *days, *(["--json"] if quiet else []))
        code = demo.follow(stack, demo.SeenProcesses(), *command, seconds=LONGEST_SECONDS, quiet=quiet)
    with closing(Store(made.settings.database)) as store, store.read() as session:
        ended = demo.newest(session, RunKind.BACKTEST)
        summary = ended.summary.get("backtest") if ended is not None else None
    if code or not summary:
        raise DeskError(f"the walk did not end well (exit code {code})", remedy=f"`DESK_HOME={place} desk runs list`")
    values = [row["equity"] for row in summary["curve"] if row["equity"] is not None]
    return Played(made.settings.model_label, values)


def _universe(asked: Play) -> str:
    return ",".join(sorted(path.stem for path in (asked.data / "bars").glob("*.csv")))


def _environment(asked: Play, home: Path) -> dict[str, str]:
    from chordesk.models.settings.variables import names_setting
    from chordesk.tasks.services.demo import FORCED

    kept = {key: value for key, value in os.environ.items() if not names_setting(key) or key.startswith(MODEL)}
    forced = {key: value for key, value in FORCED.items() if key not in ("DESK_PROVIDER", "DESK_REPLAY_OPTIONS")}
    return {
        "DESK_PROVIDER": "rulebook",
        **kept,
        **forced,
        "DESK_MARKET": "files",
        "DESK_DATA": str(asked.data),
        "DESK_REPLAY_DATE": str(asked.first),
        "DESK_STOCK_ONLY": "true",
        "DESK_OPTIONS_MODE": "stocks-only",
        "DESK_SLIPPAGE_BPS": f"{asked.slippage_basis_points:g}",
        "DESK_HOME": str(home),
    }

"""`desk experiment`: arms of one history, compared in pairs."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType

from chordesk.models.errors import UsageError
from chordesk.tasks.cli.options import added
from chordesk.tasks.cli.output import bounded, console, emit, print_line, table
from chordesk.tasks.cli.shell import Json, checked, day_of, opened, run_of
from chordesk.tasks.cli.start import follow
from chordesk.tasks.measure.backtest_command import InProcess, walking

if TYPE_CHECKING:
    from chordesk.models.database.store import Store
    from chordesk.models.settings import Settings
    from chordesk.tasks.measure.experiment_view import ExperimentDetail
    from chordesk.tasks.worker.messages import DeskApp
    from chordesk.tools.measure.experiments import Difference, Other

commands = typer.Typer()
MOST_OTHERS = 12


@commands.command("experiment")
def run(
    arms: Annotated[
        list[str] | None,
        typer.Option("--arm", help='"NAME: DESK_SETTING=value; ..."; the first is what the others are compared with.'),
    ] = None,
    ready_arms: Annotated[str | None, typer.Option("--arms", help="Ready arms by comma: masked, unmasked.")] = None,
    ablate: Annotated[
        str | None, typer.Option(help="An arm without each of: research_roles, lenses, voices or tools.")
    ] = None,
    runs: Annotated[list[str] | None, typer.Option("--run", help="Compare these backtests; nothing starts.")] = None,
    first: Annotated[str | None, typer.Option("--from", help="First day, YYYY-MM-DD.")] = None,
    last: Annotated[str | None, typer.Option("--to", help="Last day, YYYY-MM-DD.")] = None,
    every: Annotated[int, typer.Option(help="Every so many-th session.", min=1)] = 1,
    universe: Annotated[str | None, typer.Option(help="sp500, a file of symbols, or symbols by comma.")] = None,
    memory: Annotated[str, typer.Option(help="off (days in parallel) or on (in order).")] = "off",
    size: Annotated[
        float, typer.Option(help="The difference of a session's return to look for, a fraction.", min=1e-6, max=1.0)
    ] = 0.001,
    in_process: InProcess = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it may show and cost, and end.")] = False,
    as_json: Json = False,
) -> None:
    """Compare settings of the desk on one history.

    Each arm is a backtest. Differences from the first arm are in pairs, by session and by name judged, with intervals.
    """
    _require_one_source({"--arm": arms, "--arms": ready_arms, "--ablate": ablate, "--run": runs})
    if runs:
        settings, store = opened()
        with store.read() as session:
            named = [run_of(session, one).id for one in runs]
        _show(settings, store, named, size, as_json=as_json)
        return
    from chordesk.models.settings.running_desk import with_values
    from chordesk.tasks.measure.backtest import Arm, ablated, open_experiment, parsed, ready, require_differences

    if first is None or last is None:
        raise UsageError(
            "an experiment needs its days", remedy="give --from YYYY-MM-DD --to YYYY-MM-DD, or --run twice"
        )
    chosen: list[Arm] = []

    def walks(settings: Settings) -> list[Settings]:
        chosen.extend(ablated(ablate, settings) if ablate else map(parsed, arms or ()))
        chosen.extend(ready(ready_arms) if ready_arms else ())
        require_differences(settings, chosen, **added())
        return [with_values(settings, arm.settings) for arm in chosen]

    with walking(checked().settings, in_process, walks=walks) as (app, player):
        days = day_of("--from", first), day_of("--to", last)
        if not as_json or dry_run:
            print_line(_power(app, days, every, len(chosen), size))
        if dry_run:
            return
        opened_runs = open_experiment(app, chosen, *days, every=every, universe=universe, memory=memory, **added())
        for one in opened_runs:
            if not as_json:
                console().print(f"arm {one.params['arm']}: run {one.id}", highlight=False, markup=False)
            follow(app, one, quiet=as_json, player=player)
        _show(app.desk.settings, app.desk.store, [one.id for one in opened_runs], size, as_json=as_json)


def _require_one_source(given: Mapping[str, Sequence[str] | str | None]) -> None:
    """Arms come from one option; only written and ready ones go together. given: what each option has."""
    several = [option for option, there in given.items() if there]
    if len(several) > 1 and several != ["--arm", "--arms"]:
        raise UsageError(f"{' and '.join(several)} were given together", remedy="give one of them")


def _power(app: DeskApp, days: tuple[dt.date, dt.date], every: int, arms: int, size: float) -> str:
    """Return how many sessions would show a difference of the size, as far as a backtest of the same market tells."""
    from chordesk.tasks.measure.experiment_view import spread_of_backtests
    from chordesk.tasks.workflows.runs import label_of
    from chordesk.tools.market.past_sessions import sessions_between
    from chordesk.tools.measure.experiments import needed

    sessions = len(sessions_between(app.desk.market, *days, every))
    with app.desk.store.read() as session:
        known = spread_of_backtests(session, str(label_of(app.desk, None)["market"]))
    begun = f"{arms} arms, {sessions} sessions each"
    if known is None:
        return f"{begun}; what they can show and cost is not known before a backtest of ten sessions on this market"
    spread, tokens, played = known
    # Two arms that share nothing differ by twice the variance of one: a bound, since the history is the same.
    sessions_needed = needed(math.sqrt(2) * spread, size)
    return (
        f"{begun}, some {tokens * sessions * arms:,.0f} tokens; at most {sessions_needed:,} sessions show a difference "
        f"of {size:.2%} a session in four of five tries (by a backtest of {played} sessions)"
    )


def _show(settings: Settings, store: Store, run_ids: Sequence[str], size: float, *, as_json: bool) -> None:
    from chordesk.tasks.measure.experiment_view import experiment

    with store.read() as session:
        found = experiment(session, settings, run_ids, size)
    emit(found, _report, as_json=as_json)


def _report(found: ExperimentDetail) -> RenderableType:
    arms = table(
        {
            "arm": lambda one: one.arm,
            "return": lambda one: "-" if one.returned is None else f"{one.returned:+.2%}",
            "sessions": lambda one: str(one.sessions),
            "tokens": lambda one: f"{one.tokens:,}",
            "cost": lambda one: str(one.cost),
            "run": lambda one: one.run_id,
        },
        found.arms,
        right=("return", "sessions", "tokens"),
    )
    differences = table(
        ["less the first arm", "of", "difference", "95 %", "n", "p", "told", "sessions needed"],
        map(_cells, found.differences),
        "Differences in pairs; told: from zero, among all of them",
        right=("difference", "n", "p", "sessions needed"),
    )
    lines: list[RenderableType] = [arms, differences]
    lines += _memory_gap(found)
    for arm, others in found.others.items():
        lines.append(f"{arm}: {len(others)} names judged otherwise")
        lines += bounded(others, MOST_OTHERS, _other, " of them")
    return Group(*lines)


def _memory_gap(found: ExperimentDetail) -> list[str]:
    """Return what the models gain a session by seeing whose past it is; nothing of other arms than these two."""
    if found.arms[0].arm != "masked":
        return []
    rows = (one.found for one in found.differences if one.arm == "unmasked" and one.what.startswith("return"))
    return [
        f"memory gap: {one.mean:+.3%} a session, unmasked less masked; 95 % "
        + (one.lack if one.low is None or one.high is None else f"{one.low:+.3%} to {one.high:+.3%}")
        for one in rows
        if one is not None
    ]


def _cells(one: Difference) -> Sequence[str]:
    found = one.found
    if found is None:
        return [one.arm, one.what, "-", "no pair", "0", "-", "-", "-"]
    style = "+.3%" if one.what.startswith("return") else "+.4f"
    low, high = found.low, found.high
    bounds = found.lack if low is None or high is None else f"{format(low, style)} to {format(high, style)}"
    known = "-" if found.error is None else f"{one.chance:.3f}"
    needed = "-" if one.needed is None else f"{one.needed:,}"
    return [
        one.arm, one.what, format(found.mean, style), bounds, f"{found.n:,}", known, "yes" if one.told else "no", needed
    ]  # fmt: skip


def _other(one: Other) -> str:
    first, arm = (f"{call.rating} ({call.why})" if call is not None else "not judged" for call in (one.first, one.arm))
    return f"  {one.day} {one.symbol}: {first}; here {arm}"

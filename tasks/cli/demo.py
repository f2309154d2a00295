"""`desk demo`: the whole desk once, on real prices, with no account, key or network; nothing is left running."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from chordesk.models.settings import Settings
from chordesk.tasks.cli.output import console, print_line, relative

if TYPE_CHECKING:
    from chordesk.tasks.services.demo import AnalysisProofs, EpisodeProofs, Proofs, SeenProcesses
    from chordesk.tasks.services.plan import Plan
    from chordesk.tasks.services.stack import Stack
    from chordesk.tasks.services.supervision import ProcessRecord

WATCH_SECONDS = 1.0

commands = typer.Typer()


@commands.command("demo")
def run(
    home: Annotated[Path, typer.Option(help="The demo's own folder; wiped at the start.")] = Path(".demo"),
    live: Annotated[bool, typer.Option("--live", help="Fill the orders on the paper account.")] = False,
    with_page: Annotated[
        bool, typer.Option("--page", help="Leave the desk up with its page until Ctrl-C; without the sample.")
    ] = False,
    sample: Annotated[
        Path | None,
        typer.Option(help="Folder of `desk data import msft-chain`: look for a put on its real option chain, too."),
    ] = None,
) -> None:
    """Screen the S&P 500 on real prices, research, decide, analyse three, hold a round of voices; then stop everything.

    DESK_REPLAY_DATE, DESK_UNIVERSE and DESK_PROTECT are taken over; no other setting is.
    """
    from chordesk.tasks.services import demo, signals
    from chordesk.tasks.services.demo import SeenProcesses, analysis_proofs, episode_proofs
    from chordesk.tasks.services.stack import desk_stack

    out = console()
    began = time.monotonic()
    made = demo.make_plan(os.environ, demo.fresh_home(home), live, with_page)
    out.print(
        f"demo in {made.folders.home}, {made.settings.market} of {made.settings.replay_date}: own home, paper account, "
        "no keys; starting Redis, model and workers ...",
        highlight=False,
    )
    if names := demo.left_out(os.environ):
        switch = "; --live fills the orders" if Settings.LIVE_SWITCH in names and not live else ""
        out.print(f"not taken over: {', '.join(names)}{switch}", style="yellow", markup=False)
    code, seen, members, found, analysed, real, episode = 1, SeenProcesses(), [], None, None, None, None
    lacking: list[str] | None = None
    with signals.raised():
        try:
            with desk_stack(made, print_line) as stack:
                out.print(f"up after {time.monotonic() - began:.1f} s; running `desk screen --wait`\n")
                code = demo.follow(stack, seen, "screen", "--wait")
                found = demo.proofs_of(made.settings.database, made.folders.home)
                code = code or _analyse(out, made, stack, seen)
                analysed = analysis_proofs(made.settings.database, made.folders.home)
                code = code or _hold_round(out, stack, seen)
                episode = episode_proofs(made.settings.database)
                if with_page and not code:
                    lacking = _report(out, made, found, [analysed, None], episode, seen)
                    _leave_up(out, made)
                members = stack.members()
            if not code and sample is not None and not with_page:
                code, real = _search_sample(out, made, sample, seen)
        except signals.StopRequested as stop:
            out.print(f"stopped ({stop})")
            raise
    left = [member for member in members if member.process()]
    if lacking is None:
        lacking = _report(out, made, found, [analysed, real], episode, seen)
    lacking += _stopped(out, left)
    out.print(f"done in {time.monotonic() - began:.0f} s")
    raise typer.Exit(code or int(bool(lacking)))


def _analyse(out: Console, made: Plan, stack: Stack, seen: SeenProcesses) -> int:
    """Analyse the first candidates for a put to write; return the command's exit code."""
    from chordesk.tasks.services import demo
    from chordesk.tasks.services.demo import candidates_to_analyse
    from chordesk.tools.market.factory import build_market

    symbols = candidates_to_analyse(made.settings.database, build_market(made.settings))
    if not symbols:
        out.print("\nno candidate to analyse")
        return 0
    # The replay has no news, ratings or earnings dates: nothing for the research analyst to read.
    command = ("analyze", *symbols, "--no-research")
    out.print(f"\nrunning `desk {' '.join(command)}`: a put to write on each, from quotes modelled on past prices\n")
    return demo.follow(stack, seen, *command)


def _hold_round(out: Console, stack: Stack, seen: SeenProcesses) -> int:
    """Hold an episode with one round over the candidates; return the command's exit code."""
    from chordesk.tasks.services import demo
    from chordesk.tasks.services.demo import COMMAND

    out.print(f"\nrunning `desk {' '.join(COMMAND)}`: tools post signals, voices forecast questions by citing them\n")
    return demo.follow(stack, seen, *COMMAND)


def _leave_up(out: Console, made: Plan) -> None:
    """Print the link to the page of the demo's desk, and wait for Ctrl-C."""
    from chordesk.tasks.cli import page
    from chordesk.tasks.services import signals

    out.print("\nthe desk stays up with its page; Ctrl-C stops all", highlight=False)
    page.offer(made.settings)
    try:
        while True:
            time.sleep(WATCH_SECONDS)
    except signals.StopRequested as stop:
        out.print(f"stopping ({stop})")


def _search_sample(out: Console, made: Plan, data: Path, seen: SeenProcesses) -> tuple[int, AnalysisProofs | None]:
    """Look for a put on the real chain of a sample folder, on a second desk; return the exit code, and what is there to
    see. A folder that is not there is left out: it could not be fetched."""
    from chordesk.tasks.services import demo
    from chordesk.tasks.services.demo import analysis_proofs
    from chordesk.tasks.services.stack import desk_stack

    if not (data / "chains.csv").is_file():
        out.print(
            f"\nno real option chain in {relative(data)}: it could not be fetched, so the puts are modelled alone"
        )
        return 0, None
    home = made.folders.home / "sample"
    second = demo.sample_plan(os.environ, home, data)
    # The sample has 18 closes and no news: nothing for the other two analysts to look at.
    command = ("analyze", "MSFT", "--no-chart", "--no-research")
    out.print(f"\na put on a real chain, MSFT's of {second.settings.replay_date}: running `desk {' '.join(command)}`\n")
    with desk_stack(second, print_line) as stack:
        code = demo.follow(stack, seen, *command)
        return code, analysis_proofs(second.settings.database, home)


def _report(
    out: Console,
    made: Plan,
    found: Proofs | None,
    analyses: Sequence[AnalysisProofs | None],
    episode: EpisodeProofs | None,
    seen: SeenProcesses,
) -> list[str]:
    """Print what happened with its evidence; return what is lacking. analyses: of the replay, and of the sample."""
    analysed, real = analyses
    lacking = ["a run in the database"] if found is None else found.lacking()
    if found is not None and found.candidates:
        lacking += ["an analysis in the database"] if analysed is None else analysed.lacking(charts=True)
    lacking += ["a board in the database"] if episode is None else episode.lacking()
    if real is not None:
        lacking += real.lacking(charts=False)
    if not seen.app_servers:
        lacking.append("a live app-server process")
    out.print("\nWhat happened, and the evidence")
    home = made.folders.home
    shown = [
        *_analysis_lines("modelled quotes", home, analysed),
        *_analysis_lines("a real chain", home / "sample", real),
        *_episode_lines(home, episode),
    ]
    for line in [*_lines(made, found), *shown, *_seen(seen)]:
        out.print(f"  {line}", highlight=False, markup=False)
    _print_lacking(out, lacking)
    return lacking


def _stopped(out: Console, left: list[ProcessRecord]) -> list[str]:
    """Print whether anything is left of the demo; return what is lacking."""
    lacking = [f"a clean stop: still running are {', '.join(str(member.pid) for member in left)}"] if left else []
    out.print(f"  {len(left) or 'none'} left running", highlight=False, markup=False)
    _print_lacking(out, lacking)
    return lacking


def _print_lacking(out: Console, lacking: list[str]) -> None:
    for what in lacking:
        out.print(f"  MISSING: {what}", style="bold red", markup=False)


def _lines(made: Plan, found: Proofs | None) -> list[str]:
    if found is None:
        return []
    home = relative(made.folders.home)
    return [
        f"run {found.run_id} {found.state}; model: {made.settings.model_label}; prices: {made.settings.market} "
        f"of {made.settings.replay_date}",
        f"{found.screened} symbols screened; hits by lens: {_counts(found.lenses)}",
        f"{found.candidates} candidates; verdicts: {_counts(found.verdicts)}",
        f"{found.decisions} trader decision; orders: {_counts(found.orders)}",
        f"{found.turns} turns on {found.threads} threads, {found.tokens:,} tokens: database {home}/desk.db",
        f"{found.rollouts} threads on disk: {home}/codex/*/*/sessions/**/rollout-*.jsonl",
        f"see more: DESK_HOME={home} {_command()} runs show {found.run_id}",
    ]


def _analysis_lines(quotes: str, home: Path, found: AnalysisProofs | None) -> list[str]:
    """Return what an analysis left. quotes: where those of its contracts come from."""
    from chordesk.tasks.cli.show.results import citation_lines

    if found is None:
        return []
    picked = [f"{row.contract} ({row.confidence})" for row in found.selected()]
    supported, figures = found.figures
    lines = [
        f"analysis {found.run_id}: {', '.join(f'{row.symbol} {row.recommendation}' for row in found.rows)}",
        f"puts selected, from {quotes}: {', '.join(picked) or 'none'}; orders: {_counts(found.orders)}",
        f"{supported} of {figures} figures in the analysts' texts were found in what their tools answered",
    ]
    if (example := found.example()) is not None:
        lines.append(f"those of the report on {example.symbol}'s options came from:")
        lines += [f"  {line}" for line in citation_lines(example.grounding.model_dump())]
    if found.pictures:
        lines.append(f"charts that the model saw: {', '.join(map(relative, found.pictures.values()))}")
    return [*lines, f"see more: DESK_HOME={relative(home)} {_command()} runs show {found.run_id}"]


def _episode_lines(home: Path, found: EpisodeProofs | None) -> list[str]:
    """Return what the round of voices left."""
    if found is None:
        return []
    forecasts = f"{sum(found.forecasts.values())} forecasts of {len(found.forecasts)} voices"
    return [
        f"board {found.run_id}: signals {_counts(found.signals)}; {found.questions} questions",
        f"{forecasts}; {found.counting} of {found.citations} citations count",
        f"see more: DESK_HOME={relative(home)} {_command()} board {found.run_id}",
    ]


def _seen(seen: SeenProcesses) -> list[str]:
    pids = ", ".join(str(pid) for pid in sorted(seen.app_servers)) or "none"
    return [
        f"Codex app-server processes seen at work: {pids}",
        f"{seen.most_processes} processes ran at most",
    ]


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"


def _command() -> str:
    """Return `desk` as this person can type it."""
    return "desk" if shutil.which("desk") else relative(Path(sys.executable).with_name("desk"))

"""`desk demo`: the whole desk once, on real prices, with no account, key or network; nothing is left running."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from models.settings import Settings
from tasks.cli.output import console, print_line, relative
from tasks.services import demo, signals
from tasks.services.demo import Proofs, SeenProcesses
from tasks.services.demo_analysis import AnalysisProofs, analysis_proofs, candidates_to_analyse
from tasks.services.plan import Plan
from tasks.services.process_table import ProcessRecord
from tasks.services.stack import Stack
from tasks.services.up import desk_stack
from tools.market.factory import build_market

commands = typer.Typer()


@commands.command("demo")
def run(
    home: Annotated[Path, typer.Option(help="The demo's own folder; wiped at the start.")] = Path(".demo"),
    live: Annotated[bool, typer.Option("--live", help="Fill the orders on the paper account.")] = False,
) -> None:
    """Screen the S&P 500 on real prices, research candidates, decide on trades, analyse three; then stop everything.

    DESK_REPLAY_DATE, DESK_UNIVERSE and DESK_PROTECT are taken over; no other setting is.
    """
    out = console()
    began = time.monotonic()
    made = demo.make_plan(os.environ, demo.fresh_home(home), live)
    out.print(
        f"demo in {made.folders.home}, {made.settings.market} of {made.settings.replay_date}: own home, paper account, "
        "no keys; starting Redis, model and workers ...",
        highlight=False,
    )
    if names := demo.left_out(os.environ):
        switch = "; --live fills the orders" if Settings.LIVE_SWITCH in names and not live else ""
        out.print(f"not taken over: {', '.join(names)}{switch}", style="yellow", markup=False)
    code, seen, members, found, analysed = 1, SeenProcesses(), [], None, None
    with signals.raised():
        try:
            with desk_stack(made, print_line) as stack:
                out.print(f"up after {time.monotonic() - began:.1f} s; running `desk screen --wait`\n")
                code = demo.follow(stack, seen, "screen", "--wait")
                found = demo.proofs_of(made.settings.database, made.folders.home)
                code = code or _analyse(out, made, stack, seen)
                analysed = analysis_proofs(made.settings.database, made.folders.home)
                members = stack.members()
        except signals.StopRequested as stop:
            out.print(f"stopped ({stop})")
            raise
    left = [member for member in members if member.process()]
    lacking = _report(out, made, found, analysed, seen, left)
    out.print(f"done in {time.monotonic() - began:.0f} s")
    raise typer.Exit(code or int(bool(lacking)))


def _analyse(out: Console, made: Plan, stack: Stack, seen: SeenProcesses) -> int:
    """Analyse the first candidates for a put to write; return the command's exit code."""
    symbols = candidates_to_analyse(made.settings.database, build_market(made.settings))
    if not symbols:
        out.print("\nno candidate to analyse")
        return 0
    # The replay has no news, ratings or earnings dates: nothing for the research analyst to read.
    command = ("analyze", *symbols, "--no-research")
    out.print(f"\nrunning `desk {' '.join(command)}`: a put to write on each, from quotes modelled on past prices\n")
    return demo.follow(stack, seen, *command)


def _report(
    out: Console,
    made: Plan,
    found: Proofs | None,
    analysed: AnalysisProofs | None,
    seen: SeenProcesses,
    left: list[ProcessRecord],
) -> list[str]:
    """Print what happened with its evidence; return what is lacking."""
    lacking = ["a run in the database"] if found is None else found.lacking()
    if found is not None and found.candidates:
        lacking += ["an analysis in the database"] if analysed is None else analysed.lacking()
    if not seen.app_servers:
        lacking.append("a live app-server process")
    if left:
        lacking.append(f"a clean stop: still running are {', '.join(str(member.pid) for member in left)}")
    out.print("\nWhat happened, and the evidence")
    for line in [*_lines(made, found), *_analysis_lines(made, analysed), *_seen(seen, left)]:
        out.print(f"  {line}", highlight=False, markup=False)
    for what in lacking:
        out.print(f"  MISSING: {what}", style="bold red", markup=False)
    return lacking


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


def _analysis_lines(made: Plan, found: AnalysisProofs | None) -> list[str]:
    if found is None:
        return []
    home = relative(made.folders.home)
    picked = [f"{row.contract} ({row.confidence})" for row in found.rows if row.recommendation == "select"]
    return [
        f"analysis {found.run_id}: {', '.join(f'{row.symbol} {row.recommendation}' for row in found.rows)}",
        f"puts selected, from modelled quotes: {', '.join(picked) or 'none'}; orders: {_counts(found.orders)}",
        f"charts that the model saw: {', '.join(relative(path) for path in found.pictures.values()) or 'none'}",
        f"see more: DESK_HOME={home} {_command()} runs show {found.run_id}",
    ]


def _seen(seen: SeenProcesses, left: list[ProcessRecord]) -> list[str]:
    pids = ", ".join(str(pid) for pid in sorted(seen.app_servers)) or "none"
    return [
        f"Codex app-server processes seen at work: {pids}",
        f"{seen.most_processes} processes ran at most; {len(left) or 'none'} left running",
    ]


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"


def _command() -> str:
    """Return `desk` as this person can type it."""
    return "desk" if shutil.which("desk") else relative(Path(sys.executable).with_name("desk"))

"""`desk demo`: the whole desk once, on real prices, with no account, key or network; nothing is left running."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from sqlmodel import Session, col, select

from chordesk.agents.thesis_pooling import arithmetic
from chordesk.models.answers import ReportStatus
from chordesk.models.database.store import Store
from chordesk.models.exchanges import shown_exchange
from chordesk.models.settings import Settings
from chordesk.models.states import RunKind, RunState
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import (
    Candidate,
    Decision,
    Report,
    Run,
    ScreenHit,
    Turn,
    Verdict,
    VerdictReport,
    lens_title,
)
from chordesk.models.thesis import Pooled
from chordesk.tasks.board.board_view import board_view
from chordesk.tasks.cli import page
from chordesk.tasks.cli.output import console, print_line, relative
from chordesk.tasks.cli.show.order_display import points
from chordesk.tasks.cli.show.results import citation_lines
from chordesk.tasks.reading.report_view import AnalysisRow, analyses, grounded_reports
from chordesk.tasks.samples import demo
from chordesk.tasks.samples.demo import SeenProcesses, candidates_to_analyse
from chordesk.tasks.services import stop_signals
from chordesk.tasks.services.plan import Plan
from chordesk.tasks.services.stack import Stack, desk_stack
from chordesk.tasks.services.supervision import ProcessRecord
from chordesk.tools.ledger import currency_of_account
from chordesk.tools.market.factory import build_market
from chordesk.tools.market.fx import traded_in
from chordesk.tools.orders.sessions import to_next_session
from chordesk.tools.orders.stops import bound_text, plan_text
from chordesk.tools.position_plans import plan_of

WATCH_SECONDS = 1.0
EPISODE = ("episode", "--rounds", "1")
LEAST_SUPPORTED = 0.99  # share of the figures that must have a source
NO_RUN = "a run in the database"
CHARTS = "charts"  # folder of the pictures under their symbols' names, in the demo's own
_AGAINST = "  against"  # begins the line of a point against

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
    market: Annotated[
        str | None, typer.Option(help="Another exchange, such as tokyo or crypto, on made prices and real rates.")
    ] = None,
) -> None:
    """Show the whole desk at work on real prices, then stop it.

    Screen the S&P 500, research, decide, analyse three, and hold a round of voices. DESK_REPLAY_DATE, DESK_UNIVERSE
    and DESK_PROTECT are taken over; no other setting is.
    """
    raise typer.Exit(play(home, live, with_page, sample, market))


def play(home: Path, live: bool, with_page: bool, sample: Path | None, market: str | None) -> int:
    out, exchange = console(), demo.exchange_of(market)
    began = time.monotonic()
    made = demo.make_plan(os.environ, demo.fresh_home(home), live, with_page, exchange)
    out.print(
        f"demo in {made.folders.home}, {made.settings.market} of {made.settings.replay_date}: own home, paper account, "
        "no keys; starting Redis, model and workers ...",
        highlight=False,
    )
    if exchange is not None:
        out.print(
            f"the prices are made: nobody ever paid them. {shown_exchange(exchange)} has these days, steps and lots, "
            "and the rates are the ECB's",
            highlight=False,
        )
    if names := demo.left_out(os.environ):
        switch = "; --live sends the orders" if Settings.LIVE_SWITCH in names and not live else ""
        out.print(f"not taken over: {', '.join(names)}{switch}", style="yellow", markup=False)
    code, seen, members, second = 1, SeenProcesses(), list[ProcessRecord](), None
    lacking: list[str] | None = None
    with stop_signals.raised():
        try:
            with desk_stack(made, print_line) as stack:
                lenses = ",".join((*made.settings.lenses, demo.OWN_LENS))
                screen = ("screen", "--wait", "--lens", lenses)
                out.print(f"up after {time.monotonic() - began:.1f} s; running `desk {' '.join(screen)}`")
                out.print(f"{demo.OWN_LENS} is an own lens, a rule without a model: lenses/{demo.OWN_LENS}.md\n")
                code = demo.follow(stack, seen, *screen)
                code = code or _analyse(out, made, stack, seen) or _hold_round(out, stack, seen)
                if with_page and not code:
                    if live:
                        _fill(out, made)
                    lacking = _report(out, made, None, seen)
                    _leave_up(out, made)
                members = stack.members()
            if live and lacking is None:
                _fill(out, made)
            if not code and sample is not None and not with_page:
                code, second = _search_sample(out, made, sample, seen)
        except stop_signals.StopRequested as stop:
            out.print(f"stopped ({stop})")
            raise
    left = [member for member in members if member.process()]
    if lacking is None:
        lacking = _report(out, made, second, seen)
    lacking += _stopped(out, left)
    out.print(f"done in {time.monotonic() - began:.0f} s")
    return code or int(bool(lacking))


def _analyse(out: Console, made: Plan, stack: Stack, seen: SeenProcesses) -> int:
    """Analyse the first candidates for a put to write; return the command's exit code. Options are of New York."""
    if made.settings.stock_only:
        return 0
    symbols = candidates_to_analyse(made.settings.database, build_market(made.settings))
    if not symbols:
        out.print("\nno candidate to analyse")
        return 0
    # The replay has no news, ratings or earnings dates: nothing for the research analyst to read.
    command = ("analyze", *symbols, "--no-research", "--across-earnings")
    out.print(f"\nrunning `desk {' '.join(command)}`: a put to write on each, from quotes modelled on past prices\n")
    return demo.follow(stack, seen, *command)


def _hold_round(out: Console, stack: Stack, seen: SeenProcesses) -> int:
    out.print(f"\nrunning `desk {' '.join(EPISODE)}`: tools post signals, voices forecast questions by citing them\n")
    return demo.follow(stack, seen, *EPISODE)


def _fill(out: Console, made: Plan) -> None:
    """Let the next session come, at whose open the orders fill."""
    with closing(Store(made.settings.database)) as store:
        day = to_next_session(store, made.settings)
    out.print(f"\nthe session of {day} has come, and the orders met it" if day else "\nthe data end here")


def _leave_up(out: Console, made: Plan) -> None:
    """Print the link to the page of the demo's desk, and wait for Ctrl-C."""
    out.print("\nthe desk stays up with its page; Ctrl-C stops all", highlight=False)
    page.offer(made.settings)
    try:
        while True:
            time.sleep(WATCH_SECONDS)
    except stop_signals.StopRequested as stop:
        out.print(f"stopping ({stop})")


def _search_sample(out: Console, made: Plan, data: Path, seen: SeenProcesses) -> tuple[int, Plan | None]:
    """Return the exit code and the second desk's plan. A sample that could not be fetched is left out."""
    if not (data / "chains.csv").is_file():
        out.print(
            f"\nno real option chain in {relative(data)}: it could not be fetched, so the puts are modelled alone"
        )
        return 0, None
    home = made.folders.home / "sample"
    second = demo.sample_plan(os.environ, home, data)
    # The sample has 18 closes and no news: nothing for the other two analysts to look at.
    command = ("analyze", "MSFT", "--no-chart", "--no-research", "--across-earnings")
    out.print(f"\na put on a real chain, MSFT's of {second.settings.replay_date}: running `desk {' '.join(command)}`\n")
    with desk_stack(second, print_line) as stack:
        return demo.follow(stack, seen, *command), second


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a part of the demo left, and what it should have left and did not."""

    lines: list[str]
    lacking: list[str]


def _evidence(lines: list[str], wanted: Mapping[str, bool]) -> Evidence:
    return Evidence(lines, [name for name, there in wanted.items() if not there])


def _report(out: Console, made: Plan, second: Plan | None, seen: SeenProcesses) -> list[str]:
    """Print what happened with its evidence; return what is lacking. second: of the sample's desk."""
    with closing(Store(made.settings.database)) as store, store.read() as session:
        parts = [_screened(session, made)]
        if not made.settings.stock_only:
            parts.append(_analysed(session, made, "modelled quotes", charts=True))
        if {NO_RUN, "candidates"} & set(parts[0].lacking):  # there was nothing to analyse
            for part in parts[1:]:
                part.lacking.clear()
        episode = _held(session, made)
    if second is not None:
        with closing(Store(second.settings.database)) as store, store.read() as session:
            parts.append(_analysed(session, second, "a real chain", charts=False))
    pids = ", ".join(str(pid) for pid in sorted(seen.app_servers)) or "none"
    processes = [f"Codex app-server processes seen at work: {pids}", f"{seen.most_processes} processes ran at most"]
    parts += [episode, _evidence(processes, {"a live app-server process": bool(seen.app_servers)})]
    out.print("\nWhat happened, and the evidence")
    for line in [line for part in parts for line in part.lines]:
        out.print(f"  {line}", highlight=False, markup=False)
    lacking = [what for part in parts for what in part.lacking]
    _print_lacking(out, lacking)
    return lacking


def _screened(session: Session, made: Plan) -> Evidence:
    if (run := demo.newest(session, RunKind.SCREEN)) is None:
        return Evidence([], [NO_RUN])

    def of(column: Any, table: Any) -> Sequence[Any]:
        return session.exec(select(column).where(table.run_id == run.id)).all()

    # The row by which hits name a rule is no turn.
    home, turns = made.folders.home, [turn for turn in of(Turn, Turn) if turn.status != ReportStatus.SKIPPED]
    ratings, orders, lenses = of(Verdict.rating, Verdict), of(Order.state, Order), of(lens_title(), ScreenHit)
    candidates, decisions = of(Candidate.id, Candidate), of(Decision.id, Decision)
    rollouts = sum(1 for _ in home.glob("codex/*/*/sessions/**/rollout-*.jsonl"))
    threads = {turn.thread_id for turn in turns if turn.thread_id}
    tokens = sum(turn.total_tokens or 0 for turn in turns)
    lines = [
        f"run {run.id} {run.state}; model: {made.settings.model_label}; prices: {made.settings.market} "
        f"of {made.settings.replay_date}",
        f"{len(run.params.get('symbols', []))} symbols screened; hits by lens: {_counts(lenses)}",
        f"{len(candidates)} candidates; verdicts: {_counts(ratings)}",
        f"{len(decisions)} trader decision; orders: {_counts(orders)}",
        *_first_case(session, run, of(Order, Order)),
        f"{len(turns)} turns on {len(threads)} threads, {tokens:,} tokens: database {relative(home)}/desk.db",
        f"{rollouts} threads on disk: {relative(home)}/codex/*/*/sessions/**/rollout-*.jsonl",
        _see_more(home, "runs show", run),
    ]
    wanted = {
        "a finished run": run.state == RunState.DONE, "turns": bool(turns), "rollout files on disk": rollouts > 0,
        "candidates": bool(candidates), "verdicts": bool(ratings), "a trader's decision": bool(decisions),
    }  # fmt: skip
    return _evidence(lines, wanted)


def _first_case(session: Session, run: Run, orders: Sequence[Order]) -> list[str]:
    """Return the case of the first order that has a plan, or of the first with a point against it: what its theses say,
    how they were pooled, the bound of its size, and its exits. Where no order has a point against it, also the case of
    a share that was not bought and has one."""
    planned = [one for one in orders if (plan := plan_of(one)) is not None and plan.stop is not None]
    cases = [(one, _case(session, session.get_one(Verdict, one.verdict_id))) for one in planned if one.verdict_id]
    if not cases:
        return []
    order, said = next((case for case in cases if _is_doubted(case[1])), cases[0])
    plan = plan_of(order)
    assert plan is not None
    lines = [f"the case of {order.symbol}:", *said]
    own, priced = currency_of_account(session, order.account), traded_in(order.symbol)
    lines += [
        f"the size of {order.symbol}: {bound_text(plan, own, always=priced != own)}",
        f"its plan: {plan_text(plan, priced)}",
    ]
    if not _is_doubted(said):
        others = session.exec(select(Verdict).where(Verdict.run_id == run.id, Verdict.rating != "BUY"))
        doubted = ((one, text) for one in others if _is_doubted(text := _case(session, one)))
        lines += next(([f"the case of {one.symbol}, {one.rating}:", *text] for one, text in doubted), [])
    return lines


def _is_doubted(said: Sequence[str]) -> bool:
    return any(line.startswith(_AGAINST) for line in said)


def _case(session: Session, verdict: Verdict) -> list[str]:
    """Return the points of a verdict's theses, those against last, and how the theses were pooled."""
    rows = session.exec(
        select(Report)
        .join(VerdictReport, col(VerdictReport.report_id) == col(Report.id))
        .where(VerdictReport.verdict_id == verdict.id)
        .order_by(col(Report.id))
    )
    said = dict.fromkeys(f"  {text} ({row.role})" for row in rows for text in points(row.thesis))
    pooled = [] if verdict.pooled is None else [f"  {arithmetic(Pooled.model_validate(verdict.pooled))}"]
    return [*sorted(said, key=lambda line: line.startswith(_AGAINST)), *pooled]


def _analysed(session: Session, made: Plan, quotes: str, *, charts: bool) -> Evidence:
    """Return what an analysis left, with its charts copied to names that a person knows. quotes: where those of its
    contracts come from."""
    if (run := demo.newest(session, RunKind.ANALYZE)) is None:
        return Evidence([], ["an analysis in the database"])
    home, rows, reports = made.folders.home, analyses(session, run), grounded_reports(session, run)
    orders = session.exec(select(Order.state).where(Order.run_id == run.id)).all()
    selected = [row.analysis for row in rows if row.analysis.recommendation == "select"]
    picked = ", ".join(f"{row.contract} ({row.confidence})" for row in selected) or "none"
    supported, figures = (sum(getattr(one.grounding, name) for one in reports) for name in ("supported", "figures"))
    lines = [
        f"analysis {run.id}: {', '.join(f'{row.analysis.symbol} {row.analysis.recommendation}' for row in rows)}",
        f"puts selected, from {quotes}: {picked}; orders: {_counts(orders)}",
        f"{supported} of {figures} figures in the analysts' texts were found in what their tools answered",
    ]
    first = [row.symbol for row in selected][:1]
    for one in [one for one in reports if one.role == "options" and one.symbol in first][:1]:
        lines.append(f"those of the report on {one.symbol}'s options came from:")
        lines += [f"  {line}" for line in citation_lines(one.grounding.model_dump())]
    if pictures := _copied_charts(home, rows):
        lines.append(f"charts that the model saw: {', '.join(map(relative, pictures))}")
    wanted = {
        "an analysis": bool(rows),
        "a chart as a picture": bool(pictures) or not charts,
        "a source of 99 % of the analysts' figures": figures > 0 and supported >= LEAST_SUPPORTED * figures,
    }
    return _evidence([*lines, _see_more(home, "runs show", run)], wanted)


def _copied_charts(home: Path, rows: Sequence[AnalysisRow]) -> list[Path]:
    found = {row.analysis.symbol: home / row.picture for row in rows if row.picture is not None}
    (home / CHARTS).mkdir(exist_ok=True)
    copies = {symbol: home / CHARTS / f"{symbol}{file.suffix}" for symbol, file in found.items() if file.is_file()}
    return [Path(shutil.copyfile(found[symbol], target)) for symbol, target in copies.items()]


def _held(session: Session, made: Plan) -> Evidence:
    run = demo.newest(session, RunKind.EPISODE)
    if run is None or (board := board_view(session, run)) is None:
        return Evidence([], ["a board in the database"])
    signals, voices = [one.state for one in board.signals], {one.voice for one in board.forecasts}
    counting = sum(bool(one.counts) for one in board.citations)
    lines = [
        f"board {run.id}: signals {_counts(signals)}; {len(board.questions)} questions",
        f"{len(board.forecasts)} forecasts of {len(voices)} voices; "
        f"{counting} of {len(board.citations)} citations count",
        _see_more(made.folders.home, "board", run),
    ]
    wanted = {
        "live signals": "live" in signals, "forecasts of several voices": len(voices) > 1,
        "citations that count": counting > 0, "a tally": board.tally is not None and board.tally.number is not None,
    }  # fmt: skip
    return _evidence(lines, wanted)


def _see_more(home: Path, command: str, run: Run) -> str:
    desk = "desk" if shutil.which("desk") else relative(Path(sys.executable).with_name("desk"))
    return f"see more: DESK_HOME={relative(home)} {desk} {command} {run.id}"


def _counts(found: Iterable[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(Counter(found).items())) or "none"


def _stopped(out: Console, left: list[ProcessRecord]) -> list[str]:
    lacking = [f"a clean stop: still running are {', '.join(str(member.pid) for member in left)}"] if left else []
    out.print(f"  {len(left) or 'none'} left running", highlight=False, markup=False)
    _print_lacking(out, lacking)
    return lacking


def _print_lacking(out: Console, lacking: list[str]) -> None:
    for what in lacking:
        out.print(f"  MISSING: {what}", style="bold red", markup=False)

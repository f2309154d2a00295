"""The demo: its own home and environment, isolated from the user's desk, keys and accounts, and the evidence of its
run."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from sqlmodel import Session, col, func, select
from sqlmodel.sql.expression import SelectOfScalar

from chordesk.models.database.store import Store
from chordesk.models.errors import DeskError, UsageError
from chordesk.models.settings.running_desk import is_up
from chordesk.models.settings.sources import load
from chordesk.models.settings.variables import names_setting
from chordesk.models.states import RunKind
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Candidate, CandidateHit, Decision, Run, ScreenHit, Turn, Verdict
from chordesk.tasks.reading.boards import BoardView, board_view
from chordesk.tasks.reading.reports import AnalysisRow, GroundedReport, analyses, grounded_reports
from chordesk.tasks.services import plan, tether
from chordesk.tasks.services.plan import Choice, Plan, desk_command
from chordesk.tasks.services.stack import Stack
from chordesk.tasks.services.supervision import tethered
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.market.factory import build_market
from chordesk.tools.market.prices import chain_of
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.market.samples.package_files import MSFT_CHAIN
from chordesk.tools.market.universe import resolve_universe

MARK = ".chordesk-demo"
SAMPLE_SECONDS = 0.5
LONGEST_SECONDS = 600.0

# What a child may see of our environment. Everything else stays out, so no list of key names can be too short.
ALLOWED = frozenset(
    {
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "LANG", "LANGUAGE", "TERM", "COLORTERM",
        "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "VIRTUAL_ENV",
    }
)  # fmt: skip
ALLOWED_PREFIXES = ("LC_", "COVERAGE_PROCESS_")

# What a person may choose for a demo: it changes what is shown, and reaches no account, model or network.
CHOSEN = ("DESK_REPLAY_DATE", "DESK_UNIVERSE", "DESK_PROTECT")

FORCED = {
    "DESK_PROVIDER": "rulebook",
    "DESK_MARKET": "replay",
    # Past chains are not to be had for nothing; puts are proposed, and only on paper.
    "DESK_REPLAY_OPTIONS": "modelled",
    "DESK_STOCK_ONLY": "false",
    "DESK_OPTIONS_MODE": "both",
    "DESK_BROKER": "paper",
    "DESK_ACCOUNT": "paper",
    "DESK_LOG_LEVEL": "WARNING",
    # Beat runs for its sweep, which retries transient failures; it starts no screen of its own.
    "DESK_PREMARKET": "off",
    "DESK_MIDDAY": "off",
}


@dataclass(slots=True)
class SeenProcesses:
    """App-server processes observed during the demo, by pid with their command line."""

    app_servers: dict[int, str] = field(default_factory=dict)
    most_processes: int = 0


def environment(environ: Mapping[str, str], home: Path, live: bool) -> dict[str, str]:
    """Return the demo's environment. TRADER_LIVE is set only with `live`; orders are paper in any case."""
    kept = {key: value for key, value in environ.items() if key in ALLOWED or key.startswith(ALLOWED_PREFIXES)}
    chosen = {key: environ[key] for key in CHOSEN if environ.get(key)}
    switch = {"TRADER_LIVE": "1"} if live else {}
    return {**kept, **chosen, **FORCED, **switch, "DESK_HOME": str(home)}


def left_out(environ: Mapping[str, str]) -> list[str]:
    """Return the names of the desk's variables that are set and that the demo does not take over, in order."""
    ours = (key for key, value in environ.items() if value and names_setting(key))
    return sorted(key for key in ours if key not in CHOSEN and environ[key] != FORCED.get(key))


def fresh_home(home: Path) -> Path:
    """Return an empty home. Only an earlier demo's home is wiped; raises UsageError for any other folder with files."""
    home = home.expanduser().absolute()
    if home.exists():
        if not home.is_dir() or (any(home.iterdir()) and not (home / MARK).is_file()):
            raise UsageError(f"{home} was not made by an earlier demo", remedy="name another folder with --home")
        if is_up(home):
            raise UsageError(f"a desk is up on {home}", remedy="stop it first, or name another folder with --home")
    try:
        if home.exists():
            shutil.rmtree(home)
        home.mkdir(parents=True)
        (home / MARK).write_text("made by `desk demo`, which wipes this folder at its start\n", encoding="utf-8")
        # The search for .env and desk.toml goes upward from here and ends at these.
        (home / ".env").touch()
        (home / "desk.toml").touch()
    except OSError as error:
        raise UsageError(f"cannot make {home}: {error.strerror}", remedy="name another folder with --home") from None
    return home


def make_plan(environ: Mapping[str, str], home: Path, live: bool, page: bool = False) -> Plan:
    """Return the demo's plan: Redis, the rulebook model, the workers and the sweep; page: the desk's page too. Raises
    SettingError for a day that cannot be replayed, UsageError for a universe that the market does not carry on it."""
    own = environment(environ, home, live)
    loaded = load(own, home)
    resolve_universe(loaded.settings.universe, build_market(loaded.settings))
    # The demo's processes work in its home: the path of a file is that of this folder.
    return plan.make(loaded, {**own, "DESK_UNIVERSE": loaded.settings.universe}, home, Choice(flower=False, api=page))


def sample_plan(environ: Mapping[str, str], home: Path, data: Path) -> Plan:
    """Return the plan of a desk on the real chain of a sample folder, in a home of its own within the demo's. Raises
    SettingError for a folder that is no such sample."""
    home.mkdir()
    (home / ".env").touch()
    (home / "desk.toml").touch()
    own = environment({key: value for key, value in environ.items() if key not in CHOSEN}, home, live=False)
    modelled = ("DESK_REPLAY_OPTIONS",)
    files = {"DESK_MARKET": "files", "DESK_DATA": str(data.absolute()), "DESK_REPLAY_DATE": MSFT_CHAIN.day}
    own = {**{key: value for key, value in own.items() if key not in modelled}, **files}
    return plan.make(load(own, home), own, home, Choice(flower=False))


def follow(stack: Stack, seen: SeenProcesses, *arguments: str) -> int:
    """Run a command of the desk on the stack, with its output on our terminal; return its exit code, and add to the
    processes seen."""
    until = time.monotonic() + LONGEST_SECONDS
    command = tethered("TERM", desk_command(*arguments))
    environ = {**stack.plan.environ, tether.PARENT: str(os.getpid())}
    with subprocess.Popen(command, env=environ, cwd=stack.plan.cwd) as process:
        try:
            while process.poll() is None:
                _sample(stack, seen)
                if time.monotonic() > until:
                    raise UsageError(f"desk {arguments[0]} did not end in {LONGEST_SECONDS:.0f} s")
                time.sleep(SAMPLE_SECONDS)
        finally:
            if process.poll() is None:
                process.terminate()
        return process.returncode


def _sample(stack: Stack, seen: SeenProcesses) -> None:
    stack.poll()  # raises when supervisord has ended: then no worker is left
    members = stack.members()
    seen.most_processes = max(seen.most_processes, len(members))
    for member in members:
        if " app-server" in member.command:
            seen.app_servers[member.pid] = member.command


@dataclass(frozen=True, slots=True)
class Proofs:
    """Counts of one run. tokens are those the model's server reported."""

    run_id: str
    state: str
    screened: int
    lenses: Mapping[str, int]
    candidates: int
    verdicts: Mapping[str, int]
    decisions: int
    orders: Mapping[str, int]
    turns: int
    tokens: int
    threads: int
    rollouts: int

    def lacking(self) -> list[str]:
        """Return what a run of the whole desk must have and this one lacks."""
        wanted = {
            "a finished run": self.state == "done",
            "turns": self.turns > 0,
            "rollout files on disk": self.rollouts > 0,
            "candidates": self.candidates > 0,
            "verdicts": bool(self.verdicts),
            "a trader's decision": self.decisions > 0,
        }
        return [name for name, there in wanted.items() if not there]


def newest(kind: RunKind) -> SelectOfScalar[Run]:
    """Return the selection of the newest run of a kind."""
    return select(Run).where(Run.kind == kind).order_by(col(Run.created_at).desc()).limit(1)


def proofs_of(database: str, home: Path) -> Proofs | None:
    """Return the counts of the newest screen in this database; None when it has none."""
    with closing(Store(database)) as store, store.read() as session:
        run = session.exec(newest(RunKind.SCREEN)).first()
        if run is None:
            return None
        hits = session.exec(select(ScreenHit.lens).where(ScreenHit.run_id == run.id)).all()
        ratings = session.exec(select(Verdict.rating).where(Verdict.run_id == run.id)).all()
        orders = session.exec(select(Order.state).where(Order.run_id == run.id)).all()
        turns = session.exec(select(Turn).where(Turn.run_id == run.id)).all()
        candidates = session.exec(select(func.count()).where(col(Candidate.run_id) == run.id)).one()
        decisions = session.exec(select(func.count()).where(col(Decision.run_id) == run.id)).one()
    return Proofs(
        run_id=run.id,
        state=run.state,
        screened=len(run.params.get("symbols", [])),
        lenses=Counter(hits),
        candidates=candidates,
        verdicts=Counter(ratings),
        decisions=decisions,
        orders=Counter(orders),
        turns=len(turns),
        tokens=sum(turn.total_tokens or 0 for turn in turns),
        threads=len({turn.thread_id for turn in turns if turn.thread_id}),
        rollouts=sum(1 for _ in home.glob("codex/*/*/sessions/**/rollout-*.jsonl")),
    )


# The demo's second part: candidates of its screen analysed for a put to write, their charts as pictures in its
# folder.

ANALYSED = 3
LEAST_SUPPORTED = 0.99  # share of the figures that must have a source
CHARTS = "charts"  # folder of the pictures under their symbols' names, in the demo's own
_LENS = "options"
_DAYS = (14, 45)  # to expiry, of the chain that a candidate must have


def candidates_to_analyse(database: str, market: MarketData) -> list[str]:
    """Return the symbols of the newest screen's first candidates that have an option chain: those that the options lens
    named before the others, each by rank. Without a chain on the market the first ones by rank."""
    with closing(Store(database)) as store, store.read() as session:
        run = session.exec(newest(RunKind.SCREEN)).first()
        if run is None:
            return []
        ranked = session.exec(select(Candidate).where(Candidate.run_id == run.id).order_by(col(Candidate.rank))).all()
        named = _named(session, run)
    ordered = sorted(ranked, key=lambda one: (one.id not in named, one.rank))
    chained = [one.symbol for one in ordered if has_chain(market, one.symbol)]
    return (chained or [one.symbol for one in ranked])[:ANALYSED]


def _named(session: Session, run: Run) -> set[str]:
    """Return the ids of the candidates that the options lens put forward."""
    joined = select(CandidateHit.candidate_id).join(ScreenHit, col(ScreenHit.id) == col(CandidateHit.hit_id))
    return set(session.exec(joined.where(ScreenHit.run_id == run.id, ScreenHit.lens == _LENS)).all())


def has_chain(market: MarketData, symbol: str) -> bool:
    """Return whether the market lists contracts on a symbol that expire when the demo looks for them."""
    today = exchange_day(market.clock.now())
    try:
        return bool(chain_of(market, symbol, *(today + dt.timedelta(days=days) for days in _DAYS)).rows)
    except DeskError:
        return False


@dataclass(frozen=True, slots=True)
class AnalysisProofs:
    """What the newest analysis left. pictures: files of charts, by symbol; none where no chart was asked for."""

    run_id: str
    rows: tuple[AnalysisRow, ...]
    orders: Mapping[str, int]
    pictures: Mapping[str, Path]
    grounded: tuple[GroundedReport, ...]

    @property
    def figures(self) -> tuple[int, int]:
        """The figures in the analysts' texts that have a source, and all."""
        found = [one.grounding for one in self.grounded]
        return sum(one.supported for one in found), sum(one.figures for one in found)

    def selected(self) -> list[AnalysisRow]:
        return [row for row in self.rows if row.recommendation == "select"]

    def example(self) -> GroundedReport | None:
        """Return the option report of the first selected contract; None without one."""
        symbols = [row.symbol for row in self.selected()][:1]
        return next((one for one in self.grounded if one.role == "options" and one.symbol in symbols), None)

    def lacking(self, *, charts: bool) -> list[str]:
        """Return what an analysis must have and this one lacks. charts: the analysis asked for some."""
        supported, figures = self.figures
        wanted = {
            "an analysis": bool(self.rows),
            "a chart as a picture": bool(self.pictures) or not charts,
            "a source of 99 % of the analysts' figures": figures > 0 and supported >= LEAST_SUPPORTED * figures,
        }
        return [name for name, there in wanted.items() if not there]


def analysis_proofs(database: str, home: Path) -> AnalysisProofs | None:
    """Return the newest analysis of this database, with its charts copied to names that a person knows; None when it
    has none."""
    with closing(Store(database)) as store, store.read() as session:
        run = session.exec(newest(RunKind.ANALYZE)).first()
        if run is None:
            return None
        rows = tuple(analyses(session, run))
        orders = session.exec(select(Order.state).where(Order.run_id == run.id)).all()
        grounded = tuple(grounded_reports(session, run))
    return AnalysisProofs(run.id, rows, Counter(orders), _pictures(rows, home), grounded)


def _pictures(rows: tuple[AnalysisRow, ...], home: Path) -> dict[str, Path]:
    found = {row.symbol: home / row.picture for row in rows if row.picture is not None}
    folder = home / CHARTS
    if found:
        folder.mkdir(exist_ok=True)
    copies = {symbol: folder / f"{symbol}{source.suffix}" for symbol, source in found.items() if source.is_file()}
    for symbol, target in copies.items():
        shutil.copyfile(found[symbol], target)
    return copies


COMMAND = ("episode", "--rounds", "1")


@dataclass(frozen=True, slots=True)
class EpisodeProofs:
    """What the newest episode left: signals by state, forecasts by voice, citations and those that count."""

    run_id: str
    signals: Mapping[str, int]
    questions: int
    forecasts: Mapping[str, int]
    citations: int
    counting: int
    number: int | None

    def lacking(self) -> list[str]:
        """Return what an episode must have and this one lacks."""
        wanted = {
            "live signals": self.signals.get("live", 0) > 0,
            "forecasts of several voices": len(self.forecasts) > 1,
            "citations that count": self.counting > 0,
            "a tally": self.number is not None,
        }
        return [name for name, there in wanted.items() if not there]


def episode_proofs(database: str) -> EpisodeProofs | None:
    """Return the newest episode of this database; None when it has none with a board."""
    with closing(Store(database)) as store, store.read() as session:
        run = session.exec(newest(RunKind.EPISODE)).first()
        board = board_view(session, run) if run is not None else None
    return _proofs(board) if board is not None else None


def _proofs(board: BoardView) -> EpisodeProofs:
    return EpisodeProofs(
        run_id=board.run_id,
        signals=Counter(one.state for one in board.signals),
        questions=len(board.questions),
        forecasts=Counter(one.voice for one in board.forecasts),
        citations=len(board.citations),
        counting=sum(one.counts for one in board.citations),
        number=board.tally.number if board.tally is not None else None,
    )

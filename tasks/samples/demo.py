"""The demo: its own home and environment, isolated from the user's desk, keys and accounts."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from sqlmodel import Session, col, select

from chordesk.models.database.store import Store
from chordesk.models.errors import DeskError, UsageError
from chordesk.models.exchanges import EXCHANGES, HOME, exchange_named
from chordesk.models.files import expanded
from chordesk.models.settings.running_desk import is_up
from chordesk.models.settings.sources import load
from chordesk.models.settings.types import LENS_FOLDER
from chordesk.models.settings.variables import names_setting
from chordesk.models.states import RunKind
from chordesk.models.tables.runs import Candidate, CandidateHit, Run, ScreenHit
from chordesk.tasks.samples.made_market import write_made_market
from chordesk.tasks.services import parent_guard, plan
from chordesk.tasks.services.plan import Choice, Plan, desk_command
from chordesk.tasks.services.stack import Stack
from chordesk.tasks.services.supervision import guarded
from chordesk.tools.market.clock import clock_day
from chordesk.tools.market.factory import build_market
from chordesk.tools.market.prices import chain_of
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.market.universe import resolve_universe
from chordesk.tools.samples.package_files import MSFT_CHAIN

MARK = ".chordesk-demo"
MADE = "made-prices"
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
    "DESK_LOG_LEVEL": "WARNING",
    "DESK_PREMARKET": "off",
    "DESK_MIDDAY": "off",
}


# A lens as a person writes one: of a rule alone, so that it costs no turn.
OWN_LENS = "calm-risers"
LENS = """+++
purpose = "names that rise calmly"
by = "rule"
where = "momentum60 > 0.05 and rsi14 < 65 and volatility20 < 0.35 and splitLike == 0"
score = "rank(momentum60) + rank(-volatility20)"
high = "score > 1.6"
figures = ["momentum60", "rsi14", "volatility20"]
+++
Names that rise and move little.
"""


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
    home = expanded(home).absolute()
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
        (home / LENS_FOLDER).mkdir()
        (home / LENS_FOLDER / f"{OWN_LENS}.md").write_text(LENS, encoding="utf-8")
        # The search for .env and desk.toml goes upward from here and ends at these.
        (home / ".env").touch()
        (home / "desk.toml").touch()
    except OSError as error:
        raise UsageError(f"cannot make {home}: {error.strerror}", remedy="name another folder with --home") from None
    return home


def exchange_of(name: str | None) -> str | None:
    """Return the code of the exchange that is named, None without a name. Raises UsageError for an unknown one."""
    if name is None:
        return None
    if (found := exchange_named(name)) is None:
        known = ", ".join(row.place for row in EXCHANGES.values() if row.code != HOME)
        raise UsageError(f"--market {name!r} is no exchange that the desk knows", remedy=f"choose among {known}")
    return found


def make_plan(
    environ: Mapping[str, str], home: Path, live: bool, page: bool = False, exchange: str | None = None
) -> Plan:
    """page: the desk's page too. exchange: the code of another than New York's, on made prices. Raises SettingError for
    a day that cannot be replayed, UsageError for a wrong universe."""
    own = environment(environ, home, live)
    if exchange is not None:
        own |= _on_made_prices(home, exchange, own)
    loaded = load(own, home)
    resolve_universe(loaded.settings.universe, build_market(loaded.settings))
    # The demo's processes work in its home: the path of a file is that of this folder.
    choice = Choice(beat=False, api=page)
    return plan.make(loaded, {**own, "DESK_UNIVERSE": loaded.settings.universe}, home, choice)


def _on_made_prices(home: Path, exchange: str, own: Mapping[str, str]) -> dict[str, str]:
    """Write made prices of an exchange, and return the settings of a demo on them: shares alone, for options are of New
    York."""
    data = home / MADE
    day = own.get("DESK_REPLAY_DATE", str(write_made_market(data, exchange)))
    return {
        "DESK_MARKET": "files", "DESK_DATA": str(data), "DESK_EXCHANGE": exchange, "DESK_STOCK_ONLY": "true",
        "DESK_REPLAY_OPTIONS": "none", "DESK_OPTIONS_MODE": "stocks-only", "DESK_REPLAY_DATE": day,
    }  # fmt: skip


def sample_plan(environ: Mapping[str, str], home: Path, data: Path) -> Plan:
    """A desk in a home of its own within the demo's. Raises SettingError for a folder that is not such a sample."""
    home.mkdir()
    (home / ".env").touch()
    (home / "desk.toml").touch()
    own = environment({key: value for key, value in environ.items() if key not in CHOSEN}, home, live=False)
    modelled = ("DESK_REPLAY_OPTIONS",)
    files = {"DESK_MARKET": "files", "DESK_DATA": str(data.absolute()), "DESK_REPLAY_DATE": MSFT_CHAIN.day}
    own = {**{key: value for key, value in own.items() if key not in modelled}, **files}
    return plan.make(load(own, home), own, home, Choice(beat=False))


def follow(
    stack: Stack, seen: SeenProcesses, *arguments: str, seconds: float = LONGEST_SECONDS, quiet: bool = False
) -> int:
    """Run a command of the desk with its output on our terminal, or nowhere; add to the processes seen."""
    until = time.monotonic() + seconds
    command = guarded("TERM", desk_command(*arguments))
    environ = {**stack.plan.environ, parent_guard.PARENT: str(os.getpid())}
    with subprocess.Popen(
        command, env=environ, cwd=stack.plan.cwd, stdout=subprocess.DEVNULL if quiet else None
    ) as process:
        try:
            while process.poll() is None:
                _sample(stack, seen)
                if time.monotonic() > until:
                    raise UsageError(f"desk {arguments[0]} did not end in {seconds:.0f} s")
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


def newest(session: Session, kind: RunKind) -> Run | None:
    return session.exec(select(Run).where(Run.kind == kind).order_by(col(Run.created_at).desc()).limit(1)).first()


ANALYSED = 3
_LENS = "options"
_DAYS = (14, 45)  # to expiry, of the chain that a candidate must have


def candidates_to_analyse(database: str, market: MarketData) -> list[str]:
    """The newest screen's candidates with an option chain: of the options lens first, each by rank; else the first
    ones."""
    with closing(Store(database)) as store, store.read() as session:
        if (run := newest(session, RunKind.SCREEN)) is None:
            return []
        ranked = session.exec(select(Candidate).where(Candidate.run_id == run.id).order_by(col(Candidate.rank))).all()
        named = _named(session, run)
    ordered = sorted(ranked, key=lambda one: (one.id not in named, one.rank))
    chained = [one.symbol for one in ordered if has_chain(market, one.symbol)]
    return (chained or [one.symbol for one in ranked])[:ANALYSED]


def _named(session: Session, run: Run) -> set[str]:
    joined = select(CandidateHit.candidate_id).join(ScreenHit, col(ScreenHit.id) == col(CandidateHit.hit_id))
    return set(session.exec(joined.where(ScreenHit.run_id == run.id, ScreenHit.lens == _LENS)).all())


def has_chain(market: MarketData, symbol: str) -> bool:
    today = clock_day(market.clock)
    try:
        return bool(chain_of(market, symbol, *(today + dt.timedelta(days=days) for days in _DAYS)).rows)
    except DeskError:
        return False

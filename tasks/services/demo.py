"""The demo's own home and environment: nothing of the user's desk, keys or accounts gets in."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from models.errors import UsageError
from models.running import is_up
from models.setting_sources import load
from tasks.services import plan, tether
from tasks.services.plan import Plan
from tasks.services.programs import Choice, desk_command
from tasks.services.stack import Stack
from tasks.services.supervision import tethered

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

FORCED = {
    "DESK_PROVIDER": "rulebook",
    "DESK_MARKET": "replay",
    "DESK_BROKER": "paper",
    "DESK_ACCOUNT": "paper",
    "DESK_LOG_LEVEL": "WARNING",
    # Beat is there for its sweep, which sends again what failed for a moment; it starts no screen of its own.
    "DESK_PREMARKET": "off",
    "DESK_MIDDAY": "off",
}


@dataclass(slots=True)
class Seen:
    """App-server processes that were alive at some moment of the demo: pid to command line."""

    app_servers: dict[int, str] = field(default_factory=dict)
    most_processes: int = 0


def environment(environ: Mapping[str, str], home: Path, live: bool) -> dict[str, str]:
    """The demo's environment. TRADER_LIVE is there only when `live` was asked for; orders are paper in any case."""
    kept = {key: value for key, value in environ.items() if key in ALLOWED or key.startswith(ALLOWED_PREFIXES)}
    switch = {"TRADER_LIVE": "1"} if live else {}
    return {**kept, **FORCED, **switch, "DESK_HOME": str(home)}


def fresh_home(home: Path) -> Path:
    """An empty home. Only what an earlier demo made is wiped; raises UsageError for any other folder with files."""
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


def make_plan(environ: Mapping[str, str], home: Path, live: bool) -> Plan:
    """The demo's stack: Redis, the rulebook model, the workers and the sweep; no web page."""
    own = environment(environ, home, live)
    return plan.make(load(own, home), own, home, Choice(flower=False))


def screen(stack: Stack, arguments: tuple[str, ...] = ()) -> tuple[int, Seen]:
    """Runs `desk screen --wait` on the stack, its output on our terminal; returns its exit code and what was seen."""
    seen = Seen()
    until = time.monotonic() + LONGEST_SECONDS
    command = tethered("TERM", desk_command("screen", "--wait", *arguments))
    environ = {**stack.plan.environ, tether.PARENT: str(os.getpid())}
    with subprocess.Popen(command, env=environ, cwd=stack.plan.cwd) as process:
        try:
            while process.poll() is None:
                _sample(stack, seen)
                if time.monotonic() > until:
                    raise UsageError(f"the screen did not end in {LONGEST_SECONDS:.0f} s")
                time.sleep(SAMPLE_SECONDS)
        finally:
            if process.poll() is None:
                process.terminate()
        return process.returncode, seen


def _sample(stack: Stack, seen: Seen) -> None:
    stack.poll()  # raises when supervisord has ended: then nobody works on the run
    members = stack.members()
    seen.most_processes = max(seen.most_processes, len(members))
    for member in members:
        if " app-server" in member.command:
            seen.app_servers[member.pid] = member.command

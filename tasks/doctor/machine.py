"""Checks of this host and what it reaches: the interpreter, the home, and the sources of research."""

from __future__ import annotations

import importlib.metadata
import platform
import stat
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from chordesk.agents.role_models import models_in_use
from chordesk.models.errors import BinaryMissing, LoginMissing, NotConfigured
from chordesk.models.features import require_source
from chordesk.models.file_modes import open_to_others
from chordesk.models.settings import running_desk
from chordesk.models.shortages import ROOM_REMEDY, SOUNDNESS, Shortage, folders, require_no_shortage, shortages
from chordesk.models.urls import page_hosts
from chordesk.tasks import life
from chordesk.tasks.bootstrap import codex_binary, require_login, run_codex
from chordesk.tasks.doctor.check import Check, CheckContext, fail, ok, warn
from chordesk.tasks.life import State
from chordesk.tasks.reading.desk_status import ask_workers
from chordesk.tools.pages.browser import find_browser
from chordesk.tools.pages.page_reader import PageError

SHOWN = 3
OLDEST_PYTHON = (3, 11)
WHEEL = "openai-codex-cli-bin"


def python(context: CheckContext) -> Check:
    found = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    if sys.version_info[:2] < OLDEST_PYTHON:
        return fail(found, "use Python 3.11 or newer")
    return ok(found)


def binary(context: CheckContext) -> Check:
    """Check that the Codex binary runs, and is the version this desk was tested with."""
    path = codex_binary(context.settings)
    try:
        answer = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=15, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise BinaryMissing(f"the Codex binary {path} does not run: {error}") from None
    version = answer.stdout.split()[-1] if answer.stdout.split() else "?"
    pinned = importlib.metadata.version(WHEEL)
    if version != pinned:
        detail = f"codex {version}; this desk was tested with {pinned}"
        return warn(detail, "unset DESK_CODEX_BINARY to use the tested one")
    return ok(f"codex {version}")


def login(context: CheckContext) -> Check:
    """Check that there is a login where a role needs one, and show of which kind."""
    settings = context.settings
    if not any(one.provider(settings) == "codex" for one in models_in_use(settings)):
        return ok("no role uses the Codex login")
    require_login(settings)
    asked = run_codex(settings, "login", "status", quiet=True)
    told = (asked.stdout + asked.stderr).strip() or "no answer"
    found = told.splitlines()[-1].partition(" - ")[0]  # without parts of a key
    return ok(found) if asked.returncode == 0 else fail(found, LoginMissing.remedy)


def room(context: CheckContext) -> Check:
    """Check that the home can be written, and that there is room where the desk writes, memory, and files to open, for
    the workers of a running desk too."""
    require_no_shortage(context.settings)
    here = [one for one in shortages(context.settings) if one.what != SOUNDNESS]  # that is the database's check
    up = not context.embedded and running_desk.has_settings(running_desk.read(context.settings.home))
    workers = ask_workers(context.settings) if up else []
    theirs = [f"{one.node}: {each}" for one in workers for each in one.short if _is_here(each, here)]
    if found := [*map(str, here), *theirs]:
        return warn("; ".join(found), ROOM_REMEDY)
    return ok(f"home {context.settings.home}; for " + ", ".join(folders(context.settings)))


def _is_here(found: Shortage, known: Sequence[Shortage]) -> bool:
    return found.what != SOUNDNESS and found.name not in {one.name for one in known}


def processes(context: CheckContext) -> Check:
    """Check that the processes of the running desk live, each by the beat of its own loop."""
    lives = life.of_desk(context.settings)
    ill = [f"{one.called}: {one}" for one in lives if one.alarming]
    if ill:
        return fail("; ".join(ill), "let it go on, or end it: `desk up` starts it anew; `desk status` has what follows")
    slow = [f"{one.called}: {one}" for one in lives if one.state in (State.SLOW, State.STARTING)]
    if slow:
        return warn("; ".join(slow), "the machine is busy, or they are starting: look again")
    left_out = [f"{one.called} is not wanted: {one.why}" for one in lives if one.state is State.NOT_WANTED]
    running = sum(one.state is State.RUNS for one in lives)
    return ok("; ".join([f"{running} run" if running else "none runs here", *left_out]))


def ports(context: CheckContext) -> Check:
    if context.taken is not None:
        return warn(str(context.taken.args[0]), context.taken.remedy)
    return ok("free, or the desk's own")


def file_modes(context: CheckContext) -> Check:
    """Check that home, database, logs, pictures and reports are their owner's alone."""
    if found := open_to_others(context.settings):
        shown = ", ".join(f"{path} ({stat.S_IMODE(path.lstat().st_mode):o})" for path in found[:SHOWN])
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        return warn(f"others may use {shown}{more}", "`desk doctor --fix` closes them")
    return ok("home, database, logs and reports are their owner's alone")


# Checks of the sources of research: the SEC's filings, pages of the web with the browser for their pictures, and event
# markets.

_SECONDS = 12


def filings(context: CheckContext) -> Check:
    """Check that sec_filings has what it needs, without a request and without the identity's text."""
    if context.settings.sec_identity is None:
        return ok("no identity is set (DESK_SEC_IDENTITY): sec_filings asks for nothing")
    try:
        require_source("filings")
    except NotConfigured as error:
        return warn("an identity is set, edgartools is missing", str(error))
    replay = "" if context.desk.market.clock.day is None else "; none are asked for in a replay"
    return ok(f"EDGAR is asked under the identity of DESK_SEC_IDENTITY{replay}")


def pages(context: CheckContext) -> Check:
    """Check that page_read can read pages where hosts are named, and name the browser that makes their pictures."""
    settings = context.settings
    hosts = page_hosts(settings.page_hosts)
    if not hosts:
        return ok("no hosts are named (DESK_PAGE_HOSTS): page_read reads nothing")
    named = ", ".join(str(host) for host in hosts)
    try:
        require_source("pages")
    except NotConfigured as error:
        return warn(f"hosts {named}; the text cannot be read", str(error))
    try:
        browser = _browser(settings.page_browser)
    except PageError as error:
        return ok(f"hosts {named}; without pictures: {error}")
    replay = "" if context.desk.market.clock.day is None else "; none is read in a replay"
    return ok(f"hosts {named}; pictures by {browser}{replay}")


def _browser(setting: str | None) -> str:
    path = find_browser(setting)
    version = _output(path, "--version")
    with tempfile.TemporaryDirectory(prefix="desk-page-", ignore_cleanup_errors=True) as folder:
        _output(path, "--headless", "--disable-gpu", f"--user-data-dir={folder}", "--dump-dom", "about:blank")
    return f"{path} ({version[:80]})"


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=True)
    except subprocess.CalledProcessError as error:
        why = (error.stderr.strip().splitlines() or [f"it ended with {error.returncode}"])[-1]
        raise PageError(f"{command[0]} does not run: {why.rpartition('] ')[2][-200:]}") from None
    except (OSError, subprocess.SubprocessError) as error:
        raise PageError(f"{command[0]} does not run: {type(error).__name__}") from None
    return done.stdout.strip()

"""`desk ping`: whether a worker of this host answers, at the cost of a health check.

Standard library only: a container is asked every few seconds, and loading the desk costs seconds of CPU.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from chordesk.tasks.worker.sockets import ask_all

ROLES = ("research", "ops", "trade", "all")
NO_ANSWER = 1
# What may name the home besides the environment.
_FILES = (".env", "desk.toml")
_POINTERS = ("DESK_CONFIG", "AUTONOMOUS_CONFIG_JSON")
_NAMES_A_HOME = re.compile("home|config", re.IGNORECASE)


def asked(arguments: Sequence[str]) -> tuple[str, str | None] | None:
    """Return role and name of a plain `desk ping`; None for any other command line, which the parser has to read."""
    match arguments:
        case ["ping", role] if role in ROLES:
            return role, None
        case ["ping", role, "--name", name] if role in ROLES and not name.startswith("-"):
            return role, name
    return None


def ping(role: str, name: str | None) -> int:
    """Return 0 if a worker answers. Without a name any whose name begins with the role's counts."""
    called, end = (name, "@") if name else (role, "")
    found = [each for each in ask_all(_home(os.environ, Path.cwd())) if each.node.startswith(called + end)]
    well = [each for each in found if each.well]
    if well:
        print(well[0])
        return 0
    why = "; ".join(map(str, found)) or f"no answer from {called}{end or '*@'}{os.uname().nodename or 'localhost'}"
    print(f"error: {why}\nremedy: start it, or name another with --name; `desk up` shows which run", file=sys.stderr)
    return NO_ANSWER


def _home(environ: Mapping[str, str], cwd: Path) -> Path:
    """Return the desk's home. The settings are loaded only where something besides DESK_HOME may name it."""
    if given := environ.get("DESK_HOME"):
        return Path(os.path.expanduser(given)).absolute()
    if not any(environ.get(name) for name in _POINTERS):
        from platformdirs import user_data_path

        try:
            home = user_data_path("chordesk")
        except RuntimeError:  # a user that the system does not know
            sys.exit("error: no home folder is known\nremedy: set DESK_HOME to the desk's")
        files = [folder / name for folder in (cwd, *cwd.parents) for name in _FILES]
        if not any(map(_may_name_a_home, (*files, home / "desk.toml"))):
            return home
    from chordesk.models.settings.sources import load_settings

    return load_settings(environ, cwd, agree=False).home


def _may_name_a_home(path: Path) -> bool:
    try:
        return _NAMES_A_HOME.search(path.read_text(encoding="utf-8", errors="replace")) is not None
    except OSError:
        return False

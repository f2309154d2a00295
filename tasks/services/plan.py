"""The plan of one `desk up`: its programs and addresses, derived from the settings before anything starts."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings, running_desk
from chordesk.models.settings.running_desk import plain, snapshot
from chordesk.models.settings.sources import Loaded
from chordesk.models.settings.variables import PINNED_VARIABLE, PREFIX
from chordesk.models.urls import masked
from chordesk.tasks.bootstrap import require_roles
from chordesk.tasks.notifications import channels
from chordesk.tasks.services import folders, programs, redis
from chordesk.tasks.services.folders import Folders
from chordesk.tasks.services.programs import Choice, Program

LOOPBACK = "127.0.0.1"
PORTS = 65_536
DRAIN_SECONDS = 2.0  # Ctrl-C ends all within 10 s: a turn that takes longer is given back


@dataclass(frozen=True, slots=True)
class Plan:
    """Programs and addresses. `urls` holds the embedded ones by setting name; `settings` has them too."""

    settings: Settings
    folders: Folders
    programs: tuple[Program, ...]
    urls: Mapping[str, str]
    environ: Mapping[str, str]
    cwd: Path

    @property
    def announced(self) -> dict[str, Any]:
        """The addresses, the places of the data and the desk's own settings, as published to other processes of the
        home. An address that the user named is among them if there is no login in it."""
        named = {name: getattr(self.settings, name) for name in ("redis_url", "database_url")}
        plain_urls = {name: url.get_secret_value() for name, url in named.items() if url is not None}
        open_urls = {name: url for name, url in plain_urls.items() if masked(url) == url}
        if not self.desk:
            return dict(self.urls)
        return {
            **self.urls,
            **open_urls,
            **snapshot(self.settings),
            running_desk.PLACES: running_desk.places(self.settings),
        }

    @property
    def services(self) -> tuple[Program, ...]:
        return tuple(program for program in self.programs if program.group == "services")

    @property
    def desk(self) -> tuple[Program, ...]:
        return tuple(program for program in self.programs if program.group == "desk")


def make(loaded: Loaded, environ: Mapping[str, str], cwd: Path, choice: Choice | None) -> Plan:
    """Return the plan for these settings; choice=None starts the services alone.

    A Redis or a rulebook model that the user named is used as it is; else one is embedded.
    Raises SettingError for roles that cannot be served, before anything is written; UsageError when the home cannot be
    used or a port is taken; ServiceError without a Redis server.
    """
    require_roles(loaded.settings)
    where = folders.prepare(loaded.settings.home)
    rulebook_port, flower_port, api_port = free_ports(3)
    started: list[Program] = []
    urls: dict[str, str] = {}
    if "redis_url" not in loaded.origins:
        urls["redis_url"] = redis.socket_url(redis.socket_path(where))
        command = redis.command(redis.find_server(environ.get("PATH")), where)
        started.append(programs.redis_server(command, urls["redis_url"]))
    if loaded.settings.provider == "rulebook" and "rulebook_url" not in loaded.origins:
        urls["rulebook_url"] = f"http://{LOOPBACK}:{rulebook_port}/v1"
        started.append(programs.rulebook(rulebook_port, urls["rulebook_url"]))
    if choice is not None and choice.flower:
        flower_port = _port("flower", loaded.settings.flower_port, flower_port)
        urls["flower_url"] = f"http://{LOOPBACK}:{flower_port}"
    if choice is not None:
        suffix = "" if "redis_url" in urls else _suffix(where.home)
        started += programs.workers(choice, flower_port, suffix)
    if choice is not None and channels.is_set(loaded.settings):
        started.append(programs.notifier())
    if choice is not None and choice.api:
        at = _port("api", loaded.settings.api_port, _again(where.home, api_port))
        started.append(programs.api(loaded.settings.api_host, at))
    started = list(_watched(started, loaded.settings))
    given = {name: found.value for name, found in loaded.origins.items()}
    drain = min(loaded.settings.drain_seconds, DRAIN_SECONDS)
    settings = Settings(**{**given, **urls, "drain_seconds": drain})
    return Plan(settings, where, tuple(started), urls, _environ(environ, where.home, settings, urls), cwd)


def _environ(environ: Mapping[str, str], home: Path, settings: Settings, urls: Mapping[str, str]) -> dict[str, str]:
    """Return the children's environment: ours, the home, the time to drain, the embedded addresses, the desk's own
    settings (a worker that restarts after a file was changed keeps those of the others), and the path of this code."""
    paths = [str(programs.CODE_ROOT), *filter(None, [environ.get("PYTHONPATH")])]
    own = {"DESK_HOME": str(home), "DESK_DRAIN_SECONDS": str(settings.drain_seconds)}
    own |= {f"{PREFIX}{name.upper()}": url for name, url in urls.items()}
    pinned = {PINNED_VARIABLE: json.dumps(plain(settings))}
    return {**environ, **own, **pinned, "PYTHONPATH": os.pathsep.join(paths)}


def _port(name: str, wanted: int, free: int) -> int:
    if wanted and not is_free(wanted):
        remedy = f"set another port, or 0 for a free one, or start the desk without {name}"
        raise UsageError(f"DESK_{name.upper()}_PORT={wanted} is taken on {LOOPBACK}", remedy=remedy)
    return wanted or free


def _watched(started: Sequence[Program], settings: Settings) -> Sequence[Program]:
    """Return the programs with their ports for metrics. Raises UsageError when one of them is taken."""
    found = programs.watched(started, settings.metrics_port)
    if running_desk.is_up(settings.home):
        return found  # taken by the same desk: that it runs is the error, which the start finds
    for each in found:
        port, why = each.metrics_port, "is taken" if each.metrics_port < PORTS else "is none"
        if port and (port >= PORTS or not is_free(port)):
            raise UsageError(
                f"DESK_METRICS_PORT={settings.metrics_port}: port {port}, that of {each.name}, {why}",
                remedy="set a port after which the next ones are free too, or 0 for no metrics",
            )
    return found


def _again(home: Path, free: int) -> int:
    """Return the port at which the home was last served, if it is free: open pages go on after a restart."""
    last = running_desk.last_api_port(home)
    return last if last and is_free(last) else free


def _suffix(home: Path) -> str:
    """Return a suffix for node names: two desks of one host on one outside Redis need different ones."""
    return f"-{hashlib.sha256(str(home).encode()).hexdigest()[:6]}"


def free_ports(count: int) -> list[int]:
    """Return `count` different TCP ports of loopback that are free now."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return [int(each.getsockname()[1]) for each in sockets]


def is_free(port: int) -> bool:
    """Return True if a server could listen on this port of loopback."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True

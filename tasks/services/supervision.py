"""supervisord: its configuration, process and XML-RPC; the table of its processes; and the wait for programs that are
late."""

from __future__ import annotations

import http.client
import json
import os
import shlex
import socket
import subprocess
import sys
import time
import xmlrpc.client
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
from supervisor.xmlrpc import SupervisorTransport

from chordesk.models.errors import ServiceError, UsageError
from chordesk.models.files import replacing
from chordesk.models.settings.variables import unneeded
from chordesk.tasks.services import parent_guard
from chordesk.tasks.services.plan import Folders, Plan, Program, unneeded_keys

GROUP_PRIORITY = {"services": 100, "desk": 900}  # stopped from the highest down
WAKE_SECONDS = 0.1
PARENT_GUARD = Path(parent_guard.__file__)
DAEMON = PARENT_GUARD.with_name("supervisord.py")


@dataclass(frozen=True, slots=True)
class Process:
    """The state of a program as supervisord reports it. pid is 0 when it does not run."""

    name: str
    state: str
    pid: int
    started: float  # seconds since the epoch
    message: str


def configuration(programs: Sequence[Program], folders: Folders) -> str:
    lines = [
        "[unix_http_server]",
        f"file={_plain(_socket(folders))}",
        "chmod=0600",
        "[rpcinterface:supervisor]",
        "supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface",
        "[supervisord]",
        "nodaemon=true",
        "silent=true",
        "minfds=256",
        f"logfile={_plain(folders.logs / 'supervisord.log')}",
        "logfile_maxbytes=5MB",
        "logfile_backups=1",
        f"pidfile={_plain(folders.run / 'supervisord.pid')}",
        f"childlogdir={_plain(folders.logs)}",
    ]
    for group, priority in GROUP_PRIORITY.items():
        names = [program.name for program in programs if program.group == group]
        if names:
            lines += [f"[group:{group}]", f"programs={','.join(names)}", f"priority={priority}"]
    for program in programs:
        lines += _program(program, folders)
    return "\n".join(lines) + "\n"


def guarded(end: str, command: Sequence[str]) -> list[str]:
    """Return the command wrapped so that it gets SIG{end} when the process that starts it dies."""
    return [sys.executable, "-I", "-S", str(PARENT_GUARD), f"SIG{end}", *command]


def _program(program: Program, folders: Folders) -> list[str]:
    command = guarded(program.end, program.command)
    return [
        f"[program:{program.name}]",
        f"command={_plain(shlex.join(command))}",
        "autostart=false",
        "autorestart=true",
        "startsecs=1",
        "startretries=3",
        f"stopwaitsecs={program.stop_seconds}",
        # A worker ends its own app-servers in order, so only the last resort goes to the whole group.
        "stopasgroup=false",
        "killasgroup=true",
        "redirect_stderr=true",
        f"stdout_logfile={_plain(_plain(log_file(program.name, folders)))}",  # expanded twice
        "stdout_logfile_maxbytes=5MB",
        "stdout_logfile_backups=1",
        *_environment(program),
    ]


def _environment(program: Program) -> list[str]:
    """What differs from supervisord's environment. Each program has the secrets that it needs: agents run in some."""
    own = dict.fromkeys((*unneeded_keys(program.queues), *unneeded(program.secrets)), "")
    if program.metrics_port:
        own["DESK_METRICS_PORT"] = str(program.metrics_port)
    return ["environment=" + ",".join(f'{name}="{value}"' for name, value in own.items())] if own else []


def _plain(value: object) -> str:
    """With % doubled. Raises UsageError for text that the file would cut off as a comment."""
    text = str(value)
    for mark in (" ;", " #", "\n", "\t;", "\t#"):
        if mark in text:
            raise UsageError(f"supervisord cannot take the path or command {text!r} with {mark!r} in it")
    return text.replace("%", "%%")


def log_file(name: str, folders: Folders) -> Path:
    return folders.logs / f"{name}.log"


KILL_SECONDS = 5.0
CALL_SECONDS = 2.0  # for an answer: one that is frozen must not stop who watches it
START_CALL_SECONDS = 60.0  # while all programs start, on a machine that is busy with that


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path, seconds: float) -> None:
        super().__init__("localhost", timeout=seconds)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class _Transport(SupervisorTransport):  # type: ignore[misc]
    """supervisor's own has no limit of time."""

    def __init__(self, path: Path, seconds: float) -> None:
        super().__init__(None, None, f"unix://{path}")
        self._get_connection = lambda: _Connection(path, seconds)


def _socket(folders: Folders) -> Path:
    return folders.sockets / "supervisor.sock"


def _message(info: Mapping[str, Any]) -> str:
    """Return supervisord's description of a program; of one that has ended how it did, since that is a date."""
    if info["statename"] != "EXITED":
        return str(info["description"])
    status = int(info["exitstatus"])
    return f"it ended with exit code {status}" if status >= 0 else "it was ended by a signal"


class Supervisor:
    """A supervisord that is a child of this process and ends with it.

    Start it from the main thread: the kernel ties it to the thread that started it.
    """

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, programs: Sequence[Program], environ: Mapping[str, str], cwd: Path, seconds: float) -> None:
        path = self._folders.run / "supervisord.conf"
        path.write_text(configuration(programs, self._folders), encoding="utf-8")
        path.chmod(0o600)
        with suppress(FileNotFoundError):
            _socket(self._folders).unlink()
        env = {**environ, parent_guard.PARENT: str(os.getpid())}
        command = guarded("TERM", [sys.executable, "-P", str(DAEMON), "-c", str(path)])
        with (self._folders.logs / "supervisord.out").open("wb") as out:
            self._process = subprocess.Popen(
                command, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
            )
        self._wait_up(time.monotonic() + seconds)

    def _wait_up(self, until: float) -> None:
        while time.monotonic() < until and self.alive():
            if self._answers():
                return
            time.sleep(0.05)
        out = self._folders.logs / "supervisord.out"
        output = out.read_text(encoding="utf-8", errors="replace").strip()[-500:]
        raise ServiceError(f"supervisord did not start: {output}", remedy=f"see {out}")

    def _answers(self) -> bool:
        try:
            return bool(self._call("getState"))
        except (OSError, xmlrpc.client.Error, ServiceError):
            return False

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    def alive(self, settle_seconds: float = 0.0) -> bool:
        if self._process is None:
            return False
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(settle_seconds)
        return self._process.returncode is None

    def run(self, program: Program) -> None:
        """Start a program without waiting for it."""
        with suppress(xmlrpc.client.Fault):  # it runs already
            self._call("startProcess", program.full_name, False)

    def end(self, program: Program) -> None:
        """End a program and wait for that; one that has given up is not tried again."""
        with suppress(xmlrpc.client.Fault):  # it does not run
            self._call("stopProcess", program.full_name, True)

    def processes(self, seconds: float = START_CALL_SECONDS) -> list[Process]:
        """Raises ServiceError where supervisord does not answer within so many seconds."""
        return [
            Process(each["name"], each["statename"], each["pid"], float(each["start"]), _message(each))
            for each in self._call("getAllProcessInfo", seconds=seconds)
        ]

    def _call(self, method: str, *arguments: object, seconds: float = START_CALL_SECONDS) -> Any:
        transport = _Transport(_socket(self._folders), seconds)
        with xmlrpc.client.ServerProxy("http://127.0.0.1", transport=transport) as proxy:
            try:
                return getattr(proxy.supervisor, method)(*arguments)
            except (OSError, http.client.HTTPException, xmlrpc.client.ProtocolError) as error:
                raise ServiceError(f"supervisord does not answer: {error}") from error

    def stop(self, seconds: float) -> bool:
        """Ask supervisord to stop all and end. Return True if it ended in time; else it was killed."""
        if self._process is None:
            return True
        self._process.terminate()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if not self.alive(settle_seconds=WAKE_SECONDS):
                return True
            self._wake()
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):  # of a machine that is too busy to end it: the caller goes on
            self._process.wait(KILL_SECONDS)
        return False

    def _wake(self) -> None:
        """Open supervisord's socket: it checks signals, ended children and time limits then, else once a second."""
        with suppress(OSError), socket.socket(socket.AF_UNIX) as knock:
            knock.settimeout(WAKE_SECONDS)
            knock.connect(str(_socket(self._folders)))


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """A process, identified by pid and creation time: a later process may get the same pid."""

    pid: int
    created: float
    command: str

    def process(self) -> psutil.Process | None:
        try:
            found = psutil.Process(self.pid)
            if abs(found.create_time() - self.created) > 0.02 or found.status() == psutil.STATUS_ZOMBIE:
                return None
        except psutil.Error:
            return None
        return found


class ProcessTable:
    """The living descendants of a process, written to a file for the cleanup after a crash."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: dict[tuple[int, float], ProcessRecord] = {}
        self._written = True

    def take(self, root: int) -> list[ProcessRecord]:
        now = []
        with suppress(psutil.Error, OSError):  # as without a file left to open
            top = psutil.Process(root)
            now = [member for member in map(_member, [top, *top.children(recursive=True)]) if member]
        known = set(self._seen)
        self._seen = {key: member for key, member in self._seen.items() if member.process()}
        self._seen.update({(member.pid, member.created): member for member in now})
        if set(self._seen) != known or not self._written:
            self._write()
        return now

    def living(self) -> list[ProcessRecord]:
        return [member for member in self._seen.values() if member.process()]

    def load(self) -> list[ProcessRecord]:
        try:
            rows = json.loads(self._path.read_text(encoding="utf-8"))
            members = [ProcessRecord(int(row["pid"]), float(row["created"]), str(row["command"])) for row in rows]
        except (OSError, ValueError, KeyError, TypeError):
            return []
        return [member for member in members if member.process()]

    def forget(self) -> None:
        self._seen.clear()
        with suppress(OSError):
            self._path.unlink()

    def _write(self) -> None:
        try:
            with replacing(self._path) as file:
                file.write(json.dumps([asdict(member) for member in self._seen.values()]).encode())
        except OSError:
            self._written = False
        else:
            self._written = True


def _member(process: psutil.Process) -> ProcessRecord | None:
    try:
        with process.oneshot():
            return ProcessRecord(process.pid, process.create_time(), _brief(process.cmdline()))
    except psutil.Error:
        return None


def _brief(command: list[str]) -> str:
    """Return the command in one line: the program and its last arguments, for an app-server has a page of flags."""
    whole = " ".join(command)
    return whole if len(whole) <= 300 else " ".join([command[0], "...", *command[-4:]])[:300]


def end(members: Iterable[ProcessRecord], grace_seconds: float) -> list[ProcessRecord]:
    """Send SIGTERM, then SIGKILL to the survivors; return the processes that were still alive."""
    alive = [(member, process) for member in members if (process := member.process())]
    for _, process in alive:
        with suppress(psutil.Error):
            process.terminate()
    _, stubborn = psutil.wait_procs([process for _, process in alive], timeout=grace_seconds)
    for process in stubborn:
        with suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(stubborn, timeout=1.0)
    return [member for member, _ in alive]


NOTICE_SECONDS = 10.0
START_SECONDS = 600.0  # the longest wait of `desk up` for programs that make progress
# On a busy machine a process waits for its turn at the CPU; one that used none for this long waits for something else.
STANDSTILL_SECONDS = 60.0


class StartWait:
    """How long to wait for programs that have not started: START_SECONDS, or less when they use no CPU."""

    def __init__(self, plan: Plan, notify: Callable[[str], None]) -> None:
        self._folders, self._notify = plan.folders, notify
        self._standstill = min(STANDSTILL_SECONDS, START_SECONDS)
        self._began = self._moved = time.monotonic()
        self._next_line = self._began + NOTICE_SECONDS
        self._used = 0.0

    def check(self, late: Sequence[str], pids: Iterable[int]) -> None:
        """Raises ServiceError when there is no more time. pids: of the late programs."""
        now, used = time.monotonic(), _cpu_seconds(pids)
        if used != self._used:
            self._used, self._moved = used, now
        waited, still = now - self._began, now - self._moved
        if waited >= START_SECONDS:
            raise self._over(late, f"in {waited:.0f} s")
        if still >= self._standstill:
            raise self._over(late, f"and used no CPU for {still:.0f} s")
        if now >= self._next_line:
            self._next_line = now + NOTICE_SECONDS
            self._notify(f"waiting for {self._named(late)}: {waited:.0f} s so far, at most {START_SECONDS:g}")

    def _named(self, late: Sequence[str]) -> str:
        return ", ".join(f"{name} (log {log_file(name, self._folders)})" for name in late)

    def _over(self, late: Sequence[str], why: str) -> ServiceError:
        return ServiceError(f"not ready {why}: {self._named(late)}", remedy="see the log")


def _cpu_seconds(pids: Iterable[int]) -> float:
    total = 0.0
    for pid in filter(None, pids):
        with suppress(psutil.Error):
            first = psutil.Process(pid)
            for each in (first, *first.children(recursive=True)):
                times = each.cpu_times()
                total += times.user + times.system
    return total

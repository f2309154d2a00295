"""Real processes for end-to-end tests and measurements: Redis, a model on loopback, workers. All end with the block,
or with the process that started them when that is killed (on Linux)."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from celery import Celery
from sqlmodel import col, select

from chordesk.models.settings import Settings
from chordesk.models.settings.sources import load_settings
from chordesk.models.states import STEP_FINAL
from chordesk.models.tables.runs import Step
from chordesk.tasks.services.parent_guard import PARENT
from chordesk.tasks.services.supervision import guarded
from chordesk.tasks.worker.app import create_app, node_name
from tests import homes, zygote
from tests.conftest import answers, valkey_binary
from tests.databases import make_database
from tests.patience import PATIENCE

REPOSITORY = Path(__file__).parents[1]
LOG_SHOWN = 20_000  # characters of a process's log beside a test that failed

Process = subprocess.Popen[bytes] | zygote.Started


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(slots=True)
class Processes:
    """A desk made of separate processes in a home of its own. forked: its commands come from one that has loaded the
    desk; otherwise they load it themselves, as for a user. python: interpreter and options of those."""

    home: Path
    environ: dict[str, str]
    forked: bool = True
    python: tuple[str, ...] = (sys.executable,)
    running: dict[str, Process] = field(default_factory=dict)
    _workers: set[str] = field(default_factory=set)
    _app: Celery | None = None
    # The kernel ties a process to the thread that started it, so one thread that lives as long as the desk starts all.
    _starter: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "starter"))

    @property
    def settings(self) -> Settings:
        return load_settings(self.environ, self.home)

    @property
    def app(self) -> Celery:
        """An app of this test process, to open runs with: with the settings that the workers are started with now."""
        if self._app is None or self._app.desk.settings != self.settings:
            self._close_app()
            self._app = create_app(self.settings, "test")
        return self._app

    def _close_app(self) -> None:
        if self._app is not None:
            self._app.desk.close()
            self._app.close()

    def spawn(self, name: str, *command: str, environ: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        # Elsewhere the parent_guard is a process of its own, and a test that kills would kill that one.
        whole = guarded("KILL", command) if sys.platform == "linux" else command
        env = {**self.environ, **(environ or {}), PARENT: str(os.getpid())}
        with (self.home / f"{name}.log").open("ab") as log:
            process = self._starter.submit(
                subprocess.Popen, whole, cwd=REPOSITORY, env=env, stdout=log, stderr=log, start_new_session=True
            ).result()
        self.running[name] = process
        return process

    def desk(self, name: str, *arguments: str, environ: Mapping[str, str] | None = None) -> Process:
        if not self.forked:
            return self.spawn(name, *self.python, "-m", "chordesk.tasks.cli.main", *arguments, environ=environ)
        with (self.home / f"{name}.log").open("ab") as log:
            process = zygote.start(arguments, {**self.environ, **(environ or {})}, REPOSITORY, log.fileno())
        self.running[name] = process
        return process

    def redis(self) -> None:
        path = self.home / "run" / "redis.sock"
        path.parent.mkdir(parents=True, exist_ok=True)
        data = self.home / "redis"
        data.mkdir(exist_ok=True)
        self.spawn(
            "redis", valkey_binary(), "--port", "0", "--unixsocket", str(path), "--dir", str(data),
            "--save", "", "--appendonly", "yes", "--appendfsync", "no",
        )  # fmt: skip
        self.environ["DESK_REDIS_URL"] = f"unix://{path}"
        wait_for(lambda: answers(path), "Redis answers")

    def rulebook(self, latency: float = 0.0) -> None:
        port = free_port()
        self.desk("rulebook", "rulebook", "--port", str(port), "--latency", str(latency))
        self.environ["DESK_RULEBOOK_URL"] = f"http://127.0.0.1:{port}/v1"
        self._await_listener("rulebook", port)

    def stand_in(self, *arguments: str) -> None:
        """The far side of the model wire, in a process of its own."""
        port = free_port()
        self.spawn("model", sys.executable, "-m", "tests.fakes.responses", "--port", str(port), *arguments)
        self.environ["DESK_PROVIDER"] = "endpoint"
        self.environ["DESK_PROVIDER_URL"] = f"http://127.0.0.1:{port}/v1"
        self._await_listener("model", port)

    def _await_listener(self, name: str, port: int) -> None:
        """Until this process itself listens: another test's may have taken the port in the meantime."""
        process = psutil.Process(self.running[name].pid)

        def up() -> bool:
            assert self.running[name].poll() is None, self.log(name)[-2000:]
            return any(one.status == psutil.CONN_LISTEN and one.laddr.port == port for one in process.net_connections())

        wait_for(up, f"{name} listens")

    def database(self) -> None:
        make_database(self.settings.database)

    def workers(self, *roles: str, concurrency: int | None = None, environ: Mapping[str, str] | None = None) -> None:
        """Start workers and wait until they answer. environ: what is set for these alone."""
        for role in roles:
            self.start_worker(role, concurrency, environ)
        self.await_workers(*roles)

    def start_worker(self, role: str, concurrency: int | None = None, environ: Mapping[str, str] | None = None) -> None:
        slots = ("--concurrency", str(concurrency)) if concurrency and role.startswith("research") else ()
        arguments = ("worker", role.partition("-")[0], "--name", role, *slots)
        self.desk(role, *arguments, environ=environ)
        self._workers.add(role)

    def await_workers(self, *names: str) -> None:
        """Until each of these answers; other workers do not count."""
        nodes = [node_name(name) for name in names]
        wait_for(lambda: self._answer(nodes), f"{', '.join(names)} answer")

    def _answer(self, nodes: list[str]) -> bool:
        for name, process in self.running.items():
            assert process.poll() is None, f"{name} ended with {process.returncode}: {self.log(name)[-2000:]}"
        answers = self.app.control.ping(destination=nodes, timeout=0.5) or []
        return {node for answer in answers for node in answer} >= set(nodes)

    def log(self, name: str) -> str:
        return (self.home / f"{name}.log").read_text(errors="replace")

    def told(self) -> str:
        """The steps that are open, and what each process wrote last; of workers also where their threads are, which
        Celery writes on a signal. A desk that cannot be asked for its steps, without Redis say, still has its logs."""
        try:
            with self.app.desk.store.read() as session:
                found = session.exec(select(Step).where(col(Step.state).not_in(STEP_FINAL)).limit(100)).all()
            steps = [repr(step) for step in found]
        except Exception as error:
            steps = [f"its steps could not be read: {error!r}"]
        for name in self._workers:
            if name in self.running:
                with contextlib.suppress(OSError):
                    self.running[name].send_signal(signal.SIGUSR1)
        time.sleep(1.0)
        logs = [f"--- {name}\n{self.log(name)[-LOG_SHOWN:]}" for name in self.running]
        return "\n".join([*steps, *logs])

    def resident_mb(self, *names: str) -> float:
        """Resident memory of processes and all their children, MiB."""
        found = [psutil.Process(self.running[name].pid) for name in names]
        found += [child for process in list(found) for child in process.children(recursive=True)]
        total = 0
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                total += process.memory_info().rss
        return total / 2**20

    def end(self, name: str, number: int = signal.SIGTERM) -> None:
        process = self.running.pop(name)
        process.send_signal(number)
        process.wait(PATIENCE)

    def _await_end(self, name: str) -> None:
        process = self.running[name]
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"{name} did not end: {self.log(name)[-2000:]}") from None

    def close(self) -> None:
        """Workers first, Redis last; what does not end in time is killed."""
        services = [name for name in ("rulebook", "model", "redis") if name in self.running]
        for names in ([name for name in self.running if name not in services], services):
            for name in names:
                self.running[name].terminate()
            for name in names:
                self._await_end(name)
        self._starter.shutdown()
        self._close_app()


@contextlib.contextmanager
def processes(
    forked: bool = True, at: Path | None = None, python: tuple[str, ...] = (sys.executable,), **environ: str
) -> Iterator[Processes]:
    """A home, a database and Redis; the block adds the rest. at: folder of the home, as of `homes.owned`."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("DESK_", "TRADER_", "AUTONOMOUS_"))}
    with homes.owned(at) as home:
        desk = Processes(
            home,
            {**clean, "DESK_HOME": str(home), "PYTHONUNBUFFERED": "1", "DESK_DRAIN_SECONDS": "2", **environ},
            forked,
            python,
        )
        try:
            desk.redis()
            desk.database()
            yield desk
        finally:
            desk.close()


def wait_for(condition: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"not within {seconds:g} s: {what}"
        time.sleep(0.05)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0

"""What a worker answers outside its queues: control commands, which other processes broadcast, and its health
socket."""

from __future__ import annotations

import concurrent.futures
import os
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil
import structlog
from celery import bootsteps
from celery.worker.control import control_command, inspect_command

from chordesk.agents.runtime import ProcessStatus
from chordesk.models.settings.running_desk import snapshot
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine.kinds import QUEUES
from chordesk.tasks.engine.room import RoomWatch
from chordesk.tasks.worker.messages import CANCEL, INTERRUPT, STATUS, STOP
from chordesk.tasks.worker.sockets import Health, health_path, make_folder

log = structlog.get_logger(__name__)

# The thread that waits here for the loop also keeps the worker's connection alive: it must not wait for long.
LOOP_SECONDS = 0.5


@control_command(name=STOP)  # type: ignore[untyped-decorator]
def desk_stop(state: Any, run_ids: Sequence[str] = ()) -> dict[str, int]:
    """Interrupt the turns of these runs."""
    keeper = state.app.desk.lease_keeper()
    ended = keeper.end_runs(run_ids) if keeper is not None else 0
    if ended:
        log.info("stop.interrupts", runs=list(run_ids), steps=ended)
    return {"interrupted": ended}


@control_command(name=CANCEL)  # type: ignore[untyped-decorator]
def desk_cancel(state: Any, reasons: Mapping[str, str]) -> dict[str, int]:
    """Interrupt the turns of steps that are not needed any more. reasons: why, by the parent of the steps."""
    keeper = state.app.desk.lease_keeper()
    return {"interrupted": keeper.end_children(reasons) if keeper is not None else 0}


@inspect_command(name=INTERRUPT)  # type: ignore[untyped-decorator]
def desk_interrupt(state: Any, thread_id: str = "", turn_id: str = "") -> dict[str, bool]:
    """Interrupt one turn if it runs here."""
    desk: Desk = state.app.desk
    runtimes = desk.made_runtimes()
    if not runtimes:
        return {"interrupted": False}

    async def end() -> bool:
        return any(runtime.interrupt(thread_id, turn_id) for runtime in runtimes)

    with suppress(concurrent.futures.TimeoutError):
        done = desk.loop.submit(end()).result(LOOP_SECONDS)
        log.info("turn.interrupted", thread=thread_id, turn=turn_id, here=done)
        return {"interrupted": done}
    return {"interrupted": False}


@inspect_command(name=STATUS)  # type: ignore[untyped-decorator]
def desk_status(state: Any) -> dict[str, Any]:
    """Return process, held steps, app-servers, queues and the desk's settings as this process has them; `trouble` when
    a part of it is not known."""
    desk: Desk = state.app.desk
    servers, trouble = app_servers(desk)
    leases = desk.made("leases")
    return {
        "pid": os.getpid(),
        "rss_mb": round(psutil.Process().memory_info().rss / 2**20, 1),
        "steps_held": leases.count() if leases is not None else 0,
        "app_servers": [asdict(server) for server in servers],
        "trouble": trouble,
        "short": [asdict(one) for one in desk.room.short],
        "queues": sorted(set(state.app.amqp.queues.consume_from).intersection(QUEUES)),  # it has one of its own too
        "settings": snapshot(desk.settings),
    }


def app_servers(desk: Desk) -> tuple[list[ProcessStatus], str | None]:
    """Return this process's app-servers without starting any, and why they are not known if they are not."""
    runtimes = desk.made_runtimes()
    if not runtimes:
        return [], None

    async def read() -> list[ProcessStatus]:
        return [one for runtime in runtimes for one in runtime.status()]

    try:
        return desk.loop.submit(read()).result(LOOP_SECONDS), None
    except concurrent.futures.TimeoutError:
        return [], f"its event loop did not answer within {LOOP_SECONDS:g} s"


TICK_SECONDS = 1.0
BACKLOG = 8


class HealthSocket(bootsteps.StartStopStep):  # type: ignore[misc]
    """Answers health checks from a thread of its own, with the age of the loop's last tick: a loop that is stuck, or
    waits for a lost Redis, does not tick."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, consumer: Any, **options: Any) -> None:
        self._ticked: float | None = None
        self._entry: Any = None
        self._listener: socket.socket | None = None
        self._path: Path | None = None
        self._room: RoomWatch | None = None

    def start(self, consumer: Any) -> None:
        self._room = consumer.app.desk.room
        consumer.app.desk.watch.health.ready_by(lambda: self._why_not(consumer.hostname))
        if self._listener is None:
            self._serve(consumer.app.desk.settings.home, consumer.hostname)
        self._entry = consumer.timer.call_repeatedly(TICK_SECONDS, self._tick)

    def stop(self, consumer: Any) -> None:
        if self._entry is not None:
            self._entry.cancel()
            self._entry = None

    def shutdown(self, consumer: Any) -> None:
        self.stop(consumer)
        if self._listener is not None and self._path is not None:
            self._path.unlink(missing_ok=True)
            self._listener.close()
            self._listener = None

    def _tick(self) -> None:
        self._ticked = time.monotonic()

    def _why_not(self, node: str) -> str | None:
        found = Health(node, time.monotonic() - self._ticked if self._ticked is not None else None)
        if found.well:
            return self._room.why_not() if self._room is not None else None
        return f"{found}: it is stuck, or waits for Redis" if found.age is not None else str(found)

    def _serve(self, home: Path, node: str) -> None:
        listener, path = socket.socket(socket.AF_UNIX), health_path(home, node)
        try:
            make_folder(home)
            path.unlink(missing_ok=True)  # of a worker of this name that was killed
            listener.bind(str(path))
            path.chmod(0o600)
            listener.listen(BACKLOG)
        except OSError as error:
            listener.close()
            log.warning("health.no_socket", path=str(path), error=str(error))
            return
        self._listener, self._path = listener, path
        threading.Thread(target=self._answer, args=(listener, node), name="health", daemon=True).start()

    def _answer(self, listener: socket.socket, node: str) -> None:
        pid = os.getpid()
        while os.getpid() == pid:
            try:
                line, _ = listener.accept()
            except OSError:
                return  # closed
            age = f"{time.monotonic() - self._ticked:.3f}" if self._ticked is not None else ""
            with line, suppress(OSError):
                line.sendall(f"{node}\n{age}".encode())

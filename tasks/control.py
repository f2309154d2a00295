"""What a worker says of itself when it is asked by the control command `desk_status`."""

from __future__ import annotations

import concurrent.futures
import os
from dataclasses import asdict
from typing import Any

import psutil
from celery.worker.control import inspect_command

from agents.codex.runtime import CodexRuntime, ProcessStatus
from tasks.bootstrap import Desk, desk_of

COMMAND = "desk_status"
# The loop is asked by the thread that also keeps the worker's connection alive: it must not wait for long.
LOOP_SECONDS = 0.5


@inspect_command(name=COMMAND)  # type: ignore[untyped-decorator]
def desk_status(state: Any) -> dict[str, Any]:
    """Process, steps held, app-servers; `trouble` when something could not be said."""
    desk = desk_of(state.app)
    servers, trouble = app_servers(desk)
    leases = desk.made("leases")
    return {
        "pid": os.getpid(),
        "rss_mb": round(psutil.Process().memory_info().rss / 2**20, 1),
        "steps_held": leases.count() if leases is not None else 0,
        "app_servers": [asdict(server) for server in servers],
        "trouble": trouble or _children(state),
    }


def app_servers(desk: Desk) -> tuple[list[ProcessStatus], str | None]:
    """Those of this process, without starting any."""
    runtime: CodexRuntime | None = desk.made("runtime")
    if runtime is None:
        return [], None

    async def ask() -> list[ProcessStatus]:
        return runtime.status()

    try:
        return desk.loop.submit(ask()).result(LOOP_SECONDS), None
    except concurrent.futures.TimeoutError:
        return [], f"its event loop did not answer within {LOOP_SECONDS:g} s"


def _children(state: Any) -> str | None:
    """A prefork worker's turns are its children's, who are asked by nobody."""
    consumer = getattr(state, "consumer", None)
    pool = getattr(consumer, "pool", None)
    forks = type(pool).__module__.endswith("prefork") if pool is not None else False
    return "prefork: steps and app-servers are its children's and not counted here" if forks else None

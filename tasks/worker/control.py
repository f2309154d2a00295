"""Control commands: what a worker answers outside its queues, and how other processes broadcast them."""

from __future__ import annotations

import concurrent.futures
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import psutil
import structlog
from celery import Celery
from celery.worker.control import control_command, inspect_command
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from chordesk.agents.runtime import ProcessStatus
from chordesk.models.errors import RedisDown
from chordesk.models.settings.snapshots import snapshot
from chordesk.tasks.bootstrap import Desk, desk_of

log = structlog.get_logger(__name__)

STATUS = "desk_status"
STOP = "desk_stop"
CANCEL = "desk_cancel"
INTERRUPT = "desk_interrupt"
# The thread that waits here for the loop also keeps the worker's connection alive: it must not wait for long.
LOOP_SECONDS = 0.5
ANSWER_SECONDS = 2.0


def stop_on_workers(app: Celery, run_ids: Sequence[str]) -> None:
    """Have every worker interrupt what it holds of these runs. Raises RedisDown."""
    if not run_ids:
        return
    try:
        app.control.broadcast(STOP, arguments={"run_ids": list(run_ids)})
    except (OperationalError, RedisError, OSError) as error:
        raise RedisDown(f"the workers could not be notified: {error}") from None


def cancel_on_workers(app: Celery, parent_id: str, reason: str) -> None:
    """Have every worker interrupt what it holds under a parent. Without Redis they find it with their next renewal."""
    try:
        app.control.broadcast(CANCEL, arguments={"reasons": {parent_id: reason}})
    except (OperationalError, RedisError, OSError) as error:
        log.warning("cancel.not_sent", parent=parent_id, error=str(error))


def interrupt_on_workers(app: Celery, thread_id: str, turn_id: str) -> bool:
    """Have the worker that runs this turn end it; return whether one did, as soon as it answers. Raises RedisDown."""
    asked = {"thread_id": thread_id, "turn_id": turn_id}
    try:
        app.control.broadcast(
            INTERRUPT, arguments=asked, reply=True, timeout=ANSWER_SECONDS, callback=_raise_if_interrupted
        )
    except _TurnInterrupted:
        return True
    except (OperationalError, RedisError, OSError) as error:
        raise RedisDown(f"the workers could not be notified: {error}") from None
    return False


class _TurnInterrupted(Exception):
    """The end of the wait for answers: no other worker runs the same turn."""


def _raise_if_interrupted(reply: Mapping[str, Mapping[str, bool]]) -> None:
    if any(answer.get("interrupted") for answer in reply.values()):
        raise _TurnInterrupted


@control_command(name=STOP)  # type: ignore[untyped-decorator]
def desk_stop(state: Any, run_ids: Sequence[str] = ()) -> dict[str, int]:
    """Interrupt the turns of these runs."""
    keeper = desk_of(state.app).lease_keeper()
    ended = keeper.end_runs(run_ids) if keeper is not None else 0
    if ended:
        log.info("stop.interrupts", runs=list(run_ids), steps=ended)
    return {"interrupted": ended}


@control_command(name=CANCEL)  # type: ignore[untyped-decorator]
def desk_cancel(state: Any, reasons: Mapping[str, str]) -> dict[str, int]:
    """Interrupt the turns of steps that are not needed any more. reasons: why, by the parent of the steps."""
    keeper = desk_of(state.app).lease_keeper()
    return {"interrupted": keeper.end_children(reasons) if keeper is not None else 0}


@inspect_command(name=INTERRUPT)  # type: ignore[untyped-decorator]
def desk_interrupt(state: Any, thread_id: str = "", turn_id: str = "") -> dict[str, bool]:
    """Interrupt one turn if it runs here."""
    desk = desk_of(state.app)
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
    desk = desk_of(state.app)
    servers, trouble = app_servers(desk)
    leases = desk.made("leases")
    return {
        "pid": os.getpid(),
        "rss_mb": round(psutil.Process().memory_info().rss / 2**20, 1),
        "steps_held": leases.count() if leases is not None else 0,
        "app_servers": [asdict(server) for server in servers],
        "trouble": trouble,
        "queues": sorted(state.app.amqp.queues.consume_from),
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

"""What a worker answers outside its queues: control commands, which other processes broadcast, and its health
socket."""

from __future__ import annotations

import concurrent.futures
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

import psutil
import structlog
from celery import bootsteps
from celery.worker.control import control_command, inspect_command
from pydantic import ValidationError
from sqlalchemy import and_, func, or_, select, update
from sqlmodel import Session, col

from chordesk.agents.role_models import require_roles
from chordesk.agents.runtime import ProcessStatus
from chordesk.models import event_log, events
from chordesk.models.database.store import Store, transact
from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import in_run, snapshot, with_values
from chordesk.models.states import RUN_FINAL, RUN_LIVE, AttemptEnd, RunState, StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Run, Step
from chordesk.tasks import life
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine import graph, leases, steps
from chordesk.tasks.engine.kinds import QUEUES
from chordesk.tasks.engine.shortage_watch import ShortageWatch
from chordesk.tasks.engine.steps import open_runs_below
from chordesk.tasks.engine.summary import summarise
from chordesk.tasks.worker.messages import CANCEL, INTERRUPT, STATUS, STOP
from chordesk.tasks.worker.sockets import Health, health_path, make_folder
from chordesk.tools.orders import audit

log = structlog.get_logger(__name__)


NOTE = "stopped on request"
REASON = "the run was stopped"
POLL_SECONDS = 0.1
REPEAT_SECONDS = 2.0
PATIENCE_SECONDS = 5.0  # with a database that is away or lets another's transaction go first


@dataclass(slots=True)
class Stop:
    """The stop of one run, with the runs that its steps wait for."""

    run_id: str
    was: str
    state: str
    waiting: int = 0  # steps that ended before they began
    interrupted: int = 0  # steps that were held when the stop was requested
    left: int = 0  # steps that are still held
    seconds: float = 0.0  # since the request

    @property
    def over(self) -> bool:
        return self.state in RUN_FINAL


def unfinished(session: Session) -> list[str]:
    rows = session.scalars(select(col(Run.id)).where(col(Run.state).in_(RUN_LIVE)).order_by(col(Run.created_at)))
    return list(rows)


def mark(session: Session, run_id: str) -> Stop:
    """Mark a run as stopping. From here on none of its steps is claimed, and none of its orders is submitted."""
    marked = session.connection().execute(
        update(Run).where(col(Run.id) == run_id, col(Run.state) == RunState.RUNNING).values(state=RunState.STOPPING)
    )
    run = session.get_one(Run, run_id, populate_existing=True)
    if marked.rowcount:
        event_log.append(session, [events.stopping(run)])
    found = Stop(run_id, was=run.state, state=run.state)
    if found.over:
        return found
    found.waiting = _end_waiting(session, run_id)
    found.interrupted = found.left = _held(session, run_id)
    return found


def settle(session: Session, settings: Settings, run_id: str, *, trusted: bool = True) -> int:
    """End steps that are held no more, and the run itself with its last one; return how many are still held, with the
    runs that its steps still wait for. trusted: a lease that has run out does not count as held (see
    `leases.lease_trust`)."""
    run = session.get(Run, run_id, with_for_update=True, populate_existing=True)
    if run is None or run.state != RunState.STOPPING:
        return 0
    if trusted:
        _end_lost(session, run_id)
    left = _held(session, run_id)
    _end_waiting(session, run_id)  # also what a step left behind that has ended since
    left += sum(max(_held(session, inner), 1) for inner in steps.open_runs_below(session, [run_id]))
    if left == 0:
        graph.close_run(session, run_id, RunState.STOPPED, summarise(session, run, settings), [NOTE])
    return left


def settle_all(store: Store, settings: Settings, *, trusted: bool = True) -> int:
    """Go on with every stop: the process that requested one may be gone. Return how many runs ended."""
    with store.read() as session:
        newest = select(col(Run.id)).where(col(Run.state) == RunState.STOPPING).order_by(col(Run.created_at).desc())
        runs = list(session.scalars(newest))  # those that others wait for come first
    ended = 0
    for run_id in runs:
        with store.session() as session:
            ended += settle(session, settings, run_id, trusted=trusted) == 0
    return ended


def mark_left_behind(store: Store) -> list[str]:
    """Runs below a run that is being stopped or has ended. A step may have opened one while its run was being
    marked."""
    with store.read() as session:
        left = steps.runs_left_behind(session)
    for run_id in left:
        with store.session() as session:
            mark(session, run_id)
    return left


def _end_waiting(session: Session, run_id: str) -> int:
    waiting = and_(col(Step.run_id) == run_id, col(Step.state).in_((StepState.WAITING, StepState.READY)))
    return graph.end_steps(session, waiting, StepState.STOPPED, REASON)


def _end_lost(session: Session, run_id: str) -> None:
    now = utcnow()
    lost = session.scalars(
        select(Step)
        .where(col(Step.run_id) == run_id, col(Step.state) == StepState.RUNNING)
        .where(or_(col(Step.lease_until).is_(None), col(Step.lease_until) < now))
        .with_for_update(skip_locked=True)
    ).all()
    for step in lost:
        graph.record_attempt(session, step, now, AttemptEnd.LOST, graph.LOST, StepState.STOPPED)
        step.state, step.finished_at, step.lease_until = StepState.STOPPED, now, None
        step.error = f"{REASON}; {graph.LOST}"
        session.add(step)
    session.flush()


def _held(session: Session, run_id: str) -> int:
    held = select(func.count()).where(col(Step.run_id) == run_id, col(Step.state) == StepState.RUNNING)
    return session.scalar(held) or 0


def stop_runs(
    store: Store, settings: Settings, run_ids: Sequence[str], notify: Callable[[list[str]], None], seconds: float
) -> list[Stop]:
    """Stop runs, wait at most so many seconds for their end, and return how far each came. notify: hands the ids to the
    workers; called at once, and again while steps are held."""
    began = notified = time.monotonic()
    with store.read() as session:
        below = steps.open_runs_below(session, run_ids)
    inner = [run_id for run_id in below if run_id not in run_ids]
    marked = transact(store, lambda session: [mark(session, run_id) for run_id in (*inner, *run_ids)], PATIENCE_SECONDS)
    stops = marked[len(inner) :]
    for stop in marked[: len(inner)]:
        _add(stops, below[stop.run_id], stop)
    if going := [stop.run_id for stop in marked if not stop.over]:
        notify(going)
    while True:
        # Were the clock put forward or the database away, a living worker would renew its leases within this time.
        trusted = time.monotonic() - began >= leases.GRACE * settings.lease_seconds
        late = mark_left_behind(store) if below else []
        open_ones = _settle_below(store, settings, [stop.run_id for stop in stops if not stop.over], trusted)
        for stop in stops:
            if not stop.over:
                _refresh(store, settings, stop, trusted)
                stop.seconds = round(time.monotonic() - began, 3)
        open_ones += [stop.run_id for stop in stops if not stop.over]
        now = time.monotonic()
        if not open_ones or now - began >= seconds:
            return stops
        if late or now - notified >= REPEAT_SECONDS:
            notified = now
            notify(open_ones)
        time.sleep(POLL_SECONDS)


def _add(stops: Sequence[Stop], run_id: str, inner: Stop) -> None:
    outer = next(stop for stop in stops if stop.run_id == run_id)
    outer.waiting += inner.waiting
    outer.interrupted += inner.interrupted
    outer.left += inner.left


def _settle_below(store: Store, settings: Settings, run_ids: Sequence[str], trusted: bool) -> list[str]:
    """Settle the runs that steps of these wait for, the innermost first; return those that have not ended."""
    with store.read() as session:
        below = list(steps.open_runs_below(session, run_ids))

    def settled(run_id: str) -> bool:
        return transact(store, lambda one: settle(one, settings, run_id, trusted=trusted), PATIENCE_SECONDS) == 0

    return [run_id for run_id in reversed(below) if not settled(run_id)]


def _refresh(store: Store, settings: Settings, stop: Stop, trusted: bool) -> None:
    def read(session: Session) -> tuple[int, str]:
        left = settle(session, settings, stop.run_id, trusted=trusted)
        return left, session.get_one(Run, stop.run_id).state

    stop.left, stop.state = transact(store, read, PATIENCE_SECONDS)


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
        "short": [asdict(one) for one in desk.shortages.short],
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


def app_server_parts(desk: Desk) -> list[life.Part]:
    """Return this process's app-servers as parts of its life. It is asked from a thread beside the loop, and waits for
    nothing."""
    found = [one for runtime in desk.made_runtimes() for one in runtime.status() if one.pid]
    return [life.Part("app-server", "app-server", one.pid) for one in found]


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
        self._shortages: ShortageWatch | None = None

    def start(self, consumer: Any) -> None:
        self._shortages = consumer.app.desk.shortages
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
        life.waits("redis", None)
        life.beat()

    def _why_not(self, node: str) -> str | None:
        found = Health(node, time.monotonic() - self._ticked if self._ticked is not None else None)
        if found.well:
            return self._shortages.why_not() if self._shortages is not None else None
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


PROVIDERS: tuple[str, ...] = get_args(Settings.model_fields["provider"].annotation)
# What of a run's settings names its models: the model is the one that was asked for, the rest is the desk's.
_OF_MODELS = ("provider", "model", "provider_url", "local_url", "role_models", "voice_models", "substitutes")


def with_model(settings: Settings, text: str) -> Settings:
    """Return the desk's settings with the model PROVIDER:MODEL in place of theirs. Raises UsageError."""
    provider, _, model = text.strip().partition(":")
    if provider not in PROVIDERS:
        raise UsageError(f"--model {text!r} names no provider", remedy=f"write {_FORM}")
    if not model and provider not in ("rulebook", settings.provider):
        raise UsageError(f"--model {text!r} names no model of {provider}", remedy=f"write {_FORM}")
    if provider in ("endpoint", "local") and settings.provider_url is None:
        reason = f"--model {text!r}: this desk has no address for it"
        raise UsageError(reason, remedy="set DESK_PROVIDER_URL where the desk is started")
    try:
        return with_values(settings, {"provider": provider, "model": model or settings.model})
    except ValidationError as error:
        raise UsageError(f"--model {text!r}: {error.errors()[0]['msg']}", remedy=f"write {_FORM}") from None


_FORM = f"PROVIDER:MODEL, such as codex:gpt-5.5, or rulebook; providers are {', '.join(PROVIDERS)}"


def adopt(session: Session, settings: Settings, run_id: str, by: str) -> list[str]:
    """Give an open run, and the runs below it, the models of these settings; turns in flight keep theirs. Return a line
    for each run. Raises UsageError, SettingError."""
    return [_adopt(session, settings, one, by) for one in (run_id, *open_runs_below(session, [run_id]))]


def _adopt(session: Session, settings: Settings, run_id: str, by: str) -> str:
    run = session.get_one(Run, run_id, with_for_update=True, populate_existing=True)
    if run.state in RUN_FINAL:
        raise UsageError(f"run {run.id} has ended: {run.state}", remedy="start a new one")
    theirs = snapshot(settings)
    kept = {**(run.settings or snapshot(settings)), **{name: theirs[name] for name in _OF_MODELS}}
    require_roles(in_run(settings, kept, run.account))
    line = f"{by} had run {run.id} go on with {settings.model_label} in place of {run.model}"
    audit.record(session, settings, "run_adopted", run=run.id, was=run.model, model=settings.model_label, by=by)
    run.provider, run.model, run.settings = settings.provider, settings.model_label, kept
    run.notes = [*run.notes, line]
    session.add(run)
    event_log.append(session, [events.adopted(run, by)])
    return line

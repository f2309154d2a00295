"""Stopping a run: it is marked, what waits ends in the database, what is held is interrupted where it is held.

The mark is what counts. The command to the workers only makes it quick: a worker that does not hear it finds the mark
when it renews its leases, and the steps of a dead one end with their leases.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog
from celery import Celery
from celery.worker.control import control_command
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError
from sqlalchemy import func, or_, select, update
from sqlmodel import Session, col

from models import event_log, run_events
from models.columns import utcnow
from models.errors import RedisDown
from models.settings import Settings
from models.states import RUN_FINAL, AttemptEnd, RunState, StepState
from models.store import Store
from models.tables import Run, Step
from tasks import graph, sweep_row
from tasks.bootstrap import desk_of
from tasks.persistence import transact
from tasks.summary import summarise

log = structlog.get_logger(__name__)

COMMAND = "desk_stop"
NOTE = "stopped on request"
REASON = "the run was stopped"
POLL_SECONDS = 0.1
REPEAT_SECONDS = 2.0
PATIENCE_SECONDS = 5.0  # with a database that is away or lets another's transaction go first


@dataclass(slots=True)
class Stop:
    """One run on its way to its end. waiting: steps that ended before they began; interrupted: steps that were held
    when the stop was asked for; left: steps that are still held. seconds since it was asked for."""

    run_id: str
    was: str
    state: str
    waiting: int = 0
    interrupted: int = 0
    left: int = 0
    seconds: float = 0.0

    @property
    def over(self) -> bool:
        return self.state in RUN_FINAL


def unfinished(session: Session) -> list[str]:
    """The ids of the runs that have not ended, those that are being stopped among them."""
    rows = session.scalars(select(col(Run.id)).where(col(Run.state).not_in(RUN_FINAL)).order_by(col(Run.created_at)))
    return list(rows)


def mark(session: Session, run_id: str) -> Stop:
    """Ask for a run's end. From here on none of its steps is claimed, and none of its orders is submitted."""
    marked = session.connection().execute(
        update(Run).where(col(Run.id) == run_id, col(Run.state) == RunState.RUNNING).values(state=RunState.STOPPING)
    )
    run = session.get_one(Run, run_id, populate_existing=True)
    if marked.rowcount:
        event_log.append(session, [run_events.stopping(run)])
    found = Stop(run_id, was=run.state, state=run.state)
    if found.over:
        return found
    found.waiting = _end_waiting(session, run_id)
    found.interrupted = found.left = _held(session, run_id)
    return found


def settle(session: Session, settings: Settings, run_id: str, *, trusted: bool = True) -> int:
    """End what no worker holds any more, and the run itself with its last step; how many steps are still held.

    trusted: a lease that has run out is nobody's (see `sweep_row.look`).
    """
    run = session.get(Run, run_id, with_for_update=True, populate_existing=True)
    if run is None or run.state != RunState.STOPPING:
        return 0
    if trusted:
        _end_lost(session, run_id)
    left = _held(session, run_id)
    _end_waiting(session, run_id)  # also what a step left behind that has ended since
    if left == 0:
        graph.close_run(session, run_id, RunState.STOPPED, summarise(session, run, settings), [NOTE])
    return left


def settle_all(store: Store, settings: Settings, *, trusted: bool = True) -> int:
    """For the sweep: go on with every stop whose asker may have gone; how many runs ended. trusted: as `settle`."""
    with store.read() as session:
        runs = list(session.scalars(select(col(Run.id)).where(col(Run.state) == RunState.STOPPING)))
    ended = 0
    for run_id in runs:
        with store.session() as session:
            ended += settle(session, settings, run_id, trusted=trusted) == 0
    return ended


def _end_waiting(session: Session, run_id: str) -> int:
    states = (StepState.WAITING, StepState.READY)
    statement = (
        update(Step)
        .where(col(Step.run_id) == run_id, col(Step.state).in_(states))
        .values(state=StepState.STOPPED, error=REASON, finished_at=utcnow())
    )
    return graph.close_steps(session, statement, StepState.STOPPED, REASON)


def _end_lost(session: Session, run_id: str) -> None:
    now = utcnow()
    lost = session.scalars(
        select(Step)
        .where(col(Step.run_id) == run_id, col(Step.state) == StepState.RUNNING)
        .where(or_(col(Step.lease_until).is_(None), col(Step.lease_until) < now))
        .with_for_update(skip_locked=True)
    ).all()
    for step in lost:
        graph.ended(session, step, now, AttemptEnd.LOST, graph.LOST, StepState.STOPPED)
        step.state, step.finished_at, step.lease_until = StepState.STOPPED, now, None
        step.error = f"{REASON}; {graph.LOST}"
        session.add(step)
    session.flush()


def _held(session: Session, run_id: str) -> int:
    held = select(func.count()).where(col(Step.run_id) == run_id, col(Step.state) == StepState.RUNNING)
    return session.scalar(held) or 0


def stop_runs(
    store: Store, settings: Settings, run_ids: Sequence[str], tell: Callable[[list[str]], None], seconds: float
) -> list[Stop]:
    """Stop runs and wait for their end, at most so many seconds; how far each came.

    tell: hands the ids to the workers. It is called at once, and again while steps are held.
    """
    began = told = time.monotonic()
    stops = transact(store, lambda session: [mark(session, run_id) for run_id in run_ids], PATIENCE_SECONDS)
    if going := [stop.run_id for stop in stops if not stop.over]:
        tell(going)
    while True:
        # Were the clock put forward or the database away, a living worker would renew its leases within this time.
        trusted = time.monotonic() - began >= sweep_row.GRACE * settings.lease_seconds
        for stop in stops:
            if not stop.over:
                _look(store, settings, stop, trusted)
                stop.seconds = round(time.monotonic() - began, 3)
        open_ones = [stop.run_id for stop in stops if not stop.over]
        now = time.monotonic()
        if not open_ones or now - began >= seconds:
            return stops
        if now - told >= REPEAT_SECONDS:
            told = now
            tell(open_ones)
        time.sleep(POLL_SECONDS)


def _look(store: Store, settings: Settings, stop: Stop, trusted: bool) -> None:
    def look(session: Session) -> tuple[int, str]:
        left = settle(session, settings, stop.run_id, trusted=trusted)
        return left, session.get_one(Run, stop.run_id).state

    stop.left, stop.state = transact(store, look, PATIENCE_SECONDS)


def tell_workers(app: Celery, run_ids: Sequence[str]) -> None:
    """Have every worker interrupt what it holds of these runs. Raises RedisDown."""
    if not run_ids:
        return
    try:
        app.control.broadcast(COMMAND, arguments={"run_ids": list(run_ids)})
    except (OperationalError, RedisError, OSError) as error:
        raise RedisDown(f"the workers could not be told: {error}") from None


@control_command(name=COMMAND)  # type: ignore[untyped-decorator]
def desk_stop(state: object, run_ids: Sequence[str] = ()) -> dict[str, int]:
    """In a worker: interrupt the turns of these runs. Prefork children do it when they next renew their leases."""
    keeper = desk_of(state.app).keeper()  # type: ignore[attr-defined]
    ended = keeper.end_runs(run_ids) if keeper is not None else 0
    if ended:
        log.info("stop.interrupts", runs=list(run_ids), steps=ended)
    return {"interrupted": ended}

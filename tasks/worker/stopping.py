"""The stop of a run: it is marked, waiting steps end in the database, held ones are interrupted by their workers.

The mark is what counts. The command to the workers only makes it quick: a worker that misses it finds the mark when it
renews its leases, and the steps of a dead one end with their leases.

Runs that a step of the run waits for are stopped with it. They are marked first, in the order in which one that ends
just now takes its locks: the run's row, then the step that waits for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog
from sqlalchemy import and_, func, or_, select, update
from sqlmodel import Session, col

from chordesk.models import event_log, events
from chordesk.models.database.store import Store, transact
from chordesk.models.settings import Settings
from chordesk.models.states import RUN_FINAL, RUN_LIVE, AttemptEnd, RunState, StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Run, Step
from chordesk.tasks.engine import graph, leases, steps
from chordesk.tasks.engine.summary import summarise

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
    `sweep_lease.lease_trust`)."""
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

"""The sweep: sends again what is due and unheld, fires joins, fails what is worn out, closes what is overdue. Driven by
the database alone, so that a lost message, worker or Redis costs time and nothing else."""

from __future__ import annotations

import time

import structlog
from celery import Celery, Task, shared_task
from sqlmodel import Session, col, select

from models.columns import utcnow
from models.errors import RedisDown
from models.states import RunState, StepKind, StepState
from models.tables import Run, Step
from tasks import graph, redis_mark, requests, stopping, sweep_row, sweeping
from tasks.bootstrap import Desk, desk_of
from tasks.dispatch import send
from tasks.events import lost_turns, retention
from tasks.summary import run_state, summarise
from tasks.sweep_row import Look
from tasks.threads.retention import collect_daily

log = structlog.get_logger(__name__)

# A sweep that takes longer may be joined by another; each of its changes is a compare-and-set, so that costs no more
# than time.
LEASE_SECONDS = 5.0
_POLL_SECONDS = 0.1


@shared_task(bind=True, name="desk.maintain")  # type: ignore[untyped-decorator]
def maintain(self: Task) -> dict[str, int]:
    """One sweep, unless another is at it or has just been; what it found."""
    return take_turn(self.app)


def take_turn(app: Celery) -> dict[str, int]:
    """A sweep when it is its time; else nothing, and an empty answer."""
    desk = desk_of(app)
    rest = desk.settings.maintain_seconds / 2
    with desk.store.session() as session:
        taken = sweep_row.take(session, desk.owner, LEASE_SECONDS, rest)
    if taken is None:
        return {}
    mark = _mark(desk)
    if mark is not None and taken.redis_mark is not None and mark != taken.redis_mark:
        with desk.store.session() as session:
            lost = sweeping.unsent(session)
        log.warning("sweep.redis_lost", steps=lost)
    found, view = _sweep(app)
    with desk.store.session() as session:
        sweep_row.leave(session, desk.owner, found, mark or taken.redis_mark)
    if mark is not None:
        collect_daily(desk)
        retention.trim_hourly(desk.redis_client, desk.store, desk.settings, utcnow())
    if view.grace_seconds and _waited(desk, view.grace_seconds):
        sweep(app)  # now, not with some later tick: in doubt a dead worker's steps have waited for long
    return found


def _waited(desk: Desk, seconds: float) -> bool:
    """False when this process is to end meanwhile. Not by the clock that is doubted."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and not desk.drain.asked:
        time.sleep(_POLL_SECONDS)
    return not desk.drain.asked


def _mark(desk: Desk) -> str | None:
    try:
        return redis_mark.mark(desk.redis_client)
    except RedisDown as error:
        log.warning("sweep.redis_away", error=str(error))
        return None


def sweep(app: Celery) -> dict[str, int]:
    """What was found: steps sent again, joins freed, runs closed. Safe to run twice at once, since each change is a
    compare-and-set or a claim away."""
    found, _ = _sweep(app)
    return found


def _sweep(app: Celery) -> tuple[dict[str, int], Look]:
    desk = desk_of(app)
    with desk.store.session() as session:
        view = _look(desk, session)
        worn_out = sweeping.fail_worn_out(session, trusted=view.trusted)
        freed = [*worn_out, *sweeping.fire_joins(session)]
        again = sweeping.resend(session, trusted=view.trusted)
        requests.expire_overdue(session)
    send(app, _unique([*freed, *again]))
    closed = close_overdue(desk) + stopping.settle_all(desk.store, desk.settings, trusted=view.trusted)
    lost_turns.end_left_over(desk.store, utcnow())
    found = {"sent": len(again), "freed": len(freed), "closed": closed}
    if any(found.values()):
        log.info("sweep", **found)
    return found, view


def _look(desk: Desk, session: Session) -> Look:
    lease_seconds = desk.settings.lease_seconds
    view = sweep_row.look(session, desk.settings.maintain_seconds, lease_seconds)
    moved = sweeping.put_right(session, lease_seconds, view.put_back)
    if view.grace_seconds:
        log.warning("sweep.doubts_leases", grace_seconds=view.grace_seconds, put_back=view.put_back, steps_moved=moved)
    return view


def _unique(steps: list[graph.Ready]) -> list[graph.Ready]:
    return list({step.id: step for step in steps}.values())


def close_overdue(desk: Desk) -> int:
    """Close runs past their deadline, and runs whose finish step itself failed; how many."""
    with desk.store.read() as session:
        overdue = session.exec(
            select(Run.id).where(Run.state == RunState.RUNNING, col(Run.deadline_at) < utcnow())
        ).all()
        unfinished = session.exec(
            select(Run.id)
            .join(Step, col(Step.run_id) == col(Run.id))
            .where(Run.state == RunState.RUNNING, Step.kind == StepKind.FINISH, Step.state == StepState.FAILED)
        ).all()
    return sum(_close(desk, run_id, RunState.PARTIAL, "the run's deadline passed") for run_id in overdue) + sum(
        _close(desk, run_id, RunState.FAILED, "the run could not be closed") for run_id in unfinished
    )


def _close(desk: Desk, run_id: str, state: RunState, reason: str) -> bool:
    with desk.store.session() as session:
        run = session.get_one(Run, run_id)
        # First, so that no step ends between the counting and the closing.
        graph.abandon(session, run_id, reason)
        steps = session.exec(select(Step).where(Step.run_id == run_id)).all()
        _, notes = run_state([step for step in steps if step.error != reason])
        return graph.close_run(session, run_id, state, summarise(session, run, desk.settings), [*notes, reason])

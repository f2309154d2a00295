"""The sweep: sends again what is due and unheld, fires joins, fails what is worn out, closes what is overdue. Driven by
the database alone, so that a lost message, worker or Redis costs time and nothing else."""

from __future__ import annotations

import structlog
from celery import Celery, Task, shared_task
from sqlmodel import col, select

from models.columns import utcnow
from models.errors import RedisDown
from models.states import RunState, StepKind, StepState
from models.tables import Run, Step
from tasks import graph, redis_mark, stopping, sweep_row, sweeping
from tasks.bootstrap import Desk, desk_of
from tasks.dispatch import send
from tasks.summary import run_state, summarise

log = structlog.get_logger(__name__)

# A sweep that takes longer may be joined by another; each of its changes is a compare-and-set, so that costs no more
# than time.
LEASE_SECONDS = 5.0


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
    found = sweep(app)
    with desk.store.session() as session:
        sweep_row.leave(session, desk.owner, found, mark or taken.redis_mark)
    return found


def _mark(desk: Desk) -> str | None:
    try:
        return redis_mark.mark(desk.redis_client)
    except RedisDown as error:
        log.warning("sweep.redis_away", error=str(error))
        return None


def sweep(app: Celery) -> dict[str, int]:
    """What was found: steps sent again, joins freed, runs closed. Safe to run twice at once, since each change is a
    compare-and-set or a claim away."""
    desk = desk_of(app)
    with desk.store.session() as session:
        freed = [*sweeping.fail_worn_out(session), *sweeping.fire_joins(session)]
        again = sweeping.resend(session)
    send(app, _unique([*freed, *again]))
    closed = close_overdue(desk) + stopping.settle_all(desk.store, desk.settings)
    found = {"sent": len(again), "freed": len(freed), "closed": closed}
    if any(found.values()):
        log.info("sweep", **found)
    return found


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

"""Queries over the steps of all runs: those to send again, joins to fire, steps without an attempt left, and the demand
for research workers, which autoscalers, gauges and Kubernetes share."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Mapping, Sequence

from sqlalchemy import ColumnElement, and_, func, or_, text, update
from sqlalchemy.orm import aliased
from sqlmodel import Session, col, select

from chordesk.models import event_log
from chordesk.models.states import STEP_FINAL, AttemptEnd, RunState, StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Run, Step
from chordesk.tasks.engine import graph, kinds
from chordesk.tasks.engine.kinds import WORKER_QUEUES, kinds_of
from chordesk.tasks.engine.policy import A_WORKER
from chordesk.tasks.engine.steps import ReadyStep, child_is_open, ended_event, open_runs_below, ready_of, waiting_step

# A step that was sent and not claimed is sent again after this long, doubling each time, so that a long queue
# is not flooded with copies.
RESEND_SECONDS = 15.0
_RESEND_DOUBLINGS = 6
# Joins without a turn have workers of their own and wait in no long queue. A chord that lost its count to a flushed
# Redis never sends its conclusion, so this is also what such a run waits.
JOIN_RESEND_SECONDS = 5.0


def resend(session: Session, limit: int = 500, *, trusted: bool = True) -> list[ReadyStep]:
    """Mark steps as sent that are due, not held and not sent lately. trusted: an expired lease does not hold."""
    now = utcnow()
    due = and_(col(Step.state) == StepState.READY, col(Step.due_at) <= now, col(Step.attempt) < col(Step.max_attempts))
    unheld = or_(due, and_(_lost(now), ~graph.worn())) if trusted else due
    late = session.scalars(
        select(Step)
        .join(Run, col(Run.id) == col(Step.run_id))
        # A kind of another version, or of a feature that is not here, is sent by a worker that knows it.
        .where(unheld, col(Run.state) == RunState.RUNNING, _not_sent(now), col(Step.kind).in_(kinds_of(lambda _: True)))
        .order_by(col(Step.created_at))
        .limit(limit)
        .with_for_update(skip_locked=True, of=Step)  # another sweep's are sent by it
    ).all()
    for step in late:
        step.sent_at, step.sends = now, step.sends + 1
        session.add(step)
    return [ready_of(step) for step in late]


def _lost(now: dt.datetime) -> ColumnElement[bool]:
    return and_(col(Step.state) == StepState.RUNNING, col(Step.lease_until) < now)


def _not_sent(now: dt.datetime) -> ColumnElement[bool]:
    """Never sent, or not since its worker was lost, or so long ago that the message must be lost."""
    sent_at = col(Step.sent_at)
    lost = and_(col(Step.state) == StepState.RUNNING, sent_at < col(Step.lease_until))
    join = and_(col(Step.kind).in_(kinds.kinds_of(lambda spec: spec.join)), _overdue(now, JOIN_RESEND_SECONDS))
    return or_(sent_at.is_(None), lost, join, _overdue(now, RESEND_SECONDS))


def _overdue(now: dt.datetime, first_seconds: float) -> ColumnElement[bool]:
    sent_at, sends = col(Step.sent_at), col(Step.sends)
    before = [now - dt.timedelta(seconds=first_seconds * 2**n) for n in range(_RESEND_DOUBLINGS + 1)]
    return or_(*(and_(sends <= n + 1, sent_at <= at) for n, at in enumerate(before)), sent_at <= before[-1])


def mark_unsent(session: Session, steps: Iterable[str] | None = None) -> int:
    which = col(Step.id).in_(list(steps)) if steps is not None else col(Step.sent_at).is_not(None)
    done = session.connection().execute(
        update(Step)
        .where(which, col(Step.state).in_((StepState.READY, StepState.RUNNING)))
        .values(sent_at=None, sends=0)
    )
    return done.rowcount


def fire_joins(session: Session) -> list[ReadyStep]:
    """Waiting steps without an open child: for a count that was changed from outside."""
    now = utcnow()
    child = aliased(Step)
    left = select(child).where(col(child.parent_id) == col(Step.id), col(child.state).not_in(STEP_FINAL)).exists()
    running = select(Run).where(col(Run.id) == col(Step.run_id), col(Run.state) == RunState.RUNNING).exists()
    rows = session.connection().execute(
        update(Step)
        .where(col(Step.state) == StepState.WAITING, ~left, running, ~child_is_open(col(Step.id)))
        .values(state=StepState.READY, pending=0, due_at=now, sent_at=now, sends=1)
        .returning(*graph.columns(*ReadyStep.__dataclass_fields__))
    )
    return [ready_of(row) for row in rows]


def correct_times(session: Session, lease_seconds: float, put_back: float) -> int:
    """Correct times written before the clock was put back, and return the number of steps corrected. A lease then ends
    one lease from now at the latest: otherwise a lost worker would keep its step until the clock has caught up.
    put_back: seconds, 0 when unknown; needed to correct steps that wait for a delay."""
    now = utcnow()
    end, back = now + dt.timedelta(seconds=lease_seconds), dt.timedelta(seconds=put_back)
    # Hosts with clocks that differ a little do not write over each other.
    tolerance = dt.timedelta(seconds=lease_seconds / 2)
    ready, sent_at, due_at = col(Step.state) == StepState.READY, col(Step.sent_at), col(Step.due_at)
    held = and_(col(Step.state) == StepState.RUNNING, col(Step.lease_until) > end + tolerance)
    sent = and_(ready, sent_at > now + tolerance)
    delayed = and_(ready, sent_at.is_(None), due_at > now)
    ahead = or_(held, sent, delayed) if put_back else or_(held, sent)
    steps = session.scalars(select(Step).where(ahead).with_for_update(skip_locked=True)).all()
    for step in steps:
        if step.state == StepState.RUNNING:
            step.lease_until, step.sent_at = end, now
        else:
            # What was sent was due. Its message is gone if a worker has found it not due yet.
            step.due_at, step.sent_at = max(now, step.due_at - back) if step.sent_at is None else now, None
        session.add(step)
    return len(steps)


def fail_exhausted(session: Session, *, trusted: bool = True) -> list[ReadyStep]:
    """Return the joins that this makes ready. trusted: as in `resend`."""
    now = utcnow()
    tried = and_(col(Step.state) == StepState.READY, col(Step.attempt) >= col(Step.max_attempts))
    worn = session.scalars(
        select(Step)
        .where(or_(tried, and_(_lost(now), graph.worn())) if trusted else tried)
        # One that another sweep fails or its worker ends just now would be taken off its parent twice.
        .with_for_update(skip_locked=True)
    ).all()
    ready: list[ReadyStep] = []
    for step in worn:
        lost = step.state == StepState.RUNNING
        reason = graph.LOST if lost or not step.error else step.error
        if lost:
            graph.record_attempt(session, step, now, AttemptEnd.LOST, graph.LOST, StepState.FAILED)
        else:
            event_log.append(session, [ended_event(step, StepState.FAILED, reason)])
        step.state, step.finished_at, step.lease_until = StepState.FAILED, now, None
        step.error = _lost_often(session, step) if lost else f"gave up after {step.attempt} attempts: {reason}"
        session.add(step)
        session.flush()
        ready += graph.count_down(session, step.parent_id)
    return ready


def _lost_often(session: Session, step: Step) -> str:
    count = session.scalar(select(graph.losses()).select_from(Step).where(col(Step.id) == step.id))
    return f"gave up: {count} workers were lost while they had it"


# The demand for research workers: one query, which autoscalers, gauges and Kubernetes share.
#
# The number of research workers wanted is the answer divided by DESK_CODEX_TURNS, rounded up. Steps in work count: a
# queue's length alone would take away the workers that have just emptied it.

# Columns hold UTC without an offset, so the time of the session's own zone would not do.
DATABASE_NOW: Mapping[str, str] = {
    "postgresql": "now() AT TIME ZONE 'utc'",
    "sqlite": "strftime('%Y-%m-%d %H:%M:%f', 'now')",
}


def demand_query(dialect: str = "postgresql") -> str:
    """Return the SQL that counts the steps of research workers that are due or in work, one row of one number.

    It counts steps that run a turn, and those that lead to turns: a screen's first step runs none, and only research
    workers take it. Steps that wait for a delay, as on a parked model, or for their children are not counted. dialect:
    SQLAlchemy's name, postgresql or sqlite. Load the workflows first (`tasks.worker.app`): they declare the kinds.
    """
    queues = WORKER_QUEUES["research"].split(",")
    kinds = ", ".join(f"'{kind}'" for kind in sorted(kinds_of(lambda spec: spec.queue in queues)))
    return "\n".join(
        (
            "SELECT count(*) FROM step JOIN run ON run.id = step.run_id",
            f"WHERE step.kind IN ({kinds})",
            f"AND step.state IN ('{StepState.READY}', '{StepState.RUNNING}')",
            f"AND (step.state = '{StepState.RUNNING}'",
            f"OR run.state = '{RunState.RUNNING}' AND step.due_at <= {DATABASE_NOW[dialect]})",
        )
    )


def demand(session: Session) -> int:
    found = session.connection()
    return int(found.execute(text(demand_query(found.dialect.name))).scalar_one())


# Steps that were put off because the process that got them lacks something: a model, a market, a feature. They are on
# no queue until a worker that can do them finds them, or until this time is over; by it a step tells since when it
# waits. Time in which all of a run waits so does not count: its deadline moves on by it.
PUT_OFF_SECONDS = 86_400.0
MOST = 500


def _waiting(now: dt.datetime) -> ColumnElement[bool]:
    why = func.coalesce(col(Step.error), "")
    return and_(col(Step.state) == StepState.READY, col(Step.due_at) > now, why.contains(A_WORKER, autoescape=True))


def find(session: Session, kinds: Collection[str]) -> list[ReadyStep]:
    """Return steps of these kinds that were put off for a worker that can do them, the oldest first."""
    running = col(Run.state) == RunState.RUNNING
    rows = session.exec(
        select(Step)
        .join(Run, col(Run.id) == col(Step.run_id))
        .where(_waiting(utcnow()), running, col(Step.kind).in_(kinds))
        .order_by(col(Step.created_at))
        .limit(MOST)
    ).all()
    return [ready_of(row) for row in rows]


def take_up(session: Session, steps: Sequence[ReadyStep]) -> list[ReadyStep]:
    now = utcnow()
    for run_id in sorted({one for step in steps for one in _with_those_above(session, step.run_id)}):
        run = session.get_one(Run, run_id, with_for_update=True, populate_existing=True)
        if (since := idle_since(session, run_id)) is not None:
            run.deadline_at += now - since
            session.add(run)
    rows = session.connection().execute(
        update(Step)
        .where(col(Step.id).in_([step.id for step in steps]), _waiting(now))
        .values(due_at=now, sent_at=now, sends=1)
        .returning(*graph.columns(*ReadyStep.__dataclass_fields__))
    )
    return [ready_of(row) for row in rows]


def idle_since(session: Session, run_id: str) -> dt.datetime | None:
    """Since when all that is left of a run waits so, in the runs below too; None where anything else goes on."""
    runs = [run_id, *open_runs_below(session, [run_id])]
    open_ones = col(Step.state).in_((StepState.READY, StepState.RUNNING))
    now, which = utcnow(), (col(Step.run_id).in_(runs), open_ones)
    due = session.exec(select(Step.due_at).where(*which, _waiting(now))).all()
    if not due or session.exec(select(Step.id).where(*which, ~_waiting(now))).first() is not None:
        return None
    return max(due) - dt.timedelta(seconds=PUT_OFF_SECONDS)


def _with_those_above(session: Session, run_id: str) -> list[str]:
    found = [run_id]
    while (step_id := waiting_step(session.get_one(Run, found[-1]))) is not None:
        found.append(session.get_one(Step, step_id).run_id)
    return found

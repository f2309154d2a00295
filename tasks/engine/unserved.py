"""Steps that were put off because the process that got them lacks something: a model, a market, a feature. They wait,
and are on no queue, until a worker that can do them finds them. Time in which all of a run waits so does not
count: its deadline moves on by it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence

from sqlalchemy import ColumnElement, and_, func, update
from sqlmodel import Session, col, select

from chordesk.models.states import RunState, StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Run, Step
from chordesk.tasks.engine import graph
from chordesk.tasks.engine.policy import A_WORKER
from chordesk.tasks.engine.steps import ReadyStep, open_runs_below, ready_of, waiting_step

PUT_OFF_SECONDS = (
    86_400.0  # then they are sent to any worker again; due so much later, a step tells since when it waits
)
MOST = 500


def _waiting(now: dt.datetime) -> ColumnElement[bool]:
    why = func.coalesce(col(Step.error), "")
    return and_(col(Step.state) == StepState.READY, col(Step.due_at) > now, why.contains(A_WORKER, autoescape=True))


def find(session: Session, kinds: Collection[str]) -> list[ReadyStep]:
    """Return such steps of these kinds, the oldest first."""
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

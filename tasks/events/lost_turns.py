"""Ends of lost conversations, turns and items: their process died in the middle of them."""

from __future__ import annotations

import datetime as dt

from sqlmodel import Session, col, select, update

from chordesk.models.database.store import Store
from chordesk.models.events import event_log
from chordesk.models.events.envelope import Envelope, EventType, event
from chordesk.models.events.lifecycle import LifecycleStatus
from chordesk.models.states import AttemptEnd
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.events import EventHead, RuntimeConversation, RuntimeItem, RuntimeTurn
from chordesk.models.tables.runs import Run

# For this long after a run's end its workers may still record how their turns ended.
GRACE = dt.timedelta(seconds=20)
# A sweep checks runs with an event within this time; once an hour all that are kept are checked.
LATELY = dt.timedelta(hours=1)
SILENT = "its process ended before it did"


def end(session: Session, run_id: str, why: str, step_id: str | None = None) -> int:
    """End the open conversations of a run, or of one of its steps, and the turns and items in them, as failed; each
    such turn gets a `turn.failed`. Return the number of conversations.

    An older state that is written later does not reopen them (`lifecycles`). Rows are locked in the order in which a
    recorder writes them.
    """
    which = select(RuntimeConversation).where(
        RuntimeConversation.run_id == run_id, col(RuntimeConversation.closed_at).is_(None)
    )
    if step_id is not None:
        which = which.where(RuntimeConversation.step_id == step_id)
    open_ones = session.exec(which.order_by(col(RuntimeConversation.id)).with_for_update()).all()
    if not open_ones:
        return 0
    now = utcnow()
    by_turn = {one.active_turn_id: one for one in open_ones if one.active_turn_id is not None}
    for one in open_ones:
        one.active_turn_id, one.closed_at = None, now
        session.add(one)
    session.flush()
    failed = _fail(session, run_id, list(by_turn), now) if by_turn else []
    event_log.append(session, [_failed(by_turn[turn_id], turn_id, why) for turn_id in failed])
    return len(open_ones)


def end_left_over(store: Store, now: dt.datetime, since: dt.datetime | None = None) -> int:
    """End those of runs that ended some time ago and had an event after `since`, by default within LATELY: their
    workers would have recorded the end by now."""
    with store.read() as session:
        left = select(RuntimeConversation.id).where(
            RuntimeConversation.run_id == EventHead.run_id, col(RuntimeConversation.closed_at).is_(None)
        )
        run_ids = session.exec(
            select(EventHead.run_id)
            .join(Run, col(Run.id) == col(EventHead.run_id))
            .where(EventHead.updated_at >= (since or now - LATELY), col(Run.finished_at) < now - GRACE, left.exists())
        ).all()
    ended = 0
    for run_id in run_ids:
        with store.session() as session:
            ended += end(session, run_id, SILENT)
    return ended


def _fail(session: Session, run_id: str, turn_ids: list[str], now: dt.datetime) -> list[str]:
    """End these turns and their items where they have not ended; return the ids of the turns that had not."""
    ends = {"status": LifecycleStatus.FAILED.value, "ended_at": now}
    turns = (
        update(RuntimeTurn)
        .where(col(RuntimeTurn.run_id) == run_id, col(RuntimeTurn.turn_id).in_(turn_ids))
        .where(col(RuntimeTurn.ended_at).is_(None))
        .values(ends)
        .returning(col(RuntimeTurn.turn_id))
        .execution_options(synchronize_session=False)
    )
    items = (
        update(RuntimeItem)
        .where(col(RuntimeItem.turn_id).in_(turn_ids), col(RuntimeItem.ended_at).is_(None))
        .values(ends)
        .execution_options(synchronize_session=False)
    )
    failed = sorted(session.scalars(turns))
    session.execute(items)
    return failed


def _failed(row: RuntimeConversation, turn_id: str, why: str) -> Envelope:
    payload = {"role": row.role, "subject": row.subject, "step": row.step_id}
    payload |= {"kind": AttemptEnd.LOST.value, "why": why}
    return event(EventType.TURN_FAILED, row.run_id, thread_id=row.thread_id, turn_id=turn_id, **payload)

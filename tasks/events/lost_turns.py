"""Ends what nobody is left to end: conversations, turns and items whose process died in the middle of them."""

from __future__ import annotations

import datetime as dt

from sqlmodel import Session, col, select, update

from models import event_log
from models.columns import utcnow
from models.event_tables import Conversation, EventHead, RuntimeItem, RuntimeTurn
from models.events import Envelope, EventType, event
from models.lifecycle import LifecycleStatus
from models.states import AttemptEnd
from models.store import Store
from models.tables import Run

# So long after a run's end its workers may still tell how their turns ended.
GRACE = dt.timedelta(seconds=20)
# A sweep looks at runs with an event within this time; once an hour all that are kept are looked at.
LATELY = dt.timedelta(hours=1)
SILENT = "its process ended without a word"


def end(session: Session, run_id: str, why: str, step_id: str | None = None) -> int:
    """Ends the open conversations of a run, or of one of its steps, and the turns and items in them, as failed; each
    such turn gets its `turn.failed`. How many conversations.

    A word that was told before and is written later opens nothing again (`lifecycles`). Rows are taken in the order in
    which a recorder writes them.
    """
    which = select(Conversation).where(Conversation.run_id == run_id, col(Conversation.closed_at).is_(None))
    if step_id is not None:
        which = which.where(Conversation.step_id == step_id)
    talks = session.exec(which.order_by(col(Conversation.id)).with_for_update()).all()
    if not talks:
        return 0
    now = utcnow()
    talking = {talk.active_turn_id: talk for talk in talks if talk.active_turn_id is not None}
    for talk in talks:
        talk.active_turn_id, talk.closed_at = None, now
        session.add(talk)
    session.flush()
    failed = _fail(session, run_id, list(talking), now) if talking else []
    event_log.append(session, [_failed(talking[turn_id], turn_id, why) for turn_id in failed])
    return len(talks)


def end_left_over(store: Store, now: dt.datetime, since: dt.datetime | None = None) -> int:
    """The same for runs that have ended some time ago and whose last event came after `since` (LATELY before now when
    not given): what their workers have not told by now they never will."""
    with store.read() as session:
        left = select(Conversation.id).where(
            Conversation.run_id == EventHead.run_id, col(Conversation.closed_at).is_(None)
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
    """Ends these turns and their items; those that had not ended."""
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


def _failed(talk: Conversation, turn_id: str, why: str) -> Envelope:
    told = {"role": talk.role, "subject": talk.subject, "step": talk.step_id}
    told |= {"kind": AttemptEnd.LOST.value, "why": why}
    return event(EventType.TURN_FAILED, talk.run_id, thread_id=talk.thread_id, turn_id=turn_id, **told)

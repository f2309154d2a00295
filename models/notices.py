"""Notices: events that people may be notified of, written in the transaction of the event itself.

So none is lost with a process. They are written whether or not a channel wants them: workers know no channels.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping

from sqlalchemy import ColumnElement, Table, delete
from sqlmodel import Session, SQLModel, col, select

from chordesk.models import features
from chordesk.models.events import DESK, Envelope, EventType
from chordesk.models.notice_channels import NoticeKind
from chordesk.models.settings.running_desk import is_backtest
from chordesk.models.states import OrderState, RunState, TradingState
from chordesk.models.tables.columns import dialect_insert
from chordesk.models.tables.runtime import Notice, Notification, NotificationPart

_TO_NOTE = "notices_to_add"  # key of a session's info

_ORDERS: Mapping[str, NoticeKind] = {
    OrderState.UNKNOWN: NoticeKind.ORDER_UNKNOWN,
    OrderState.REJECTED: NoticeKind.ORDER_REJECTED,
}
_RUNS: Mapping[str, NoticeKind] = {
    RunState.DONE: NoticeKind.RUN_FINISHED,
    RunState.STOPPED: NoticeKind.RUN_FINISHED,
    RunState.PARTIAL: NoticeKind.RUN_PARTIAL,
    RunState.FAILED: NoticeKind.RUN_FAILED,
}
_SUBJECTS = {EventType.ORDER_TRADING: "account", EventType.TOOL_ROGUE: "tool"}
_OF_STEPS = frozenset({EventType.STATUS_AGAIN, EventType.STATUS_ENDED})
_NOTABLE = _OF_STEPS | {
    EventType.RUN_COMPLETED,
    EventType.ORDER_STATE,
    EventType.ORDER_FILL,
    EventType.ORDER_TRADING,
    EventType.APPROVAL_ASKED,
    EventType.TOOL_ROGUE,
}


def note(session: Session, notice: Notice) -> None:
    """Add a notice to this transaction; of those with the same key, the first alone is written. Raises ValueError for
    a kind that no feature here describes."""
    if not NoticeKind(notice.kind).is_known:
        raise ValueError(f"{notice.kind} is no kind of notice: the feature describes it in notice_kinds, and is on")
    session.info.setdefault(_TO_NOTE, []).append(notice)


def hand_over(session: Session, whole: Session) -> None:
    """Let the transaction that this one is a part of write its notices."""
    whole.info.setdefault(_TO_NOTE, []).extend(session.info.pop(_TO_NOTE, ()))


def is_noted(session: Session, key: str) -> bool:
    return session.exec(select(Notice.id).where(Notice.key == key)).first() is not None


def write(session: Session, events: Iterable[Envelope]) -> None:
    found = [made for one in events if one.type in _NOTABLE and (made := notice_of(one)) is not None]
    found += session.info.pop(_TO_NOTE, ())
    if not found:
        return
    # In one order everywhere: two writers of the same keys never wait for each other.
    rows = [one.model_dump() for one in sorted(found, key=lambda one: one.key)]
    session.connection().execute(dialect_insert(session, Notice).on_conflict_do_nothing(index_elements=["key"]), rows)


def notice_of(one: Envelope) -> Notice | None:
    facts = one.payload
    if one.type in _OF_STEPS:
        return _worker_lost(one)
    if is_backtest(str(facts.get("account") or "")) and facts.get("kind") != "backtest":
        return None
    kind = _kind(one)
    if kind is None or (one.type is EventType.RUN_COMPLETED and facts.get("kind") in features.places("asides")):
        return None
    subject = facts.get("symbol") or facts.get(_SUBJECTS.get(one.type, "kind"))
    return Notice(
        key=one.event_id, kind=kind.value, subject=str(subject or ""), facts=dict(facts), run_id=one.run_id,
        occurred_at=one.occurred_at,
    )  # fmt: skip


def _kind(one: Envelope) -> NoticeKind | None:
    state = str(one.payload.get("state") or "")
    match one.type:
        case EventType.RUN_COMPLETED:
            return _RUNS.get(state)
        case EventType.ORDER_STATE:
            return _ORDERS.get(state)
        case EventType.ORDER_FILL:
            return NoticeKind.FILL
        case EventType.ORDER_TRADING:
            return NoticeKind.RESUME if state == TradingState.ACTIVE else NoticeKind.HALT
        case EventType.TOOL_ROGUE:
            return NoticeKind.ROGUE_CALL if one.payload.get("acts") else None
        case EventType.APPROVAL_ASKED:
            waiting = one.payload.get("kind") == "order"
            return NoticeKind.ORDER_WAITING if waiting else NoticeKind.REQUEST_WAITING
        case _:
            return None


def _worker_lost(one: Envelope) -> Notice | None:
    """Return the notice of a step's event if its worker was lost: one for the worker, whatever it held."""
    owner = one.payload.get("lost")
    if not owner:
        return None
    kind = NoticeKind.WORKER_LOST.value
    return Notice(key=f"{kind}:{owner}", kind=kind, subject=str(owner), run_id=DESK, occurred_at=one.occurred_at)


def old(before: dt.datetime) -> list[tuple[Table, ColumnElement[bool]]]:
    """Tables and conditions, in the order of deletion. A message that still waits stays."""
    past = col(Notice.occurred_at) < before
    return [
        (_table(NotificationPart), col(NotificationPart.notice_id).in_(select(Notice.id).where(past))),
        (_table(Notification), col(Notification.ended_at) < before),
        (_table(Notice), past),
    ]


def trim(session: Session, before: dt.datetime) -> int:
    done = [session.connection().execute(delete(table).where(which)).rowcount for table, which in old(before)]
    return done[-1]


def _table(model: type[SQLModel]) -> Table:
    found: Table = model.__table__  # type: ignore[attr-defined]
    return found

"""Models' requests to people, as rows: pending, decided or expired. Each change and its event are one transaction."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from sqlmodel import Session, col, select

from chordesk.agents.judging import storable
from chordesk.agents.runtime import ApprovalRequest, Scope
from chordesk.models.errors import NotFound, NotWaiting, UsageError
from chordesk.models.events import event_log
from chordesk.models.events.envelope import Envelope, EventType, event, short
from chordesk.models.states import ApprovalState, StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.events import RuntimeApproval
from chordesk.models.tables.runs import Step

Answers = Mapping[str, Sequence[str]]


def add(session: Session, id_: str, request: ApprovalRequest, scope: Scope, seconds: float) -> None:
    """Insert a request that waits for this many seconds."""
    now = utcnow()
    row = RuntimeApproval(
        id=id_,
        run_id=scope.run_id,
        step_id=scope.step_id,
        attempt=scope.attempt,
        role=scope.role,
        kind=request.kind,
        approval_id=request.approval_id,
        thread_id=request.thread_id,
        turn_id=request.turn_id,
        item_id=request.item_id,
        detail=storable(request.detail),
        state=ApprovalState.PENDING.value,
        asked_at=now,
        expires_at=now + dt.timedelta(seconds=seconds),
    )
    session.add(row)
    asked = _event(EventType.APPROVAL_ASKED, row, what=short(what(row)), expires_at=row.expires_at.isoformat())
    event_log.append(session, [asked])


def pending(session: Session) -> Sequence[RuntimeApproval]:
    """Return the requests that wait for a person, the oldest first."""
    return session.exec(
        select(RuntimeApproval)
        .where(RuntimeApproval.state == ApprovalState.PENDING.value, col(RuntimeApproval.expires_at) > utcnow())
        .order_by(col(RuntimeApproval.asked_at), col(RuntimeApproval.id))
    ).all()


def find(session: Session, id_: str) -> RuntimeApproval:
    """Return the request with this id or the only one that begins so; the runtime's own id of it works as well.

    Raises NotFound, UsageError when there are several.
    """
    known = col(RuntimeApproval.id).startswith(id_, autoescape=True) | (col(RuntimeApproval.approval_id) == id_)
    rows = session.exec(select(RuntimeApproval).where(known).limit(2)).all()
    remedy = "`desk approvals` lists what waits"
    if not id_ or not rows:
        raise NotFound(f"no request begins with {id_!r}", remedy=remedy)
    if len(rows) > 1:
        raise UsageError(f"more than one request begins with {id_!r}", remedy=remedy)
    return rows[0]


def decide(
    session: Session, id_: str, *, approve: bool, by: str, why: str | None, answers: Answers | None = None
) -> RuntimeApproval:
    """Record a person's answer. The row's state is `expired` when it came too late: its time, or the turn that waited,
    is over.

    Raises NotFound, UsageError for answers that do not fit the questions, NotWaiting for one that was answered before.
    """
    row = session.get_one(RuntimeApproval, find(session, id_).id, with_for_update=True, populate_existing=True)
    if row.state != ApprovalState.PENDING:
        raise NotWaiting(f"request {row.id} does not wait for an answer: it is {row.state}")
    if row.expires_at <= utcnow() or not _asker_lives(session, row):
        _decided(session, row, ApprovalState.EXPIRED, None, None)
        return row
    if approve:
        row.answers = _fitting(row, answers or {})
    elif answers:
        raise UsageError("a refusal has no answers", remedy="leave them out, or approve")
    _decided(session, row, ApprovalState.APPROVED if approve else ApprovalState.DENIED, by, why)
    return row


def expire(session: Session, id_: str) -> RuntimeApproval | None:
    """Expire a request that is still pending: its turn no longer waits. Return the row as it is now."""
    row = session.get(RuntimeApproval, id_, with_for_update=True, populate_existing=True)
    if row is not None and row.state == ApprovalState.PENDING:
        _decided(session, row, ApprovalState.EXPIRED, None, None)
    return row


def expire_overdue(session: Session) -> int:
    """Expire the requests that wait longer than allowed, as their asker is gone. Return how many."""
    overdue = session.exec(
        select(RuntimeApproval.id).where(
            RuntimeApproval.state == ApprovalState.PENDING.value, col(RuntimeApproval.expires_at) <= utcnow()
        )
    ).all()
    for id_ in overdue:
        expire(session, id_)
    return len(overdue)


def what(row: RuntimeApproval) -> str:
    """Return the request in one line."""
    detail = row.detail
    if row.kind == "command":
        return f"{detail['command']} in {detail['cwd']}"
    if row.kind == "file_change":
        return ", ".join(f"{change['change']} {change['path']}" for change in detail["changes"])
    if row.kind == "permissions":
        return orjson.dumps(detail["permissions"]).decode()
    return "; ".join(question["question"] for question in detail["questions"])


def _asker_lives(session: Session, row: RuntimeApproval) -> bool:
    """Return True if the attempt that asked still runs; a step that was taken over asks again."""
    step = session.get(Step, row.step_id) if row.step_id else None
    if step is None:
        return not row.step_id
    return step.state == StepState.RUNNING and step.attempt == row.attempt


def _fitting(row: RuntimeApproval, answers: Answers) -> dict[str, list[str]]:
    """Return the answers as they are stored. Raises UsageError unless exactly the questions are answered."""
    questions = {question["id"]: question for question in row.detail.get("questions", ())}
    unknown = [id_ for id_ in answers if id_ not in questions]
    missing = [id_ for id_ in questions if not answers.get(id_)]
    asked = "; ".join(f"{id_}: {question['question']}" for id_, question in questions.items())
    if unknown or missing:
        remedy = f"answer with ID=TEXT: {asked}" if questions else "approve without an answer"
        wrong = f"there is no question {unknown[0]!r}" if unknown else f"question {missing[0]!r} has no answer"
        raise UsageError(wrong, remedy=remedy)
    for id_, given in answers.items():
        options = questions[id_]["options"]
        other = [text for text in given if options and not questions[id_]["other"] and text not in options]
        if other:
            raise UsageError(f"{other[0]!r} is no answer to {id_!r}", remedy=f"answers are {', '.join(options)}")
    return {id_: list(given) for id_, given in answers.items()}


def _decided(session: Session, row: RuntimeApproval, state: ApprovalState, by: str | None, why: str | None) -> None:
    row.state, row.decided_at, row.decided_by, row.why = state.value, utcnow(), by, why
    session.add(row)
    expired = state is ApprovalState.EXPIRED
    type_ = EventType.APPROVAL_EXPIRED if expired else EventType.APPROVAL_DECIDED
    payload = {} if expired else {"decision": state.value, "by": by, "why": why}
    event_log.append(session, [_event(type_, row, **payload)])


def _event(type_: EventType, row: RuntimeApproval, **payload: Any) -> Envelope:
    keys = {"turn_id": row.turn_id, "item_id": row.item_id, "approval_id": row.approval_id}
    return event(
        type_, row.run_id, thread_id=row.thread_id, **keys, request=row.id, role=row.role, kind=row.kind, **payload
    )

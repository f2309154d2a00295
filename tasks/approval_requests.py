"""Approvals by a person: models' requests as rows, the asker that waits, and the answers to orders and requests."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import orjson
import structlog
from pydantic import Field
from sqlalchemy import and_, or_, update
from sqlalchemy.exc import DBAPIError
from sqlmodel import Session, col, select

from chordesk.agents.runtime import NOT_APPROVED, ApprovalDecision, ApprovalRequest, Scope
from chordesk.agents.turn_answers import storable
from chordesk.models import event_log
from chordesk.models.answers import Frozen
from chordesk.models.database.lookup import ACTS, by_prefix
from chordesk.models.database.store import Store, is_lost
from chordesk.models.errors import NotFound, NotWaiting, UsageError
from chordesk.models.events import Envelope, EventType, event, short
from chordesk.models.money import DOLLAR
from chordesk.models.settings import Settings
from chordesk.models.states import STEP_FINAL, ApprovalState, StepState
from chordesk.models.tables.columns import Row, new_id, utcnow
from chordesk.models.tables.orders import Approval, Order
from chordesk.models.tables.runs import Decision, Run, Step
from chordesk.models.tables.runtime import RuntimeApproval
from chordesk.tools import rogue_calls
from chordesk.tools.ledger import currency_of_account
from chordesk.tools.orders import approvals
from chordesk.tools.rogue_calls import RogueRow

Answers = Mapping[str, Sequence[str]]
INTERRUPT: Literal["interrupt"] = "interrupt"  # kind of what a graph asks
INTERRUPT_SECONDS = 30 * 86400.0  # for how long a graph waits for a person


def add_request(session: Session, id_: str, request: ApprovalRequest, scope: Scope, seconds: float) -> None:
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
    asked = _event(EventType.APPROVAL_ASKED, row, what=short(request_line(row)), expires_at=row.expires_at.isoformat())
    event_log.append(session, [asked])


def pending_requests(session: Session) -> Sequence[RuntimeApproval]:
    return session.exec(
        select(RuntimeApproval)
        .where(RuntimeApproval.state == ApprovalState.PENDING.value, col(RuntimeApproval.expires_at) > utcnow())
        .order_by(col(RuntimeApproval.asked_at), col(RuntimeApproval.id))
    ).all()


def decide_request(
    session: Session, id_: str, *, approve: bool, by: str, why: str | None, answers: Answers | None = None
) -> RuntimeApproval:
    """Record a person's answer; `expired` when it came too late. Raises NotFound, UsageError for answers that do not
    fit the questions, NotWaiting for one that was answered before."""
    found = by_prefix(session, RuntimeApproval, id_, RuntimeApproval.approval_id, least=ACTS)
    row = session.get_one(RuntimeApproval, found.id, with_for_update=True, populate_existing=True)
    if row.state != ApprovalState.PENDING:
        raise NotWaiting(f"request {row.id} does not wait for an answer: it is {row.state}")
    approvals.require_clock(row.asked_at)
    if row.expires_at <= utcnow() or not _asker_lives(session, row):
        _decided(session, row, ApprovalState.EXPIRED, None, None)
        return row
    if approve:
        row.answers = _fitting(row, answers or {})
    elif answers:
        raise UsageError("a refusal has no answers", remedy="leave them out, or approve")
    _decided(session, row, ApprovalState.APPROVED if approve else ApprovalState.DENIED, by, why)
    return row


def expire_request(session: Session, id_: str) -> RuntimeApproval | None:
    row = session.get(RuntimeApproval, id_, with_for_update=True, populate_existing=True)
    if row is not None and row.state == ApprovalState.PENDING:
        _decided(session, row, ApprovalState.EXPIRED, None, None)
    return row


def expire_overdue_requests(session: Session) -> int:
    """Expire the requests that wait longer than allowed, as their asker is gone, and those of graphs that have ended.
    Return how many."""
    ended = select(Step.id).where(Step.id == RuntimeApproval.step_id, col(Step.state).in_(STEP_FINAL)).exists()
    over = or_(col(RuntimeApproval.expires_at) <= utcnow(), and_(col(RuntimeApproval.kind) == INTERRUPT, ended))
    overdue = session.exec(
        select(RuntimeApproval.id).where(RuntimeApproval.state == ApprovalState.PENDING.value, over)
    ).all()
    for id_ in overdue:
        expire_request(session, id_)
    return len(overdue)


def request_line(row: RuntimeApproval) -> str:
    detail = row.detail
    if row.kind == "command":
        return f"{detail['command']} in {detail['cwd']}"
    if row.kind == "file_change":
        return ", ".join(f"{change['change']} {change['path']}" for change in detail["changes"])
    if row.kind == "permissions":
        return orjson.dumps(detail["permissions"]).decode()
    if row.kind == INTERRUPT:
        return f"{detail['node']}: {detail['asks']}"
    return "; ".join(question["question"] for question in detail["questions"])


def _asker_lives(session: Session, row: RuntimeApproval) -> bool:
    step = session.get(Step, row.step_id) if row.step_id else None
    if step is None:
        return not row.step_id
    if row.kind == INTERRUPT:
        return step.state not in STEP_FINAL
    return step.state == StepState.RUNNING and step.attempt == row.attempt


def wake(session: Session, step_id: str) -> bool:
    """Let a graph's step go on once nothing that it asked waits any more. True where it does."""
    session.get(Step, step_id, with_for_update=True, populate_existing=True)  # of two answers, one sees the other
    waits = (RuntimeApproval.step_id == step_id, RuntimeApproval.state == ApprovalState.PENDING.value)
    if session.exec(select(RuntimeApproval.id).where(*waits).limit(1)).first() is not None:
        return False
    free = update(Step).where(col(Step.id) == step_id, col(Step.state) == StepState.READY)
    session.connection().execute(free.values(due_at=utcnow(), sent_at=None, sends=0))
    return True


def waits_for_person(session: Session, run_id: str) -> bool:
    """Whether a graph of the run waits for a person: its deadline does not count meanwhile."""
    which = (RuntimeApproval.run_id == run_id, RuntimeApproval.kind == INTERRUPT)
    pending = RuntimeApproval.state == ApprovalState.PENDING.value
    return session.exec(select(RuntimeApproval.id).where(*which, pending).limit(1)).first() is not None


def _fitting(row: RuntimeApproval, answers: Answers) -> dict[str, list[str]]:
    """Return the answers as they are stored. Raises UsageError unless exactly the questions are answered."""
    questions = {question["id"]: question for question in row.detail.get("questions", ())}
    unknown = [id_ for id_ in answers if id_ not in questions]
    missing = [id_ for id_, one in questions.items() if not (answers.get(id_) or one.get("optional"))]
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
    if row.kind == INTERRUPT and wake(session, row.step_id):
        run = session.get_one(Run, row.run_id, with_for_update=True, populate_existing=True)
        run.deadline_at += row.decided_at - row.asked_at
        session.add(run)


def _event(type_: EventType, row: RuntimeApproval, **payload: Any) -> Envelope:
    keys = {"turn_id": row.turn_id, "item_id": row.item_id, "approval_id": row.approval_id}
    return event(
        type_, row.run_id, thread_id=row.thread_id, **keys, request=row.id, role=row.role, kind=row.kind, **payload
    )


class WaitingOrder(Frozen):
    """An order that waits, or waited, for a person; its approval has the notional and the hash of what was previewed.
    why: the reason of whoever decided on it; rogue: rogue calls of what it rests on; currency: of its account."""

    kind: Literal["order"] = "order"
    currency: str = DOLLAR
    approval: Row[Approval]
    order: Row[Order]
    why: str | None = None
    rogue: list[RogueRow] = []


class WaitingRequest(Frozen):
    """A request of a model to a person, in the middle of a turn that waits for the answer, or of a graph that waits."""

    kind: Literal["request"] = "request"
    approval: Row[RuntimeApproval]
    what: str = Field(description="the request in one line")


class AnswerResult(Frozen):
    """The result of an answer. order: null for a model's request. state: `expired` when it came too late.
    notified: the trade queue was, and submits an approved order now; else it does with its next check."""

    approval: str
    order: str | None = None
    state: ApprovalState
    by: str | None
    notified: bool = False

    @property
    def subject(self) -> str:
        return f"request {self.approval}" if self.order is None else f"order {self.order}"

    @property
    def too_late(self) -> str:
        if self.order is None:
            return f"{self.subject}: too late, its time or its turn is over; it was declined"
        return f"{self.subject}: too late, the question had expired and the order is denied"


def waiting(session: Session) -> list[WaitingOrder | WaitingRequest]:
    """Return orders first, then models' requests; the oldest first of each."""
    orders = [_waiting_order(session, approval, order) for approval, order in approvals.pending(session)]
    return [*orders, *(WaitingRequest(approval=row, what=request_line(row)) for row in pending_requests(session))]


def asked_of(session: Session, id_: str) -> WaitingOrder | WaitingRequest:
    """Return what a person was asked, whether it still waits or not. id_: of an order, its approval or a request.
    Raises NotFound or UsageError for the id."""
    if _is_request(session, id_):
        row = by_prefix(session, RuntimeApproval, id_, RuntimeApproval.approval_id)
        return WaitingRequest(approval=row, what=request_line(row))
    approval = by_prefix(session, Approval, id_, Approval.order_id)
    return _waiting_order(session, approval, session.get_one(Order, approval.order_id))


def _waiting_order(session: Session, approval: Approval, order: Order) -> WaitingOrder:
    why = session.get_one(Decision, order.decision_id).reason_of(order.ordinal)
    rogue, currency = rogue_calls.of_order(session, order), currency_of_account(session, order.account)
    return WaitingOrder(approval=approval, order=order, why=why, rogue=rogue, currency=currency)


def answer(
    store: Store,
    settings: Settings,
    request_trade: Callable[[], bool],
    id_: str,
    *,
    approve: bool,
    by: str,
    why: str | None,
    answers: Answers | None = None,
    expect: str | None = None,
) -> AnswerResult:
    """Record a person's answer, and have an approved order submitted. request_trade: False where the trade queue could
    not be reached. Raises as `approvals.decide` for an order, as `decide_request` for a request."""
    with store.session() as session:
        answered = answer_in(session, settings, id_, approve=approve, by=by, why=why, answers=answers, expect=expect)
    if answered.order is not None and answered.state is ApprovalState.APPROVED:
        return answered.model_copy(update={"notified": request_trade()})
    return answered


def answer_in(
    session: Session,
    settings: Settings,
    id_: str,
    *,
    approve: bool,
    by: str,
    why: str | None,
    answers: Answers | None = None,
    expect: str | None = None,
) -> AnswerResult:
    """Record a person's answer in the caller's transaction; the order pass submits an approved order."""
    if _is_request(session, id_):
        if expect is not None:
            raise UsageError("a request has no preview", remedy="answer it without the hash of one")
        row = decide_request(session, id_, approve=approve, by=by, why=why, answers=answers)
        return AnswerResult(approval=row.id, state=ApprovalState(row.state), by=row.decided_by)
    if answers:
        # An unknown id is the first error to report.
        by_prefix(session, Approval, id_, Approval.order_id, least=ACTS)
        raise UsageError("an order has no questions", remedy="approve or deny it without an answer")
    found = approvals.decide(session, settings, id_, approve, by, why, expect)
    return AnswerResult(approval=found.id, order=found.order_id, state=ApprovalState(found.state), by=found.decided_by)


def _is_request(session: Session, id_: str) -> bool:
    """Return True for a model's request, False for an order or its approval. Raises UsageError if it may be either."""
    try:
        by_prefix(session, RuntimeApproval, id_, RuntimeApproval.approval_id, least=ACTS)
    except NotFound:
        return False
    try:
        by_prefix(session, Approval, id_, Approval.order_id, least=ACTS)
    except UsageError:
        return True
    raise UsageError(f"an order and a request begin with {id_!r}", remedy="give more of the id")


log = structlog.get_logger(__name__)

ASKED_SECONDS = 600.0  # for which a model's request waits for a person
POLL_SECONDS = 0.5  # between two reads of the row that a person answers in


class ApprovalAsker:
    """The asker of a worker's runtime; for its loop alone. The database is read off the loop."""

    def __init__(self, store: Store, most_seconds: float = ASKED_SECONDS) -> None:
        self._store = store
        self._most_seconds = most_seconds
        self._closing: set[asyncio.Task[Any]] = set()

    async def ask(self, request: ApprovalRequest, scope: Scope, seconds: float) -> ApprovalDecision:
        """Wait for a person's answer for as long as the turn allows, ten minutes at most; without one, decline."""
        seconds = max(0.0, min(seconds, self._most_seconds))
        id_ = new_id()
        until = asyncio.get_running_loop().time() + seconds
        adding = asyncio.ensure_future(asyncio.to_thread(self._add, id_, request, scope, seconds))
        try:
            await asyncio.shield(adding)
            log.info("approval.asked", request=id_, role=scope.role, kind=request.kind, seconds=round(seconds))
            return await self._answer(id_, until)
        except asyncio.CancelledError:
            # The turn is over: the request must be closed, once its insert has ended.
            closing = asyncio.create_task(self._give_up(id_, adding))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
            raise

    async def _answer(self, id_: str, until: float) -> ApprovalDecision:
        loop = asyncio.get_running_loop()
        while (left := until - loop.time()) > 0:
            await asyncio.sleep(min(left, POLL_SECONDS))
            try:
                row = await asyncio.to_thread(self._read, id_)
            except DBAPIError as error:
                if not is_lost(error):
                    raise
                log.warning("approval.unread", request=id_, error=str(error.orig))
                continue
            if row.state != ApprovalState.PENDING:
                return _decision(row)
        return _decision(await asyncio.to_thread(self._expire, id_))

    async def _give_up(self, id_: str, adding: asyncio.Future[None]) -> None:
        try:
            await adding
            await asyncio.to_thread(self._expire, id_)
        except DBAPIError as error:
            # The sweep closes it when its time is over.
            log.warning("approval.unclosed", request=id_, error=str(error.orig))

    def _add(self, id_: str, request: ApprovalRequest, scope: Scope, seconds: float) -> None:
        with self._store.session() as session:
            add_request(session, id_, request, scope, seconds)

    def _read(self, id_: str) -> RuntimeApproval:
        with self._store.read() as session:
            return session.exec(select(RuntimeApproval).where(RuntimeApproval.id == id_)).one()

    def _expire(self, id_: str) -> RuntimeApproval | None:
        with self._store.session() as session:
            return expire_request(session, id_)


def _decision(row: RuntimeApproval | None) -> ApprovalDecision:
    if row is None or row.state != ApprovalState.APPROVED:
        return NOT_APPROVED
    return ApprovalDecision(approved=True, answers=row.answers)

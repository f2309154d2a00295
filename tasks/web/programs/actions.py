"""What a program may do over the WebSocket: the same functions as the routes', and errors as they have them."""

from __future__ import annotations

from typing import Any

from fastapi import Response
from sqlmodel import Session, col, select

from chordesk.models.errors import NotFound, UsageError
from chordesk.models.states import ApprovalState
from chordesk.models.tables.runtime import RuntimeApproval
from chordesk.tasks.web.context import ServiceContext
from chordesk.tasks.web.programs.messages import CallbackIdentity, DecideRequest, InterruptTurn, SendTurn, StopRun
from chordesk.tasks.web.routes import orders, runs, threads
from chordesk.tasks.web.routes.history import transcripts
from chordesk.tasks.web.schemas import AnswerRequest, ApproveRequest, StopRequest

Action = SendTurn | InterruptTurn | DecideRequest | StopRun


def act(context: ServiceContext, asked: Action) -> Any:
    """Do what was requested and return the answer of its route. Raises DeskError."""
    match asked:
        case SendTurn():
            return transcripts.ask_fork(context, asked.thread, asked.question())
        case InterruptTurn():
            return threads.interrupt(context, asked.thread, asked.turn, StopRequest(by=asked.by))
        case StopRun():
            return runs.stop(context, asked.run, StopRequest(by=asked.by), Response())
        case DecideRequest():
            return orders.decide(context, _about(context, asked), _answer(asked))


def _answer(asked: DecideRequest) -> AnswerRequest:
    if asked.do == "deny":
        return asked.refusal()
    return ApproveRequest(answer="approve", by=asked.by, why=asked.why, answers=asked.answers)


def _about(context: ServiceContext, asked: DecideRequest) -> str:
    if isinstance(asked.about, str):
        return asked.about
    with context.store.read() as session:
        return request_of(session, asked.about)


def request_of(session: Session, callback: CallbackIdentity) -> str:
    """Return the id of the waiting request with a callback's identity; without a waiting one, of the newest, whose
    answer says that it is late. Raises UsageError for an identity that is not whole, NotFound."""
    which: list[Any]
    if callback.approval is not None:
        which = [RuntimeApproval.approval_id == callback.approval]
    elif callback.thread is not None and callback.turn is not None and callback.item is not None:
        # One that has an approval id is known by it: an item may ask more than once.
        which = [
            RuntimeApproval.thread_id == callback.thread,
            RuntimeApproval.turn_id == callback.turn,
            RuntimeApproval.item_id == callback.item,
            col(RuntimeApproval.approval_id).is_(None),
        ]
    else:
        raise UsageError("a callback is named by approval, or by thread, turn and item", remedy="send all of them")
    waiting = col(RuntimeApproval.state) == ApprovalState.PENDING.value
    rows = session.exec(
        select(RuntimeApproval.id).where(*which).order_by(waiting.desc(), col(RuntimeApproval.asked_at).desc()).limit(1)
    ).all()
    if not rows:
        raise NotFound("no request has this callback's identity", remedy="its event `approval.asked` has all parts")
    return rows[0]

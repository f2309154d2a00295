"""What an observer is told of one conversation: its events, and the lifecycles of itself, its turns and items."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any

from agents.codex.approvals import ApprovalRequest
from agents.codex.observer import ConversationSeen, Observer
from agents.codex.spec import ConversationSpec, Opened, Scope
from agents.codex.translator import SAID, TOOL_ITEM, short, translate
from models.columns import new_id, utcnow
from models.events import EventType, event
from models.lifecycle import ConversationRef, ItemLifecycle, LifecycleStatus, RuntimeKind, TurnLifecycle
from models.research import Failure
from models.unchecked import unchecked

_TURN_STATUS = {
    "completed": LifecycleStatus.COMPLETED,
    "interrupted": LifecycleStatus.INTERRUPTED,
    "failed": LifecycleStatus.FAILED,
}
# What the protocol calls the ends of items; an item without a status is complete when it is said to be.
_ITEM_STATUS = {"failed": LifecycleStatus.FAILED, "declined": LifecycleStatus.FAILED}

# Of a lifecycle that has begun.
_BEGUN = {"status": LifecycleStatus.IN_PROGRESS, "ended_at": None}

Params = Mapping[str, Any]


class Story:
    """One conversation's, told in the order in which things happened. Whatever began is ended: a turn by `over` at the
    latest, an item by its turn. observer: whom it is told now. at: when it happened."""

    def __init__(self, spec: ConversationSpec, opened: Opened, worker: str) -> None:
        self._scope: Scope = spec.scope
        self._thread_id = opened.thread_id
        self._turn: TurnLifecycle | None = None
        self._items: dict[str, ItemLifecycle] = {}
        self._ended = False
        ref = ConversationRef(run_id=spec.scope.run_id, runtime_kind=RuntimeKind.CODEX, thread_id=opened.thread_id)
        self._seen = ConversationSeen(new_id(), ref, spec.scope, opened.reason, spec.keep, worker, utcnow())

    def opened(self, observer: Observer, at: dt.datetime) -> None:
        reason = self._seen.reason
        type_ = EventType.THREAD_STARTED
        if reason == "resumed":
            type_ = EventType.THREAD_RESUMED
        elif reason.startswith("forked:"):
            type_ = EventType.THREAD_FORKED
        observer.conversation(self._seen)
        self._event(observer, at, type_, None, subject=self._scope.subject, reason=reason, kept=self._seen.kept)

    def closed(self, observer: Observer, at: dt.datetime) -> None:
        self._seen = self._seen._replace(closed_at=at)
        observer.conversation(self._seen)
        self._event(observer, at, EventType.THREAD_CLOSED, None)

    def heard(self, observer: Observer, at: dt.datetime, method: str, params: Params, said: str | None) -> None:
        events = translate(method, params, self._scope, at, said)
        if events:
            observer.events(events)
        keep = _LIFECYCLES.get(method)
        if keep is not None:
            keep(self, observer, at, params)

    def declined(self, observer: Observer, at: dt.datetime, request: ApprovalRequest, why: str) -> None:
        keys = {"item_id": request.item_id, "approval_id": request.approval_id}
        told = {"kind": request.kind, "decision": "declined", "by": "desk", "why": why}
        self._event(observer, at, EventType.APPROVAL_DECIDED, request.turn_id, **keys, **told)

    def over(self, observer: Observer, at: dt.datetime, status: str, why: Failure | None) -> None:
        if not self._ended:
            turn_id = self._turn.turn_id if self._turn is not None else None
            told = {"kind": why.kind, "why": short(why.message)} if why is not None else {}
            type_ = EventType.TURN_INTERRUPTED if status == "interrupted" else EventType.TURN_FAILED
            self._event(observer, at, type_, turn_id, **told)
            self._end(observer, at, _TURN_STATUS[status])
        self._ended = False

    def _turn_started(self, observer: Observer, at: dt.datetime, params: Params) -> None:
        turn_id = str(params["turn"]["id"])
        told = {"turn_id": turn_id, "thread_id": self._thread_id}
        self._turn = unchecked(TurnLifecycle, {**_BEGUN, "started_at": at, **told})
        observer.turn(self._turn, self._scope.run_id)
        self._active(observer, turn_id)

    def _turn_completed(self, observer: Observer, at: dt.datetime, params: Params) -> None:
        self._end(observer, at, _TURN_STATUS.get(params["turn"]["status"], LifecycleStatus.FAILED))

    def _end(self, observer: Observer, at: dt.datetime, status: LifecycleStatus) -> None:
        """Ends the turn and what still runs in it."""
        for item in self._items.values():
            observer.item(item.ended(status, at), self._scope.run_id)
        self._items.clear()
        if self._turn is not None:
            observer.turn(self._turn.ended(status, at), self._scope.run_id)
            self._turn = None
            self._active(observer, None)
        self._ended = True

    def _item_started(self, observer: Observer, at: dt.datetime, params: Params) -> None:
        item = params["item"]
        if item["type"] != SAID:
            self._begin(observer, params, item["id"], item["type"], _moment(params["startedAtMs"]))

    def _tool_called(self, observer: Observer, at: dt.datetime, params: Params) -> None:
        if params["callId"] not in self._items:
            self._begin(observer, params, params["callId"], TOOL_ITEM, at)

    def _begin(self, observer: Observer, params: Params, item_id: str, type_: str, at: dt.datetime) -> None:
        item = self._items[item_id] = self._item(params, item_id, type_, at)
        observer.item(item, self._scope.run_id)

    def _item_completed(self, observer: Observer, at: dt.datetime, params: Params) -> None:
        item, ended_at = params["item"], _moment(params["completedAtMs"])
        began = self._items.pop(item["id"], None)
        started_at = began.started_at if began else ended_at - dt.timedelta(milliseconds=item.get("durationMs") or 0)
        status = _ITEM_STATUS.get(item.get("status"), LifecycleStatus.COMPLETED)
        done = self._item(params, item["id"], item["type"], min(started_at, ended_at))
        observer.item(done.ended(status, ended_at), self._scope.run_id)

    def _item(self, params: Params, item_id: str, type_: str, at: dt.datetime) -> ItemLifecycle:
        """One that has begun."""
        told = {"item_id": str(item_id), "turn_id": str(params["turnId"]), "thread_id": self._thread_id}
        return unchecked(ItemLifecycle, {**_BEGUN, "started_at": at, "type": str(type_), **told})

    def _active(self, observer: Observer, turn_id: str | None) -> None:
        self._seen = self._seen._replace(ref=self._seen.ref.during(turn_id))
        observer.conversation(self._seen)

    def _event(self, observer: Observer, at: dt.datetime, type_: EventType, turn_id: str | None, **told: Any) -> None:
        told = {"thread_id": self._thread_id, "turn_id": turn_id, "role": self._scope.role, **told}
        observer.events([event(type_, self._scope.run_id, at, **told)])


def _moment(millis: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(millis / 1000, dt.UTC)


_LIFECYCLES: Mapping[str, Callable[[Story, Observer, dt.datetime, Params], None]] = {
    "turn/started": Story._turn_started,
    "turn/completed": Story._turn_completed,
    "item/started": Story._item_started,
    "item/completed": Story._item_completed,
    "item/tool/call": Story._tool_called,
}

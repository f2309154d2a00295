"""Listener to one conversation: records its events, and the lifecycles of itself, its turns and items."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any

from chordesk.agents.codex.events.translator import TOOL_ITEM, USER_ITEM, translate
from chordesk.agents.codex.threads.gateway import OpenedThread
from chordesk.agents.pulse import Pulse
from chordesk.agents.runtime import ApprovalRequest, ConversationSpec, ConversationState, Lifecycle, Observer
from chordesk.models.events.envelope import Envelope, EventType, event, short
from chordesk.models.events.lifecycle import ConversationRef, ItemLifecycle, LifecycleStatus, RuntimeKind, TurnLifecycle
from chordesk.models.research import Failure
from chordesk.models.tables.columns import new_id, utcnow

_TURN_STATUS = {
    "completed": LifecycleStatus.COMPLETED,
    "interrupted": LifecycleStatus.INTERRUPTED,
    "failed": LifecycleStatus.FAILED,
}
# The protocol's names for the end of an item; an item without a status is complete when it ends.
_ITEM_STATUS = {"failed": LifecycleStatus.FAILED, "declined": LifecycleStatus.FAILED}
_OPENED = {"resumed": EventType.THREAD_RESUMED, "forked": EventType.THREAD_FORKED}

Params = Mapping[str, Any]


class ConversationListener:
    """Listener to one conversation. Whatever starts is ended: a turn by `turn_ended` at the latest, an item by its
    turn."""

    def __init__(self, observer: Observer | None, spec: ConversationSpec, opened: OpenedThread, worker: str) -> None:
        self._observer, self._scope = observer, spec.scope
        self._thread_id, self._model = opened.thread_id, spec.model
        self._turn: TurnLifecycle | None = None
        self._items: dict[str, ItemLifecycle] = {}
        self._ended = False
        ref = ConversationRef(run_id=spec.scope.run_id, runtime_kind=RuntimeKind.CODEX, thread_id=opened.thread_id)
        self._state = ConversationState(new_id(), ref, spec.scope, opened.reason, spec.keep, worker, utcnow())

    def opened(self) -> None:
        """Record that the thread is ready for turns."""
        reason = self._state.reason
        type_ = _OPENED.get(reason.partition(":")[0], EventType.THREAD_STARTED)
        payload = {"subject": self._scope.subject, "reason": reason, "kept": self._state.kept, "model": self._model}
        started = self._event(type_, utcnow(), **payload)
        self._record([started], [self._state])

    def closed(self) -> None:
        """Record that the conversation is over and its thread released."""
        at = utcnow()
        self._state = self._state._replace(closed_at=at)
        self._record([self._event(EventType.THREAD_CLOSED, at)], [self._state])

    def notified(self, method: str, params: Params, answer: str | None = None) -> None:
        """Record a notification of the running turn, or a tool call. answer: the turn's answer so far."""
        if self._observer is None:
            return
        at = utcnow()
        events = translate(method, params, self._scope, at, answer)
        update = _UPDATES.get(method)
        lifecycles = update(self, at, params) if update is not None else []
        if events or lifecycles:
            self._record(events, lifecycles)

    def declined(self, request: ApprovalRequest, why: str) -> None:
        """Record a request that was declined without asking a person."""
        payload = {"kind": request.kind, "decision": "declined", "by": "desk", "why": why}
        keys = {"turn_id": request.turn_id, "item_id": request.item_id, "approval_id": request.approval_id}
        self._record([self._event(EventType.APPROVAL_DECIDED, utcnow(), **keys, **payload)])

    def progressed(self, pulse: Pulse) -> None:
        """Record what a long turn does now."""
        if self._turn is None:
            return
        self._turn = self._turn.during(pulse.phase, pulse.tokens)
        payload = {"subject": self._scope.subject, **pulse.state()}
        progress = self._event(EventType.TURN_PROGRESS, utcnow(), turn_id=self._turn.turn_id, **payload)
        self._record([progress], [self._turn])

    def turn_ended(self, status: str, failure: Failure | None) -> None:
        """Record the desk's own end of a turn that the app-server did not end."""
        if not self._ended:
            at = utcnow()
            turn_id = self._turn.turn_id if self._turn is not None else None
            why = {"kind": failure.kind, "why": short(failure.message)} if failure is not None else {}
            type_ = EventType.TURN_INTERRUPTED if status == "interrupted" else EventType.TURN_FAILED
            self._record([self._event(type_, at, turn_id=turn_id, **why)], self._end(at, _TURN_STATUS[status]))
        self._ended = False

    def _turn_started(self, at: dt.datetime, params: Params) -> list[Lifecycle]:
        self._turn = TurnLifecycle(
            status=LifecycleStatus.IN_PROGRESS,
            started_at=at,
            turn_id=str(params["turn"]["id"]),
            thread_id=self._thread_id,
        )
        return [self._turn, self._active(self._turn.turn_id)]

    def _turn_completed(self, at: dt.datetime, params: Params) -> list[Lifecycle]:
        return self._end(at, _TURN_STATUS.get(params["turn"]["status"], LifecycleStatus.FAILED))

    def _end(self, at: dt.datetime, status: LifecycleStatus) -> list[Lifecycle]:
        """End the turn and its running items."""
        ended: list[Lifecycle] = [item.ended(status, at) for item in self._items.values()]
        self._items.clear()
        if self._turn is not None:
            ended += [self._turn.ended(status, at), self._active(None)]
            self._turn = None
        self._ended = True
        return ended

    def _item_started(self, _at: dt.datetime, params: Params) -> list[Lifecycle]:
        item = params["item"]
        if item["type"] == USER_ITEM:
            return []
        return self._start_item(params, item["id"], item["type"], _moment(params["startedAtMs"]))

    def _tool_called(self, at: dt.datetime, params: Params) -> list[Lifecycle]:
        known = params["callId"] in self._items
        return [] if known else self._start_item(params, params["callId"], TOOL_ITEM, at)

    def _start_item(self, params: Params, item_id: str, type_: str, at: dt.datetime) -> list[Lifecycle]:
        item = self._items[item_id] = self._item(params, item_id, type_, at)
        return [item]

    def _item_completed(self, _at: dt.datetime, params: Params) -> list[Lifecycle]:
        item, ended_at = params["item"], _moment(params["completedAtMs"])
        started = self._items.pop(item["id"], None)
        duration = dt.timedelta(milliseconds=item.get("durationMs") or 0)
        started_at = started.started_at if started is not None else ended_at - duration
        status = _ITEM_STATUS.get(item.get("status"), LifecycleStatus.COMPLETED)
        return [self._item(params, item["id"], item["type"], min(started_at, ended_at)).ended(status, ended_at)]

    def _item(self, params: Params, item_id: str, type_: str, at: dt.datetime) -> ItemLifecycle:
        return ItemLifecycle(
            status=LifecycleStatus.IN_PROGRESS,
            started_at=at,
            item_id=str(item_id),
            turn_id=str(params["turnId"]),
            thread_id=self._thread_id,
            type=str(type_),
        )

    def _active(self, turn_id: str | None) -> ConversationState:
        self._state = self._state._replace(ref=self._state.ref.during(turn_id))
        return self._state

    def _event(self, type_: EventType, at: dt.datetime, **fields: Any) -> Envelope:
        return event(type_, self._scope.run_id, at, thread_id=self._thread_id, role=self._scope.role, **fields)

    def _record(self, events: list[Envelope], lifecycles: list[Lifecycle] | None = None) -> None:
        if self._observer is not None:
            self._observer.record(self._scope, events, lifecycles or ())


def _moment(millis: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(millis / 1000, dt.UTC)


_UPDATES: Mapping[str, Callable[[ConversationListener, dt.datetime, Params], list[Lifecycle]]] = {
    "turn/started": ConversationListener._turn_started,
    "turn/completed": ConversationListener._turn_completed,
    "item/started": ConversationListener._item_started,
    "item/completed": ConversationListener._item_completed,
    "item/tool/call": ConversationListener._tool_called,
}

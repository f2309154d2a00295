"""Recorder of one conversation's events and lifecycles, with the types and payloads of the Codex runtime's."""

from __future__ import annotations

import datetime as dt
from typing import Any

from chordesk.agents.litellm.messages import ModelCall
from chordesk.agents.pulse import Pulse
from chordesk.agents.runtime import ConversationSpec, ConversationState, Lifecycle, Observer, TurnResult, TurnStatus
from chordesk.models.events.envelope import Envelope, EventType, event, short
from chordesk.models.events.lifecycle import ConversationRef, ItemLifecycle, LifecycleStatus, RuntimeKind, TurnLifecycle
from chordesk.models.research import Failure, Usage
from chordesk.models.tables.columns import new_id, utcnow
from chordesk.tools.registry import ToolAnswer

TOOL_ITEM, MESSAGE_ITEM, USER_ITEM = "dynamicToolCall", "agentMessage", "userMessage"
_ENDS: dict[TurnStatus, tuple[EventType, LifecycleStatus]] = {
    "completed": (EventType.TURN_COMPLETED, LifecycleStatus.COMPLETED),
    "interrupted": (EventType.TURN_INTERRUPTED, LifecycleStatus.INTERRUPTED),
    "failed": (EventType.TURN_FAILED, LifecycleStatus.FAILED),
}


class ConversationEvents:
    """Recorder of one conversation. Whatever starts is ended: a tool call by its turn's end at the latest."""

    def __init__(self, observer: Observer | None, spec: ConversationSpec, thread_id: str, reason: str, worker: str):
        self._observer, self._scope, self._thread_id, self._model = observer, spec.scope, thread_id, spec.model
        self._turn: TurnLifecycle | None = None
        self._items: dict[str, ItemLifecycle] = {}
        ref = ConversationRef(run_id=spec.scope.run_id, runtime_kind=RuntimeKind.LITELLM, thread_id=thread_id)
        self._state = ConversationState(new_id(), ref, spec.scope, reason, False, worker, utcnow())

    def opened(self) -> None:
        """Record that the conversation is ready for turns."""
        payload = {"subject": self._scope.subject, "reason": self._state.reason, "kept": False, "model": self._model}
        self._record([self._event(EventType.THREAD_STARTED, utcnow(), role=self._scope.role, **payload)], [self._state])

    def closed(self) -> None:
        """Record that the conversation is over."""
        at = utcnow()
        self._state = self._state._replace(closed_at=at)
        self._record([self._event(EventType.THREAD_CLOSED, at, role=self._scope.role)], [self._state])

    def turn_started(self, turn_id: str, text: str) -> None:
        """Record that a turn has begun, and the message that it begins with."""
        at, scope = utcnow(), self._scope
        self._turn = TurnLifecycle(
            status=LifecycleStatus.IN_PROGRESS, started_at=at, turn_id=turn_id, thread_id=self._thread_id
        )
        payload = {"role": scope.role, "subject": scope.subject, "step": scope.step_id, "attempt": scope.attempt}
        began = self._event(EventType.TURN_STARTED, at, **payload)
        asked = self._event(EventType.ITEM_COMPLETED, at, item_id=new_id(), type=USER_ITEM, text=short(text))
        self._record([began, asked], [self._turn, self._active(turn_id)])

    def replied(self, text: str, usage: Usage) -> None:
        """Record the tokens of a model call, and the text of its reply if it has one."""
        at = utcnow()
        events = [self._event(EventType.TURN_USAGE, at, **usage.model_dump())]
        lifecycles: list[Lifecycle] = []
        if text:
            item = self._item(new_id(), MESSAGE_ITEM, at)
            ids = {"item_id": item.item_id, "type": MESSAGE_ITEM}
            events.append(self._event(EventType.ITEM_STARTED, at, **ids))
            events.append(self._event(EventType.ITEM_COMPLETED, at, **ids, text=short(text)))
            lifecycles.append(item.ended(LifecycleStatus.COMPLETED, at))
        self._record(events, lifecycles)

    def call_failed(self, model: str, why: Failure, *, will_retry: bool) -> None:
        """Record a model call that failed. will_retry: it is made again, by another model or with less."""
        payload = {
            "role": self._scope.role,
            "subject": self._scope.subject,
            "model": model,
            "will_retry": will_retry,
            "kind": why.kind,
            "why": short(why.message),
            "reset_seconds": why.reset_seconds,
        }
        self._record([self._event(EventType.TURN_ERROR, utcnow(), **payload)])

    def progressed(self, pulse: Pulse) -> None:
        """Record what a long turn does now."""
        payload = {"role": self._scope.role, "subject": self._scope.subject, **pulse.state()}
        self._record([self._event(EventType.TURN_PROGRESS, utcnow(), **payload)])

    def tool_started(self, call: ModelCall) -> None:
        """Record that a tool is called."""
        at = utcnow()
        item = self._items[call.id] = self._item(call.id, TOOL_ITEM, at)
        payload = {"item_id": call.id, "tool": call.name, "arguments": short(call.arguments)}
        self._record([self._event(EventType.TOOL_STARTED, at, **payload)], [item])

    def tool_completed(self, call: ModelCall, answer: ToolAnswer) -> None:
        """Record a tool's answer."""
        at = utcnow()
        status = LifecycleStatus.COMPLETED if answer.success else LifecycleStatus.FAILED
        payload = {
            "item_id": call.id,
            "tool": call.name,
            "success": answer.success,
            "answer": short(answer.text()),
            "status": str(status),
            "ms": round(answer.seconds * 1000),
        }
        started = self._items.pop(call.id, None)
        ended: list[Lifecycle] = [started.ended(status, at)] if started is not None else []
        self._record([self._event(EventType.TOOL_COMPLETED, at, **payload)], ended)

    def turn_ended(self, result: TurnResult | None) -> None:
        """Record the end of the turn, with what runs in it; None when it was given up."""
        at, turn = utcnow(), self._turn
        if turn is None:
            return
        status: TurnStatus = result.status if result is not None else "interrupted"
        type_, state = _ENDS[status]
        payload: dict[str, Any] = {"role": self._scope.role, "ms": _millis(turn.started_at, at)}
        if result is not None and result.refusal is not None:
            type_ = EventType.TURN_REFUSED
            payload["why"] = short(result.refusal)
        elif result is not None and result.failure is not None and status == "failed":
            payload |= {"kind": result.failure.kind, "why": short(result.failure.message)}
        ended: list[Lifecycle] = [item.ended(state, at) for item in self._items.values()]
        ended += [turn.ended(state, at), self._active(None)]
        self._record([self._event(type_, at, **payload)], ended)
        self._items.clear()
        self._turn = None

    def _item(self, item_id: str, type_: str, at: dt.datetime) -> ItemLifecycle:
        turn_id = self._turn.turn_id if self._turn is not None else ""
        return ItemLifecycle(
            status=LifecycleStatus.IN_PROGRESS,
            started_at=at,
            item_id=item_id,
            turn_id=turn_id,
            thread_id=self._thread_id,
            type=type_,
        )

    def _active(self, turn_id: str | None) -> ConversationState:
        self._state = self._state._replace(ref=self._state.ref.during(turn_id))
        return self._state

    def _event(self, type_: EventType, at: dt.datetime, **fields: Any) -> Envelope:
        turn_id = self._turn.turn_id if self._turn is not None else None
        return event(type_, self._scope.run_id, at, thread_id=self._thread_id, turn_id=turn_id, **fields)

    def _record(self, events: list[Envelope], lifecycles: list[Lifecycle] | None = None) -> None:
        if self._observer is not None:
            self._observer.record(self._scope, events, lifecycles or ())


def _millis(begin: dt.datetime, end: dt.datetime) -> int:
    return round((end - begin).total_seconds() * 1000)

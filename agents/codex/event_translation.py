"""The events of a conversation: translated from the app-server's notifications, and recorded with its lifecycles."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from chordesk.agents.codex.threads import OpenedThread
from chordesk.agents.codex.turns import SEARCH_ITEM, counts_of, failure_of_turn, is_limit, is_policy, refusal_in
from chordesk.agents.providers.provider_limits import reset_in
from chordesk.agents.runtime import ApprovalRequest, ConversationRecorder, ConversationSpec, Lifecycle, Observer, Scope
from chordesk.models.answers import Failure
from chordesk.models.events import (
    TEXT_LIMIT,
    Envelope,
    EventType,
    LifecycleStatus,
    RuntimeKind,
    event,
    short,
)
from chordesk.models.tables.columns import utcnow

Params = Mapping[str, Any]

_ENDS = {
    "completed": EventType.TURN_COMPLETED,
    "interrupted": EventType.TURN_INTERRUPTED,
    "failed": EventType.TURN_FAILED,
}
TOOL_ITEM = "dynamicToolCall"
_DELTAS = (
    "item/agentMessage/delta", "item/reasoning/summaryTextDelta", "item/reasoning/textDelta", "item/plan/delta",
    "item/commandExecution/outputDelta",
)  # fmt: skip
USER_ITEM = "userMessage"  # an item that is whole when it begins


Made = list[tuple[EventType, dict[str, Any]]]


def translate(method: str, params: Params, scope: Scope, at: dt.datetime, answer: str | None = None) -> list[Envelope]:
    """Return the events of a notification or of a request to call a tool; none for a method that is not recorded. at:
    time of arrival. answer: the answer of the turn so far, by which a completed turn may be a refusal."""
    if (make := _EVENTS.get(method)) is None:
        return []
    turn_id = params["turn"]["id"] if "turn" in params else params["turnId"]
    # The protocol does not check that an id is text.
    ids = {"thread_id": str(params["threadId"]), "turn_id": str(turn_id)}
    return [event(type_, scope.run_id, at, **ids, **payload) for type_, payload in make(params, scope, answer)]


def _turn_started(_params: Params, scope: Scope, _answer: str | None) -> Made:
    payload = {"role": scope.role, "subject": scope.subject, "step": scope.step_id, "attempt": scope.attempt}
    return [(EventType.TURN_STARTED, payload)]


def _turn_ended(params: Params, scope: Scope, answer: str | None) -> Made:
    turn = params["turn"]
    status, error = turn["status"], turn.get("error")
    payload: dict[str, Any] = {"role": scope.role, "ms": turn.get("durationMs")}
    why = None if status == "completed" else failure_of_turn(error)
    refusal = refusal_in(answer) if why is None else why.message if is_policy(error) else None
    if refusal is not None:
        return [(EventType.TURN_REFUSED, {**payload, "why": short(refusal)})]
    if why is not None and status != "interrupted":
        payload |= {"kind": why.kind, "why": short(why.message)}
    return [(_ENDS.get(status, EventType.TURN_FAILED), payload)]


def _turn_error(params: Params, scope: Scope, _answer: str | None) -> Made:
    error = params.get("error") or {}
    # The message of one that is tried again only counts the attempts.
    text = str(error.get("additionalDetails") or error.get("message") or "")
    why = failure_of_turn({**error, "message": text})
    payload = {
        "role": scope.role,
        "subject": scope.subject,
        "will_retry": bool(params.get("willRetry")),
        "kind": "rate_limited" if is_limit(error) else why.kind,
        "why": short(why.message) if text else "",
        "reset_seconds": reset_in(text),
    }
    return [(EventType.TURN_ERROR, payload)]


def _usage(params: Params, _scope: Scope, _answer: str | None) -> Made:
    return [(EventType.TURN_USAGE, counts_of(params["tokenUsage"]["last"]))]


def _item_started(params: Params, _scope: Scope, _answer: str | None) -> Made:
    item = params["item"]
    if item["type"] in (TOOL_ITEM, USER_ITEM):
        return []  # the request to call the tool is the start of the one; the end of the other has all of it
    return [(EventType.ITEM_STARTED, {"item_id": str(item["id"]), "type": item["type"]})]


def _item_completed(params: Params, _scope: Scope, _answer: str | None) -> Made:
    item = params["item"]
    type_ = EventType.TOOL_COMPLETED if item["type"] == TOOL_ITEM else EventType.ITEM_COMPLETED
    return [(type_, {"item_id": str(item["id"]), **_content(item)})]


def _tool_called(params: Params, _scope: Scope, _answer: str | None) -> Made:
    arguments = short(orjson.dumps(params.get("arguments")).decode())
    payload = {"item_id": str(params["callId"]), "tool": params["tool"], "arguments": arguments}
    return [(EventType.TOOL_STARTED, payload)]


def _delta(params: Params, _scope: Scope, _answer: str | None) -> Made:
    text = str(params.get("delta") or "").replace("\x00", "")
    pieces = [text[start : start + TEXT_LIMIT] for start in range(0, len(text), TEXT_LIMIT)]
    return [(EventType.ITEM_DELTA, {"item_id": str(params["itemId"]), "text": piece}) for piece in pieces]


def _content(item: Params) -> dict[str, Any]:
    kind, status = item["type"], item.get("status")
    if kind == TOOL_ITEM:
        answer = "".join(part.get("text") or "" for part in item.get("contentItems") or ())
        call = {"tool": item["tool"], "success": bool(item.get("success")), "answer": short(answer)}
        return {**call, "status": status, "ms": item.get("durationMs")}
    payload: dict[str, Any] = {"type": kind}
    if status is not None:
        payload["status"] = status
    if kind in ("agentMessage", "plan"):
        payload["text"] = short(item.get("text"))
    elif kind == USER_ITEM:
        payload["text"] = short("".join(part.get("text") or "" for part in item["content"]))
    elif kind == "reasoning":
        payload["text"] = short("\n".join(item.get("summary") or ()))
    elif kind == "commandExecution":
        payload |= {"command": short(item["command"]), "exit_code": item.get("exitCode"), "ms": item.get("durationMs")}
    elif kind == SEARCH_ITEM:
        action = item.get("action") or {}
        queries = [short(query) for query in (action.get("queries") or ())[:10]]
        payload |= {"query": short(item.get("query")), "action": action.get("type"), "queries": queries}
        payload["url"] = short(action["url"]) if action.get("url") else None
    elif kind == "fileChange":
        payload["paths"] = [short(change["path"]) for change in item["changes"][:10]]
    return payload


_EVENTS: Mapping[str, Callable[[Params, Scope, str | None], Made]] = {
    "turn/started": _turn_started,
    "turn/completed": _turn_ended,
    "error": _turn_error,
    "thread/tokenUsage/updated": _usage,
    "item/started": _item_started,
    "item/completed": _item_completed,
    "item/tool/call": _tool_called,
    **dict.fromkeys(_DELTAS, _delta),
}


_TURN_STATUS = {
    "completed": LifecycleStatus.COMPLETED,
    "interrupted": LifecycleStatus.INTERRUPTED,
    "failed": LifecycleStatus.FAILED,
}
# The protocol's names for the end of an item; an item without a status is complete when it ends.
_ITEM_STATUS = {"failed": LifecycleStatus.FAILED, "declined": LifecycleStatus.FAILED}


class ConversationListener(ConversationRecorder):
    """Listener to one conversation. Whatever starts is ended: a turn by `turn_ended` at the latest, an item by its
    turn."""

    def __init__(self, observer: Observer | None, spec: ConversationSpec, opened: OpenedThread, worker: str) -> None:
        super().__init__(observer, spec, RuntimeKind.CODEX, opened.thread_id, opened.reason, worker, kept=spec.keep)
        self._ended = False

    def notified(self, method: str, params: Params, answer: str | None = None) -> None:
        if self._observer is None:
            return
        at = utcnow()
        events = translate(method, params, self._scope, at, answer)
        update = _UPDATES.get(method)
        lifecycles = update(self, at, params) if update is not None else []
        if events or lifecycles:
            self._record(events, lifecycles)

    def declined(self, request: ApprovalRequest, why: str) -> None:
        payload = {"role": self._scope.role, "kind": request.kind, "decision": "declined", "by": "desk", "why": why}
        keys = {"turn_id": request.turn_id, "item_id": request.item_id, "approval_id": request.approval_id}
        self._record([self._event(EventType.APPROVAL_DECIDED, utcnow(), **keys, **payload)])

    def turn_ended(self, status: str, failure: Failure | None) -> None:
        """Record the desk's own end of a turn that the app-server did not end."""
        if not self._ended:
            at = utcnow()
            why = {"kind": failure.kind, "why": short(failure.message)} if failure is not None else {}
            type_ = EventType.TURN_INTERRUPTED if status == "interrupted" else EventType.TURN_FAILED
            made = self._event(type_, at, role=self._scope.role, **why)
            self._record([made], self._end_turn(_TURN_STATUS[status], at))
        self._ended = False

    def _turn_started(self, at: dt.datetime, params: Params) -> list[Lifecycle]:
        return self._begin_turn(str(params["turn"]["id"]), at)

    def _turn_completed(self, at: dt.datetime, params: Params) -> list[Lifecycle]:
        self._ended = True
        return self._end_turn(_TURN_STATUS.get(params["turn"]["status"], LifecycleStatus.FAILED), at)

    def _item_started(self, _at: dt.datetime, params: Params) -> list[Lifecycle]:
        item = params["item"]
        if item["type"] == USER_ITEM:
            return []
        return self._start_item(params, item["id"], item["type"], _moment(params["startedAtMs"]))

    def _tool_called(self, at: dt.datetime, params: Params) -> list[Lifecycle]:
        known = params["callId"] in self._items
        return [] if known else self._start_item(params, params["callId"], TOOL_ITEM, at)

    def _start_item(self, params: Params, item_id: str, type_: str, at: dt.datetime) -> list[Lifecycle]:
        item = self._items[item_id] = self._item(str(item_id), str(type_), str(params["turnId"]), at)
        return [item]

    def _item_completed(self, _at: dt.datetime, params: Params) -> list[Lifecycle]:
        item, ended_at = params["item"], _moment(params["completedAtMs"])
        started = self._items.pop(item["id"], None)
        duration = dt.timedelta(milliseconds=item.get("durationMs") or 0)
        started_at = started.started_at if started is not None else ended_at - duration
        status = _ITEM_STATUS.get(item.get("status"), LifecycleStatus.COMPLETED)
        ids = str(item["id"]), str(item["type"]), str(params["turnId"])
        return [self._item(*ids, min(started_at, ended_at)).ended(status, ended_at)]


def _moment(millis: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(millis / 1000, dt.UTC)


_UPDATES: Mapping[str, Callable[[ConversationListener, dt.datetime, Params], list[Lifecycle]]] = {
    "turn/started": ConversationListener._turn_started,
    "turn/completed": ConversationListener._turn_completed,
    "item/started": ConversationListener._item_started,
    "item/completed": ConversationListener._item_completed,
    "item/tool/call": ConversationListener._tool_called,
}

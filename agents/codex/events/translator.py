"""Translation of app-server notifications to the desk's events, by pure functions.

A call of one of our tools becomes `tool.*`, every other item `item.*`. Texts are cut: the thread's rollout has them
whole, and what the desk acts on is in its own rows.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from chordesk.agents.codex.failures import failure_of_turn, is_limit, is_policy, refusal_in
from chordesk.agents.codex.server.watch import SEARCH_ITEM, counts_of
from chordesk.agents.failures import reset_in
from chordesk.agents.runtime import Scope
from chordesk.models.events.envelope import TEXT_LIMIT, Envelope, EventType, event, short

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
    """Return the events of a notification or of a request to call a tool; none for a method that is not recorded.

    at: time of arrival. answer: the answer of the turn so far, by which a completed turn may be a refusal.
    """
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
    """Return a piece of text as it comes, whole: a long one as several events."""
    text = str(params.get("delta") or "").replace("\x00", "")
    pieces = [text[start : start + TEXT_LIMIT] for start in range(0, len(text), TEXT_LIMIT)]
    return [(EventType.ITEM_DELTA, {"item_id": str(params["itemId"]), "text": piece}) for piece in pieces]


def _content(item: Params) -> dict[str, Any]:
    """Return the payload of an item's event, by the item's type."""
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

"""From what the app-server says to the desk's events. Pure: nothing here keeps or asks anything.

A call of one of our tools is told as `tool.*`, every other item as `item.*`. Texts are cut: the whole is in the
thread's rollout, and what the desk acts on is in its own rows.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from agents.codex.failures import failure_of_turn, is_limit, is_policy, refusal_in, reset_in, worded
from agents.codex.spec import Scope
from agents.codex.watch import counts_of
from models.events import Envelope, EventType, envelope

TEXT_LIMIT = 500

Params = Mapping[str, Any]

_ENDS = {
    "completed": EventType.TURN_COMPLETED,
    "interrupted": EventType.TURN_INTERRUPTED,
    "failed": EventType.TURN_FAILED,
}
TOOL_ITEM = "dynamicToolCall"
SAID = "userMessage"  # an item that is whole when it begins


def translate(method: str, params: Params, scope: Scope, at: dt.datetime, said: str | None = None) -> list[Envelope]:
    """The events that a notification, or the request to call a tool, stands for; none when it is nobody's concern.

    at: when it came. said: the answer of the turn so far, by which a completed turn may be a refusal.
    """
    if method == "turn/completed":
        return [_turn_ended(params, scope, at, said)]
    make = _EVENTS.get(method)
    return make(params, scope, at) if make is not None else []


def short(text: Any) -> str:
    """As much of a text as an event carries; without NUL characters, which Postgres cannot hold in text."""
    return str(text if text is not None else "")[:TEXT_LIMIT].replace("\x00", "")


def _turn_started(params: Params, scope: Scope, at: dt.datetime) -> list[Envelope]:
    told: dict[str, Any] = {"role": scope.role, "subject": scope.subject, "step": scope.step_id}
    told["attempt"] = scope.attempt
    keys = (str(params["threadId"]), str(params["turn"]["id"]))
    return [envelope(EventType.TURN_STARTED, scope.run_id, at, *keys, None, None, told)]


def _turn_ended(params: Params, scope: Scope, at: dt.datetime, said: str | None) -> Envelope:
    turn = params["turn"]
    status, error = turn["status"], turn.get("error")
    told: dict[str, Any] = {"role": scope.role, "ms": turn.get("durationMs")}
    type_ = _ENDS.get(status, EventType.TURN_FAILED)
    if status == "completed":
        refusal = refusal_in(said)
        if refusal is not None:
            type_, told["why"] = EventType.TURN_REFUSED, short(refusal)
    elif is_policy(error):
        type_, told["why"] = EventType.TURN_REFUSED, short(failure_of_turn(error).message)
    elif status != "interrupted":
        why = failure_of_turn(error)
        told |= {"kind": why.kind, "why": short(why.message)}
    return envelope(type_, scope.run_id, at, str(params["threadId"]), str(turn["id"]), None, None, told)


def _turn_error(params: Params, scope: Scope, at: dt.datetime) -> list[Envelope]:
    error = params.get("error") or {}
    # The message of one that is tried again only counts the attempts.
    text = str(error.get("additionalDetails") or error.get("message") or "")
    why = failure_of_turn({**error, "message": text})
    told = {
        "role": scope.role,
        "subject": scope.subject,
        "will_retry": bool(params.get("willRetry")),
        "kind": "rate_limited" if is_limit(error) else why.kind,
        "why": short(worded(text)),
        "reset_seconds": reset_in(text),
    }
    return [_of_turn(EventType.TURN_ERROR, params, scope, at, told)]


def _usage(params: Params, scope: Scope, at: dt.datetime) -> list[Envelope]:
    return [_of_turn(EventType.TURN_USAGE, params, scope, at, counts_of(params["tokenUsage"]["last"]))]


def _item_started(params: Params, scope: Scope, at: dt.datetime) -> list[Envelope]:
    item = params["item"]
    if item["type"] in (TOOL_ITEM, SAID):
        return []  # the start of the one is the request to call the tool; of the other, its end tells all
    return [_of_item(EventType.ITEM_STARTED, params, scope, at, item["id"], {"type": item["type"]})]


def _item_completed(params: Params, scope: Scope, at: dt.datetime) -> list[Envelope]:
    item = params["item"]
    type_ = EventType.TOOL_COMPLETED if item["type"] == TOOL_ITEM else EventType.ITEM_COMPLETED
    return [_of_item(type_, params, scope, at, item["id"], _content(item))]


def _tool_called(params: Params, scope: Scope, at: dt.datetime) -> list[Envelope]:
    told = {"tool": params["tool"], "arguments": _compact(params.get("arguments"))}
    return [_of_item(EventType.TOOL_STARTED, params, scope, at, params["callId"], told)]


def _delta(params: Params, scope: Scope, at: dt.datetime) -> list[Envelope]:
    """A piece of text as it comes, whole: a long one as several events."""
    text = str(params.get("delta") or "").replace("\x00", "")
    pieces = [text[start : start + TEXT_LIMIT] for start in range(0, len(text), TEXT_LIMIT)]
    return [_of_item(EventType.ITEM_DELTA, params, scope, at, params["itemId"], {"text": piece}) for piece in pieces]


def _content(item: Params) -> dict[str, Any]:
    """What an item's event says of it, by its type."""
    kind, status = item["type"], item.get("status")
    if kind == TOOL_ITEM:
        answer = "".join(part.get("text") or "" for part in item.get("contentItems") or ())
        seen = {"tool": item["tool"], "success": bool(item.get("success")), "answer": short(answer)}
        return {**seen, "status": status, "ms": item.get("durationMs")}
    told: dict[str, Any] = {"type": kind}
    if status is not None:
        told["status"] = status
    if kind in ("agentMessage", "plan"):
        told["text"] = short(item.get("text"))
    elif kind == SAID:
        told["text"] = short("".join(part.get("text") or "" for part in item["content"]))
    elif kind == "reasoning":
        told["text"] = short("\n".join(item.get("summary") or ()))
    elif kind == "commandExecution":
        told |= {"command": short(item["command"]), "exit_code": item.get("exitCode"), "ms": item.get("durationMs")}
    elif kind == "fileChange":
        told["paths"] = [short(change["path"]) for change in item["changes"][:10]]
    return told


def _compact(arguments: Any) -> str:
    return short(orjson.dumps(arguments).decode())


def _of_turn(type_: EventType, params: Params, scope: Scope, at: dt.datetime, told: dict[str, Any]) -> Envelope:
    return envelope(type_, scope.run_id, at, str(params["threadId"]), str(params["turnId"]), None, None, told)


def _of_item(
    type_: EventType, params: Params, scope: Scope, at: dt.datetime, item_id: str, told: dict[str, Any]
) -> Envelope:
    keys = (str(params["threadId"]), str(params["turnId"]), str(item_id))  # what is no text would not be read again
    return envelope(type_, scope.run_id, at, *keys, None, told)


_EVENTS: Mapping[str, Callable[[Params, Scope, dt.datetime], list[Envelope]]] = {
    "turn/started": _turn_started,
    "error": _turn_error,
    "thread/tokenUsage/updated": _usage,
    "item/started": _item_started,
    "item/completed": _item_completed,
    "item/tool/call": _tool_called,
    "item/agentMessage/delta": _delta,
    "item/reasoning/summaryTextDelta": _delta,
    "item/reasoning/textDelta": _delta,
    "item/plan/delta": _delta,
    "item/commandExecution/outputDelta": _delta,
}
# What is told live or never.
LIVE_ONLY = frozenset(method for method, make in _EVENTS.items() if make is _delta)

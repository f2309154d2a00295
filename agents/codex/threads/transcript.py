"""Transcript of a kept thread, read from its rollout: each turn with its prompt, its answer and its tokens."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from chordesk.agents.kept_threads import TranscriptTurn


def transcript(rollout: bytes) -> list[TranscriptTurn]:
    """Return the turns of a rollout in order, those before a fork too. Unreadable lines are skipped."""
    turns: dict[str, dict[str, Any]] = {}
    current: dict[str, Any] = {}
    for kind, payload in _lines(rollout):
        event = payload.get("type") if kind == "event_msg" else kind
        if event == "task_started":
            turn_id = str(payload.get("turn_id"))
            current = turns.setdefault(turn_id, {"turn_id": turn_id})
        elif event == "user_message":
            current.setdefault("prompt", payload.get("message"))
        elif event == "agent_message":
            current["answer"] = payload.get("message")
        elif event == "token_usage_record":
            counted = (current.get("tokens", 0), _tokens(payload.get("usage")))
            current["tokens"] = None if None in counted else sum(counted)
        elif event == "task_complete":
            current |= {"status": "completed", **_times(payload)}
        elif event == "turn_aborted":
            current |= {"status": "interrupted", **_times(payload)}
    return [TranscriptTurn(**turn) for turn in turns.values()]


def _lines(rollout: bytes) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for line in rollout.splitlines():
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if isinstance(row, dict) and isinstance(row.get("payload"), dict):
            yield str(row.get("type")), row["payload"]


def _tokens(usage: Any) -> int | None:
    total = usage.get("total_tokens") if isinstance(usage, dict) else None
    return total if isinstance(total, int) and total >= 0 else None


def _times(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the start and the length of a turn, as far as its end has them."""
    started, duration = payload.get("started_at"), payload.get("duration_ms")
    found: dict[str, Any] = {}
    if isinstance(started, int | float):
        found["started_at"] = dt.datetime.fromtimestamp(started, dt.UTC)
    if isinstance(duration, int | float):
        found["seconds"] = duration / 1000
    return found

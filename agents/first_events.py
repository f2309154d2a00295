"""Events of the calls that code makes before a turn, as those of a model's calls; `by` tells them apart."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import orjson

from chordesk.agents.runtime import Scope
from chordesk.agents.turn_answers import RecordedCall
from chordesk.models.events import Envelope, EventType, ItemLifecycle, LifecycleStatus, event, short
from chordesk.models.tables.columns import new_id

BY = "code"
TOOL_ITEM = "dynamicToolCall"


def events_of(
    scope: Scope, thread_id: str, turn_id: str, calls: Sequence[RecordedCall]
) -> tuple[list[Envelope], list[ItemLifecycle]]:
    """Return the events of calls that were made for a turn which has just started, and each call's life."""
    events, lives = [], []
    for call in calls:
        answer, began = call.answer, call.at - dt.timedelta(seconds=call.answer.seconds)
        ids = {"thread_id": thread_id, "turn_id": turn_id, "item_id": new_id()}
        status = LifecycleStatus.COMPLETED if answer.success else LifecycleStatus.FAILED
        shown = {"tool": answer.tool, "by": BY}
        asked = short(orjson.dumps(call.arguments).decode())
        told: dict[str, Any] = {"success": answer.success, "answer": short(answer.text()), "status": str(status)}
        events += [
            event(EventType.TOOL_STARTED, scope.run_id, began, **ids, **shown, arguments=asked),
            event(
                EventType.TOOL_COMPLETED, scope.run_id, call.at, **ids, **shown, **told, ms=round(answer.seconds * 1000)
            ),
        ]  # fmt: skip
        life = ItemLifecycle(status=LifecycleStatus.IN_PROGRESS, started_at=began, type=TOOL_ITEM, **ids)
        lives.append(life.ended(status, call.at))
    return events, lives

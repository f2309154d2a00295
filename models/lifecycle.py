"""Conversations, turns and items as any model runtime has them: what the desk stores does not depend on which one."""

from __future__ import annotations

import datetime as dt
from enum import StrEnum

from models.research import Frozen


class RuntimeKind(StrEnum):
    CODEX = "codex"


class LifecycleStatus(StrEnum):
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


class ConversationRef(Frozen):
    """Where a run talks: the runtime, the thread, and the turn that runs now, if one does."""

    run_id: str
    runtime_kind: RuntimeKind
    thread_id: str
    active_turn_id: str | None = None


class TurnLifecycle(Frozen):
    turn_id: str
    thread_id: str
    status: LifecycleStatus
    started_at: dt.datetime
    ended_at: dt.datetime | None = None


class ItemLifecycle(Frozen):
    """type: the protocol's own word, such as agentMessage or dynamicToolCall."""

    item_id: str
    turn_id: str
    thread_id: str
    type: str
    status: LifecycleStatus
    started_at: dt.datetime
    ended_at: dt.datetime | None = None

"""Conversations, turns and items as any model runtime has them: what the desk stores does not depend on which one."""

from __future__ import annotations

import datetime as dt
from enum import StrEnum
from typing import Self

from models.research import Frozen
from models.unchecked import unchecked


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

    def during(self, turn_id: str | None) -> Self:
        """The same while this turn runs, or none does."""
        return unchecked(type(self), {**self.__dict__, "active_turn_id": turn_id})


class _Lifecycle(Frozen):
    status: LifecycleStatus
    started_at: dt.datetime
    ended_at: dt.datetime | None = None

    def ended(self, status: LifecycleStatus, at: dt.datetime) -> Self:
        """The same, ended."""
        return unchecked(type(self), {**self.__dict__, "status": status, "ended_at": at})


class TurnLifecycle(_Lifecycle):
    turn_id: str
    thread_id: str


class ItemLifecycle(_Lifecycle):
    """type: the protocol's own word, such as agentMessage or dynamicToolCall."""

    item_id: str
    turn_id: str
    thread_id: str
    type: str

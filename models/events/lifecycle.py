"""Lifecycles of conversations, turns and items, the same for every model runtime."""

from __future__ import annotations

import datetime as dt
from enum import StrEnum
from typing import Self

from chordesk.models.research import Frozen


class RuntimeKind(StrEnum):
    CODEX = "codex"
    LITELLM = "litellm"


class LifecycleStatus(StrEnum):
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


class ConversationRef(Frozen):
    """Reference to a run's conversation: runtime, thread, and the running turn if there is one."""

    run_id: str
    runtime_kind: RuntimeKind
    thread_id: str
    active_turn_id: str | None = None

    def during(self, turn_id: str | None) -> Self:
        """Return the same reference while this turn runs, or with None while no turn runs."""
        return type(self)(**{**self.__dict__, "active_turn_id": turn_id})


class _Lifecycle(Frozen):
    status: LifecycleStatus
    started_at: dt.datetime
    ended_at: dt.datetime | None = None

    def ended(self, status: LifecycleStatus, at: dt.datetime) -> Self:
        """Return the same lifecycle, ended."""
        return type(self)(**{**self.__dict__, "status": status, "ended_at": at})


class TurnLifecycle(_Lifecycle):
    """phase, tokens: of a turn that takes long, what it did when it was last looked at, and how many tokens of its
    current model call had come by then."""

    turn_id: str
    thread_id: str
    phase: str | None = None
    tokens: int = 0

    def during(self, phase: str, tokens: int) -> Self:
        """Return the same turn in this phase."""
        return type(self)(**{**self.__dict__, "phase": phase, "tokens": tokens})


class ItemLifecycle(_Lifecycle):
    """type: the protocol's name, such as agentMessage or dynamicToolCall."""

    item_id: str
    turn_id: str
    thread_id: str
    type: str

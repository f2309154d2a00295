"""States, transition tables and the sets that code asks about."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class RunKind(StrEnum):
    SCREEN = "screen"
    RESEARCH = "research"
    TRADE = "trade"


class RunState(StrEnum):
    RUNNING = "running"
    STOPPING = "stopping"  # somebody asked for its end; steps of it are still held
    DONE = "done"
    PARTIAL = "partial"
    FAILED = "failed"
    STOPPED = "stopped"


RUN_FINAL = frozenset({RunState.DONE, RunState.PARTIAL, RunState.FAILED, RunState.STOPPED})


class StepKind(StrEnum):
    """One Celery task each."""

    SCREEN = "screen"
    SCREEN_SHARD = "screen_shard"
    MERGE = "merge"
    REPORT = "report"
    CONCLUDE = "conclude"
    DECIDE = "decide"
    SUBMIT = "submit"
    FINISH = "finish"


class StepState(StrEnum):
    WAITING = "waiting"  # for children
    READY = "ready"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"  # its run was stopped before it was done


STEP_FINAL = frozenset({StepState.DONE, StepState.FAILED, StepState.STOPPED})


class Phase(StrEnum):
    """Where a candidate is; for people, derived from its steps."""

    QUICK = "quick"
    RESEARCH = "research"
    CONCLUDED = "concluded"


class OrderState(StrEnum):
    DRAFTED = "drafted"
    DENIED = "denied"
    PREVIEWED = "previewed"
    SUBMITTED = "submitted"
    FILLED = "filled"
    REJECTED = "rejected"
    EXPIRED = "expired"  # a day order that its day did not fill


ORDER_NEXT: Mapping[OrderState, frozenset[OrderState]] = {
    OrderState.DRAFTED: frozenset({OrderState.PREVIEWED, OrderState.DENIED}),
    OrderState.PREVIEWED: frozenset({OrderState.SUBMITTED, OrderState.DENIED}),
    OrderState.SUBMITTED: frozenset({OrderState.FILLED, OrderState.REJECTED, OrderState.EXPIRED}),
    OrderState.DENIED: frozenset(),
    OrderState.FILLED: frozenset(),
    OrderState.REJECTED: frozenset(),
    OrderState.EXPIRED: frozenset(),
}

ORDER_FINAL = frozenset(state for state, following in ORDER_NEXT.items() if not following)


class AttemptEnd(StrEnum):
    """How one attempt at a step ended. `lost`: its worker was not heard of again; `drained`: its worker was told to
    end and gave the step back."""

    DONE = "done"
    AGAIN = "again"
    FAILED = "failed"
    LOST = "lost"
    STOPPED = "stopped"
    DRAINED = "drained"

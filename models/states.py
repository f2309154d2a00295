"""States, transition tables and the sets that code asks about."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class RunKind(StrEnum):
    SCREEN = "screen"
    RESEARCH = "research"
    TRADE = "trade"
    FLATTEN = "flatten"  # a person closes all positions: no model, no research


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
    """An order intent from its row to its end. Up to `approved` the broker knows nothing of it."""

    DRAFTED = "drafted"
    DENIED = "denied"
    PREVIEWED = "previewed"
    APPROVAL_PENDING = "approval_pending"  # waits for a person
    APPROVED = "approved"
    SUBMITTING = "submitting"  # written before the broker hears of it
    UNKNOWN = "unknown"  # no answer to the submission; only asked about from then on
    SUBMITTED = "submitted"
    PARTIALLY_FILLED = "partially_filled"
    FILLED = "filled"
    CANCELLED = "cancelled"
    REJECTED = "rejected"
    EXPIRED = "expired"  # a day order that its day did not fill


_AT_BROKER = frozenset(
    {
        OrderState.SUBMITTED,
        OrderState.PARTIALLY_FILLED,
        OrderState.FILLED,
        OrderState.CANCELLED,
        OrderState.REJECTED,
        OrderState.EXPIRED,
        OrderState.UNKNOWN,
    }
)

ORDER_NEXT: Mapping[OrderState, frozenset[OrderState]] = {
    OrderState.DRAFTED: frozenset({OrderState.PREVIEWED, OrderState.DENIED}),
    OrderState.PREVIEWED: frozenset({OrderState.APPROVAL_PENDING, OrderState.APPROVED, OrderState.DENIED}),
    OrderState.APPROVAL_PENDING: frozenset({OrderState.APPROVED, OrderState.DENIED}),
    OrderState.APPROVED: frozenset({OrderState.SUBMITTING, OrderState.DENIED}),
    OrderState.SUBMITTING: _AT_BROKER,
    OrderState.UNKNOWN: _AT_BROKER - {OrderState.UNKNOWN},
    OrderState.SUBMITTED: _AT_BROKER - {OrderState.SUBMITTED},
    OrderState.PARTIALLY_FILLED: _AT_BROKER - {OrderState.SUBMITTED, OrderState.REJECTED},
    OrderState.DENIED: frozenset(),
    OrderState.FILLED: frozenset(),
    OrderState.CANCELLED: frozenset(),
    OrderState.REJECTED: frozenset(),
    OrderState.EXPIRED: frozenset(),
}

# Sent, and not at its end: the broker may still fill it. `partially_filled` again is no change of state.
ORDER_WORKING = frozenset(
    {OrderState.SUBMITTING, OrderState.UNKNOWN, OrderState.SUBMITTED, OrderState.PARTIALLY_FILLED}
)
# Nobody needs to ask for what comes next: a person's answer, the submission of what was approved, the broker's word. A
# preview rests until somebody does.
ORDER_OPEN = frozenset({OrderState.APPROVAL_PENDING, OrderState.APPROVED}) | ORDER_WORKING
ORDER_FINAL = frozenset(state for state, following in ORDER_NEXT.items() if not following)


class ApprovalState(StrEnum):
    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"


class TradingState(StrEnum):
    """What an account may do. Cancels always pass."""

    ACTIVE = "active"
    REDUCING = "reducing"  # only orders that give exposure back
    HALTED = "halted"


class AttemptEnd(StrEnum):
    """How one attempt at a step ended. `lost`: its worker was not heard of again; `drained`: its worker was told to
    end and gave the step back."""

    DONE = "done"
    AGAIN = "again"
    FAILED = "failed"
    LOST = "lost"
    STOPPED = "stopped"
    DRAINED = "drained"

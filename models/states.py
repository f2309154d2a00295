"""States of runs, steps, orders and approvals, their transitions, the sets that code uses, and the run modes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal, get_args

RunMode = Literal["screener", "research", "trader"]
Mode = RunMode | Literal["other"]  # other: of a role that is not the desk's own
MODES: tuple[RunMode, ...] = get_args(RunMode)


class RunKind(StrEnum):
    """The desk's own kinds of runs. The column is an open set: a workflow declares its kind, and may bring another."""

    SCREEN = "screen"
    RESEARCH = "research"
    TRADE = "trade"
    ANALYZE = "analyze"
    EPISODE = "episode"
    BACKTEST = "backtest"
    GRAPH = "graph"
    CLOSE = "close"  # a person closes one position, through the same checks as a trader's order
    FLATTEN = "flatten"  # a person closes all positions: no model, no research
    PROTECT = "protect"  # the desk protects a position that no order of its own opened


class RunState(StrEnum):
    RUNNING = "running"
    STOPPING = "stopping"  # a stop was requested; steps of it are still held
    DONE = "done"
    PARTIAL = "partial"
    FAILED = "failed"
    STOPPED = "stopped"


RUN_FINAL = frozenset({RunState.DONE, RunState.PARTIAL, RunState.FAILED, RunState.STOPPED})
RUN_LIVE = frozenset(RunState) - RUN_FINAL  # what queries name: an index finds these few among all


class StepKind(StrEnum):
    """The desk's own kinds of steps, one Celery task each. An open set, as RunKind is."""

    SCREEN = "screen"
    SCREEN_SHARD = "screen_shard"
    MERGE = "merge"
    REPORT = "report"
    CONCLUDE = "conclude"
    SYNTHESIZE = "synthesize"
    DESCRIBE = "describe"
    PROPOSE = "propose"
    BRIEF = "brief"
    HARVEST = "harvest"
    BOARD = "board"
    VOICE = "voice"
    ROUND = "round"
    TALLY = "tally"
    DECIDE = "decide"
    SUBMIT = "submit"
    BACKTEST = "backtest"
    BACKTEST_TRADE = "backtest_trade"
    BACKTEST_SESSION = "backtest_session"
    BACKTEST_RESULT = "backtest_result"
    GRAPH = "graph"
    FINISH = "finish"


class StepState(StrEnum):
    WAITING = "waiting"  # for children
    READY = "ready"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"  # its run was stopped before it was done


REUSED = "reused"  # the status of a report step whose role's earlier report counts again
STEP_FINAL = frozenset({StepState.DONE, StepState.FAILED, StepState.STOPPED})


class DocumentState(StrEnum):
    """Of the written report of a run."""

    DUE = "due"
    WRITTEN = "written"
    FAILED = "failed"  # given up


class Phase(StrEnum):
    """The unfinished work on a candidate, derived from its steps; for people."""

    QUICK = "quick"
    RESEARCH = "research"


class OrderState(StrEnum):
    """The states of an order, from its row to its end. Up to `approved` the broker does not know it."""

    DRAFTED = "drafted"
    DENIED = "denied"
    PREVIEWED = "previewed"
    APPROVAL_PENDING = "approval_pending"  # waits for a person
    APPROVED = "approved"
    SUBMITTING = "submitting"  # written before the request to the broker
    UNKNOWN = "unknown"  # no answer to the submission; only queried from then on
    SUBMITTED = "submitted"
    PARTIALLY_FILLED = "partially_filled"
    FILLED = "filled"
    CANCELLED = "cancelled"
    REJECTED = "rejected"
    EXPIRED = "expired"  # a day order that was not filled on its day


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

# Sent and not final: the broker may still fill it. `partially_filled` again is not a change of state.
ORDER_WORKING = frozenset(
    {OrderState.SUBMITTING, OrderState.UNKNOWN, OrderState.SUBMITTED, OrderState.PARTIALLY_FILLED}
)
# Their next step comes without a request: a person's answer, the submission, the broker's report. A preview waits for
# a request.
ORDER_OPEN = frozenset({OrderState.APPROVAL_PENDING, OrderState.APPROVED}) | ORDER_WORKING
ORDER_FINAL = frozenset(state for state, following in ORDER_NEXT.items() if not following)


class ApprovalState(StrEnum):
    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"


class TradingState(StrEnum):
    """The permission to trade on an account. Cancels are always allowed."""

    ACTIVE = "active"
    REDUCING = "reducing"  # only orders that give exposure back
    HALTED = "halted"


class AttemptEnd(StrEnum):
    """The outcome of one attempt at a step. `lost`: its worker stopped renewing the lease; `drained`: its worker was
    shutting down and gave the step back."""

    DONE = "done"
    AGAIN = "again"
    FAILED = "failed"
    LOST = "lost"
    STOPPED = "stopped"
    DRAINED = "drained"

"""A step's turn: runs a role on the worker's loop, cancelled when the step's lease or time is gone."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Mapping
from typing import Any

from agents.roles import ROLES
from agents.runner import Assignment, RoleRun
from models.errors import LeaseLost
from models.research import Completed, Failed, Interrupted, Refused, ReportStatus
from models.tables import Turn
from tasks.bootstrap import Desk
from tasks.graph import Claimed
from tasks.labels import require_speaker
from tasks.leases import Held
from tasks.work import Again, backoff

# The provider asked for a pause; a second would only be refused again.
_LONG_PAUSE_KINDS = frozenset({"rate_limited", "overloaded"})
_LONG_PAUSE_SECONDS = 10.0


def run_role(desk: Desk, step: Claimed, held: Held, role: str, subject: str, brief: Mapping[str, Any]) -> RoleRun:
    """One role's turn. Raises LeaseLost when another worker has the step, UsageError when this worker is not what the
    run is labelled with."""
    require_speaker(desk, step.run_id)
    job = Assignment(step.run_id, step.id, step.attempt, ROLES[role], subject, brief)
    future = desk.loop.submit(desk.runner.run(job))
    held.on_end(future.cancel)
    try:
        return future.result()
    except concurrent.futures.CancelledError:
        if held.ended != "deadline":
            raise LeaseLost(f"step {step.id}: {held.ended or 'cancelled'}") from None
        seconds = desk.settings.step_deadline_seconds
        message = f"the step did not end within {seconds:g} s (DESK_STEP_DEADLINE_SECONDS)"
        return RoleRun(Failed(kind="deadline", retryable=True, message=message))


def retry_of(step: Claimed, run: RoleRun) -> Again | None:
    """Another attempt, when the failure is one that may pass and attempts are left."""
    outcome = run.outcome
    if isinstance(outcome, Interrupted):
        outcome = Failed(kind="interrupted", retryable=True, message="the turn was interrupted")
    if not isinstance(outcome, Failed) or not outcome.retryable or step.attempt >= step.max_attempts:
        return None
    base = _LONG_PAUSE_SECONDS if outcome.kind in _LONG_PAUSE_KINDS else 1.0
    return Again(backoff(step.attempt, base), f"{outcome.kind}: {outcome.message}", (run.turns, run.calls))


def status_of(run: RoleRun) -> tuple[ReportStatus, str | None]:
    """The status of what a role said, and why it is not `completed`. Set by code, whatever the model wrote: words
    that rest on no data are `no_data`."""
    outcome = run.outcome
    if isinstance(outcome, Refused):
        return ReportStatus.REFUSED, outcome.text
    if isinstance(outcome, Failed):
        return ReportStatus.FAILED, f"{outcome.kind}: {outcome.message}"
    if isinstance(outcome, Interrupted):
        return ReportStatus.FAILED, "interrupted"
    if not run.has_data:
        return ReportStatus.NO_DATA, _no_data_reason(run)
    return ReportStatus.COMPLETED, None


def _no_data_reason(run: RoleRun) -> str:
    if not run.calls:
        return "no data tool was called"
    return "no data from " + ", ".join(dict.fromkeys(call.tool for call in run.calls))


def value_of(run: RoleRun) -> dict[str, Any]:
    return run.outcome.value if isinstance(run.outcome, Completed) else {}


def last_turn(run: RoleRun) -> Turn | None:
    return run.turns[-1] if run.turns else None

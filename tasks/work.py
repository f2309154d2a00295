"""How a task does its step: claim it, hold the lease, do the work, write the end and its rows in one transaction,
then send what became ready. Nothing raises: a header task of a chord that raised would end the chord."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog
from celery import Celery
from celery.exceptions import Reject
from sqlmodel import Session, SQLModel

from agents.researchers import FIRST_ROLE, RESEARCH_ROLES
from models import event_log
from models.errors import DeskError, LeaseLost, Postponed
from models.events import Envelope
from models.states import AttemptEnd, RunState, StepState
from models.store import insert_rows
from tasks import graph, policy, step_events
from tasks.bootstrap import Desk, desk_of
from tasks.dispatch import send
from tasks.graph import Claimed, NewStep, Ready
from tasks.leases import End, Halted, Held
from tasks.persistence import transact

log = structlog.get_logger(__name__)

# A step that could not be claimed is nobody's: the sweep sends it again.
CLAIM_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Closing:
    """How the run ends with this step."""

    state: RunState
    summary: dict[str, Any]
    notes: Sequence[str]


@dataclass(frozen=True, slots=True)
class Done:
    """The step's end. Rows are written in the order given, each group before the next (foreign keys); then `also` may
    write in the same transaction, and is called again when that is begun again."""

    result: dict[str, Any] = field(default_factory=dict)
    rows: Sequence[Sequence[SQLModel]] = ()
    children: Sequence[NewStep] = ()
    state: StepState = StepState.DONE
    error: str | None = None
    closing: Closing | None = None
    also: Callable[[Session], None] | None = None


@dataclass(frozen=True, slots=True)
class Again:
    """Try the step once more after a delay; the rows of this attempt are kept. A drained one may go at once.
    counts: whether the attempt is used up."""

    delay_seconds: float
    reason: str
    rows: Sequence[Sequence[SQLModel]] = ()
    outcome: AttemptEnd = AttemptEnd.AGAIN
    counts: bool = True


Ending = Done | Again
Handler = Callable[[Desk, Claimed, Held], Ending]


def work(app: Celery, step_id: str, handler: Handler) -> str:
    """Do a step if it is there to be done; its id comes back whatever happened. Raises Reject, which puts the message
    back on its queue, when this worker is ending."""
    desk = desk_of(app)
    if desk.drain.asked:
        raise Reject("this worker is ending", requeue=True)
    try:
        step = transact(desk.store, lambda session: _claim(desk, session, step_id), CLAIM_SECONDS)
        if step is None:
            return step_id
        with structlog.contextvars.bound_contextvars(run=step.run_id, step=step_id, kind=step.kind, role=step.role):
            _hold(desk, app, step, handler)
    except LeaseLost as error:
        log.warning("step.lease_lost", step=step_id, error=str(error))
    except Exception:
        # The lease runs out by itself and the sweep takes the step up again.
        log.exception("step.broke", step=step_id)
    return step_id


def _claim(desk: Desk, session: Session, step_id: str) -> Claimed | None:
    return graph.claim(session, step_id, desk.owner, desk.settings.lease_seconds)


def _hold(desk: Desk, app: Celery, step: Claimed, handler: Handler) -> None:
    # Not in the transaction of the claim: that is one statement, and an event would make it three.
    desk.recorder.events([step_events.started(step, step.owner)])
    with desk.telemetry.step(step) as ended:
        with desk.leases.hold(step) as held:
            ending = _attempt(desk, step, held, handler)
            ready = settle(desk, step, ending)
        ended(*_how(ending))
        send(app, ready, chord_sends_conclude=_in_chord(step))


def _how(ending: Ending) -> tuple[str, str | None]:
    """How an attempt ended, and why it did not end well."""
    return (ending.state, ending.error) if isinstance(ending, Done) else (ending.outcome, ending.reason)


def _in_chord(step: Claimed) -> bool:
    """Whether a chord sends the conclusion that this report leaves ready. The quick report is in none, nor is one that
    runs alone, and the chord of a report tried again has counted its first attempt."""
    together = step.payload.get("roles", RESEARCH_ROLES)
    return step.role != FIRST_ROLE and step.attempt == 1 and len(set(together) - {FIRST_ROLE}) > 1


def _attempt(desk: Desk, step: Claimed, held: Held, handler: Handler) -> Ending:
    try:
        return handler(desk, step, held)
    except LeaseLost:
        raise
    except Halted as halted:
        return _halted(halted)
    except Exception as error:
        if held.halted:
            return _halted(Halted(held.ended or End.STOPPED))
        if isinstance(error, Postponed):
            return Again(error.seconds, policy.waiting(step.error, str(error)), counts=False)
        if not isinstance(error, DeskError):
            log.exception("step.failed")
        kind = policy.kind_of_exception(error)
        reason = policy.reason(kind, str(error) if isinstance(error, DeskError) else f"{type(error).__name__}: {error}")
        wait = policy.next_attempt(kind, *attempts_of(desk, step))
        if wait is None:
            return Done(state=StepState.FAILED, error=reason)
        return Again(wait.seconds, reason, counts=wait.counts)


def attempts_of(desk: Desk, step: Claimed) -> tuple[int, int]:
    """How many attempts are used up, with this one, and how many are left. Attempts that did not count raised the
    number that the step may have."""
    left = step.max_attempts - step.attempt
    return max(desk.settings.step_attempts - left, 1), left


def _halted(halted: Halted) -> Ending:
    """A stopped step has ended; a drained one is another worker's to do."""
    if halted.end is End.DRAINED:
        why = policy.reason("drained", "its worker was ended")
        return Again(0.0, why, halted.rows, AttemptEnd.DRAINED, counts=False)
    return Done(state=StepState.STOPPED, error="the run was stopped", rows=halted.rows)


def settle(desk: Desk, step: Claimed, ending: Ending) -> list[Ready]:
    """Write a step's end, with its rows, in one transaction fenced with its owner; tried for as long as the step may
    take, for a turn was paid for."""
    attempts, patience = desk.settings.step_attempts, desk.settings.step_deadline_seconds
    with desk.recorder.taken(step.id) as events:
        return transact(desk.store, lambda session: _write(session, step, ending, attempts, events), patience)


def _write(session: Session, step: Claimed, ending: Ending, attempts: int, events: Sequence[Envelope]) -> list[Ready]:
    event_log.append(session, events)  # of its turns: before its end
    # The fence comes first: a second try after a commit whose answer was lost must find it, not its own rows.
    if isinstance(ending, Again):
        drained = ending.outcome is AttemptEnd.DRAINED
        graph.give_back(
            session,
            step,
            ending.delay_seconds,
            ending.reason,
            outcome=ending.outcome,
            counts=ending.counts,
            sent=drained,
        )
        ready = [graph.ready_of(step)] if drained else []
    else:
        ready = graph.finish(
            session,
            step,
            ending.state,
            result=ending.result,
            error=ending.error,
            children=ending.children,
            attempts=attempts,
        )
    for group in ending.rows:
        insert_rows(session, group)
    if isinstance(ending, Done) and ending.also is not None:
        ending.also(session)
    if isinstance(ending, Done) and ending.closing is not None:
        end = ending.closing
        graph.close_run(session, step.run_id, end.state, end.summary, end.notes)
    return ready

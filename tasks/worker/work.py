"""The work on one step: claim it, hold the lease, call the handler, write the end and its rows in one transaction, then
send the steps that became ready.

Nothing raises: a header task of a chord that raised would end the chord.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import cast

import structlog
from celery import Task
from celery.exceptions import Reject
from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import Session

from chordesk.agents.runtime import Scope
from chordesk.models import event_log, features, home
from chordesk.models.database.store import insert_rows, transact
from chordesk.models.descriptions import is_ours
from chordesk.models.errors import DeskError, LeaseLost, Postponed, SettingError
from chordesk.models.events import Envelope, stored
from chordesk.models.states import AttemptEnd, StepKind
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Artifact, Run, ToolCall
from chordesk.models.text import SHORT_ID
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine import evidence, graph, kinds, policy, step_queries
from chordesk.tasks.engine.kinds import StepSpec, task_name
from chordesk.tasks.engine.leases import EndReason, HeldStep, StepEnded
from chordesk.tasks.engine.steps import ClaimedStep, ReadyStep, started_event
from chordesk.tasks.worker.dispatch import send, send_to
from chordesk.tasks.worker.endings import (
    Done,
    Ending,
    Handler,
    RetryLater,
    TryAgain,
    attempts_of,
    postponed,
    retry_when_enough,
)
from chordesk.tasks.worker.messages import PASS_PREFIX, DeskApp, cancel_on_workers
from chordesk.tasks.worker.step_turns import StepTurns

log = structlog.get_logger(__name__)

# A step that could not be claimed is sent again by the sweep.
CLAIM_SECONDS = 15.0


def add_step_tasks(app: DeskApp) -> None:
    for spec in kinds.steps():
        _add_task(app, spec)


def add_pass_tasks(app: DeskApp) -> None:
    for name, (feature, one) in features.passes().items():
        _add_pass(app, name, feature, one)


def _add_pass(app: DeskApp, name: str, feature: features.Feature, one: features.Pass) -> None:
    def run(self: Task) -> dict[str, int]:
        if self.app.desk.drain.requested:
            return {}
        try:
            do = features.loaded(feature, one.do, Callable)
            found: dict[str, int] = features.call(feature, do, self.app)
            return found
        except (DeskError, SQLAlchemyError) as error:
            log.warning("pass.put_off", name=name, error=str(error))  # the next one does the same
            return {}

    app.task(run, name=f"{PASS_PREFIX}{name}", bind=True, shared=False)


def handle(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    """Do a step by its own kind: the body of a chord is sent by one kind, and may be of another."""
    spec = kinds.find_step(step.kind)
    assert spec is not None, "a step of an unknown kind is not claimed"
    return cast(Ending, spec.handler(desk, step, held))


def _add_task(app: DeskApp, spec: StepSpec) -> None:
    def run(self: Task, step_id: str | None = None, schedule: str = "") -> str | None:
        if step_id is None:
            return features.built(partial(spec.opens, self.app, schedule)) if spec.opens else None
        done = work(self.app, step_id, handle, in_chord=bool(self.request.chord))
        if spec.released is not None:
            features.built(partial(spec.released, self.app.desk))
        return done

    app.task(run, name=task_name(spec.kind), bind=True, shared=False)


def work(app: DeskApp, step_id: str, handler: Handler, *, in_chord: bool = False) -> str:
    """Return the step's id in any case. Raises Reject when this worker is ending. in_chord: of a chord's header."""
    desk = app.desk
    if not desk.shortages.wait():
        raise Reject("this worker is ending", requeue=True)
    try:
        seconds = desk.settings.lease_seconds
        step = transact(desk.store, lambda one: graph.claim(one, step_id, desk.owner, seconds), CLAIM_SECONDS)
        if step is None:
            return step_id
        with structlog.contextvars.bound_contextvars(run=step.run_id, step=step_id, kind=step.kind, role=step.role):
            if (why := _lack(desk, step)) is not None:
                _put_off(desk, step, policy.waiting(step.error, why))
                return step_id
            _run_held(desk, app, step, handler, in_chord=in_chord)
    except LeaseLost as error:
        log.warning("step.lease_lost", step=step_id, error=str(error))
    except Exception:
        # The lease runs out by itself and the sweep takes the step up again.
        log.exception("step.broke", step=step_id)
    return step_id


def take_up(app: DeskApp, node: str) -> None:
    """Have this worker do the steps that others could not, and that it can. node: its name on the broker."""
    own = kinds.kinds_of(lambda spec: spec.queue in app.amqp.queues.consume_from)
    with app.desk.store.read() as session:
        found = step_queries.find(session, own)
    if able := [step for step in found if _lack(app.desk, step) is None]:
        with app.desk.store.session() as session:
            taken = step_queries.take_up(session, able)
        send_to(app, taken, node)


def _lack(desk: Desk, step: ReadyStep) -> str | None:
    """For which worker a step waits that this process cannot do, by its market, models or features; None when it can.
    It is given back as if it had not been claimed: nothing fails for a setting alone."""
    spec = kinds.find_step(step.kind)
    if spec is None or step.kind == StepKind.FINISH:
        return None  # the end of a run needs neither
    if (unready := features.unready().get(kinds.feature_of(step.kind) or "")) is not None:
        return f"{policy.A_WORKER}the tables of the feature {unready.name}: {unready.why}; {unready.remedy}"
    found = _market_lack(desk, step.run_id) or (_models_lack(desk, step.run_id) if spec.turn else None)
    if found is None and spec.turn:
        found = features.unwrapped(desk.settings_of(step.run_id))
    if found is None and spec.lacks is not None:
        try:
            found = features.built(partial(spec.lacks, desk, step))
        except SettingError as error:
            found = str(error.args[0])
    return f"{policy.A_WORKER}{found}" if found is not None else None


def _market_lack(desk: Desk, run_id: str) -> str | None:
    try:
        desk.market_of(run_id)
    except DeskError as error:
        with desk.store.read() as session:
            return f"the market {session.get_one(Run, run_id).market}: {error.args[0]}"
    return None


def _models_lack(desk: Desk, run_id: str) -> str | None:
    try:
        desk.serving(run_id)
    except DeskError as error:
        return f"{error.args[0]}; start one or `desk runs adopt {run_id[:SHORT_ID]} --model ...`"
    return None


def _put_off(desk: Desk, step: ClaimedStep, reason: str) -> None:
    seconds = step_queries.PUT_OFF_SECONDS
    transact(desk.store, lambda one: graph.put_off(one, step, seconds, reason), CLAIM_SECONDS)
    if reason != step.error:
        log.info("step.put_off", reason=reason)


def _run_held(desk: Desk, app: DeskApp, step: ClaimedStep, handler: Handler, *, in_chord: bool) -> None:
    # Not in the transaction of the claim: that is one statement, and an event would make it three.
    desk.recorder.record(Scope(step.run_id, step.id), [started_event(step)])
    with desk.telemetry.step(step) as ended:
        with desk.leases.hold(step) as held:
            if (spec := kinds.find_step(step.kind)) is not None and spec.turn:
                held.turns = StepTurns(desk, step, held)
            ending = _attempt(desk, step, held, handler)
            ready = _settled(desk, step, ending)
        ended(*_outcome(ending))
        if isinstance(ending, Done) and ending.cancels is not None and app.plays is None:
            cancel_on_workers(app, str(step.parent_id), ending.cancels)
        # A chord sends its body itself; that of a step tried again has counted the first attempt already.
        left_to_chord = step.parent_id if in_chord and step.attempt == 1 else None
        send(app, [one for one in ready if one.id != left_to_chord])


def _outcome(ending: Ending) -> tuple[str, str | None]:
    return (ending.state, ending.error) if isinstance(ending, Done) else (ending.outcome, ending.reason)


def _attempt(desk: Desk, step: ClaimedStep, held: HeldStep, handler: Handler) -> Ending:
    try:
        if step.attempt > 1 and (why := _needless(desk, step)) is not None:
            return Done(error=why, stopped=True)
        with home.patient(lambda: held.ended is not None or desk.drain.requested):
            return handler(desk, step, held)
    except LeaseLost:
        raise
    except StepEnded as ended:
        return _interrupted(ended, held.why)
    except TryAgain as again:
        return again.later
    except (Exception, SystemExit) as error:
        if isinstance(error, SystemExit) and is_ours(error):
            raise
        if held.interrupted:
            return _interrupted(StepEnded(held.ended or EndReason.STOPPED), held.why)
        if isinstance(error, Postponed):
            return postponed(step, error)
        if (why := desk.shortages.why_failed()) is not None:
            return retry_when_enough(f"{type(error).__name__}: {error}", why)
        if not isinstance(error, DeskError):
            log.exception("step.failed")
        kind = policy.kind_of_exception(error)
        reason = policy.reason(kind, str(error) if isinstance(error, DeskError) else features.said_of(error))
        wait = policy.next_attempt(kind, *attempts_of(step))
        if wait is None:
            return Done(error=reason)
        return RetryLater(wait.seconds, reason, counts=wait.counts)


def _needless(desk: Desk, step: ClaimedStep) -> str | None:
    """Return why a step that was given back need not be done; it ends with the others when it was waiting then."""
    if step.parent_id is None:
        return None
    with desk.store.read() as session:
        return graph.cancelled(session, [step.parent_id]).get(step.parent_id)


def _interrupted(ended: StepEnded, why: str) -> Ending:
    """A stopped or cancelled step has ended, a drained one is for another worker. why: of a cancelled one."""
    if ended.end is EndReason.DRAINED:
        reason = policy.reason("drained", "its worker was ended")
        return RetryLater(0.0, reason, ended.rows, AttemptEnd.DRAINED, counts=False)
    return Done(error=why or "the run was stopped", stopped=True, rows=ended.rows)


def _settled(desk: Desk, step: ClaimedStep, ending: Ending) -> list[ReadyStep]:
    """An end that cannot be written uses an attempt up: as a lost worker it would use none."""
    try:
        return settle(desk, step, ending)
    except LeaseLost:
        raise
    except Exception as error:
        reason = policy.reason("crashed", f"its end was not written: {type(error).__name__}: {error}")
        again = RetryLater(policy.jittered(policy.retry("crashed").delay), reason)
        with suppress(Exception):
            settle(desk, step, again)
        raise


def settle(desk: Desk, step: ClaimedStep, ending: Ending) -> list[ReadyStep]:
    """In one transaction fenced with the owner; tried for as long as the step may take, for a turn was paid for."""
    attempts, seconds = policy.STEP_ATTEMPTS, desk.settings.step_deadline_seconds
    with desk.recorder.taken(step.id) as events:
        ready = transact(desk.store, lambda session: _write(session, step, ending, attempts, events), seconds)
    if any(isinstance(row, Artifact) for rows in ending.rows for row in rows):
        from chordesk.tasks.retention import old_files  # workers alone need it, and other processes load this module

        old_files.prune_hourly(desk.store, desk.settings, utcnow())  # of this worker's own data folder
    return ready


def _write(
    session: Session, step: ClaimedStep, ending: Ending, attempts: int, events: Sequence[Envelope]
) -> list[ReadyStep]:
    rogue = [row.id for rows in ending.rows for row in rows if isinstance(row, ToolCall) and row.rogue is not None]
    witnessed = evidence.known(session, rogue)
    event_log.append(session, [*events, *stored(ending.rows, witnessed)])  # of its turns: before its end
    # The fence comes first: a second try after a commit with a lost answer must find it, not its own rows.
    if isinstance(ending, RetryLater):
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
        ready: list[ReadyStep] = [step] if drained else []
    else:
        ready = graph.finish(
            session,
            step,
            ending.state,
            result=ending.result,
            error=ending.error,
            children=ending.children,
            runs=ending.runs,
            attempts=attempts,
            cancels=ending.cancels,
        )
    for rows in ending.rows:
        insert_rows(session, rows, over=bool(rogue))
    if ending.also is not None and isinstance(found := ending.also(session), graph.RunClosed):
        ready = [*ready, *found.ready]
    return ready

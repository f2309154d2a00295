"""A step's turns: what their subjects get from the market, how they run, and what follows when one fails."""

from __future__ import annotations

import concurrent.futures
import datetime as dt
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import bindparam
from sqlmodel import Session, SQLModel, select

from chordesk.agents.desk_roles import role_of
from chordesk.agents.providers.provider_limits import is_of_plan
from chordesk.agents.role_models import APP_SERVERS, RoleModel, keeps, role_models, substitute_of
from chordesk.agents.runner import Assignment, InterruptSignal, RoleRun
from chordesk.models import notices
from chordesk.models.analysis import Depth
from chordesk.models.answers import Failed, Failure, Interrupted, Skipped
from chordesk.models.errors import LeaseLost, Postponed
from chordesk.models.events import DESK
from chordesk.models.notice_channels import NoticeKind
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Run, Turn
from chordesk.models.tables.runtime import Notice
from chordesk.models.text import utc
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine import budgets, limit_waits, policy
from chordesk.tasks.engine.leases import EndReason, HeldStep, StepEnded
from chordesk.tasks.engine.limits import LONG_SECONDS, PARK_SECONDS, PLAN_PARK_SECONDS, limit_text
from chordesk.tasks.engine.steps import ClaimedStep
from chordesk.tasks.worker.endings import RetryLater, TryAgain, attempts_of, retry_when_enough
from chordesk.tools.scoring.market_regime import NO_RATES, base_rates, rate_row, regime_row
from chordesk.tools.toolsets import Given


def with_market(desk: Desk, run_id: str, brief: Mapping[str, Any]) -> dict[str, Any]:
    """Return a subject with the regime after its constraints, and at its end the base rates of its candidate. Nobody
    else is asked for a probability that begins at one: a screener states none, a verdict has the one that its theses
    were pooled from, a voice's board has its own."""
    if "regime" in brief:
        return dict(brief)  # it was added before, where an earlier report was held against it
    shared = {"constraints": brief["constraints"], "regime": kept_regime(desk, run_id)}
    if "symbol" not in brief:
        return {**shared, **brief}
    rates = base_rates(desk.tool_context(run_id), [brief["symbol"]])
    rows = [{"symbol": symbol, **rate_row(rate)} for symbol, found in rates.items() for rate in found]
    return {**shared, **brief, "baseRates": rows or [{"missing": NO_RATES}]}


_REGIME = select(Run.regime).where(Run.id == bindparam("run"))  # the row is large


def kept_regime(desk: Desk, run_id: str) -> dict[str, Any]:
    """Return the regime of a run's market on its day: the first turn of a day keeps it with the run."""
    context = desk.tool_context(run_id)
    today = context.clock.session().isoformat()
    with desk.store.read() as session:
        found = session.exec(_REGIME, params={"run": run_id}).one()
    kept = dict(found or {})
    if kept.get("date") != today:
        kept = {"date": today, **regime_row(context)}
        with desk.store.session() as session:
            session.get_one(Run, run_id).regime = kept
    return kept


PARK_ANSWER_SECONDS = 10.0
MOST_SECONDS = 400 * 86_400.0  # of a limit's time that is told
PARKED_NOTICE_SECONDS = 600  # a model that is parked again within this is no news


class StepTurns:
    """The turns of one step that this worker holds: each runs on the worker's loop, and is cancelled when the step's
    lease or time is gone. As `engine.leases.Turns`."""

    def __init__(self, desk: Desk, step: ClaimedStep, held: HeldStep) -> None:
        self._desk, self._step, self._held = desk, step, held

    def run(
        self,
        role: str,
        subject: str,
        brief: Mapping[str, Any],
        *,
        memory: Callable[[Session], str | None] | None = None,
        budgeted: bool = True,
        model: RoleModel | None = None,
        depth: Depth | None = None,
        given: Sequence[Given] = (),
    ) -> RoleRun:
        """given: answers that its tools gave a moment ago. Raises LeaseLost when another worker has the step,
        UsageError for models that this worker cannot have, StepEnded when the turn was interrupted and has ended,
        Postponed when it may not start yet, TryAgain when the policy has another attempt for its failure."""
        desk, step = self._desk, self._step
        with desk.store.read() as session:
            spent = budgets.used_up(session, desk.settings_of(step.run_id), step.run_id) if budgeted else None
            remembered = memory(session) if memory is not None and spent is None else None
        if spent is not None:
            note_once(desk, budgets.notice_of(spent, step.run_id))
            return self.skipped(role, subject, Skipped(reason=spent.reason))
        opening, asked = policy.opening(step.error), role_of(role, desk.settings_of(step.run_id))
        if asked.of_market:
            brief = with_market(desk, step.run_id, brief)
        found = self._outcome(
            Assignment(
                *(step.run_id, step.id, step.attempt, asked, subject, brief, opening, remembered),
                model=model,
                depth=depth,
                given=given,
            )
        )
        desk.telemetry.record_turns(step, role, subject, found)
        if self._held.interrupted and isinstance(found.outcome, Interrupted | Failed):
            raise StepEnded(self._held.ended or EndReason.STOPPED, *found.rows)
        if (later := self._retry(found)) is not None:
            raise TryAgain(later)
        return found

    def skipped(self, role: str, subject: str, outcome: Skipped) -> RoleRun:
        desk, step, now = self._desk, self._step, utcnow()
        settings = desk.settings_of(step.run_id)
        model = role_models(settings)[role]
        turn = Turn(
            run_id=step.run_id,
            step_id=step.id,
            attempt=step.attempt,
            ordinal=0,
            role=role,
            subject=subject,
            kept=keeps(role_of(role, settings), settings) and model.runtime in APP_SERVERS,
            provider=model.provider(desk.settings),
            model=model.label(desk.settings),
            status="skipped",
            outcome="skipped",
            started_at=now,
            finished_at=now,
        )
        return RoleRun(outcome, [turn])

    def _outcome(self, job: Assignment) -> RoleRun:
        desk, held, halt = self._desk, self._held, InterruptSignal()
        future = desk.loop.submit(desk.serving(job.run_id).runner.run(job, halt))

        def end() -> None:
            # A halted turn is waited for until it has ended; one past its time, or another's, is left to itself.
            if held.interrupted:
                desk.loop.loop.call_soon_threadsafe(halt.ask)
            else:
                future.cancel()

        held.on_end(end)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            return self._cancelled()
        except Postponed as error:
            why = why_not_wait(desk, self._step, error.until, str(error))
            if why is None:
                raise
            return RoleRun(Failed(kind=limit_waits.KIND, retryable=False, message=why))

    def _cancelled(self) -> RoleRun:
        """The failure of a turn at the step's deadline. Raises StepEnded or LeaseLost for any other cause."""
        held = self._held
        if held.interrupted:
            raise StepEnded(held.ended or EndReason.STOPPED) from None
        if held.ended != EndReason.DEADLINE:
            raise LeaseLost(f"step {self._step.id}: {held.ended or 'cancelled'}") from None
        seconds = self._desk.settings.step_deadline_seconds
        message = f"the step did not end within {seconds:g} s (DESK_STEP_DEADLINE_SECONDS)"
        return RoleRun(Failed(kind="deadline", retryable=True, message=message))

    def _retry(self, run: RoleRun) -> RetryLater | None:
        """Return another attempt, when the policy has one for the failure and attempts are left."""
        desk, step, outcome = self._desk, self._step, run.outcome
        if isinstance(outcome, Interrupted):
            outcome = Failed(kind="interrupted", retryable=True, message="the turn was interrupted")
        if not isinstance(outcome, Failed):
            return None
        if (why := desk.shortages.why_failed()) is not None:
            return retry_when_enough(f"{outcome.kind}: {outcome.message}", why, run.rows)
        rule = policy.retry(outcome.kind)
        if rule.how is policy.How.FRESH and not outcome.retryable:
            return None  # it was a fresh thread already
        wait = policy.next_attempt(outcome.kind, *attempts_of(step))
        if wait is None:
            return None
        reason = policy.reason(outcome.kind, outcome.message)
        if not rule.parks:
            return RetryLater(wait.seconds, reason, run.rows, counts=wait.counts)
        turn, settings = run.turns[-1], desk.settings_of(step.run_id)
        model = run.model or role_models(settings)[turn.role]
        rest = park(desk.serving(turn.run_id), model, outcome)
        own = role_models(settings)[turn.role]
        if rest.until is not None and any(substitute_of(settings, turn.role, one) for one in (own, model)):
            # The next attempt asks the other one, or waits for the one that rests for a shorter time.
            return RetryLater(policy.jittered(wait.seconds), reason, run.rows, counts=wait.counts)
        if (why := why_not_wait(desk, step, rest.until, rest.why)) is not None:
            run.outcome = Failed(kind=limit_waits.KIND, retryable=False, message=f"{why} ({outcome.message})")
            return None
        return rests(step, rest, policy.waiting(reason, rest.why), run.rows)


@dataclass(frozen=True, slots=True)
class Rest:
    """A parked model or account. why: what a step waits for; until: its end, where the wait is a long one."""

    seconds: float
    why: str
    until: dt.datetime | None


def rests(step: ClaimedStep, rest: Rest, reason: str, rows: Sequence[Sequence[SQLModel]]) -> RetryLater:
    """Return another attempt after a limit, which uses up none; a long one moves the run's deadline on."""
    also = partial(limit_waits.extend, step_id=step.id, until=rest.until) if rest.until is not None else None
    return RetryLater(rest.seconds, reason, rows, counts=False, also=also)


def why_not_wait(desk: Desk, step: ClaimedStep, until: dt.datetime | None, why: str) -> str | None:
    """Return why a step does not wait for a limit (DESK_LIMIT_WAIT_HOURS); None where it does."""
    if until is None:
        return None
    with desk.store.read() as session:
        return limit_waits.too_long(session, step.id, desk.settings_of(step.run_id), until, why)


def park(desk: Desk, model: RoleModel, outcome: Failure) -> Rest:
    """Park a model, or its account where a plan is used up, for every worker. until: also of a limit that lasts longer
    than any step waits, whose model is parked for a shorter time."""
    gate, plan = desk.admission.of(model), is_of_plan(outcome)
    parking = desk.loop.submit(gate.park(outcome.reset_seconds, outcome.message, plan=plan))
    try:
        parked = parking.result(PARK_ANSWER_SECONDS)
    except TimeoutError:
        parked = None
    seconds = parked if parked is not None else PLAN_PARK_SECONDS if plan else PARK_SECONDS
    lasts = max(seconds, min(outcome.reset_seconds or 0.0, MOST_SECONDS))
    name = gate.account if plan else model.model
    until = utcnow() + dt.timedelta(seconds=lasts)
    note_once(desk, _parked_notice(name, seconds, until))
    why = limit_text(name, gate.account)
    if plan or lasts >= LONG_SECONDS:
        return Rest(seconds + random.uniform(0.0, 1.0), why, until)
    return Rest(policy.jittered(seconds), why, None)


def note_once(desk: Desk, notice: Notice) -> None:
    with desk.store.read() as session:
        noted = notices.is_noted(session, notice.key)
    if not noted:
        with desk.store.session() as session:
            notices.note(session, notice)


def _parked_notice(model: str, seconds: float, until: dt.datetime) -> Notice:
    key = f"{NoticeKind.MODEL_PARKED}:{model}:{int(utcnow().timestamp() // PARKED_NOTICE_SECONDS)}"
    kind = NoticeKind.MODEL_PARKED.value
    return Notice(key=key, kind=kind, subject=model, facts={"seconds": seconds, "until": utc(until)}, run_id=DESK)

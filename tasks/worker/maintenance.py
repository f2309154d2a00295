"""The sweep: sends again what is due and not held, fires joins, fails exhausted steps, closes overdue runs, and
requests the passes over orders and reports.

It is driven by the database alone, so that a lost message, worker or Redis costs time and nothing else. Each worker has
a thread for it, and the one that comes first does it: nothing else has to run.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import random
import threading
import time
import uuid
from typing import Any

import redis
import structlog
from sqlmodel import Session, col, select

from chordesk.models import features
from chordesk.models.errors import RedisDown, ServiceError
from chordesk.models.event_log import append
from chordesk.models.events import DESK, EventType, event
from chordesk.models.notice_channels import NoticeKind
from chordesk.models.notices import is_noted, note
from chordesk.models.states import RunState, StepKind, StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Run, Step, Sweep
from chordesk.models.tables.runtime import Notice
from chordesk.tasks import approval_requests, life
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine import graph, leases, policy, step_queries
from chordesk.tasks.engine.leases import LeaseTrust
from chordesk.tasks.engine.shortage_watch import NOTICE_SECONDS
from chordesk.tasks.engine.summary import run_state, summarise
from chordesk.tasks.events import lifecycles
from chordesk.tasks.retention import collection as retention
from chordesk.tasks.worker import control, messages, soundness_watch
from chordesk.tasks.worker.dispatch import send
from chordesk.tasks.worker.lost_processes import LifeWatch
from chordesk.tasks.worker.messages import DeskApp
from chordesk.tasks.worker.signing import OPTION, Signer
from chordesk.tasks.worker.work import take_up
from chordesk.tools.orders.submitting import ORDERS_SECONDS

log = structlog.get_logger(__name__)

# A sweep that takes longer may be joined by another; each of its changes is a compare-and-set, so that costs no more
# than time.
LEASE_SECONDS = 5.0
_POLL_SECONDS = 0.1
MARK_KEY = "desk:mark"
# Workers look at slightly different times. One that has steps looks later: an idle one has swept by then.
JITTER_SECONDS, BUSY_SECONDS = 0.5, 0.5
AWAY_SECONDS = 1.0
STALLED_SECONDS = 30.0
REPORTS_SECONDS = 5.0


class Sweeper:
    """The thread by which a worker sweeps when no other has lately, and takes up what others could not do. node: the
    worker's name on the broker."""

    def __init__(self, app: DeskApp, node: str) -> None:
        self._app, self._desk, self._node = app, app.desk, node
        self._looked = self._fresh = time.monotonic()
        self._signer: Signer | None = app.conf.broker_transport_options.get(OPTION)
        self._told = 0  # of the messages that it refused
        self._lives = LifeWatch(self._desk)

    def start(self) -> None:
        self._desk.watch.health.live_by(self.why_stuck)
        self._desk.watch.health.also_ready_by(self.why_late)
        threading.Thread(target=self._loop, name="sweeper", daemon=True).start()

    def why_stuck(self) -> str | None:
        """Return that the thread hangs; waiting for a database that is away does not count."""
        seconds = time.monotonic() - self._looked
        return f"its sweeper has done nothing for {seconds:.0f} s" if seconds > STALLED_SECONDS + self._most else None

    def why_late(self) -> str | None:
        seconds = time.monotonic() - self._fresh
        if seconds <= leases.NO_SWEEP_SECONDS + self._most:
            return None
        return f"no sweep has ended for {seconds:.0f} s: is the database away? see the log for sweep.failed"

    @property
    def _most(self) -> float:
        """The longest that a sweep and the pause after it take: a doubt about leases is waited out."""
        return self._desk.settings.lease_seconds + leases.SWEEP_SECONDS

    def _loop(self) -> None:
        away = False
        while not self._desk.drain.requested:
            self._looked = time.monotonic()
            try:
                if self._desk.shortages.why_not() is None:
                    take_up(self._app, self._node)
                self._tell_refused()
                self._lives.look()
                if (seconds := self._due_in()) <= 0:
                    sweep_if_due(self._app)
                    seconds = self._due_in()
                away = False
                life.waits("sweep", None)
            except Exception as error:
                text = f"{type(error).__name__}: {getattr(error, 'orig', None) or error}"
                if not away:
                    log.warning("sweep.failed", error=text)
                life.waits("sweep", f"its sweep fails: {text.splitlines()[0]}")
                away, seconds = True, AWAY_SECONDS
            held = self._desk.lease_keeper()
            busy = BUSY_SECONDS if held is not None and held.count() else 0.0
            _waited(self._desk, max(seconds, 0.0) + busy + random.uniform(0.0, JITTER_SECONDS))

    def _tell_refused(self) -> None:
        """Write how many messages were refused since the last notice, if it is some time since that."""
        if self._signer is None or (count := self._signer.refused - self._told) == 0:
            return
        kind, now, owner = NoticeKind.FORGED.value, utcnow(), self._desk.owner
        key = f"{kind}:{owner}:{int(now.timestamp() // NOTICE_SECONDS)}"
        with self._desk.store.session() as session:
            if is_noted(session, key):
                return
            facts: dict[str, Any] = {"count": count, "why": self._signer.why}
            note(session, Notice(key=key, kind=kind, subject=owner, facts=facts, run_id=DESK, occurred_at=now))
            append(session, [event(EventType.DESK_FORGED, DESK, now, process=owner, **facts)])
        self._told += count

    def _due_in(self) -> float:
        """Return the seconds until the next sweep is due, 0 or less when it is."""
        with self._desk.store.read() as session:
            row, now = session.get_one(Sweep, leases.SWEEP_ROW), utcnow()
        if row.last_at is None or row.last_at > now:
            return 0.0
        seconds = (now - row.last_at).total_seconds()
        if seconds < leases.NO_SWEEP_SECONDS:
            self._fresh = time.monotonic()
        return leases.SWEEP_SECONDS - seconds


def sweep_if_due(app: DeskApp) -> dict[str, int]:
    """Sweep if it is time, and return its counts, else an empty dict."""
    desk = app.desk
    rest = leases.SWEEP_SECONDS / 2
    with desk.store.session() as session:
        taken = leases.claim_sweep(session, desk.owner, LEASE_SECONDS, rest)
    if taken is None:
        return {}
    mark = _mark(desk)
    if lost := mark is not None and taken.redis_mark is not None and mark != taken.redis_mark:
        with desk.store.session() as session:
            steps = step_queries.mark_unsent(session)
        log.warning("sweep.redis_lost", steps=steps, threads=_restored(desk))
    found, view = _sweep(app)
    now = utcnow()
    with desk.store.session() as session:
        leases.release_sweep(session, desk.owner, found, mark or taken.redis_mark, now)
    _request_passes(app, None if lost else taken.last_at, now)
    retention.collect_if_due(desk, with_redis=mark is not None)
    if mark is not None:
        soundness_watch.check_if_due(desk)
    if view.grace_seconds and _waited(desk, view.grace_seconds):
        sweep(app)  # now, not with some later tick: in doubt a dead worker's steps have waited for long
    return found


def _restored(desk: Desk) -> int | None:
    """None if threads could not be restored. A conversation restores its own, but `desk threads list` shows what is
    there."""

    async def restore() -> int:
        async with desk.thread_records() as registry:
            return await registry.restore()

    try:
        return asyncio.run(restore())
    except ServiceError as error:
        log.warning("sweep.threads_not_restored", error=str(error))
        return None


def _request_passes(app: DeskApp, last: dt.datetime | None, now: dt.datetime) -> None:
    """Each once in its period. last: None without a sweep, or when Redis has lost its messages since."""
    if _has_begun(last, now, ORDERS_SECONDS):
        messages.request_pass(app, messages.ORDER_PASS)
    if app.desk.settings.report_url is not None and _has_begun(last, now, REPORTS_SECONDS):
        messages.request_pass(app, messages.REPORTS_PASS)
    for name, (_, one) in features.passes().items():
        if _has_begun(last, now, one.seconds):
            messages.request_pass(app, f"{messages.PASS_PREFIX}{name}")


def _has_begun(last: dt.datetime | None, now: dt.datetime, seconds: float) -> bool:
    return last is None or now.timestamp() // seconds != last.timestamp() // seconds


def _waited(desk: Desk, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until and not desk.drain.requested:
        time.sleep(_POLL_SECONDS)
    return not desk.drain.requested


def _mark(desk: Desk) -> str | None:
    try:
        return redis_mark(desk.redis_client)
    except RedisDown as error:
        log.warning("sweep.redis_away", error=str(error))
        return None


def redis_mark(client: redis.Redis) -> str:
    """Return a text that stays the same for as long as Redis has lost no message. Raises RedisDown. It is a key that a
    flushed or empty server has lost, and the server's run id: one that was started again may have lost the last second
    of its append-only file."""
    try:
        client.set(MARK_KEY, uuid.uuid4().hex, nx=True)
        found = client.get(MARK_KEY)
        server = client.info("server")
    except redis.RedisError as error:
        raise RedisDown(f"Redis does not answer: {error}") from None
    text = found.decode() if isinstance(found, bytes) else str(found)
    return f"{text}:{server.get('run_id', '')}"


def sweep(app: DeskApp) -> dict[str, int]:
    """Counts of steps sent again, joins freed, runs closed. Safe to run twice at once."""
    found, _ = _sweep(app)
    return found


def _sweep(app: DeskApp) -> tuple[dict[str, int], LeaseTrust]:
    desk = app.desk
    with desk.store.session() as session:
        view = _lease_trust(desk, session)
        dead = leases.expire_dead(session)
        worn_out = step_queries.fail_exhausted(session, trusted=view.trusted)
        freed = [*worn_out, *step_queries.fire_joins(session)]
        again = step_queries.resend(session, trusted=view.trusted)
        approval_requests.expire_overdue_requests(session)
    send(app, list({step.id: step for step in [*freed, *again]}.values()))
    closed = close_overdue(desk)
    control.mark_left_behind(desk.store)  # first: what those runs had open ends with them
    closed += control.settle_all(desk.store, desk.settings, trusted=view.trusted)
    lifecycles.end_left_over_turns(desk.store, utcnow())
    found = {"sent": len(again), "freed": len(freed), "closed": closed}
    if dead:
        log.info("sweep.dead_owners", steps=dead)
    if any(found.values()):
        log.info("sweep", **found)
    return found, view


def _lease_trust(desk: Desk, session: Session) -> LeaseTrust:
    lease_seconds = desk.settings.lease_seconds
    view = leases.lease_trust(session, leases.SWEEP_SECONDS, lease_seconds)
    moved = step_queries.correct_times(session, lease_seconds, view.put_back)
    if view.grace_seconds:
        tell = log.warning if view.put_back else log.info  # nothing swept for a while, or a clock went back
        tell("sweep.doubts_leases", grace_seconds=view.grace_seconds, put_back=view.put_back, steps_moved=moved)
    return view


def close_overdue(desk: Desk) -> int:
    """Runs past their deadline, but for those that wait for a worker or whose graphs wait for a person, and runs with a
    failed finish step."""
    with desk.store.read() as session:
        late = session.exec(select(Run).where(Run.state == RunState.RUNNING, col(Run.deadline_at) < utcnow())).all()
        overdue = {
            run.id: _late(session, run)
            for run in late
            if step_queries.idle_since(session, run.id) is None
            and not approval_requests.waits_for_person(session, run.id)
        }
        unfinished = session.exec(
            select(Run.id)
            .join(Step, col(Step.run_id) == col(Run.id))
            .where(Run.state == RunState.RUNNING, Step.kind == StepKind.FINISH, Step.state == StepState.FAILED)
        ).all()
    return sum(_close(desk, run_id, RunState.PARTIAL, why) for run_id, why in overdue.items()) + sum(
        _close(desk, run_id, RunState.FAILED, "the run could not be closed") for run_id in unfinished
    )


def _late(session: Session, run: Run) -> str:
    errors = session.exec(select(Step.error).where(Step.run_id == run.id, Step.state == StepState.READY)).all()
    found = {why.partition(";")[0] for error in errors if (why := policy.waits_for(error)) is not None}
    return "the run's deadline passed" + (f" while it waited for {' and '.join(sorted(found))}" if found else "")


def _close(desk: Desk, run_id: str, state: RunState, reason: str) -> bool:
    with desk.store.session() as session:
        run = session.get_one(Run, run_id)
        # First, so that no step ends between the counting and the closing.
        graph.fail_open_steps(session, run_id, reason)
        steps = session.exec(select(Step).where(Step.run_id == run_id)).all()
        _, notes = run_state([step for step in steps if step.error != reason])
        summary = summarise(session, run, desk.settings)
        return graph.close_run(session, run_id, state, summary, [*notes, reason]) is not None

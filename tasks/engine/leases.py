"""Leases: of the steps that this worker process holds, and of the one process that sweeps; and how a process holds
them.

The keeper renews the leases of steps and ends work that takes too long, the loop runs their coroutines, the drain
gives them back when the process ends. The lease on the sweep is a row of the database, which also says whether an
expired lease means a lost worker.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import datetime as dt
import os
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import structlog
from sqlalchemy import and_, or_, update
from sqlmodel import Session, SQLModel, col, select

from chordesk.models.database.store import Store
from chordesk.models.errors import UsageError
from chordesk.models.states import StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Step, Sweep
from chordesk.tasks.engine import graph, owners
from chordesk.tasks.engine.steps import ClaimedStep

if TYPE_CHECKING:
    from chordesk.agents.role_models import RoleModel
    from chordesk.agents.runner import RoleRun
    from chordesk.models.analysis import Depth
    from chordesk.models.answers import Skipped
    from chordesk.tools.toolsets import Given

log = structlog.get_logger(__name__)

# Work that was stopped or drained keeps its lease while it ends; what does not end loses it after so long.
ENDING_SECONDS = 12.0
# After a renewal that failed the next one comes sooner, by so many parts of a lease: when the database is back, the
# sweep is too, and gives holders half a lease.
RETRY = 1 / 18
AT_ONCE = 3  # losses of a step after which it is taken up again at once, where its worker is known to be dead


class EndReason(StrEnum):
    """Reasons for which work is ended from outside."""

    DEADLINE = "deadline"
    LEASE_LOST = "lease lost"
    STOPPED = "stopped"  # its run is being stopped
    DRAINED = "drained"  # its worker is ending
    CANCELLED = "cancelled"  # another step's end made it needless


class StepEnded(Exception):
    """A turn that was stopped or drained has ended. It carries the rows of what it did until then."""

    def __init__(self, end: EndReason, *rows: Sequence[SQLModel]) -> None:
        super().__init__(end.value)
        self.end = end
        self.rows = rows


class Turns(Protocol):
    """The turns of roles that a step in work may have, as the worker runs them."""

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
        """Run one role's turn and return its outcome and rows; Skipped when a budget is used up, unless it is not
        `budgeted`. A turn that is to be tried again does not come back: the worker ends the attempt.

        memory: reads what the prompt repeats from earlier runs. model and depth: in place of the role's and the
        settings'. given: answers that its tools gave a moment ago.
        """

    def skipped(self, role: str, subject: str, outcome: Skipped) -> RoleRun:
        """Return a role's run without a turn, with a row in its place for a report to rest on."""


class NoTurns:
    """Stands in for the turns of a step whose kind declares none, so that limits and budgets count every turn."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __getattr__(self, name: str) -> Any:
        raise UsageError(f"a step of the kind {self._kind} runs no turn", remedy="give its StepSpec turn=True")


@dataclass(slots=True)
class HeldStep:
    """A step in work. `cancel` is set by the work once there is something to cancel; the reason is then in `ended`."""

    step: ClaimedStep
    deadline: float
    turns: Turns
    cancel: Callable[[], object] | None = None
    ended: EndReason | None = None
    ended_at: float = 0.0
    why: str = ""  # for a cancelled step
    lock: threading.Lock = field(default_factory=threading.Lock)

    def end(self, reason: EndReason, why: str = "") -> None:
        with self.lock:
            if self.ended is None:
                self.ended, self.ended_at, self.why = reason, time.monotonic(), why
                if self.cancel is not None:
                    self.cancel()

    @property
    def interrupted(self) -> bool:
        return self.ended in (EndReason.STOPPED, EndReason.DRAINED, EndReason.CANCELLED)

    def renewed(self, now: float) -> bool:
        return self.ended is None or (self.interrupted and now < self.ended_at + ENDING_SECONDS)

    def on_end(self, cancel: Callable[[], object]) -> None:
        """Register the callback that ends the work; called at once when the work should have ended already."""
        with self.lock:
            self.cancel = cancel
            if self.ended is not None:
                cancel()


class LeaseKeeper:
    """One thread that renews every lease of this process each third of its length; none where a lease has no length,
    because nobody else sees that its step is held."""

    def __init__(self, store: Store, owner: str, lease_seconds: float, deadline_seconds: float) -> None:
        self._store = store
        self._owner = owner
        self._lease_seconds = lease_seconds
        self._deadline_seconds = deadline_seconds
        self._held: dict[str, HeldStep] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="leases", daemon=True)
        if lease_seconds:
            self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._lease_seconds:
            self._thread.join(timeout=self._lease_seconds)

    def count(self) -> int:
        return len(self._held)

    def end_runs(self, run_ids: Iterable[str]) -> int:
        """End the work on these runs; how many steps were held for them."""
        stopped = set(run_ids)
        return self._end(EndReason.STOPPED, lambda step: "" if step.run_id in stopped else None)

    def end_children(self, reasons: Mapping[str, str]) -> int:
        """End the work on steps that are needless by now, and return how many were held. reasons: by their parent."""
        return self._end(EndReason.CANCELLED, lambda step: reasons.get(step.parent_id or ""))

    def end_all(self) -> int:
        """End all work, because this process is to end; how many steps were held."""
        return self._end(EndReason.DRAINED, lambda step: "")

    def _end(self, reason: EndReason, why: Callable[[ClaimedStep], str | None]) -> int:
        """why: the reason of each step, None for a step that goes on."""
        found = [(item, text) for item in self._items() if (text := why(item.step)) is not None]
        for item, text in found:
            item.end(reason, text)
        return len(found)

    def _items(self) -> list[HeldStep]:
        with self._lock:
            return list(self._held.values())

    @contextmanager
    def hold(self, step: ClaimedStep) -> Iterator[HeldStep]:
        held = HeldStep(step, time.monotonic() + self._deadline_seconds, NoTurns(step.kind))
        with self._lock:
            self._held[step.id] = held
        try:
            yield held
        finally:
            with self._lock:
                if self._held.get(step.id) is held:
                    del self._held[step.id]

    def _loop(self) -> None:
        third, due, away = self._lease_seconds / 3, time.monotonic() + self._lease_seconds / 3, False
        while not self._stop.wait(max(due - time.monotonic(), 0.0)):
            due = time.monotonic() + third  # from the begin of one to the begin of the next
            try:
                self._beat()
            except Exception as error:
                # A database that is away for a moment must not end the renewing for good, nor a long trace delay it.
                if not away:
                    cause = getattr(error, "orig", None) or error
                    log.warning("leases.renewal_failed", error=f"{type(error).__name__}: {cause}")
                away, due = True, time.monotonic() + self._lease_seconds * RETRY
            else:
                if away:
                    log.info("leases.renewed_again", held=self.count())
                away = False

    def _beat(self) -> None:
        now = time.monotonic()
        held = self._items()
        for item in held:
            if item.deadline <= now:
                item.end(EndReason.DEADLINE)
        alive = {item.step.id: item for item in held if item.renewed(now)}
        if not alive:
            return
        with self._store.session() as session:
            steps = [item.step for item in alive.values()]
            kept = graph.renew(session, ((step.id, step.attempt) for step in steps), self._owner, self._lease_seconds)
            stopped = graph.being_stopped(session, (step.run_id for step in steps))
            needless = graph.cancelled(session, (step.parent_id for step in steps if step.parent_id))
        for step_id, item in alive.items():
            if step_id not in kept and self._held.get(step_id) is item:
                item.end(EndReason.LEASE_LOST)
        # A command to the workers comes sooner; this finds the work that it did not reach.
        self.end_runs(stopped)
        self.end_children(needless)


# The end of a worker process: it takes nothing new, lets turns end for a while, then gives the rest of its steps
# back.
#
# Celery's threads pool waits for its tasks without a limit. So the work itself is ended here: a turn that outlasts the
# time is interrupted, and its step goes back to the queue with the attempt not used up.

POLL_SECONDS = 0.1
# From the end of the work to the end of the process: app-servers are stopped, connections closed.
EXIT_SECONDS = 20.0
_NO, _WARM, _AT_ONCE = 0, 1, 2
Keeper = Callable[[], LeaseKeeper | None]


class Drain:
    """The request to end this process, which a signal handler may make, and the thread that then ends its work."""

    def __init__(self, grace_seconds: float, exit_seconds: float = EXIT_SECONDS) -> None:
        self._grace_seconds, self._exit_seconds = grace_seconds, exit_seconds
        self._request = _NO

    @property
    def requested(self) -> bool:
        return self._request != _NO

    def request(self, how: str = "Warm", **_: Any) -> None:
        """Handle Celery's shutdown signal. A second one, or a cold one, gives turns no time to end by themselves."""
        self._request = _AT_ONCE if self.requested or how != "Warm" else _WARM

    def take_signals(self) -> None:
        """Make Ctrl-C end the worker as SIGTERM does, and SIGQUIT too, but at once. For the main thread of a worker.
        Celery's own cold shutdown kills tasks. Threads cannot be killed: it fails half-way, and the process stays with
        turns that never end."""
        warm = signal.getsignal(signal.SIGTERM)

        def cold(number: int, frame: Any) -> None:
            self.request("Cold")
            warm(number, frame)  # type: ignore[operator,misc]

        signal.signal(signal.SIGINT, warm)
        signal.signal(signal.SIGQUIT, cold)

    def watch(self, keeper: Keeper) -> None:
        threading.Thread(target=self._run, args=(keeper,), name="drain", daemon=True).start()

    def _run(self, keeper: Keeper) -> None:
        while not self.requested:
            time.sleep(POLL_SECONDS)
        until = time.monotonic() + self._grace_seconds
        log.info("drain.began", held=_count(keeper), grace_seconds=self._grace_seconds)
        while _count(keeper) and self._request != _AT_ONCE and time.monotonic() < until:
            time.sleep(POLL_SECONDS)
        self._end_rest(keeper)
        # All work is over and in the database. A Redis that neither answers nor refuses would be waited for without a
        # limit by Celery.
        time.sleep(self._exit_seconds)
        log.error("drain.stuck", seconds=self._exit_seconds)
        os._exit(1)

    def _end_rest(self, keeper: Keeper) -> None:
        if left := _count(keeper):
            log.info("drain.interrupts", steps=left)
        until = time.monotonic() + ENDING_SECONDS
        # Again and again: a step may have been claimed just before the request to end.
        while (held := keeper()) is not None and held.end_all():
            if time.monotonic() > until:
                log.error("drain.gave_up", steps=held.count())
                os._exit(1)  # code that cannot be interrupted; when its lease is over another worker takes it up
            time.sleep(POLL_SECONDS)


def _count(keeper: Keeper) -> int:
    held = keeper()
    return held.count() if held is not None else 0


T = TypeVar("T")
BLOCKING_THREADS = 32
STALLED_SECONDS = 60.0  # no load explains a loop that stands still for so long


class LoopWatch:
    """Measures for how long a loop has not turned. It waits for nothing: each question is answered by the next one."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._lock = loop, threading.Lock()
        self._asked: float | None = None

    def stalled_seconds(self) -> float:
        """Return for how long the loop has owed its answer to an earlier question; 0 when it owes none."""
        with self._lock:
            if self._asked is not None:
                return time.monotonic() - self._asked
            if not self._loop.is_closed():
                self._asked = time.monotonic()
                self._loop.call_soon_threadsafe(self._answer)
            return 0.0

    def _answer(self) -> None:
        self._asked = None


class LoopThread:
    def __init__(self, name: str = "desk-loop") -> None:
        self.loop = asyncio.new_event_loop()
        self.watch = LoopWatch(self.loop)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        # What blocks runs in these threads; the default, a few more than cores, would queue behind a slow disk.
        self.loop.set_default_executor(concurrent.futures.ThreadPoolExecutor(BLOCKING_THREADS, "blocking"))
        self.loop.run_forever()

    def why_stuck(self) -> str | None:
        """Return that the loop stands still, None while it turns; waits for nothing."""
        seconds = self.watch.stalled_seconds()
        return f"its event loop has not turned for {seconds:.0f} s" if seconds > STALLED_SECONDS else None

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(timeout=5)
        if not self.loop.is_running():
            self.loop.close()


# The lease on the sweep, one row of the database: at most one sweep at a time, and when expired leases of steps
# count.
#
# Every worker looks whether a sweep is due; those that find the row taken, or the last sweep too recent, do nothing.
# The sweep of a killed worker holds the row for a few seconds and no longer.
#
# The row also holds whether a lease that has run out means a lost worker. It does not when the sweeps themselves
# stopped for a while: the clock leapt, the machine slept, or the database was away. The holders could not renew then,
# and get time to do so before anything is taken from them.

SWEEP_ROW = 1
# Parts of a lease. Holders renew each third of it: two thirds are left when they have just not yet done so, and within
# half of it all that live have.
SWEEP_SECONDS = 3.0  # from one sweep to the next
NO_SWEEP_SECONDS = 15.0  # after which nothing sweeps: lost messages, lost workers and steps that wait go unnoticed
RENEWAL = 1 / 3
GRACE = 1 / 2


@dataclass(frozen=True, slots=True)
class SweepClaim:
    """The right to sweep."""

    last_at: dt.datetime | None  # the end of the last sweep, None before the first
    redis_mark: str | None  # what it found in Redis


def claim_sweep(session: Session, owner: str, lease_seconds: float, rest_seconds: float) -> SweepClaim | None:
    """None while another process has it, or the last sweep ended less than `rest_seconds` ago. A time ahead of the
    clock is ignored."""
    now = utcnow()
    until = now + dt.timedelta(seconds=lease_seconds)
    lease, last = col(Sweep.lease_until), col(Sweep.last_at)
    rested = now - dt.timedelta(seconds=rest_seconds)
    free = or_(lease.is_(None), lease < now, lease > until)
    row = session.connection().execute(
        update(Sweep)
        .where(col(Sweep.id) == SWEEP_ROW, free, or_(last.is_(None), last <= rested, last > now))
        .values(owner=owner, lease_until=until)
        .returning(last, col(Sweep.redis_mark))
    )
    found = row.one_or_none()
    return SweepClaim(*found) if found is not None else None


@dataclass(frozen=True, slots=True)
class LeaseTrust:
    """Trust in expired leases."""

    trusted: bool  # a lease that has run out means a lost worker
    grace_seconds: float = 0.0  # time until it does again, set by the check that began to doubt
    put_back: float = 0.0  # seconds by which the clock went back


def lease_trust(session: Session, interval_seconds: float, lease_seconds: float) -> LeaseTrust:
    """Compare the clock with that of the last check, and write from when until when expired leases are to be trusted.

    For the transaction that takes steps over: the row is locked before the clock is read, so that minutes of waiting
    for the database count. A check later than an interval and a third of a lease after the last one begins a doubt. As
    long as the interval is at most a third of a lease, as by default, a shorter gap cannot make a living holder's lease
    run out.
    """
    row = session.exec(select(Sweep).where(Sweep.id == SWEEP_ROW).with_for_update()).one()
    now = utcnow()
    tolerance = dt.timedelta(seconds=interval_seconds + RENEWAL * lease_seconds)
    grace = dt.timedelta(seconds=GRACE * lease_seconds)
    since = now - (row.trusted_until - tolerance) if row.trusted_until is not None else dt.timedelta()
    back = max(-since.total_seconds(), 0.0)
    put_back = back if back > RENEWAL * lease_seconds else 0.0
    doubt = since > tolerance or put_back > 0
    if doubt:
        row.trusted_from = now + grace
    row.trusted_until = now + tolerance
    session.add(row)
    trusted = row.trusted_from is None or row.trusted_from <= now
    return LeaseTrust(trusted, grace.total_seconds() if doubt else 0.0, put_back)


def expire_dead(session: Session) -> int:
    """End the leases of steps whose process is dead on this machine, and return their number: a worker that was killed
    and started again, or another beside it, need not wait for them to run out. A step that has lost AT_ONCE workers
    before waits: where workers end every few seconds, it would have lost as many as a step may before it got on."""
    running = and_(col(Step.state) == StepState.RUNNING, graph.losses(Step.__table__.c) < AT_ONCE)  # type: ignore[attr-defined]
    held = session.exec(select(Step.owner).where(running, col(Step.lease_until) > utcnow()).distinct()).all()
    dead = [owner for owner in held if owner is not None and owners.standing(owner) is owners.Standing.DEAD]
    if not dead:
        return 0
    over = utcnow() - dt.timedelta(milliseconds=1)
    ended = update(Step).where(running, col(Step.owner).in_(dead)).values(lease_until=over)
    return session.connection().execute(ended).rowcount


def release_sweep(
    session: Session, owner: str, found: Mapping[str, int], redis_mark: str | None, now: dt.datetime
) -> bool:
    """Give the row back with what was found; False when another process has it by now."""
    done = session.connection().execute(
        update(Sweep)
        .where(col(Sweep.id) == SWEEP_ROW, col(Sweep.owner) == owner)
        .values(owner=None, lease_until=None, last_at=now, found=dict(found), redis_mark=redis_mark)
    )
    return done.rowcount == 1

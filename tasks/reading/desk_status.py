"""The current state of the whole desk: workers, app-servers, queues, turns, parked models, the oldest step, the sweep.

Each part is read separately, and its failure is reported: the status is needed most when a part is down.
"""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from functools import cache
from glob import glob
from pathlib import Path
from typing import Any, Generic, TypeVar

import redis
from celery import Celery
from kombu.exceptions import OperationalError as BrokerError
from pydantic import ValidationError
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import Session, col, func, select

from chordesk.agents.runtime import ProcessStatus
from chordesk.models.answers import Frozen
from chordesk.models.database import soundness
from chordesk.models.database.store import Store, require_current
from chordesk.models.errors import DatabaseUnsound, DeskError, ServiceError
from chordesk.models.money import DOLLAR
from chordesk.models.notices import is_noted
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import (
    Standing,
    differing,
    is_up,
    snapshot,
    standing_of,
    with_values,
)
from chordesk.models.shortages import Shortage, shortages
from chordesk.models.states import RUN_LIVE, STEP_FINAL, ApprovalState, RunKind, StepState, TradingState
from chordesk.models.tables.columns import Row, utcnow
from chordesk.models.tables.orders import Approval, Order
from chordesk.models.tables.runs import Run, Step, Sweep
from chordesk.models.text import span
from chordesk.tasks import life
from chordesk.tasks.approval_requests import WaitingOrder, WaitingRequest, waiting
from chordesk.tasks.engine.budgets import DayUse, Reused, reused_of_day, use_of_day
from chordesk.tasks.engine.kinds import QUEUES, WORKER_QUEUES
from chordesk.tasks.engine.leases import NO_SWEEP_SECONDS
from chordesk.tasks.engine.limits import parked_models, turns_in_flight, turns_waiting
from chordesk.tasks.life import Life
from chordesk.tasks.reading import run_parts
from chordesk.tasks.reading.accounts import EquityNow, LackingStop, equity_now
from chordesk.tasks.reading.plan_windows import QuotaRow, quota_rows
from chordesk.tasks.reading.run_list import opened_by_backtest
from chordesk.tasks.reading.runs import Progress, Wait, progress, turn_phases, waits
from chordesk.tasks.reading.troubles import HaltView, LastRun, Trouble, halts, last_runs, troubles
from chordesk.tasks.redis_clients import client, is_private, redis_url
from chordesk.tasks.schedules import BeatState, beat_state, entries, of_settings, starting
from chordesk.tasks.worker.messages import STATUS, sender_app
from chordesk.tools.decimals import money, plain
from chordesk.tools.market.fx import traded_in
from chordesk.tools.orders.audit import why_no_file
from chordesk.tools.orders.halting import trading_state
from chordesk.tools.orders.protection import held_plans, review_key, unprotected

ASK_SECONDS = 1.0
MOST_WAITING = 10
LOOKED_AT_BYTES = 256 * 2**20
UNACKED = "unacked"
ROLES = {queue: role for role, queues in WORKER_QUEUES.items() if role != "all" for queue in queues.split(",")}


class WorkerRow(Frozen):
    """One worker that answered. trouble: the figures it could not report, and why. standing: by its own settings, None
    for a worker of another version; differs: those of them that this terminal has another value for. queues: those
    that it serves. short: on its machine."""

    node: str
    pid: int
    rss_mb: float
    steps_held: int
    app_servers: list[ProcessStatus]
    queues: list[str] = []
    trouble: str | None
    short: list[Shortage] = []
    standing: Standing | None = None
    differs: dict[str, Any] = {}


class ParkedModel(Frozen):
    model: str
    seconds: float
    reason: str


class RedisState(Frozen):
    """Messages waiting by queue, messages held by workers, and beat. places, waiting: turns with a reservation and
    those that wait for one, by model or local server, only where they are limited."""

    queued: dict[str, int]
    held: int
    places: dict[str, int]
    waiting: dict[str, int] = {}
    parked: list[ParkedModel]
    beat: BeatState


class OldestStep(Frozen):
    """The oldest step that could be worked on, and its age in seconds."""

    step: Row[Step]
    seconds: float


class LastSweep(Frozen):
    """The last sweep. seconds: since it ended; None when there was none. sweeping: one is running now."""

    at: dt.datetime | None
    seconds: float | None
    found: dict[str, int]
    sweeping: bool

    @property
    def late(self) -> bool:
        return self.seconds is None or self.seconds > NO_SWEEP_SECONDS

    @property
    def since(self) -> str:
        return "none has ended yet" if self.seconds is None else f"the last one ended {span(self.seconds)} ago"

    def __str__(self) -> str:
        if not self.late:
            return self.since
        return f"{self.since}: each worker sweeps, so none runs, or none reaches the database"


class PositionPlanRow(Frozen):
    """The plan of a position: prices that end it, its last session, and its review, which has come where it is due."""

    symbol: str
    quantity: float
    stop: float | None
    target: float | None
    ends: dt.date | None
    review: str | None
    due: bool
    currency: str = DOLLAR  # of the prices

    def __str__(self) -> str:
        parts = [f"stop {money(self.stop, self.currency)}"] if self.stop is not None else ["no stop"]
        parts += [f"target {money(self.target, self.currency)}"] if self.target is not None else []
        parts += [f"ends {self.ends}"] if self.ends is not None else []
        parts += [f"review {self.review}{' is due' if self.due else ''}"] if self.review is not None else []
        return f"plan of {plain(self.quantity)} {self.symbol}: {', '.join(parts)}"


def position_plans(session: Session, account: str) -> list[PositionPlanRow]:
    return [
        PositionPlanRow.of(
            plan,
            symbol=holding.symbol,
            quantity=float(holding.held),
            due=is_noted(session, review_key(order)),
            currency=traded_in(holding.symbol),
        )
        for holding, order, plan in held_plans(session, account)
    ]


class DatabaseState(Frozen):
    """Runs that have not ended, their steps by state, the oldest unfinished step, the last sweep.

    phases: turns that take long, by what they do. trading: whether the account may trade; why: the reason where it may
    not. halts: of every account that may not trade, or only give exposure back. equity: of the account's newest mark,
    None before the first. plans: of the positions. scheduled: entries that start runs; starts: when each
    does next, the soonest first. unprotected: shares without the stop that they ought to have. reused: of the runs of
    this UTC day. Features add parts of their own."""

    trading: TradingState
    why: str
    halts: list[HaltView]
    equity: EquityNow | None
    runs: dict[str, int]
    steps: dict[str, int]
    phases: dict[str, int] = {}
    oldest: OldestStep | None
    sweep: LastSweep
    plans: list[PositionPlanRow]
    scheduled: list[str]
    starts: dict[str, dt.datetime] = {}
    unprotected: list[LackingStop]
    reused: Reused = Reused()


@cache
def database_type() -> type[DatabaseState]:
    return run_parts.widened(DatabaseState, "status")


class WaitingRun(Frozen):
    run_id: str
    kind: str
    waits: list[Wait]


class DeskStatus(Frozen):
    """The state by part. trouble: by part, why it could not be read; such a part is null (workers: empty).

    processes: of this home and, in a fleet, of other hosts, with the word for each. held: a `desk up` holds the home,
    also while it starts or ends. standing: of the desk that runs on it; without one
    (running is False) by the settings of the terminal. waiting: runs that wait, the newest first, at most MOST_WAITING.
    short: on this machine, the worst first. quotas: the plans of accounts, as their providers told them last.
    """

    home: Path
    held: bool
    running: bool
    standing: Standing
    processes: list[Life] = []
    workers: list[WorkerRow]
    turns_in_flight: int
    redis: RedisState | None
    database: DatabaseState | None
    waiting: list[WaitingRun]
    trouble: dict[str, str]
    short: list[Shortage]
    quotas: list[QuotaRow] = []


@cache
def status_type() -> type[DeskStatus]:
    return run_parts.widened(DeskStatus, database=database_type() | None)


def status(
    settings: Settings, *, running: bool, app: Callable[[], Celery] | None = None, store: Store | None = None
) -> DeskStatus:
    """Takes two seconds when a part is away: each look has a limit of its own. running: of a running `desk up`. app,
    store: ones that stay open."""
    stored = Look(lambda: _stored(settings, store), STORE_SECONDS)
    brokered = Look(lambda: (redis_state(settings), _others(settings)))
    measured = Look(lambda: shortages(settings))
    trouble: dict[str, str] = {}
    found, others = _tried(brokered, "redis", trouble) or (None, [])
    processes = life.lives(settings.home, others, redis_away=found is None)
    workers_known = [one for one in processes if one.role in WORKER_QUEUES]
    answering = sum(one.state in life.ALIVE for one in workers_known) if workers_known else None
    asked = Look(lambda: ask_workers(settings, app, answering), ANSWERS_SECONDS) if found is not None else None
    planned = Look(lambda: _quotas(settings, store)) if found is not None else None
    database, waiting = _tried(stored, "database", trouble) or (None, [])
    if (unsound := _unsound(settings)) is not None:
        trouble["database"] = unsound
    workers = (_tried(asked, "workers", trouble) or []) if asked is not None else []
    if workers_known:
        trouble.pop("workers", None)  # their lives are known, and only their figures are not
    scheduled = database.scheduled if database is not None else [one.name for one in of_settings(settings)]
    trouble = {**_first(trouble, processes), **_of_processes(processes)}
    from chordesk.tasks.reading import backup_trials  # a status alone asks

    if (tried := backup_trials.last(settings)) is not None and tried.ok is False:
        trouble["backup"] = str(tried)
    if (no_log := why_no_file(settings)) is not None:
        trouble["audit log"] = no_log
    if found is not None and "workers" not in trouble:
        trouble |= _unserved(workers, processes)
    elif found is None and not workers_known:
        trouble["workers"] = "they can be reached only through Redis"
    if found is not None and (unscheduled := _unscheduled(settings, set(scheduled), found.beat, processes)) is not None:
        trouble["beat"] = unscheduled
    if database is not None and database.sweep.late:
        trouble["sweep"] = _unswept(database.sweep, processes, redis_away=found is None)
    return status_type()(
        home=settings.home,
        held=is_up(settings.home),
        running=running,
        standing=standing_of(settings),
        processes=processes,
        workers=workers,
        turns_in_flight=sum(server.in_flight for worker in workers for server in worker.app_servers),
        redis=found,
        database=database,
        waiting=waiting,
        trouble=trouble,
        short=measured.wait_or([]),
        quotas=planned.wait_or([]) if planned is not None else [],
    )


T = TypeVar("T")
TICK_SECONDS = 0.05
LOOK_SECONDS, STORE_SECONDS, ANSWERS_SECONDS = 1.5, 5.0, 3.0
MOST_SECONDS = 60.0


class Look(Generic[T]):
    """A question to a part that may hang, asked in a thread of its own. seconds: its limit, of the time in which no
    thread of this process uses a processor or waits for one: an answer that is late on a busy machine still comes."""

    def __init__(self, ask: Callable[[], T], seconds: float = LOOK_SECONDS) -> None:
        self._seconds = seconds
        self._answer: Future[T] = Future()
        threading.Thread(target=self._run, args=[ask], name="look", daemon=True).start()

    def _run(self, ask: Callable[[], T]) -> None:
        try:
            self._answer.set_result(ask())
        except BaseException as error:
            self._answer.set_exception(error)

    def wait(self) -> T:
        """Raises ServiceError without an answer in time, and what the part raises."""
        first, worked = time.monotonic(), Worked()
        while (passed := time.monotonic() - first) < MOST_SECONDS and passed - worked.seconds() < self._seconds:
            with suppress(TimeoutError):
                return self._answer.result(TICK_SECONDS)
            if self._answer.done():
                return self._answer.result()  # it raised a TimeoutError of its own
        raise ServiceError(f"nothing came within {passed:.1f} s")

    def wait_or(self, instead: T) -> T:
        try:
            return self.wait()
        except (*_AWAY, ServiceError):
            return instead


class Worked:
    """The time since it was made in which threads of this process used a processor or waited for one; those of threads
    that have ended since count too."""

    def __init__(self) -> None:
        self._first = self._now()
        self._last = self._first

    def seconds(self) -> float:
        self._last = self._last | self._now()
        return sum(found - self._first.get(thread, 0.0) for thread, found in self._last.items())

    def _now(self) -> dict[str, float]:
        found = {}
        for path in glob("/proc/self/task/*/schedstat"):
            with suppress(OSError), open(path, encoding="ascii") as file:
                used, waited, _ = file.read().split()
                found[path] = (int(used) + int(waited)) / 1e9
        return found or {"": time.process_time()}


_AWAY = (DeskError, BrokerError, redis.RedisError, SQLAlchemyError, OSError)


def _tried(look: Look[T], part: str, trouble: dict[str, str]) -> T | None:
    try:
        return look.wait()
    except _AWAY as error:
        trouble[part] = _reason(error)
        return None


def _stored(settings: Settings, store: Store | None) -> tuple[DatabaseState, list[WaitingRun]]:
    with _reading(settings, store) as session:
        return database_state(session, settings), waiting_runs(session, settings)


def _quotas(settings: Settings, store: Store | None) -> list[QuotaRow]:
    with _reading(settings, store) as session:
        return quota_rows(session, settings, [RunKind.SCREEN])


def _others(settings: Settings) -> list[life.Record]:
    """Return what processes of other hosts said of their lives; a Redis on a private socket has none."""
    if is_private(redis_url(settings)):
        return []
    with client(redis_url(settings), ASK_SECONDS, again=False) as opened:
        return life.told(opened)


def _first(trouble: Mapping[str, str], processes: Sequence[Life]) -> dict[str, str]:
    """Return what is to be read first: all else follows from a database or a Redis that does not answer. Its own word
    is the reason where it is known."""
    found = {part: trouble[part] for part in ("database", "redis", "workers") if part in trouble}
    for one in processes:
        if one.role == life.REDIS and one.alarming:
            found["redis"] = f"{one}: nothing is sent, and each worker and beat waits for it"
    return found


def _of_processes(processes: Sequence[Life]) -> dict[str, str]:
    """Return what the desk lacks, by the name of the process. A worker of another host is lacking only where no other
    one of its role works."""
    works = {one.role for one in processes if one.state in life.ALIVE}
    return {
        one.called: str(one)
        for one in processes
        if one.alarming
        and one.role != life.REDIS
        and not (one.state is life.State.UNREACHABLE and (one.role in works or "all" in works))
    }


def _unsound(settings: Settings) -> str | None:
    """Return that the database is damaged. While no desk watches it, a file of a usual size is looked at now."""
    found = soundness.marked(settings)
    path = make_url(settings.database).database
    if found is None and settings.database.startswith("sqlite") and path and not is_up(settings.home):
        with suppress(DeskError, OSError):
            if Path(path).stat().st_size <= LOOKED_AT_BYTES:
                found = soundness.watch(settings).why
    return f"it is not sound: {found}; {DatabaseUnsound.remedy}" if found is not None else None


def _unscheduled(settings: Settings, wanted: set[str], beat: BeatState, processes: Sequence[Life]) -> str | None:
    """Why entries of the schedule do not start, beyond what the life of beat says already."""
    lives = [one for one in processes if one.role == "beat"]
    if lives and not any(one.state in (life.State.RUNS, life.State.SLOW) for one in lives):
        return None
    if not beat.running:
        why = f"no beat runs, so {', '.join(sorted(wanted))} will not start: start `desk beat`, or `desk schedule off`"
        return why if wanted and not lives and not is_up(settings.home) else None
    missing = wanted - {entry.name for entry in beat.entries}
    if not missing:
        return None
    return f"beat runs without {', '.join(sorted(missing))}: it takes them over within seconds, or has other settings"


def _unserved(workers: Sequence[WorkerRow], processes: Sequence[Life]) -> dict[str, str]:
    """Return the queues of which nobody takes steps. A worker that lives serves its queues, also where it was too busy
    to answer."""
    lives = [one for one in processes if one.role in WORKER_QUEUES]
    served = {queue for one in workers for queue in one.queues}
    served |= {queue for one in lives if one.state in life.ALIVE for queue in _queues_of(one)}
    if not workers and not lives:
        return {"workers": f"none answered within {ASK_SECONDS:g} s: start `desk up`, or a `desk worker` of each role"}
    found = {}
    for name in (name for name in QUEUES if name not in served):
        ill = [one for one in lives if name in _queues_of(one)]
        if ill:
            found[f"queue {name}"] = f"nobody takes its steps: {_named(ill)}"
        else:
            why = f"no worker that serves it answered within {ASK_SECONDS:g} s: start `desk worker"
            found[f"queue {name}"] = f"{why} {ROLES[name]}`"
    return found


def _queues_of(one: Life) -> list[str]:
    return WORKER_QUEUES[one.role].split(",")


def _named(lives: Sequence[Life]) -> str:
    return ", ".join(f"{one.called} {'' if one.state is life.State.RUNS else 'is '}{one.state.value}" for one in lives)


def _unswept(sweep: LastSweep, processes: Sequence[Life], *, redis_away: bool) -> str:
    """Each worker sweeps: why none has ended of late."""
    lives = [one for one in processes if one.role in WORKER_QUEUES]
    if not lives:
        return str(sweep)
    working = [one for one in lives if one.state in life.ALIVE]
    if not working:
        return f"{sweep.since}: each worker sweeps, and {_named(lives)}"
    if redis_away:
        return f"{sweep.since}: {_named(working)}, and a sweep waits for Redis"
    reasons = list(dict.fromkeys(one.why for one in working if one.why))
    return f"{sweep.since}, while {_named(working)}: {'; '.join(reasons) or 'see sweep.failed in the log of a worker'}"


def _reason(error: Exception) -> str:
    if isinstance(error, DeskError):
        return f"{error.args[0]}; {error.remedy}" if error.remedy else str(error.args[0])
    original = getattr(error, "orig", None)
    return f"{type(error).__name__}: {original or error}"


def redis_state(settings: Settings) -> RedisState:
    """Raises RedisDown when no Redis is known, redis.RedisError when it does not answer."""
    with client(redis_url(settings), ASK_SECONDS, again=False) as opened:
        lengths = {name: int(opened.llen(name)) for name in QUEUES}
        parked = [ParkedModel.of(one) for one in parked_models(opened)]
        held = int(opened.hlen(UNACKED))
        beat = beat_state(opened)
        places, waiting = turns_in_flight(opened), turns_waiting(opened)
        return RedisState(queued=lengths, held=held, places=places, waiting=waiting, parked=parked, beat=beat)


def ask_workers(
    settings: Settings, app: Callable[[], Celery] | None = None, answering: int | None = None
) -> list[WorkerRow]:
    """By name, those that answer in time. app: one that stays open. answering: the number of those that can, where it
    is known: after so many answers nobody is waited for."""
    if answering == 0:
        return []
    if app is not None:
        answers = _broadcast(app(), answering)
    else:
        with sender_app(settings) as made:
            answers = _broadcast(made, answering)
    return [_worker(settings, node, answers[node]) for node in sorted(answers)]


def _worker(settings: Settings, node: str, answer: Mapping[str, Any]) -> WorkerRow:
    figures, ours = dict(answer), snapshot(settings)
    theirs = {name: value for name, value in figures.pop("settings", {}).items() if name in ours}
    try:
        standing = standing_of(with_values(settings, theirs)) if theirs else None
    except ValidationError:  # of another version
        standing = None
    differs = {name: theirs[name] for name in differing(ours, theirs)}
    return WorkerRow(node=node, standing=standing, differs=differs, **figures)


def _broadcast(app: Celery, answering: int | None) -> dict[str, dict[str, Any]]:
    asked = app.control.broadcast(STATUS, reply=True, timeout=ASK_SECONDS, limit=answering)
    replies: list[Mapping[str, Any]] = asked or []
    answers = {node: answer for reply in replies for node, answer in reply.items()}
    return {node: answer for node, answer in answers.items() if "pid" in answer}


@contextmanager
def _reading(settings: Settings, store: Store | None) -> Iterator[Session]:
    if store is not None:
        with store.read() as session:
            yield session
        return
    require_current(settings.database)
    with closing(Store(settings.database)) as made, made.read() as session:
        yield session


def waiting_runs(session: Session, settings: Settings) -> list[WaitingRun]:
    """Return the runs that wait, and what for; of a backtest the backtest alone."""
    asked = select(Order.run_id).join(Approval, col(Approval.order_id) == col(Order.id))
    of_persons = asked.where(Approval.state == ApprovalState.PENDING)
    may_wait = col(Run.state).in_(RUN_LIVE) | col(Run.id).in_(of_persons)
    runs = session.exec(
        select(Run).where(~opened_by_backtest(), may_wait).order_by(col(Run.id).desc()).limit(MOST_WAITING)
    ).all()
    found = [WaitingRun(run_id=run.id, kind=run.kind, waits=waits(session, run, settings)) for run in runs]
    return [one for one in found if one.waits]


def database_state(session: Session, settings: Settings) -> DatabaseState:
    (trading, why), made = trading_state(session, settings, settings.account), database_type()
    return made(
        trading=trading,
        why=why,
        halts=halts(session, settings),
        equity=equity_now(session, settings.account, standing_of(settings).day),
        runs=_runs(session),
        steps=_steps(session),
        phases=turn_phases(session, select(Run.id).where(col(Run.state).in_(RUN_LIVE))),
        oldest=_oldest(session),
        sweep=_sweep(session),
        plans=position_plans(session, settings.account),
        scheduled=[one.name for one in entries(session, settings) if one.starts],
        starts={one.name: at for one, at in starting(session, settings, utcnow())},
        unprotected=[LackingStop.of(row) for row in unprotected(session, settings)],
        reused=reused_of_day(session),
        **run_parts.read(session, settings, made, "status"),
    )


def _runs(session: Session) -> dict[str, int]:
    active = select(Run.state, func.count()).where(col(Run.state).in_(RUN_LIVE))
    return dict(session.exec(active.group_by(col(Run.state))).all())


def _steps(session: Session) -> dict[str, int]:
    rows = session.exec(
        select(Step.state, func.count())
        .join(Run, col(Run.id) == col(Step.run_id))
        .where(col(Run.state).in_(RUN_LIVE), col(Step.state).not_in(STEP_FINAL))
        .group_by(col(Step.state))
    )
    return dict(rows.all())


def _oldest(session: Session) -> OldestStep | None:
    step = session.exec(
        select(Step)
        .join(Run, col(Run.id) == col(Step.run_id))
        .where(col(Run.state).in_(RUN_LIVE), col(Step.state).in_((StepState.READY, StepState.RUNNING)))
        .order_by(col(Step.created_at), col(Step.id))
        .limit(1)
    ).first()
    if step is None:
        return None
    return OldestStep(step=step, seconds=(utcnow() - step.created_at).total_seconds())


def _sweep(session: Session) -> LastSweep:
    row, now = session.get_one(Sweep, 1), utcnow()
    since = (now - row.last_at).total_seconds() if row.last_at else None
    busy = row.lease_until is not None and row.lease_until > now
    return LastSweep(at=row.last_at, seconds=since, found=row.found, sweeping=busy)


class ScheduledRun(Frozen):
    """A run that the schedule starts. name: of its entry; at: the first time from now on, on a session of the
    exchange."""

    name: str
    kind: str
    at: dt.datetime


MOST_RUNS = 20


class RunningRun(Frozen):
    """A run that has not ended, with its progress."""

    run: Row[Run]
    symbols: list[str]
    progress: Progress


class Glance(Frozen):
    """The desk now. runs: the newest that have not ended, those of backtests' sessions last, of all_runs; waiting:
    orders first, then models' requests, the oldest first of each; scheduled: the soonest first; short: on this machine;
    last: the newest run, None before the first; troubles: what went wrong in the last 24 hours, the newest first;
    spent: today, of budget_tokens (0: no limit)."""

    at: dt.datetime
    standing: Standing
    runs: list[RunningRun]
    all_runs: int
    waiting: list[WaitingOrder | WaitingRequest]
    database: DatabaseState
    scheduled: list[ScheduledRun]
    short: list[Shortage]
    last: LastRun | None
    troubles: list[Trouble]
    spent: DayUse
    budget_tokens: int


def glance(session: Session, settings: Settings, now: dt.datetime) -> Glance:
    """Return the desk as the database has it. now: real time, which the schedule goes by."""
    standing = standing_of(settings)
    return Glance(
        at=now,
        standing=standing,
        runs=running_runs(session, settings),
        all_runs=session.exec(select(func.count()).where(col(Run.state).in_(RUN_LIVE))).one(),
        waiting=waiting(session),
        database=database_state(session, settings),
        scheduled=[ScheduledRun(name=one.name, kind=one.kind, at=at) for one, at in starting(session, settings, now)],
        short=shortages(settings),
        last=next(iter(last_runs(session, 1)), None),
        troubles=troubles(session, settings, now),
        spent=use_of_day(session, settings),
        budget_tokens=settings.budget_day_tokens,
    )


def running_runs(session: Session, settings: Settings) -> list[RunningRun]:
    rows = session.exec(
        select(Run)
        .where(col(Run.state).in_(RUN_LIVE))
        .order_by(opened_by_backtest(), col(Run.created_at).desc())
        .limit(MOST_RUNS)
    ).all()
    return [_running(session, settings, row) for row in rows]


def _running(session: Session, settings: Settings, run: Run) -> RunningRun:
    symbols = [str(symbol) for symbol in run.params.get("symbols") or ()]
    # Of a screen they are the whole universe.
    seen = progress(session, run.id, settings)
    return RunningRun(run=run, symbols=[] if run.kind == "screen" else symbols, progress=seen)

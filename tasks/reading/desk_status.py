"""The current state of the whole desk: workers, app-servers, queues, turns, parked models, the oldest step, the sweep.

Each part is read separately, and its failure is reported: the status is needed most when a part is down.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

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
from chordesk.models.errors import DatabaseUnsound, DeskError
from chordesk.models.notices import is_noted
from chordesk.models.room import Shortage, shortages
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import (
    Standing,
    differing,
    is_up,
    snapshot,
    standing_of,
    with_values,
)
from chordesk.models.states import RUN_LIVE, STEP_FINAL, ApprovalState, RunKind, StepState, TradingState
from chordesk.models.tables.columns import Row, utcnow
from chordesk.models.tables.orders import Approval, Order
from chordesk.models.tables.runs import Run, Step, Sweep
from chordesk.models.text import span
from chordesk.tasks.approvals import WaitingOrder, WaitingRequest, waiting
from chordesk.tasks.engine.budgets import DayUse, use_of_day
from chordesk.tasks.engine.kinds import QUEUES, WORKER_QUEUES
from chordesk.tasks.engine.leases import NO_SWEEP_SECONDS
from chordesk.tasks.engine.limits import parked_models, turns_in_flight, turns_waiting
from chordesk.tasks.notifications import messages
from chordesk.tasks.notifications.messages import NotificationsState
from chordesk.tasks.reading import backup_trials
from chordesk.tasks.reading.accounts import EquityNow, LackingStop, equity_now
from chordesk.tasks.reading.quotas import QuotaRow, quota_rows
from chordesk.tasks.reading.run_list import opened_by_backtest
from chordesk.tasks.reading.runs import Progress, Wait, progress, turn_phases, waits
from chordesk.tasks.reading.troubles import HaltView, LastRun, Trouble, halts, last_runs, troubles
from chordesk.tasks.redis_clients import redis_url
from chordesk.tasks.schedules import BeatState, beat_state, entries, of_settings, starting
from chordesk.tasks.worker.messages import STATUS, sender_app
from chordesk.tools.decimals import money, plain
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

    def __str__(self) -> str:
        since = "none has ended yet" if self.seconds is None else f"the last one ended {span(self.seconds)} ago"
        return f"{since}: each worker sweeps, so none runs, or none reaches the database" if self.late else since


class PositionPlanRow(Frozen):
    """The plan of a position: prices that end it, its last session, and its review, which has come where it is due."""

    symbol: str
    quantity: float
    stop: float | None
    target: float | None
    ends: dt.date | None
    review: str | None
    due: bool

    def __str__(self) -> str:
        parts = [f"stop {money(self.stop)}"] if self.stop is not None else ["no stop"]
        parts += [f"target {money(self.target)}"] if self.target is not None else []
        parts += [f"ends {self.ends}"] if self.ends is not None else []
        parts += [f"review {self.review}{' is due' if self.due else ''}"] if self.review is not None else []
        return f"plan of {plain(self.quantity)} {self.symbol}: {', '.join(parts)}"


def position_plans(session: Session, account: str) -> list[PositionPlanRow]:
    return [
        PositionPlanRow.of(
            plan, symbol=holding.symbol, quantity=float(holding.held), due=is_noted(session, review_key(order))
        )
        for holding, order, plan in held_plans(session, account)
    ]


class DatabaseState(Frozen):
    """Runs that have not ended, their steps by state, the oldest unfinished step, the last sweep.

    phases: turns that take long, by what they do. trading: whether the account may trade; why: the reason where it may
    not. halts: of every account that may not trade, or only give exposure back. equity: of the account's newest mark,
    None before the first. plans: of the positions. scheduled: entries of the schedule that are on. unprotected: shares
    without the stop that they ought to have. notifications: how each channel stands."""

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
    unprotected: list[LackingStop]
    notifications: NotificationsState


class WaitingRun(Frozen):
    run_id: str
    kind: str
    waits: list[Wait]


class DeskStatus(Frozen):
    """The state by part. trouble: by part, why it could not be read; such a part is null (workers: empty).

    held: a `desk up` holds the home, also while it starts or ends. standing: of the desk that runs on it; without one
    (running is False) by the settings of the terminal. waiting: runs that wait, the newest first, at most MOST_WAITING.
    short: on this machine, the worst first. quotas: the plans of accounts, as their providers told them last.
    """

    home: Path
    held: bool
    running: bool
    standing: Standing
    workers: list[WorkerRow]
    turns_in_flight: int
    redis: RedisState | None
    database: DatabaseState | None
    waiting: list[WaitingRun]
    trouble: dict[str, str]
    short: list[Shortage]
    quotas: list[QuotaRow] = []


def status(
    settings: Settings, *, running: bool, app: Callable[[], Celery] | None = None, store: Store | None = None
) -> DeskStatus:
    """Takes two seconds when a part is away. running: of a running `desk up`. app, store: ones that stay open."""
    trouble: dict[str, str] = {}
    try:
        found = redis_state(settings)
    except (DeskError, redis.RedisError) as error:
        found = None
        trouble["redis"] = _reason(error)
    workers: list[WorkerRow] = []
    if found is None:
        trouble["workers"] = "they can be reached only through Redis"
    else:
        try:
            workers = ask_workers(settings, app)
            trouble.update(_unserved(workers))
        except (DeskError, BrokerError, redis.RedisError, OSError) as error:
            trouble["workers"] = _reason(error)
    database, waiting, quotas = None, list[WaitingRun](), list[QuotaRow]()
    try:
        with _reading(settings, store) as session:
            database, waiting = database_state(session, settings), waiting_runs(session, settings)
            quotas = quota_rows(session, settings, [RunKind.SCREEN]) if found is not None else []
    except (DeskError, SQLAlchemyError) as error:
        trouble["database"] = _reason(error)
    if (tried := backup_trials.last(settings)) is not None and tried.ok is False:
        trouble["backup"] = str(tried)
    if (no_log := why_no_file(settings)) is not None:
        trouble["audit log"] = no_log
    if (unsound := _unsound(settings)) is not None:
        trouble["database"] = unsound
    scheduled = database.scheduled if database is not None else [one.name for one in of_settings(settings)]
    if found is not None and (unscheduled := _unscheduled(settings, set(scheduled), found.beat)) is not None:
        trouble["beat"] = unscheduled
    if database is not None and database.sweep.late:
        trouble["sweep"] = str(database.sweep)
    in_flight = sum(server.in_flight for worker in workers for server in worker.app_servers)
    return DeskStatus(
        home=settings.home,
        held=is_up(settings.home),
        running=running,
        standing=standing_of(settings),
        workers=workers,
        turns_in_flight=in_flight,
        redis=found,
        database=database,
        waiting=waiting,
        trouble=trouble,
        short=shortages(settings),
        quotas=quotas,
    )


def _unsound(settings: Settings) -> str | None:
    """Return that the database is damaged. While no desk watches it, a file of a usual size is looked at now."""
    found = soundness.marked(settings)
    path = make_url(settings.database).database
    if found is None and settings.database.startswith("sqlite") and path and not is_up(settings.home):
        with suppress(DeskError, OSError):
            if Path(path).stat().st_size <= LOOKED_AT_BYTES:
                found = soundness.watch(settings).why
    return f"it is not sound: {found}; {DatabaseUnsound.remedy}" if found is not None else None


def _unscheduled(settings: Settings, wanted: set[str], beat: BeatState) -> str | None:
    """Why entries of the schedule do not start: a `desk up` of this home may have been told to start no beat."""
    if not beat.running:
        why = f"no beat runs, so {', '.join(sorted(wanted))} will not start: start `desk beat`, or `desk schedule off`"
        return why if wanted and not is_up(settings.home) else None
    missing = wanted - {entry.name for entry in beat.entries}
    if not missing:
        return None
    return f"beat runs without {', '.join(sorted(missing))}: it takes them over within seconds, or has other settings"


def _unserved(workers: Sequence[WorkerRow]) -> dict[str, str]:
    if not workers:
        return {"workers": f"none answered within {ASK_SECONDS:g} s: start `desk up`, or a `desk worker` of each role"}
    served = {queue for one in workers for queue in one.queues}
    why = f"no worker that serves it answered within {ASK_SECONDS:g} s: start `desk worker"
    return {f"queue {name}": f"{why} {ROLES[name]}`" for name in QUEUES if name not in served}


def _reason(error: Exception) -> str:
    if isinstance(error, DeskError):
        return f"{error.args[0]}; {error.remedy}" if error.remedy else str(error.args[0])
    original = getattr(error, "orig", None)
    return f"{type(error).__name__}: {original or error}"


def redis_state(settings: Settings) -> RedisState:
    """Raises RedisDown when no Redis is known, redis.RedisError when it does not answer."""
    client = redis.Redis.from_url(redis_url(settings), socket_timeout=ASK_SECONDS, socket_connect_timeout=ASK_SECONDS)
    with client:
        lengths = {name: int(client.llen(name)) for name in QUEUES}
        parked = [ParkedModel.of(one) for one in parked_models(client)]
        held = int(client.hlen(UNACKED))
        beat = beat_state(client)
        places, waiting = turns_in_flight(client), turns_waiting(client)
        return RedisState(queued=lengths, held=held, places=places, waiting=waiting, parked=parked, beat=beat)


def ask_workers(settings: Settings, app: Callable[[], Celery] | None = None) -> list[WorkerRow]:
    """By name, those that answer in time. app: one that stays open."""
    if app is not None:
        answers = _broadcast(app())
    else:
        with sender_app(settings) as made:
            answers = _broadcast(made)
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


def _broadcast(app: Celery) -> dict[str, dict[str, Any]]:
    replies: list[Mapping[str, Any]] = app.control.broadcast(STATUS, reply=True, timeout=ASK_SECONDS) or []
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
    trading, why = trading_state(session, settings, settings.account)
    return DatabaseState(
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
        scheduled=[one.name for one in entries(session, settings) if one.enabled],
        unprotected=[LackingStop.of(row) for row in unprotected(session, settings)],
        notifications=messages.state(session),
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

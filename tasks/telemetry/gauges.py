"""Gauges of one worker, of the whole desk and of notifications; and the exporter of the desk's.

One process shows the desk's gauges, each worker its own. A scrape reads database and Redis at most every few seconds
and never waits long for either: without an answer its gauges are missing, and `desk_part_up` is 0.
"""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from dataclasses import dataclass
from typing import Any

import redis
import structlog
from prometheus_client.core import GaugeMetricFamily
from sqlalchemy import case, func
from sqlalchemy import select as select_rows
from sqlmodel import Session, col, select

from chordesk.agents.runtime import RECYCLE_RSS_MB, ProcessStatus
from chordesk.models.settings import Settings
from chordesk.models.shortages import Shortage
from chordesk.models.states import ORDER_OPEN, RUN_LIVE, ApprovalState, AttemptEnd, RunState, StepState, TradingState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Approval, EquityMark, Order
from chordesk.models.tables.runs import Attempt, Run, Step, Sweep
from chordesk.models.tables.runtime import RuntimeApproval
from chordesk.tasks.approval_requests import INTERRUPT
from chordesk.tasks.engine import kinds
from chordesk.tasks.engine.budgets import use_of_day
from chordesk.tasks.engine.kinds import QUEUES
from chordesk.tasks.engine.limits import parked_models, turns_in_flight, turns_waiting
from chordesk.tasks.engine.step_queries import demand
from chordesk.tasks.life import Life, State
from chordesk.tools.orders.halting import trading_state


@dataclass(frozen=True, slots=True)
class Gauge:
    """One gauge. what: its meaning; labels: their names."""

    name: str
    what: str
    labels: tuple[str, ...] = ()


# The values of gauges by the values of their labels. What is not known is not there.
Reading = Mapping[Gauge, Mapping[tuple[str, ...], float]]


def families(reading: Reading) -> Iterator[GaugeMetricFamily]:
    for gauge, values in reading.items():
        family = GaugeMetricFamily(gauge.name, gauge.what, labels=gauge.labels)
        for labels, value in values.items():
            family.add_metric(labels, value)
        yield family


MIB = 2**20
STEPS_HELD = Gauge("desk_steps_held", "Steps in work here.")
TURNS_IN_FLIGHT = Gauge("desk_turns_in_flight", "Turns that run here.", ("kind",))
SERVERS = Gauge("desk_app_servers", "App-servers of this worker.", ("kind",))
MEMORY = Gauge("desk_app_server_bytes", "Resident memory of all of them.", ("kind",))
LARGEST = Gauge("desk_app_server_largest_bytes", "Resident memory of the largest of them.", ("kind",))
ROOM = Gauge("desk_room_short", "Little room here: 1, 2 where no step begins; missing with enough.", ("what", "where"))
REFUSED = Gauge("desk_messages_refused", "Messages that the desk did not sign, dropped here; missing where none is.")
WORKER_GAUGES = (STEPS_HELD, REFUSED, TURNS_IN_FLIGHT, SERVERS, MEMORY, LARGEST, ROOM)
_Values = dict[tuple[str, ...], float]


def read_own(
    held: int, servers: Sequence[ProcessStatus] | None, short: Sequence[Shortage] = (), refused: int | None = None
) -> Reading:
    room: _Values = {(one.what, one.where): 2 if one.out else 1 for one in short}
    own: dict[Gauge, _Values] = {STEPS_HELD: {(): held}, ROOM: room}
    if refused is not None:
        own[REFUSED] = {(): refused}
    if servers is None:
        return own
    turns: _Values = defaultdict(float)
    count: _Values = defaultdict(float)
    memory: _Values = defaultdict(float)
    largest: _Values = defaultdict(float)
    for one in servers:
        kind = (one.kind,)
        turns[kind] += one.in_flight
        count[kind] += 1
        memory[kind] += one.rss_mb * MIB
        largest[kind] = max(largest[kind], one.rss_mb * MIB)
    return {**own, TURNS_IN_FLIGHT: turns, SERVERS: count, MEMORY: memory, LARGEST: largest}


UNACKED = "unacked"  # kombu's hash of the messages that workers hold
MESSAGES = Gauge("desk_queue_messages", "Messages that wait in Redis for a worker.", ("queue",))
MESSAGES_HELD = Gauge("desk_messages_held", "Messages that workers hold.")
MODELS_PARKED = Gauge("desk_models_parked", "Models and accounts whose provider's limit is met.")
MODELS_PARKED_FOR = Gauge("desk_model_parked_seconds", "Time until its turns may start again.", ("model",))
TURNS_RESERVED = Gauge("desk_turns_reserved", "Turns in flight of a limited model.", ("model",))
TURNS_WAITING = Gauge("desk_turns_waiting", "Turns that wait for a place.", ("model",))
BROKER_GAUGES = (MESSAGES, MESSAGES_HELD, MODELS_PARKED, MODELS_PARKED_FOR, TURNS_RESERVED, TURNS_WAITING)


def read_broker(client: redis.Redis) -> Reading:
    """Return the gauges as Redis has them now. Raises redis.RedisError."""
    parked = parked_models(client)
    return {
        MESSAGES: {(queue,): int(client.llen(queue)) for queue in QUEUES},
        MESSAGES_HELD: {(): int(client.hlen(UNACKED))},
        MODELS_PARKED: {(): len(parked)},
        MODELS_PARKED_FOR: {(one.model,): one.seconds for one in parked},
        TURNS_RESERVED: {(model,): count for model, count in turns_in_flight(client).items()},
        TURNS_WAITING: {(model,): count for model, count in turns_waiting(client).items()},
    }


LOSS_MINUTES = 10.0
DUE = Gauge("desk_steps_due", "Steps that are due and not in work.", ("queue",))
DUE_AGE = Gauge("desk_steps_due_age_seconds", "Time since the oldest of them became due; 0 without one.", ("queue",))
RUNNING = Gauge("desk_steps_running", "Steps in work.", ("queue",))
DEMAND = Gauge("desk_research_demand", "Due and running steps of research workers.")
RUNS = Gauge("desk_runs_open", "Runs that have not ended.", ("kind",))
SWEEP_AGE = Gauge("desk_sweep_age_seconds", "Time since the last sweep ended; missing before the first.")
LOST = Gauge("desk_attempts_lost", f"Attempts lost with a worker in the last {LOSS_MINUTES:g} minutes.")
ORDERS = Gauge("desk_orders_open", "Open orders of the account.", ("state",))
REQUESTS_WAITING = Gauge("desk_waiting", "Orders and models' requests that wait for a person.", ("kind",))
REQUESTS_WAITING_AGE = Gauge("desk_waiting_age_seconds", "Age of the oldest of them; 0 without one.", ("kind",))
TRADING = Gauge(
    "desk_trading_state", "1 for the state in force: preview, live, reducing, halted.", ("account", "state")
)
EQUITY = Gauge("desk_equity", "Equity at the last mark, in the account's currency.", ("account",))
DRAWDOWN = Gauge("desk_drawdown_share", "Fall from the highest equity, as a share of it.", ("account",))
DAY_CHANGE = Gauge("desk_day_change_share", "Change of equity in the last session day, as a share.", ("account",))
DAY_TOKENS = Gauge("desk_day_tokens", "Tokens of the UTC day, as its budget counts them.")
DAY_COST = Gauge("desk_day_usd", "Estimated cost of the UTC day, US dollars; missing without prices.")
LIMIT = Gauge("desk_limit", "Limits: day_tokens, drawdown and daily_loss (shares), app_server_bytes.", ("limit",))
DATABASE_GAUGES = (
    DUE, DUE_AGE, RUNNING, DEMAND, RUNS, SWEEP_AGE, LOST, ORDERS, REQUESTS_WAITING, REQUESTS_WAITING_AGE, TRADING,
    EQUITY, DRAWDOWN,
    DAY_CHANGE, DAY_TOKENS, DAY_COST, LIMIT,
)  # fmt: skip
MODES = ("preview", "live", "reducing", "halted")


def read_database(session: Session, settings: Settings) -> Reading:
    """Return the gauges as the database has them now. Raises SQLAlchemyError."""
    now = utcnow()
    return {
        **_steps(session, now),
        DEMAND: {(): demand(session)},
        RUNS: _runs(session),
        SWEEP_AGE: _sweep(session, now),
        LOST: {(): _lost(session, now)},
        ORDERS: _orders(session, settings.account),
        **_waiting(session, now),
        TRADING: _trading(session, settings),
        **_equity(session, settings.account),
        **_day(session, settings),
        LIMIT: dict(_limit_pairs(settings)),
    }


def _steps(session: Session, now: dt.datetime) -> Reading:
    due: _Values = {(queue,): 0.0 for queue in kinds.QUEUES}
    age, running = dict(due), dict(due)
    kind, state, due_at = col(Step.kind), col(Step.state), col(Step.due_at)
    ready = (
        select_rows(kind, func.count(), func.min(due_at))
        .join(Run, col(Run.id) == col(Step.run_id))
        .where(state == StepState.READY, due_at <= now, col(Run.state) == RunState.RUNNING)
        .group_by(kind)
    )
    for name, count, first in session.execute(ready):
        if (queue := _queue(name)) is not None:
            due[queue] += count
            age[queue] = max(age[queue], (now - first).total_seconds())
    for name, count in session.execute(
        select_rows(kind, func.count()).where(state == StepState.RUNNING).group_by(kind)
    ):
        if (queue := _queue(name)) is not None:
            running[queue] += count
    return {DUE: due, DUE_AGE: age, RUNNING: running}


def _queue(kind: str) -> tuple[str] | None:
    spec = kinds.find_step(kind)
    return (spec.queue,) if spec is not None else None


def _runs(session: Session) -> _Values:
    found: _Values = {(kind,): 0.0 for kind in kinds.run_kinds()}
    kind = col(Run.kind)
    rows = session.execute(select_rows(kind, func.count()).where(col(Run.state).in_(RUN_LIVE)).group_by(kind))
    return found | {(name,): float(count) for name, count in rows}


def _sweep(session: Session, now: dt.datetime) -> _Values:
    last = session.get_one(Sweep, 1).last_at
    return {(): max((now - last).total_seconds(), 0.0)} if last is not None else {}


def _lost(session: Session, now: dt.datetime) -> float:
    # Ids begin with their time, so the primary key's index finds the newest.
    since = now - dt.timedelta(minutes=LOSS_MINUTES)
    first = f"{int(since.timestamp() * 1000):012x}"
    lost = (col(Attempt.id) >= first, col(Attempt.outcome) == AttemptEnd.LOST)
    return float(session.execute(select_rows(func.count()).where(*lost)).scalar_one())


def _orders(session: Session, account: str) -> _Values:
    found: _Values = {(state,): 0.0 for state in sorted(ORDER_OPEN)}
    state = col(Order.state)
    which = (col(Order.account) == account, state.in_(ORDER_OPEN))
    rows = session.execute(select_rows(state, func.count()).where(*which).group_by(state))
    return found | {(name,): float(count) for name, count in rows}


def _waiting(session: Session, now: dt.datetime) -> Reading:
    counts: _Values = {}
    ages: _Values = {}
    # A graph may wait for days: its question has no age that anybody is to be called for.
    of_turns = case((col(RuntimeApproval.kind) != INTERRUPT, col(RuntimeApproval.asked_at)))
    tables: Mapping[str, Any] = {"order": (Approval, Approval.asked_at), "request": (RuntimeApproval, of_turns)}
    for kind, (table, asked_at) in tables.items():
        pending = (col(table.state) == ApprovalState.PENDING, col(table.expires_at) > now)
        count, first = session.execute(select_rows(func.count(), func.min(asked_at)).where(*pending)).one()
        counts[kind,] = float(count)
        ages[kind,] = (now - first).total_seconds() if first is not None else 0.0
    return {REQUESTS_WAITING: counts, REQUESTS_WAITING_AGE: ages}


def _trading(session: Session, settings: Settings) -> _Values:
    state, _ = trading_state(session, settings, settings.account)
    mode = ("live" if settings.trader_live else "preview") if state is TradingState.ACTIVE else state.value
    return {(settings.account, name): float(name == mode) for name in MODES}


def _equity(session: Session, account: str) -> Reading:
    mark = session.exec(
        select(EquityMark).where(EquityMark.account == account).order_by(col(EquityMark.day).desc()).limit(1)
    ).first()
    if mark is None:
        return {EQUITY: {}, DRAWDOWN: {}, DAY_CHANGE: {}}
    fall: _Values = {(account,): (mark.high_water - mark.last) / mark.high_water} if mark.high_water > 0 else {}
    change: _Values = {(account,): (mark.last - mark.opening) / mark.opening} if mark.opening > 0 else {}
    return {EQUITY: {(account,): mark.last}, DRAWDOWN: fall, DAY_CHANGE: change}


def _day(session: Session, settings: Settings) -> Reading:
    used = use_of_day(session, settings)
    cost: _Values = {(): used.cost.usd} if used.cost.usd is not None else {}
    return {DAY_TOKENS: {(): used.tokens}, DAY_COST: cost}


def _limit_pairs(settings: Settings) -> Iterator[tuple[tuple[str], float]]:
    if settings.budget_day_tokens:
        yield ("day_tokens",), settings.budget_day_tokens
    yield ("drawdown",), settings.max_drawdown
    yield ("daily_loss",), settings.max_daily_loss
    yield ("app_server_bytes",), RECYCLE_RSS_MB * 2**20


PROCESSES = Gauge("desk_processes", "Processes of the desk by the word for their life.", ("role", "state"))
BEAT_AGE = Gauge("desk_process_beat_age_seconds", "Age of the last beat of a process's loop.", ("role", "process"))
LIFE_GAUGES = (PROCESSES, BEAT_AGE)


def read_lives(found: Sequence[Life], *, scheduled: bool) -> Reading:
    """scheduled: some entry of the schedule is on, so that a beat is wanted: without any it counts as dead."""
    roles = {one.role for one in found}
    count: _Values = {(role, state.value): 0.0 for role in roles for state in State}
    for one in found:
        count[one.role, one.state.value] += 1
    if scheduled and "beat" not in roles:
        count["beat", State.DEAD.value] = 1.0
    ages: _Values = {}
    for one in (one for one in found if one.seconds is not None):
        key = (one.role, one.called)
        ages[key] = max(ages.get(key, 0.0), one.seconds or 0.0)
    return {PROCESSES: count, BEAT_AGE: ages}


# The exporter: the gauges of the whole desk, shown by the processes that serve the queue `ops`.
#
# A scrape reads database and Redis at most every few seconds, and never waits long for one that is away: its gauges are
# then missing, and `desk_part_up` is 0.

log = structlog.get_logger(__name__)

REST_SECONDS = 4.0
WAIT_SECONDS = 3.0  # Prometheus itself gives up after 10
PART_UP = Gauge("desk_part_up", "1 while a part answers, else 0: database, redis, or the look at processes.", ("part",))
DESK_GAUGES = (PART_UP, *DATABASE_GAUGES, *BROKER_GAUGES, *LIFE_GAUGES)
Read = Callable[[], Reading]


class Exporter:
    """Gauges of parts by name. Threads share it."""

    def __init__(self, parts: Mapping[str, Read], rest_seconds: float = REST_SECONDS) -> None:
        self._parts = {name: _Part(name, read, rest_seconds) for name, read in parts.items()}

    def collect(self) -> Iterator[GaugeMetricFamily]:
        found = {name: part.reading() for name, part in self._parts.items()}
        up: Reading = {PART_UP: {(name,): float(reading is not None) for name, reading in found.items()}}
        for reading in (up, *found.values()):
            if reading is not None:
                yield from families(reading)


class _Part:
    """The last reading of a part, by a thread that may hang as long as the part does."""

    def __init__(self, name: str, read: Read, rest_seconds: float) -> None:
        self._name, self._read, self._rest_seconds = name, read, rest_seconds
        self._lock = threading.Lock()
        self._asked: Future[Reading] | None = None
        self._found: Reading | None = None
        self._until = float("-inf")

    def reading(self) -> Reading | None:
        """Return what the part has, not older than the rest; None while it does not answer."""
        with self._lock:
            if self._asked is None and time.monotonic() < self._until:
                return self._found
            if self._asked is None:
                self._asked = Future()
                threading.Thread(target=self._run, args=(self._asked,), name="exporter", daemon=True).start()
            try:
                found: Reading | None = self._asked.result(WAIT_SECONDS)
            except NotInTime:
                return None
            except Exception as error:
                self._note(error)
                found = None
            self._asked, self._found, self._until = None, found, time.monotonic() + self._rest_seconds
            return found

    def _run(self, asked: Future[Reading]) -> None:
        try:
            asked.set_result(self._read())
        except Exception as error:
            asked.set_exception(error)

    def _note(self, error: Exception) -> None:
        if self._found is not None or self._until == float("-inf"):
            cause = getattr(error, "orig", None) or error
            log.warning("exporter.away", part=self._name, error=f"{type(error).__name__}: {cause}")

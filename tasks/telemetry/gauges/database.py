"""The desk's gauges that the database has: steps, runs, the sweep, orders, the account, tokens and money of the day."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import func
from sqlalchemy import select as select_rows
from sqlmodel import Session, col, select

from chordesk.models.settings import Settings
from chordesk.models.states import ORDER_OPEN, RUN_FINAL, ApprovalState, AttemptEnd, RunState, StepState, TradingState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.events import RuntimeApproval
from chordesk.models.tables.orders import Approval, EquityMark, Order
from chordesk.models.tables.runs import Attempt, Run, Step, Sweep
from chordesk.tasks.engine import kinds
from chordesk.tasks.engine.budgets import use_of_day
from chordesk.tasks.engine.demand import demand
from chordesk.tasks.telemetry.gauges.gauge import Gauge, Reading
from chordesk.tools.orders.halt.halting import trading_state

LOSS_MINUTES = 10.0
DUE = Gauge("desk_steps_due", "Steps that are due and not in work.", ("queue",))
DUE_AGE = Gauge("desk_steps_due_age_seconds", "Time since the oldest of them became due; 0 without one.", ("queue",))
RUNNING = Gauge("desk_steps_running", "Steps in work.", ("queue",))
DEMAND = Gauge("desk_research_demand", "Steps of research workers that are due or in work; autoscalers ask the same.")
RUNS = Gauge("desk_runs_open", "Runs that have not ended.", ("kind",))
SWEEP_AGE = Gauge("desk_sweep_age_seconds", "Time since the last sweep ended; missing before the first.")
LOST = Gauge("desk_attempts_lost", f"Attempts of the last {LOSS_MINUTES:g} minutes with a worker that was lost.")
ORDERS = Gauge("desk_orders_open", "Orders of the account between preview and end.", ("state",))
WAITING = Gauge("desk_waiting", "Requests that wait for a person: orders, and models' requests.", ("kind",))
WAITING_AGE = Gauge("desk_waiting_age_seconds", "Age of the oldest of them; 0 without one.", ("kind",))
TRADING = Gauge("desk_trading_state", "1 for the one in force: preview, live, reducing, halted.", ("account", "state"))
EQUITY = Gauge("desk_equity", "Equity at the last mark, in the account's currency.", ("account",))
DRAWDOWN = Gauge("desk_drawdown_share", "Fall from the highest equity, as a share of it.", ("account",))
DAY_CHANGE = Gauge("desk_day_change_share", "Change of equity in the last session day, as a share.", ("account",))
DAY_TOKENS = Gauge("desk_day_tokens", "Tokens of the UTC day, as its budget counts them.")
DAY_COST = Gauge("desk_day_usd", "Estimated cost of the UTC day's turns with a price, US dollars; missing without one.")
LIMIT = Gauge(
    "desk_limit",
    "Limits by the settings: day_tokens (missing without one), drawdown and daily_loss (shares), app_server_bytes.",
    ("limit",),
)
GAUGES = (
    DUE, DUE_AGE, RUNNING, DEMAND, RUNS, SWEEP_AGE, LOST, ORDERS, WAITING, WAITING_AGE, TRADING, EQUITY, DRAWDOWN,
    DAY_CHANGE, DAY_TOKENS, DAY_COST, LIMIT,
)  # fmt: skip
MODES = ("preview", "live", "reducing", "halted")
_Values = dict[tuple[str, ...], float]


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
        LIMIT: _limits(settings),
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
    """Return the queue of a kind of step, as a gauge's label; None for a kind of another version."""
    spec = kinds.find_step(kind)
    return (spec.queue,) if spec is not None else None


def _runs(session: Session) -> _Values:
    found: _Values = {(kind,): 0.0 for kind in kinds.run_kinds()}
    kind = col(Run.kind)
    rows = session.execute(select_rows(kind, func.count()).where(col(Run.state).not_in(RUN_FINAL)).group_by(kind))
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
    tables: Mapping[str, Any] = {"order": Approval, "request": RuntimeApproval}
    for kind, table in tables.items():
        pending = (col(table.state) == ApprovalState.PENDING, col(table.expires_at) > now)
        count, first = session.execute(select_rows(func.count(), func.min(col(table.asked_at))).where(*pending)).one()
        counts[kind,] = float(count)
        ages[kind,] = (now - first).total_seconds() if first is not None else 0.0
    return {WAITING: counts, WAITING_AGE: ages}


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


def _limits(settings: Settings) -> _Values:
    return dict(_limit_pairs(settings))


def _limit_pairs(settings: Settings) -> Iterator[tuple[tuple[str], float]]:
    if settings.budget_day_tokens:
        yield ("day_tokens",), settings.budget_day_tokens
    yield ("drawdown",), settings.max_drawdown
    yield ("daily_loss",), settings.max_daily_loss
    yield ("app_server_bytes",), settings.codex_recycle_rss_mb * 2**20

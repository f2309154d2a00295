"""Opens runs: writes the run, its finish step and its first steps, and sends the first."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

from celery import Celery
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, select

from models.columns import new_id, utcnow
from models.errors import UsageError
from models.order_tables import Account
from models.states import RUN_FINAL, RunKind, RunState, StepKind
from models.tables import Run, Verdict
from tasks import budgets, graph
from tasks.bootstrap import Desk, desk_of
from tasks.dispatch import send
from tasks.graph import NewStep, Ready
from tasks.labels import label_of, moment
from tasks.portfolio.due import DueReason
from tasks.portfolio.plan import PLANS, plan_portfolio
from tasks.research import Asked, candidate_steps, everyone, unscreened
from tools.ledger import ensure_account
from tools.market.protocol import MarketData
from tools.market.universe import resolve_universe

CLOCK_SKEW = dt.timedelta(minutes=5)  # of two hosts
Writer = Callable[[Session, Run, str], list[NewStep]]


def open_screen(
    app: Celery,
    universe: str | None = None,
    lenses: Sequence[str] | None = None,
    max_candidates: int | None = None,
    schedule: str | None = None,
    slot: str | None = None,
) -> Run | None:
    """Start a screen over a universe. None when this slot of the schedule has its run already."""
    desk = desk_of(app)
    settings = desk.settings
    symbols = resolve_universe(universe or settings.universe, desk.market)
    params = {
        "universe": universe or settings.universe,
        "symbols": symbols,
        "lenses": list(lenses or settings.lenses),
        "max_candidates": max_candidates or settings.max_candidates,
    }
    run = _new_run(desk, RunKind.SCREEN, params, schedule=schedule, slot=slot)
    try:
        return _open(app, run, lambda session, row, finish: [NewStep(StepKind.SCREEN, finish)])
    except IntegrityError:
        if schedule is None:
            raise
        return None


def open_research(app: Celery, symbols: Sequence[str]) -> Run:
    """Start research on symbols that a person named; it ends with their verdicts."""
    desk = desk_of(app)
    found = resolve_universe(",".join(symbols), desk.market)
    run = _new_run(desk, RunKind.RESEARCH, {"symbols": found, "trade": False})

    def write(session: Session, row: Run, finish: str) -> list[NewStep]:
        candidates = unscreened(row.id, found, "manual", first=1)
        session.add_all(candidates)
        session.flush()
        asked = everyone(DueReason.MANUAL)
        return candidate_steps(candidates, lambda symbol: asked, session.get_one(Account, row.account).cash, finish)

    return _open(app, run, write)


def open_portfolio(app: Celery, *, force: bool = False) -> Run:
    """Start research on what the account holds: of each holding the roles that are due, or with `force` all of them.

    Raises UsageError when nothing is held.
    """
    desk = desk_of(app)
    plans = {one.symbol: one for one in plan_portfolio(desk, force=force)}
    params = {"symbols": list(plans), "trade": False, PLANS: [one.model_dump(mode="json") for one in plans.values()]}
    run = _new_run(desk, RunKind.RESEARCH, params)

    def asked(symbol: str) -> Asked:
        due, skipped = plans[symbol].due, plans[symbol].skipped
        return Asked({one.role: one.reason for one in due}, [one.report_id for one in skipped if one.report_id])

    def write(session: Session, row: Run, finish: str) -> list[NewStep]:
        candidates = unscreened(row.id, plans, "position", first=1)
        session.add_all(candidates)
        session.flush()
        return candidate_steps(candidates, asked, session.get_one(Account, row.account).cash, finish)

    return _open(app, run, write)


def open_trade(app: Celery, source_run: str) -> Run:
    """Start the trader on the verdicts of an earlier run."""
    desk = desk_of(app)
    with desk.store.read() as session:
        source = session.get(Run, source_run)
        if source is None:
            raise UsageError(f"there is no run {source_run}", remedy="`desk runs list` shows them")
        check_source(source, desk.market)
        cut = budgets.cut_short(session, source_run)
        verdicts = session.exec(select(Verdict).where(Verdict.run_id == source_run)).all()
    if cut is not None and not desk.settings.trade_on_partial:
        remedy = "start a run with a larger budget, or set DESK_TRADE_ON_PARTIAL=true"
        raise UsageError(f"run {source_run} was cut short: {cut}", remedy=remedy)
    if not verdicts:
        raise UsageError(f"run {source_run} has no verdicts to trade on", remedy="`desk runs show RUN` tells why")
    run = _new_run(desk, RunKind.TRADE, {"source_run": source_run}, parent=source_run)
    return _open(app, run, lambda session, row, finish: [NewStep(StepKind.DECIDE, finish)])


def check_source(source: Run, market: MarketData) -> None:
    """Raises UsageError for a run that has no verdicts of its own, not all of them yet, or verdicts of another market
    or of a later day than the market's now."""
    require_same_market(source, market)
    if source.kind == RunKind.TRADE:
        origin = source.params["source_run"]
        raise UsageError(f"run {source.id} is a trade itself", remedy=f"`desk trade {origin}` trades on its research")
    if source.state not in RUN_FINAL:
        raise UsageError(f"run {source.id} is still running", remedy="trade on it when it has ended")
    if source.state == RunState.STOPPED:
        raise UsageError(f"run {source.id} was stopped", remedy="`desk research SYMBOL...` starts a run to trade on")


def require_same_market(run: Run, market: MarketData) -> None:
    """Raises UsageError when a run looked at another market than this process does, or at a later time."""
    now = market.clock.now()
    if run.market != market.name or run.market_now - now > CLOCK_SKEW:
        seen, here = moment(run.market, run.market_now), moment(market.name, now)
        raise UsageError(f"run {run.id} looked at {seen}; this is {here}", remedy="trade on the same market and day")


def _new_run(
    desk: Desk,
    kind: RunKind,
    params: dict[str, Any],
    *,
    parent: str | None = None,
    schedule: str | None = None,
    slot: str | None = None,
) -> Run:
    now = utcnow()
    return Run(
        id=new_id(),
        kind=kind,
        state=RunState.RUNNING,
        account=desk.settings.account,
        **label_of(desk),
        params=params,
        schedule=schedule,
        slot=slot,
        parent_run_id=parent,
        created_at=now,
        deadline_at=now + dt.timedelta(minutes=desk.settings.run_deadline_minutes),
    )


def _open(app: Celery, run: Run, write: Writer) -> Run:
    desk = desk_of(app)
    finish = new_id()
    ready: list[Ready] = []
    with desk.store.session() as session:
        ensure_account(session, run.account, desk.settings.starting_cash)
        graph.open_run(session, run, finish, desk.settings.step_attempts)
        first = write(session, run, finish)
        ready = graph.add(session, run.id, first, desk.settings.step_attempts)
    send(app, ready)
    return run

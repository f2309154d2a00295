"""The row of one session: its account at the close, and what its runs came to."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlmodel import Session, col, select

from chordesk.models.settings.accounts import research_account
from chordesk.models.states import RunKind, RunState, StepKind
from chordesk.models.tables.backtests import BacktestSession
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Decision, Run, Step, Verdict
from chordesk.tasks.engine import budgets
from chordesk.tasks.engine.child_runs import named_step
from chordesk.tools.backtests.marks import AccountMark

DONE, MISSING = "done", "missing"
_ENDED_WELL = (RunState.DONE, RunState.PARTIAL)


@dataclass(frozen=True, slots=True)
class Day:
    """What is known of one session before it is marked. reason: why it is missing, None for one that is not."""

    day: dt.date
    screen: str | None = None
    trade: str | None = None
    reason: str | None = None


def backtest_runs(account: str) -> Any:
    """Return the query of the ids of all runs of a backtest, by its account."""
    return select(Run.id).where(col(Run.account).in_((account, research_account(account))))


def run_of_step(session: Session, step_id: str) -> Run | None:
    """Return the newest run that this step waited for; None when there is none."""
    rows = select(Run).where(named_step() == step_id).order_by(col(Run.created_at).desc())
    return session.exec(rows).first()


def failure_of(run: Run | None, what: str) -> str | None:
    """Return why a run of a day is of no use; None when it is."""
    if run is None:
        return f"its {what} was never opened"
    if run.state in _ENDED_WELL:
        return None
    why = f": {run.notes[0]}" if run.notes else ""
    return f"its {what} {run.id} {run.state}{why}"


def cut_trade(session: Session, trade: Run | None) -> str | None:
    """Return why a budget kept a day's trader from its turn, None when it did not."""
    if trade is None:
        return None
    steps = session.exec(select(Step).where(Step.run_id == trade.id, Step.kind == StepKind.DECIDE)).all()
    return next(iter(budgets.skipped(steps)), None)


def session_row(session: Session, backtest_id: str, run_id: str, day: Day, mark: AccountMark) -> BacktestSession:
    """Return the row of a session."""
    runs = [one for one in (day.screen, day.trade) if one is not None]
    orders = _orders(session, runs)
    denied = Counter(order.denial_code for order in orders if order.denial_code)
    exposure = mark.gross / mark.equity if mark.equity and mark.equity > 0 else None
    return BacktestSession(
        backtest_id=backtest_id,
        run_id=run_id,
        day=day.day,
        state=DONE if day.reason is None else MISSING,
        reason=day.reason,
        screen_run_id=day.screen,
        trade_run_id=day.trade,
        cash=mark.cash,
        equity=mark.equity,
        exposure=exposure,
        traded=mark.traded,
        orders=_sorted(order.state for order in orders),
        denials=dict(sorted(denied.items())),
        verdicts=_sorted(session.exec(select(Verdict.rating).where(col(Verdict.run_id).in_(runs))).all()),
        unpriced=mark.unpriced,
        stale=mark.stale,
    )


def rows_of(session: Session, backtest_id: str) -> list[BacktestSession]:
    """Return the sessions of a backtest by day, those of its resumptions too."""
    rows = select(BacktestSession).where(BacktestSession.backtest_id == backtest_id)
    return list(session.exec(rows.order_by(col(BacktestSession.day))).all())


def decided_before(session: Session, account: str, now: dt.datetime) -> Run | None:
    """Return the run on a backtest's account and a day whose decision has become orders already; None without one. A
    walk that was stopped between the orders of a day and its mark has one, and must not decide twice."""
    found = (
        select(Run)
        .join(Decision, col(Decision.run_id) == col(Run.id))
        .where(Run.account == account, Run.market_now == now, col(Decision.processed_at).is_not(None))
    )
    return session.exec(found.order_by(col(Run.created_at))).first()


def screened_before(session: Session, account: str, now: dt.datetime) -> Run | None:
    """Return the screen on an account and a day that has ended well already; None without one. A walk that was stopped
    has some that were ahead of its traders."""
    found = select(Run).where(Run.kind == RunKind.SCREEN, Run.account == account, Run.market_now == now)
    rows = session.exec(found.where(col(Run.state).in_(_ENDED_WELL)).order_by(col(Run.created_at))).all()
    return next((run for run in rows if budgets.cut_short(session, run.id) is None), None)


def _orders(session: Session, runs: Iterable[str]) -> list[Order]:
    return list(session.exec(select(Order).where(col(Order.run_id).in_(list(runs)))).all())


def _sorted(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))

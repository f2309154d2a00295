"""The view of a backtest: its sessions, and its result once there is one."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlmodel import Session

from chordesk.models.answers import Frozen
from chordesk.models.settings.running_desk import research_account
from chordesk.models.states import RunKind
from chordesk.models.tables.runs import Run
from chordesk.tasks.workflows.backtest_sessions import rows_of


class SessionRow(Frozen):
    """One session, at its close; the fields are those of `models.tables.backtests.BacktestSession`."""

    day: dt.date
    state: str
    reason: str | None
    screen_run_id: str | None
    trade_run_id: str | None
    cash: float
    equity: float | None
    exposure: float | None
    traded: float
    orders: dict[str, int]
    denials: dict[str, int]
    verdicts: dict[str, int]
    unpriced: list[str]
    stale: list[str]


class BacktestView(Frozen):
    """A backtest. sessions: how many it is to visit; result: as `tasks.workflows.walk.result` counts it, None before
    its end; resumed: the run that it goes on with, None for one that was begun; scored: the account that its verdicts
    and forecasts are scored on."""

    backtest_id: str
    resumed: str | None
    parallel: bool
    scored: str
    sessions: int
    rows: list[SessionRow]
    result: dict[str, Any] | None


def backtest_view(session: Session, run: Run) -> BacktestView | None:
    """Return the view of a backtest's run; None for any other run."""
    if run.kind != RunKind.BACKTEST:
        return None
    origin = session.get_one(Run, run.params["backtest"])
    return BacktestView(
        backtest_id=origin.id,
        resumed=origin.id if origin.id != run.id else None,
        parallel=run.params["parallel"],
        scored=research_account(run.account) if run.params["parallel"] else run.account,
        sessions=len(origin.params["days"]),
        rows=[SessionRow.of(row) for row in rows_of(session, origin.id)],
        result=run.summary.get("backtest"),
    )

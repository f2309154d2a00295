"""Tables of backtests: a row for each session that a walk has visited."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import JSON, UniqueConstraint
from sqlmodel import Field

from chordesk.models.tables.columns import Dated, Identified


class BacktestSession(Identified, Dated, table=True):
    """One session of a backtest, marked at its close. Money is in account currency.

    backtest_id: the run that began the walk; run_id: the run that did this session, another one after a resumption.
    state: done, or missing with its reason. equity: null while a position has no price. exposure: gross value of the
    positions over equity. traded: value of the fills since the session before. orders by state, denials by code,
    verdicts by rating, unpriced and stale positions as symbols.
    """

    __table_args__ = (UniqueConstraint("backtest_id", "day"),)

    backtest_id: str = Field(foreign_key="run.id", index=True)
    run_id: str = Field(foreign_key="run.id", index=True)
    day: dt.date
    state: str
    reason: str | None = None
    screen_run_id: str | None = Field(default=None, foreign_key="run.id", index=True)
    trade_run_id: str | None = Field(default=None, foreign_key="run.id", index=True)
    cash: float
    equity: float | None = None
    exposure: float | None = None
    traded: float
    orders: dict[str, int] = Field(default_factory=dict, sa_type=JSON)
    denials: dict[str, int] = Field(default_factory=dict, sa_type=JSON)
    verdicts: dict[str, int] = Field(default_factory=dict, sa_type=JSON)
    unpriced: list[str] = Field(default_factory=list, sa_type=JSON)
    stale: list[str] = Field(default_factory=list, sa_type=JSON)

"""Walks on a desk of real processes, played by the rulebook on a few names, and what they left."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlmodel import col, select

from chordesk.models.database.store import Store
from chordesk.models.settings.running_desk import research_account
from chordesk.models.states import RUN_FINAL
from chordesk.models.tables.orders import Fill, Order
from chordesk.models.tables.runs import BacktestSession, Run
from chordesk.tasks.measure.backtest import open_backtest
from chordesk.tasks.reading.runs import backtest_rows
from tests.stack import Processes, wait_for

UNIVERSE = "AAPL,IBM,GE,F,KO"
FIRST, LAST = dt.date(2010, 3, 1), dt.date(2010, 3, 8)  # six sessions
# What a second walk over the same days must come to as well; ids and times of its own apart.
COMPARED = ("day", "state", "reason", "cash", "equity", "exposure", "traded", "orders", "denials", "verdicts")


class Walks(ABC):
    """The walks of a desk, as its database has them."""

    @property
    @abstractmethod
    def store(self) -> Store: ...

    def run(self, run_id: str) -> Run:
        with self.store.read() as session:
            return session.get_one(Run, run_id)

    def rows(self, run: Run) -> list[BacktestSession]:
        with self.store.read() as session:
            return backtest_rows(session, run.params["backtest"])

    def runs(self, run: Run, kind: str) -> Sequence[Run]:
        """The runs of a walk's days, by day."""
        with self.store.read() as session:
            own = col(Run.account).in_((run.account, research_account(run.account)))
            rows = session.exec(select(Run).where(own, Run.kind == kind).order_by(col(Run.market_now)))
            return rows.all()

    def orders(self, run: Run) -> Sequence[Order]:
        with self.store.read() as session:
            rows = select(Order).where(Order.account == run.account)
            return session.exec(rows.order_by(col(Order.market_at), col(Order.symbol))).all()

    def fills(self, run: Run) -> Sequence[Fill]:
        with self.store.read() as session:
            rows = select(Fill).where(Fill.account == run.account)
            return session.exec(rows.order_by(col(Fill.filled_at), col(Fill.symbol))).all()


@dataclass(slots=True)
class WalkingDesk(Walks):
    """A desk of research, ops and trade workers."""

    processes: Processes

    @property
    def store(self) -> Store:
        return self.processes.app.desk.store

    def open(self, last: dt.date = LAST, **options: Any) -> Run:
        return open_backtest(self.processes.app, FIRST, last, **{"universe": UNIVERSE, **options})

    def ended(self, run_id: str) -> Run:
        """Wait for its end as long as sessions come: how long all of them take is the machine's doing."""
        while (run := self.run(run_id)).state not in RUN_FINAL:
            done = len(self.rows(run))
            wait_for(partial(self._is_beyond, run_id, done), f"session {done + 1} of backtest {run_id} ends")
        return run

    def _is_beyond(self, run_id: str, sessions: int) -> bool:
        run = self.run(run_id)
        return run.state in RUN_FINAL or len(self.rows(run)) > sessions

    def walk(self, last: dt.date = LAST, **options: Any) -> Run:
        return self.ended(self.open(last, **options).id)


def outline(desk: Walks, run: Run) -> dict[str, Any]:
    """Return what a walk came to, without its own ids and times."""
    result = run.summary["backtest"]
    return {
        "rows": [row.model_dump(include=set(COMPARED)) for row in desk.rows(run)],
        "orders": [(o.market_at, o.symbol, o.action, o.quantity, o.state) for o in desk.orders(run)],
        "fills": [(f.filled_at, f.symbol, f.side, f.quantity, f.price) for f in desk.fills(run)],
        "result": {name: result[name] for name in ("curve", "returns", "drawdown", "turnover", "exposure", "ratings")},
    }

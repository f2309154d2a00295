"""A backtest as the view and the report of its run show it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sqlmodel import Session

from chordesk.models.answers import Frozen
from chordesk.models.money import DOLLAR
from chordesk.models.settings.running_desk import research_account
from chordesk.models.states import RunKind
from chordesk.models.tables.columns import Row
from chordesk.models.tables.runs import BacktestSession, Run
from chordesk.tasks.reading.runs import backtest_rows
from chordesk.tools.ledger import currency_of_account

if TYPE_CHECKING:
    from markupsafe import Markup


class BacktestView(Frozen):
    """A backtest. sessions: how many it is to visit; result: as `measure.backtest_sessions` counts it, None before
    its end; resumed: the run that it goes on with, None for one that was begun; scored: the account that its verdicts
    and forecasts are scored on; currency: of its account."""

    backtest_id: str
    resumed: str | None
    parallel: bool
    scored: str
    sessions: int
    currency: str = DOLLAR
    rows: list[Row[BacktestSession]]
    result: dict[str, Any] | None

    def chart(self) -> Markup:
        """Return the curve of its report."""
        from chordesk.tasks.reports.formats import Line, line_chart  # a report alone has it

        lines = [Line("equity", "the desk", [row.equity for row in self.rows])]
        days = [row.day for row in self.rows]
        curve = (self.result or {}).get("curve") or []
        by_day = {one["day"]: one for one in curve}
        if curve:
            for name, key in (("held", "held"), ("even", "equal_weight")):
                lines.append(Line(name, name, [(by_day.get(day.isoformat()) or {}).get(key) for day in days]))
        return line_chart(days, lines, "Equity of the backtest")


def backtest_view(session: Session, run: Run) -> BacktestView | None:
    if run.kind != RunKind.BACKTEST:
        return None
    origin = session.get_one(Run, run.params["backtest"])
    return BacktestView(
        backtest_id=origin.id,
        resumed=origin.id if origin.id != run.id else None,
        parallel=run.params["parallel"],
        scored=research_account(run.account) if run.params["parallel"] else run.account,
        sessions=len(origin.params["days"]),
        currency=currency_of_account(session, run.account),
        rows=list(backtest_rows(session, origin.id)),
        result=run.summary.get("backtest"),
    )


def missing(found: BacktestView) -> Iterator[dict[str, Any]]:
    """Yield what its report lacks."""
    for row in found.rows:
        if row.reason:
            yield {"what": "session", "reason": f"{row.day}: {row.reason}"}
        if row.unpriced:
            yield {"what": "prices", "reason": f"{row.day}: none for {', '.join(row.unpriced)}"}
        if row.stale:
            yield {"what": "prices", "reason": f"{row.day}: old ones for {', '.join(row.stale)}"}
    if found.result is None:
        yield {"what": "result", "reason": "the backtest has not come to its end"}

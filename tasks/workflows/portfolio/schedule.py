"""The schedule store: when each role last reviewed a holding, and at what figures."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from sqlalchemy.dialects import postgresql, sqlite
from sqlmodel import Session, col, select

from chordesk.models.research import ReportStatus
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.composing import composed_once
from chordesk.models.tables.threads import RoleSchedule
from chordesk.tasks.workflows.portfolio.due import HoldingSnapshot

# Why a role runs on a symbol that a screen brought up: it runs then whether it is due or not.
SCREENED = "screen"
# Statuses that count as a review. A role that had no data, or declined, would do so again at once; one that failed or
# was skipped has reviewed nothing.
LOOKED = frozenset({ReportStatus.COMPLETED, ReportStatus.NO_DATA, ReportStatus.REFUSED})

_KEY = ("account", "market", "symbol", "role")


class RoleScheduleStore:
    """The rows of one account on one market."""

    def __init__(self, account: str, market: str) -> None:
        self._account, self._market = account, market

    def rows(self, session: Session, now: dt.datetime) -> Mapping[tuple[str, str], RoleSchedule]:
        """Return the rows by symbol and role. A row of later than now (market time) is left out: in replay the table
        may have the future."""
        found = session.exec(
            select(RoleSchedule).where(
                RoleSchedule.account == self._account,
                RoleSchedule.market == self._market,
                col(RoleSchedule.last_at) <= now,
            )
        ).all()
        return {(row.symbol, row.role): row for row in found}

    def record(
        self,
        session: Session,
        symbol: str,
        role: str,
        look: HoldingSnapshot,
        *,
        reason: str,
        run_id: str,
        report_id: str,
    ) -> None:
        """Write a review in the caller's transaction, in place of the one before."""
        values = {
            "account": self._account,
            "market": self._market,
            "symbol": symbol,
            "role": role,
            "run_id": run_id,
            "report_id": report_id,
            "reason": reason,
            "last_at": look.at,
            "last_price": look.price,
            "last_unrealized": look.unrealized,
            "updated_at": utcnow(),
        }
        session.connection().execute(_upsert(session.get_bind().dialect.name), values)


@composed_once
def _upsert(dialect: str) -> Any:
    # Two runs may end a review at once: the second must find the row, not fail on it.
    table = RoleSchedule.__table__  # type: ignore[attr-defined]
    new = (sqlite if dialect == "sqlite" else postgresql).insert(table)
    changes = {name: new.excluded[name] for name in table.c.keys() if name not in _KEY}  # noqa: SIM118
    return new.on_conflict_do_update(index_elements=list(_KEY), set_=changes)

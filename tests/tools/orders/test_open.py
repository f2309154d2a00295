"""Open orders are found by their state: what an account ever had is not read."""

from __future__ import annotations

from typing import Any

from sqlalchemy import event

from chordesk.models.database.store import Store
from chordesk.models.orders import AccountView
from chordesk.models.settings import Settings
from chordesk.tools.orders.booking import open_orders
from chordesk.tools.orders.reservations import reservations_on
from chordesk.tools.orders.stops import working_protection


def test_open_orders_are_found_by_their_state(store: Store) -> None:
    asked: list[tuple[str, Any]] = []

    def record(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> None:
        asked.append((statement, parameters))

    with store.read() as session:
        event.listen(session.connection(), "before_cursor_execute", record)
        open_orders(session, "paper")
        working_protection(session, "paper", "AAPL")
        reservations_on(session, AccountView.model_construct(account="paper", positions=[]), Settings())
        event.remove(session.connection(), "before_cursor_execute", record)
        raw = session.connection().connection.cursor()
        plans = [
            " ".join(row[3] for row in raw.execute(f"explain query plan {statement}", parameters))
            for statement, parameters in asked
            if '"order"' in statement
        ]
    assert len(plans) == 3
    assert all("ix_order_state (account=? AND state=?" in each for each in plans), plans

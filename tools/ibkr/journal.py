"""The fills that Interactive Brokers told of, kept: an order that works for days has more of them than the Gateway
lists, and a fill that was booked has to be in every later answer."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

from sqlmodel import col, select

from chordesk.models.database.store import Store
from chordesk.models.ibkr.tables import IbkrFill
from chordesk.models.orders import BrokerFill
from chordesk.models.tables.orders import Order


class Journal:
    def __init__(self, store: Store) -> None:
        self._store = store

    def fills(self, order_id: str) -> dict[str, tuple[int, BrokerFill]]:
        """Return the fills of an order by id, the earliest first, each with IBKR's number of the order."""
        wanted = select(IbkrFill).where(col(IbkrFill.order_id) == order_id).order_by(col(IbkrFill.filled_at))
        with self._store.read() as session:
            return {
                row.id: (
                    row.perm_id,
                    BrokerFill(
                        id=row.id,
                        quantity=row.quantity,
                        price=row.price,
                        commission=row.commission,
                        at=row.filled_at,
                    ),
                )
                for row in session.exec(wanted)
            }

    def sent_at(self, order_id: str) -> dt.datetime | None:
        """Return when the desk began to send an order; None where its books have no such order."""
        with self._store.read() as session:
            row = session.get(Order, order_id)
            return row.sent_at if row is not None else None

    def keep(self, order_id: str, perm_id: int, fills: Iterable[BrokerFill]) -> None:
        """Add those that are not there. What was kept stays as it is."""
        with self._store.session() as session:
            for fill in fills:
                if session.get(IbkrFill, fill.id) is None:
                    row = fill.model_dump(include={"id", "quantity", "price", "commission"})
                    session.add(IbkrFill(**row, order_id=order_id, perm_id=perm_id, filled_at=fill.at))

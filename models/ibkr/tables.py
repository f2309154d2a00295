"""Fills at Interactive Brokers: its own list of them goes back to midnight, and an order may work for days."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import BigInteger
from sqlmodel import Field

from chordesk.models.tables.columns import Dated, Utc


class IbkrFill(Dated, table=True):
    """One fill, as IBKR told it with its commission. id and perm_id, the number of the order, are IBKR's; order_id is
    the desk's."""

    id: str = Field(primary_key=True)
    order_id: str = Field(index=True)
    perm_id: int = Field(sa_type=BigInteger)
    quantity: float
    price: float
    commission: float
    filled_at: dt.datetime = Field(sa_type=Utc)

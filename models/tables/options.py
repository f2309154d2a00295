"""Marks of option chains: the desk's own history, of which ranks and usual volumes are made."""

from __future__ import annotations

import datetime as dt

from sqlmodel import Field

from chordesk.models.tables.columns import Dated


class OptionMark(Dated, table=True):
    """Figures of a symbol's chain of 7 to 60 days, as a source gave them on a day; None where it gave none. The last
    mark of a day stays."""

    symbol: str = Field(primary_key=True)
    day: dt.date = Field(primary_key=True)
    source: str = Field(primary_key=True)
    at_the_money_iv: float | None = None
    put_volume: float | None = None
    call_volume: float | None = None
    put_open_interest: float | None = None
    call_open_interest: float | None = None

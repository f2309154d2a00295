"""The notes of check-ups."""

from __future__ import annotations

from sqlmodel import Field

from chordesk.plugins import Dated


class RangeCheckup(Dated, table=True):
    """A row goes with its run, and after DESK_RANGE_KEEP_DAYS."""

    run_id: str = Field(primary_key=True, foreign_key="run.id")
    symbol: str
    summary: str

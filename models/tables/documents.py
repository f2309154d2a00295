"""Table of the reports of runs that are written to the place of DESK_REPORT_URL."""

from __future__ import annotations

import datetime as dt
from enum import StrEnum

from sqlmodel import Field

from models.tables.columns import DeskTable, Utc


class DocumentState(StrEnum):
    DUE = "due"
    WRITTEN = "written"
    FAILED = "failed"  # given up


class RunDocumentCopy(DeskTable, table=True):
    """The written report of one run. place: its folder, without a login. due_at: of the next try; a process that tries
    moves it ahead first, so that no other one does meanwhile. error: of the last try that failed."""

    run_id: str = Field(primary_key=True, foreign_key="run.id")
    state: str = Field(index=True)
    place: str
    tries: int = 0
    due_at: dt.datetime = Field(sa_type=Utc)
    error: str | None = None
    written_at: dt.datetime | None = Field(default=None, sa_type=Utc)

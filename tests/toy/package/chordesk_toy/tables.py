"""The notes that `desk toy-note` keeps, each of a run or of none."""

from __future__ import annotations

from sqlmodel import Field

from chordesk.plugins import Dated, Identified


class ToyNote(Identified, Dated, table=True):
    run_id: str | None = Field(default=None, foreign_key="run.id", index=True)
    text: str

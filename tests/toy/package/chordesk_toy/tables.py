"""Notes of toys: they go with their run, and after DESK_TOY_NOTE_DAYS."""

from __future__ import annotations

from sqlmodel import Field

from chordesk.plugins import Dated, Identified


class ToyNote(Identified, Dated, table=True):
    run_id: str | None = Field(default=None, foreign_key="run.id", index=True)
    text: str

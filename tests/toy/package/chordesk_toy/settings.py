"""The settings DESK_TOY_LARGEST, DESK_TOY_NOTE_DAYS and DESK_TOY_POST."""

from __future__ import annotations

from pydantic import BaseModel

from chordesk.plugins import of_desk, of_process, of_run


class ToySettings(BaseModel):
    largest: int = of_run(9, "the largest number that a toy run squares", "12", ge=1)
    note_days: float = of_desk(30.0, "notes are deleted after so many days; 0 keeps them", "7", ge=0)
    post: str | None = of_process(None, "the folder in which people leave letters to the desk", "/var/post")

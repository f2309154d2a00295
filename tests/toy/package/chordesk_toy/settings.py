"""The setting DESK_TOY_LARGEST."""

from __future__ import annotations

from pydantic import BaseModel

from chordesk.plugins import of_run


class ToySettings(BaseModel):
    largest: int = of_run(9, "the largest number that a toy run squares", "12", ge=1)

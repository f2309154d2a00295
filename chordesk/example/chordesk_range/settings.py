"""The setting DESK_RANGE_KEEP_DAYS."""

from __future__ import annotations

from pydantic import BaseModel

from chordesk.plugins import of_desk


class RangeSettings(BaseModel):
    keep_days: float = of_desk(90.0, "notes of check-ups are deleted after so many days; 0 keeps them", "30", ge=0)

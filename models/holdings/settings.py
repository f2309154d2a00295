"""The settings DESK_HOLDINGS_..."""

from __future__ import annotations

from pydantic import BaseModel

from chordesk.models.settings.schema import of_process


class HoldingsSettings(BaseModel):
    stale_sessions: int = of_process(
        7, "sessions after which holdings of an outside account are called old", "20", ge=1, le=1000
    )

"""The settings DESK_ALERTS_..."""

from __future__ import annotations

from pydantic import BaseModel

from chordesk.models.settings.schema import of_desk, of_process


class AlertsSettings(BaseModel):
    runs_day: int = of_process(
        20, "most runs that all alerts start in a UTC day; beyond it they only notify", "5", ge=0, le=1000
    )
    firing_days: int = of_desk(400, "days for which what fired is kept; 0 keeps it for ever", "90", ge=0)

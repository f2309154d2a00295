"""The schedule: screens before the market and at mid-day, and an episode, on exchange days, in New York time; the sweep
and the order pass.

Beat has plain crontabs; the task itself checks whether a day is a session of the exchange, and (schedule, slot) is
unique in the database, so a tick that comes twice starts one run.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from celery.schedules import crontab, schedule

from models.settings import Settings

# A tick missed while beat was down fires once on restart; older than this it would screen at the wrong hour.
TICK_EXPIRES_SECONDS = 1800


def beat_schedule(settings: Settings) -> dict[str, dict[str, Any]]:
    entries: dict[str, dict[str, Any]] = {
        "maintain": {
            "task": "desk.maintain",
            "schedule": schedule(dt.timedelta(seconds=settings.maintain_seconds)),
            "options": {"expires": max(settings.maintain_seconds * 2, 2)},
        },
        "orders": {
            "task": "desk.orders",
            "schedule": schedule(dt.timedelta(seconds=settings.orders_seconds)),
            "options": {"expires": max(settings.orders_seconds, 2)},
        },
    }
    daily = (
        ("premarket", "desk.screen", settings.premarket),
        ("midday", "desk.screen", settings.midday),
        ("episode", "desk.brief", settings.episode),
    )
    for name, task, time in daily:
        if time != "off":
            hour, minute = time.split(":")
            entries[name] = {
                "task": task,
                "schedule": crontab(hour=str(int(hour)), minute=str(int(minute)), day_of_week="mon-fri"),
                "kwargs": {"schedule": name},
                "options": {"expires": TICK_EXPIRES_SECONDS},
            }
    return entries

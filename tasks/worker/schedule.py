"""The schedule: screens before the market and at mid-day, and an episode, on exchange days, in New York time; the
sweep, the order pass, and the reports of runs that ended.

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
DOCUMENTS_SECONDS = 5
BEAT_PREFIX = "desk:beat:"  # of its keys in Redis


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
    if settings.report_url is not None:
        entries["documents"] = {
            "task": "desk.documents",
            "schedule": schedule(dt.timedelta(seconds=DOCUMENTS_SECONDS)),
            "options": {"expires": DOCUMENTS_SECONDS},
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

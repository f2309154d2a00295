"""Quiet hours of a day on the clock of a time zone, over midnight and over the change to and from summer time."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from zoneinfo import ZoneInfo

_FORM = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")
_DAY = dt.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class QuietHours:
    """From `begin` up to `end`, on the next day where that is not later."""

    begin: dt.time
    end: dt.time

    @classmethod
    def parse(cls, text: str) -> QuietHours:
        """Return the hours of HH:MM-HH:MM. Raises ValueError."""
        found = _FORM.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} are no hours: write HH:MM-HH:MM, such as 22:00-07:00, or off")
        hours = [int(part) for part in found.groups()]
        begin, end = dt.time(hours[0], hours[1]), dt.time(hours[2], hours[3])
        if begin == end:
            raise ValueError(f"{text!r} would be the whole day: leave the channel out of DESK_NOTIFY_KINDS instead")
        return cls(begin, end)

    def until(self, now: dt.datetime, zone: ZoneInfo) -> dt.datetime | None:
        """Return when the quiet hours end in which `now` is, in UTC; None outside of them.

        Each night is one interval between two moments, so an hour that the clock repeats is quiet once and not again. A
        time that the clock leaves out counts as that much after the last one before the gap (PEP 495, fold=0).
        """
        today = now.astimezone(zone).date()
        for day in (today - _DAY, today):
            last = day if self.end > self.begin else day + _DAY
            begin, end = _moment(day, self.begin, zone), _moment(last, self.end, zone)
            if begin <= now < end:
                return end
        return None

    def __str__(self) -> str:
        return f"{self.begin:%H:%M}-{self.end:%H:%M}"


def _moment(day: dt.date, time: dt.time, zone: ZoneInfo) -> dt.datetime:
    return dt.datetime.combine(day, time, zone).astimezone(dt.UTC)

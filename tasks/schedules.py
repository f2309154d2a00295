"""The schedule: the runs that start by themselves, each at its time of each session of its exchange: the desk's own,
or another that a person has chosen. The run itself is of the desk's exchange.

The settings have the first entries. What a person changes is a row of the database, which takes the place of the
setting of its name; beat reads it within seconds. Beat has plain crontabs in New York's time; the task itself checks
whether a day is a session of the exchange, and (schedule, slot) is unique in the database, so a tick that comes twice
starts one run.

An entry may have days of its own and the fields of a request; then the task is `tasks/workflows/scheduled.py`'s, which
looks at both.

A time of another clock than New York's, or one that follows a session's own close, is a crontab of its next start
alone, which beat puts in the place of the former one. It keeps one that is due for as long as its tick would be taken:
a beat that was down then sends it late.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast
from zoneinfo import ZoneInfo

from pydantic import computed_field
from sqlmodel import Session, select

from chordesk.models.answers import Frozen
from chordesk.models.errors import NotFound, UsageError
from chordesk.models.exchanges import EXCHANGES, clock_of, exchange_named, shown_exchange
from chordesk.models.settings import Settings
from chordesk.models.settings.types import TIME_REMEDY, TIME_RULE
from chordesk.models.settings.variables import PREFIX
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Run
from chordesk.models.tables.runtime import ScheduleEntry
from chordesk.models.text import NEW_YORK
from chordesk.tasks.engine import kinds, requests
from chordesk.tasks.schedule_days import EVERY, checked_days, first_due, is_due
from chordesk.tools.market.clock import ExchangeHours, exchange_day, exchange_hours, zone_of
from chordesk.tools.orders import audit

if TYPE_CHECKING:
    import redis

MOST = 50
NAME_RULE = r"[a-z][a-z0-9-]{0,39}"


class Entry(Frozen):
    """at: a time of a session (`TIME_RULE`) of the exchange, a code; days: which sessions, as `checked_days` has them;
    request: the fields of the run's request, None where its kind starts without. setting: the variable of an entry that
    the settings have, None of a person's own; by, changed_at: who changed it last, None where it is as its setting
    says. lack: why it starts nothing even while it is on, and the remedy: nothing here has its kind."""

    name: str
    kind: str
    at: str
    exchange: str
    days: str = EVERY
    request: dict[str, Any] | None = None
    enabled: bool
    setting: str | None
    by: str | None = None
    changed_at: dt.datetime | None = None
    lack: str | None = None

    @property
    def starts(self) -> bool:
        return self.enabled and self.lack is None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def said(self) -> str:
        """The kind with the fields of its request, as a person writes them."""
        given = (f"{name}={_said(value)}" for name, value in (self.request or {}).items())
        return " ".join([self.kind, *given])


def _said(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def of_settings(settings: Settings) -> list[Entry]:
    named = [(kind, name) for kind, spec in kinds.scheduled().items() for name in spec.daily]
    return [
        Entry(
            name=name,
            kind=kind,
            at=at,
            exchange=settings.exchange,
            enabled=True,
            setting=f"{PREFIX}{name.upper()}",
        )
        for kind, name in named
        if (at := getattr(settings, name)) != "off"
    ]


def entries(session: Session, settings: Settings) -> list[Entry]:
    """Return the whole schedule, also what is switched off, by time of day."""
    found = {one.name: one for one in of_settings(settings)}
    for row in session.exec(select(ScheduleEntry)).all():
        given = found.get(row.name)
        setting = given.setting if given is not None else None
        facts = row.model_dump() | {"exchange": row.exchange or settings.exchange}
        found[row.name] = Entry(**facts, setting=setting, lack=requests.lack_of(row.kind))
    return sorted(found.values(), key=lambda one: (one.at, one.name))


def exchange_at(session: Session, settings: Settings, name: str) -> str:
    """Return the exchange by whose sessions an entry starts its runs; the desk's own where there is no such entry."""
    row = session.get(ScheduleEntry, name)
    return (row.exchange if row is not None else None) or settings.exchange


def next_start(session: Session, entry: Entry, now: dt.datetime) -> dt.datetime | None:
    """Return the first time after now, on a session of its exchange; None for an entry that starts nothing. The
    schedule runs in real time, also where the market replays a day; an entry that has had its run of a day starts none
    more on it."""
    if not entry.starts:
        return None
    hours, today = exchange_hours(entry.exchange), exchange_day(now, entry.exchange)
    had = select(Run.id).where(Run.schedule == entry.name, Run.slot == today.isoformat())
    day = first_due(entry.days, hours, today)
    if day == today and (_at(hours, day, entry.at) <= now or session.exec(had).first() is not None):
        day = first_due(entry.days, hours, today + dt.timedelta(days=1))
    return _at(hours, day, entry.at) if day is not None else None


def due_slot(entry: Entry, now: dt.datetime) -> str | None:
    """Return the slot of what an entry starts today, the date where its exchange is; None where it starts nothing."""
    hours, today = exchange_hours(entry.exchange), exchange_day(now, entry.exchange)
    due = entry.starts and hours.is_session(today) and is_due(entry.days, hours, today)
    return today.isoformat() if due else None


def _at(hours: ExchangeHours, day: dt.date, time: str) -> dt.datetime:
    """Return a time of a session: HH:MM where the exchange is, or minutes from its open or close, on its own day: a
    session of pairs ends at midnight."""
    first, last = (dt.datetime.combine(day, each, hours.zone) for each in (dt.time(), dt.time(23, 59)))
    return min(max(_unbound(hours, day, time), first), last)


def _unbound(hours: ExchangeHours, day: dt.date, time: str) -> dt.datetime:
    if ":" in time:
        return dt.datetime.combine(day, dt.time.fromisoformat(time), hours.zone)
    begins = hours.open_of(day) if time.startswith("open") else hours.close_of(day)
    return begins + dt.timedelta(minutes=int(re.sub(r"[a-z]", "", time) or 0))


def shown_time(at: str, exchange: str) -> str:
    """Return a time of the session with what it is of: 12:30 New York time, close-30m of XTKS (Tokyo)."""
    return f"{at} {clock_of(exchange)}" if ":" in at else f"{at} of {shown_exchange(exchange)}"


def outside(entry: Entry) -> str | None:
    """Return that minutes from the open or close lead out of the session, with the time; None of those within it, and
    of a time of the clock, which a person can read. Of the sessions of a year, for some are short."""
    if ":" in entry.at:
        return None
    hours, today = exchange_hours(entry.exchange), exchange_day(utcnow(), entry.exchange)
    days = hours.between(today - dt.timedelta(days=365), today)
    found = [
        (day, at) for day in days if not hours.open_of(day) <= (at := _at(hours, day, entry.at)) <= hours.close_of(day)
    ]
    if not found:
        return None
    day, at = max(found, key=lambda one: (hours.close_of(one[0]) - hours.open_of(one[0]), one[0]))
    early = at < hours.open_of(day)
    edge, bound = ("before the open", hours.open_of(day)) if early else ("after the close", hours.close_of(day))
    often = "" if len(found) == len(days) else f" on {len(found)} of {len(days)} sessions, the last on {day}"
    there = f"{at.astimezone(hours.zone):%H:%M}, {edge} at {bound.astimezone(hours.zone):%H:%M}"
    return f"{entry.at} is {there}{often}"


def elsewhere(entry: Entry, settings: Settings) -> str | None:
    """Return an entry's time with its exchange; None where that is the desk's own."""
    return shown_time(entry.at, entry.exchange) if entry.exchange != settings.exchange else None


def add(
    session: Session,
    settings: Settings,
    name: str,
    kind: str,
    at: str,
    by: str,
    exchange: str | None = None,
    days: str = EVERY,
    given: Sequence[str] = (),
) -> Entry:
    """Add an entry. exchange: of its sessions, by code or city; None for the desk's own. given: NAME=VALUE of the
    fields that its run's request has, as `requests.from_texts`."""
    return _put(session, settings, addable(session, settings, name, kind, at, by, exchange, days, given))


def addable(
    session: Session,
    settings: Settings,
    name: str,
    kind: str,
    at: str,
    by: str,
    exchange: str | None = None,
    days: str = EVERY,
    given: Sequence[str] = (),
) -> ScheduleEntry:
    """Return what `add` would write, and write nothing. Raises UsageError for what it would refuse."""
    known = entries(session, settings)
    if not re.fullmatch(NAME_RULE, name):
        raise UsageError(f"{name!r} is no name", remedy="use small letters, digits and hyphens, as in early-screen")
    if any(one.name == name for one in known):
        raise UsageError(f"there is a {name} already", remedy="change it, or choose another name")
    if len(known) >= MOST:
        raise UsageError(f"the schedule has {len(known)} entries, and no more fit", remedy="remove one first")
    there = _exchange(exchange) if exchange else None
    request = requests.from_texts(kind, given) if given else None
    row = ScheduleEntry(name=name, kind=kind, at=at, exchange=there, days=days, request=request, enabled=True, by=by)
    _check(settings, row)
    return row


def _exchange(name: str) -> str:
    if (found := exchange_named(name)) is None:
        known = ", ".join(f"{row.code} ({row.place})" for row in EXCHANGES.values())
        raise UsageError(f"there is no exchange {name!r}", remedy=f"choose among {known}")
    return found


class Change(Frozen):
    """What a person changes of an entry; None leaves it as it is. given: of `add`, beside the fields that it has."""

    at: str | None = None
    enabled: bool | None = None
    days: str | None = None
    given: Sequence[str] | None = None


def change(session: Session, settings: Settings, name: str, by: str, wanted: Change) -> Entry:
    entry = _find(session, settings, name)
    row = session.get(ScheduleEntry, name, with_for_update=True) or ScheduleEntry(
        **entry.model_dump(include={"name", "kind", "at", "days", "request", "enabled"}), by=by
    )
    row.at, row.days, row.by = wanted.at or row.at, wanted.days or row.days, by
    row.enabled = row.enabled if wanted.enabled is None else wanted.enabled
    if wanted.given:
        row.request = {**(row.request or {}), **requests.from_texts(row.kind, wanted.given)}
    return _put(session, settings, row)


def remove(session: Session, settings: Settings, name: str, by: str) -> Entry | None:
    """Remove an entry; one that the settings have is as they say from then on, and is returned."""
    entry = _find(session, settings, name)
    row = session.get(ScheduleEntry, name, with_for_update=True)
    if row is None:
        raise UsageError(f"{name} is of the setting {entry.setting}", remedy="switch it off, or change the setting")
    session.delete(row)
    audit.record(session, settings, "schedule_removed", name=name, at=row.at, by=by)
    session.flush()
    return next((one for one in of_settings(settings) if one.name == name), None)


def _find(session: Session, settings: Settings, name: str) -> Entry:
    known = entries(session, settings)
    found = next((one for one in known if one.name == name), None)
    if found is None:
        names = ", ".join(one.name for one in known) or "nothing"
        raise NotFound(f"the schedule has no {name!r}", remedy=f"it has {names}: `desk schedule list`")
    return found


def _check(settings: Settings, row: ScheduleEntry) -> None:
    if row.enabled and (lack := requests.lack_of(row.kind)) is not None:
        raise UsageError(f"{row.kind!r} is not started by the schedule: {lack}", remedy=f"choose among {_names()}")
    if not re.fullmatch(TIME_RULE, row.at):
        raise UsageError(f"{row.at!r} is no time of a session", remedy=TIME_REMEDY)
    exchange = row.exchange or settings.exchange
    _require_own_day(row.at, exchange)
    if row.enabled:
        _check_what_starts(row, exchange)


def _put(session: Session, settings: Settings, row: ScheduleEntry) -> Entry:
    _check(settings, row)
    row.changed_at = utcnow()
    session.add(row)
    facts = row.model_dump(include={"name", "at", "days", "request", "enabled", "by"})
    facts |= {"exchange": row.exchange} if row.exchange else {}
    audit.record(session, settings, "schedule_changed", starts=row.kind, **facts)
    session.flush()
    return _find(session, settings, row.name)


def _check_what_starts(row: ScheduleEntry, exchange: str) -> None:
    """Raise UsageError for days on which it never starts, and for fields that its kind does not take."""
    hours, now = exchange_hours(exchange), utcnow()
    row.days = checked_days(row.days, hours, today := exchange_day(now, exchange))
    if row.days == today.isoformat() and _at(hours, today, row.at) <= now:
        raise UsageError(f"{shown_time(row.at, exchange)} of {row.days} has passed", remedy="give a later time or day")
    if row.request is not None or row.kind not in kinds.scheduled():
        row.request = requests.checked(row.kind, row.request or {}, row.by)


def _require_own_day(at: str, exchange: str) -> None:
    """Raise UsageError for a time that is not on the day of its session, by which a run has its slot: a session of
    pairs ends at midnight."""
    hours = exchange_hours(exchange)
    day = hours.last_closed(utcnow())
    moment = _unbound(hours, day, at)
    if moment.date() != day:
        reason = f"{shown_time(at, exchange)} is {moment:%H:%M} of another day than the session's"
        raise UsageError(reason, remedy=TIME_REMEDY)


def _names() -> str:
    return ", ".join(requests.startable())


def starting(session: Session, settings: Settings, now: dt.datetime) -> Sequence[tuple[Entry, dt.datetime]]:
    """Return what starts next of each entry that is on, the soonest first."""
    found = [(one, next_start(session, one, now)) for one in entries(session, settings)]
    return sorted(((one, at) for one, at in found if at is not None), key=lambda pair: pair[1])


# A tick missed while beat was down fires once on restart; older than this it would screen at the wrong hour.
TICK_EXPIRES_SECONDS = 1800
BEAT_PREFIX = "desk:beat:"  # of its keys in Redis
LOCK, DUE = f"{BEAT_PREFIX}:lock", f"{BEAT_PREFIX}:schedule"


def beat_schedule(
    entries: Iterable[Entry], due: Mapping[str, dt.datetime | None] = MappingProxyType({})
) -> dict[str, dict[str, Any]]:
    """Return what beat sends, by the names of the entries that start something. due: the next start of those whose
    time is not one of New York's clock; one without is left out."""
    found = {}
    for one in (each for each in entries if each.starts):
        fields = _every_day(one.at) if _is_plain(one) else _once(due.get(one.name))
        if fields is not None:
            found[one.name] = _crontab(one, fields)
    return found


def beat_schedule_now(session: Session, settings: Settings, now: dt.datetime) -> dict[str, dict[str, Any]]:
    known, since = entries(session, settings), now - dt.timedelta(seconds=TICK_EXPIRES_SECONDS)
    return beat_schedule(known, {one.name: next_start(session, one, since) for one in known if not _is_plain(one)})


def _is_plain(entry: Entry) -> bool:
    return ":" in entry.at and zone_of(entry.exchange) == NEW_YORK


def _every_day(at: str) -> dict[str, str]:
    hour, minute = map(int, at.split(":"))
    return {"hour": str(hour), "minute": str(minute), "day_of_week": "mon-fri"}


def _once(at: dt.datetime | None) -> dict[str, str] | None:
    if at is None:
        return None
    there = at.astimezone(NEW_YORK)
    fields = {"hour": there.hour, "minute": there.minute, "day_of_month": there.day, "month_of_year": there.month}
    return {name: str(value) for name, value in fields.items()}


def _crontab(entry: Entry, fields: Mapping[str, str]) -> dict[str, Any]:
    from celery.schedules import crontab  # whoever only reads the schedule has no use for it

    plain = entry.request is None and entry.days == EVERY
    return {
        "task": kinds.task_name(kinds.scheduled()[entry.kind].kind) if plain else kinds.SCHEDULED,
        "schedule": crontab(**fields),
        "kwargs": {"schedule": entry.name},
        "options": {"expires": TICK_EXPIRES_SECONDS},
    }


class BeatEntry(Frozen):
    """One entry of the schedule. last: when it was last sent, None before the first time; next: when beat looks at it
    next, at its start or before: `starting` has the start."""

    name: str
    last: dt.datetime | None
    next: dt.datetime


class BeatState(Frozen):
    """Whether a beat runs, which its lock of some seconds shows, and its entries, the next one first; those of a beat
    that has ended stay known."""

    running: bool
    entries: list[BeatEntry]


def beat_state(client: redis.Redis) -> BeatState:
    due = cast("list[tuple[bytes, float]]", client.zrange(DUE, 0, -1, withscores=True))
    return BeatState(running=bool(client.exists(LOCK)), entries=[_entry(client, key.decode(), at) for key, at in due])


def _entry(client: redis.Redis, key: str, at: float) -> BeatEntry:
    meta = json.loads(cast("bytes | None", client.hget(key, "meta")) or b"{}")
    # Before its first run the entry has the time at which it was made, and no run counted.
    last = _moment(meta["last_run_at"]) if meta.get("total_run_count") else None
    return BeatEntry(name=key.removeprefix(BEAT_PREFIX), last=last, next=dt.datetime.fromtimestamp(round(at), dt.UTC))


def _moment(parts: dict[str, Any]) -> dt.datetime:
    zone = parts["timezone"]
    place = ZoneInfo(zone) if isinstance(zone, str) else dt.timezone(dt.timedelta(seconds=zone))
    names = ("year", "month", "day", "hour", "minute", "second", "microsecond")
    return dt.datetime(**{name: int(parts[name]) for name in names}, tzinfo=place).astimezone(dt.UTC)

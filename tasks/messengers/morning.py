"""The morning message: what became of the desk since a person's last one, at the hour that the person wants it."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Sequence
from zoneinfo import ZoneInfo

import sqlalchemy
from sqlmodel import Session, col, select

from chordesk.models.errors import UsageError
from chordesk.models.messengers.tables import MessengersPerson
from chordesk.models.settings import Settings
from chordesk.models.states import ApprovalState, RunState
from chordesk.models.tables.orders import Approval, Order
from chordesk.models.tables.runs import Run, Turn
from chordesk.tasks.approval_requests import WaitingOrder, waiting
from chordesk.tasks.engine.budgets import Cost, cost_of_turns
from chordesk.tasks.messengers import messages
from chordesk.tasks.messengers.messages import PersonQuiet
from chordesk.tasks.messengers.people import in_force
from chordesk.tasks.reading.chain import order_label
from chordesk.tasks.reading.changes import Change, changes, last_close, summary
from chordesk.tools.market.clock import exchange_hours

DAILY = "daily"
_HOUR = re.compile(rf"([01]\d|2[0-3]):([0-5]\d)( {DAILY})?")
_MOST = 8  # lines of each kind


def parsed(text: str) -> str | None:
    """Return an hour as it is kept, HH:MM with ` daily` where it is of all days and not of sessions alone; None for
    off. Raises UsageError."""
    given = " ".join(text.split())
    if given == "off":
        return None
    if not _HOUR.fullmatch(given):
        raise UsageError(f"{text!r} is no hour of a day", remedy=f"such as 08:00, '08:00 {DAILY}', or off")
    return given


def write(session: Session, settings: Settings, messenger: str, now: dt.datetime) -> None:
    """Write to each person whose hour has come; once, as its time is kept in the same transaction."""
    for person in due(session, settings, messenger, now):
        messages.reply(session, person, text_of(session, settings, person, now))
        person.told_at = now
        session.add(person)


def due(session: Session, settings: Settings, messenger: str, now: dt.datetime) -> list[MessengersPerson]:
    zone = messages.zone_of(settings)
    return [
        person
        for person in in_force(session, messenger)
        if person.blocked_at is None and _is_due(settings, person, now, zone)
    ]


def _is_due(settings: Settings, person: MessengersPerson, now: dt.datetime, zone: ZoneInfo) -> bool:
    """Return whether a person's hour of this day has come and nothing was told since; not within quiet hours, after
    which it is told all the same."""
    found = _HOUR.fullmatch(person.morning or "")
    if found is None:
        return False
    here = now.astimezone(zone)
    at = here.replace(hour=int(found[1]), minute=int(found[2]), second=0, microsecond=0)
    if here < at or (person.told_at or person.created_at) >= at:
        return False
    if found[3] is None and not exchange_hours(settings.exchange).is_session(here.date()):
        return False
    return PersonQuiet.of(settings, person).until(now, zone) is None


def text_of(session: Session, settings: Settings, person: MessengersPerson, now: dt.datetime) -> str:
    """Return the message: what needs the person first, then what was missed, then what was done, gained and spent."""
    zone = messages.zone_of(settings)
    since = person.told_at or max(person.created_at, last_close(settings, now))
    found = changes(session, settings, settings.account, since, 1000)
    lines = [summary(found, f"{since.astimezone(zone):%b %-d, %H:%M %Z}")]
    for title, told in (
        ("needs you", list(_waiting(session, settings, zone))),
        ("expired unanswered", list(_expired(session, settings, since, now))),
        ("halts", _texts(found.changes, "trading")),
        ("trades", _texts(found.changes, "fill")),
        ("failed", list(_failed(session, settings, since))),
        ("theses", _texts(found.changes, "thesis")),
        ("plans", _texts(found.changes, "plan")),
        ("noted", _texts(found.changes, "notice")),
    ):
        shown = [f"- {each}" for each in told[:_MOST]]
        lines += [f"{title}:", *shown] if shown else []
        lines += [f"and {len(told) - _MOST} more"] if len(told) > _MOST else []
    lines.append(f"cost: {found.tokens:,} tokens, {_cost(session, settings, since)}")
    return messages.plain("\n".join(lines))


def _texts(rows: Sequence[Change], kind: str) -> list[str]:
    return [one.text for one in rows if one.kind == kind]


def _waiting(session: Session, settings: Settings, zone: ZoneInfo) -> Iterator[str]:
    for one in waiting(session):
        until = f"{one.approval.expires_at.astimezone(zone):%H:%M %Z}"
        if isinstance(one, WaitingOrder):
            yield f"{order_label(one.order)}, {one.approval.notional:,.2f} {settings.currency}, until {until}"
        else:
            yield f"{one.what}, until {until}"


def _expired(session: Session, settings: Settings, since: dt.datetime, now: dt.datetime) -> Iterator[str]:
    """Yield the orders whose question nobody answered: marked so, or over and not marked yet."""
    over = col(Approval.state).in_((ApprovalState.EXPIRED.value, ApprovalState.PENDING.value))
    rows = select(Order).join(Approval, col(Approval.order_id) == col(Order.id))
    rows = rows.where(Order.account == settings.account, over, col(Approval.expires_at) >= since)
    for order in session.exec(rows.where(col(Approval.expires_at) <= now).order_by(col(Approval.expires_at))).all():
        yield order_label(order)


def _failed(session: Session, settings: Settings, since: dt.datetime) -> Iterator[str]:
    from chordesk.tasks.reading.run_details import outcome

    rows = select(Run).where(Run.account == settings.account, col(Run.parent_run_id).is_(None))
    rows = rows.where(Run.state == RunState.FAILED, col(Run.finished_at) >= since)
    for run in session.exec(rows.order_by(col(Run.finished_at).desc())).all():
        yield f"{run.kind} {run.id[:12]}: {outcome(session, run)}"


def _cost(session: Session, settings: Settings, since: dt.datetime) -> Cost:
    of = sqlalchemy.select(col(Run.id)).where(col(Run.account) == settings.account)
    return cost_of_turns(session, settings, sqlalchemy.and_(col(Turn.finished_at) >= since, col(Turn.run_id).in_(of)))

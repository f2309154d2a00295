"""Cards: what waits for a person, worded by code from its rows, with buttons that are bound to what the card shows."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterator
from zoneinfo import ZoneInfo

import orjson
from sqlmodel import Session, col, select

from chordesk.models.errors import NotFound
from chordesk.models.messengers.tables import MessengersMessage, MessengersPerson
from chordesk.models.settings import Settings
from chordesk.models.states import ApprovalState, OrderState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runtime import RuntimeApproval
from chordesk.tasks.approval_requests import WaitingOrder, WaitingRequest, asked_of, waiting
from chordesk.tasks.messengers import confirming, messages
from chordesk.tasks.messengers.messages import CARD, CLOSED, GIVEN_UP, SENT, WAITING, Button, PersonQuiet
from chordesk.tasks.messengers.people import Scope, in_force
from chordesk.tasks.notifications.wording import quoted, symbol
from chordesk.tools import rogue_calls
from chordesk.tools.decimals import money, plain
from chordesk.tools.orders import checking

APPROVE, CONFIRM, DENY = "approve", "confirm", "deny"
_SHORT = 8
_MOST_FIGURES = 4
Asked = WaitingOrder | WaitingRequest


def write(session: Session, settings: Settings, messenger: str, now: dt.datetime) -> None:
    """Add a card for each person who decides and each thing that waits and has none for that person."""
    for person, row in lacking(session, messenger):
        add(session, settings, person, row, _not_before(settings, person, now))


def lacking(session: Session, messenger: str) -> list[tuple[MessengersPerson, Asked]]:
    people = [person for person in in_force(session, messenger) if Scope.DECIDE in person.scopes]
    rows = waiting(session) if people else []
    if not rows:
        return []
    targets = [row.approval.id for row in rows]
    known = set(
        session.exec(
            select(MessengersMessage.person_id, MessengersMessage.target).where(
                MessengersMessage.kind == CARD, col(MessengersMessage.target).in_(targets)
            )
        ).all()
    )
    wanted = [person for person in people if person.blocked_at is None]
    return [(person, row) for person in wanted for row in rows if (person.id, row.approval.id) not in known]


def _not_before(settings: Settings, person: MessengersPerson, now: dt.datetime) -> dt.datetime:
    if person.wake and (person.muted_until is None or person.muted_until <= now):
        return now
    return PersonQuiet.of(settings, person).until(now, messages.zone_of(settings)) or now


def add(session: Session, settings: Settings, person: MessengersPerson, row: Asked, at: dt.datetime) -> None:
    text = text_of(session, settings, row)
    messages.card(session, person, text, buttons_of(row), row.approval.id, at)


def text_of(session: Session, settings: Settings, row: Asked) -> str:
    zone = messages.zone_of(settings)
    lines = _order(session, settings, row) if isinstance(row, WaitingOrder) else _request(row)
    return "\n".join((*lines, f"answer by {_time(row.approval.expires_at, zone)}"))


def _order(session: Session, settings: Settings, row: WaitingOrder) -> Iterator[str]:
    order = row.order
    kind = "REAL MONEY" if settings.real_money else "play money"
    what = symbol(order.contract or order.symbol)
    side = quoted(order.side or order.action, 12)
    yield f"An order waits for you: {side} {plain(order.quantity or 0)} {what}"
    prices = [(name, getattr(order, f"{name}_price")) for name in ("limit", "stop")]
    terms = [f"{name} {money(price)}" for name, price in prices if price is not None]
    yield ", ".join((quoted(order.order_type or "no type", 30), *terms, quoted(order.time_in_force or "", 12)))
    yield f"{money(row.approval.notional)} {settings.currency} on {quoted(order.account, 40)} ({kind})"
    if order.legs:
        yield f"legs: {quoted(orjson.dumps(order.legs).decode(), 300)}"
    yield f"why: {quoted(row.why, 300) if row.why else 'no reason was given'}"
    if (told := rogue_calls.note(row.rogue)) is not None:
        yield f"ATTENTION, it rests on {quoted(told, 200)}"
    if (checks := checking.kept(session, order.id)) is not None:
        figures = [quoted(one.figure, 80) for one in checks.answers if one.figure and one.binds]
        if figures:
            yield f"figures: {', '.join(figures[:_MOST_FIGURES])}"
    yield f"order {order.id[:_SHORT]}, preview {row.approval.payload_hash[:12]}"


def _request(row: WaitingRequest) -> Iterator[str]:
    asked = row.approval
    yield f"{quoted(asked.role, 40)} asks for {quoted(asked.kind.replace('_', ' '), 40)}"
    yield quoted(row.what, 600)
    if asked.detail.get("questions"):
        yield "it has questions: answer it on the page, or by desk approve with answers; here you can deny it"
    yield f"run {quoted(asked.run_id[:_SHORT], _SHORT)}, request {quoted(asked.id[:_SHORT], _SHORT)}"


def buttons_of(row: Asked) -> list[Button]:
    target, shown = row.approval.id, shown_hash(row)
    deny = Button("Deny", DENY, target, shown)
    if isinstance(row, WaitingRequest) and row.approval.detail.get("questions"):
        return [deny]
    return [Button("Approve", APPROVE, target, shown), deny]


def confirm_buttons(settings: Settings, row: Asked) -> list[Button]:
    target, shown = row.approval.id, shown_hash(row)
    amount = f"{money(row.approval.notional)} {settings.currency}, " if isinstance(row, WaitingOrder) else ""
    return [Button(f"Approve {amount}really", CONFIRM, target, shown), Button("Deny", DENY, target, shown)]


def shown_hash(row: Asked) -> str:
    """Return the hash of the preview; of a request that of all that it asks for."""
    if isinstance(row, WaitingOrder):
        return row.approval.payload_hash
    return request_hash(row.approval)


def request_hash(asked: RuntimeApproval) -> str:
    shown = orjson.dumps([asked.id, asked.kind, asked.role, asked.detail], option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(shown).hexdigest()


def fate_of(row: Asked, now: dt.datetime, zone: ZoneInfo) -> str | None:
    """Return what became of what waited; None while it waits."""
    asked = row.approval
    if asked.state == ApprovalState.PENDING and asked.expires_at > now:
        if isinstance(row, WaitingOrder) and row.order.state != OrderState.APPROVAL_PENDING:
            return f"it waits no more: the order is {quoted(row.order.state, 30)}"
        return None
    if asked.state in (ApprovalState.PENDING, ApprovalState.EXPIRED):
        return f"expired unanswered at {_time(asked.expires_at, zone)}"
    at = _time(asked.decided_at, zone) if asked.decided_at is not None else "an unknown time"
    because = f": {quoted(asked.why)}" if asked.why else ""
    return f"{asked.state} by {quoted(asked.decided_by, 80)} at {at}{because}"


def close(session: Session, settings: Settings, messenger: str, now: dt.datetime) -> None:
    """Say on each card what became of what it asks for; those that were held back become one message."""
    missed = dict[str, list[str]]()
    for row, fate in ended(session, settings, messenger, now):
        person = session.get_one(MessengersPerson, row.person_id)
        if row.state == SENT:
            messages.edit(session, person, row, f"{row.text}\n\n{fate}", ())
            row.state = CLOSED
        else:
            missed.setdefault(person.id, []).append(f"{row.text.splitlines()[0]}: {fate}")
            row.state, row.ended_at, row.buttons = GIVEN_UP, now, []
        session.add(row)
    for id_, lines in missed.items():
        told = "\n".join(("Over before you could answer:", *lines))
        messages.reply(session, session.get_one(MessengersPerson, id_), told)


def ended(
    session: Session, settings: Settings, messenger: str, now: dt.datetime
) -> list[tuple[MessengersMessage, str]]:
    """Return cards of what waits no more, with what became of it: those that were sent, and of those that were held
    back the ones whose time has come."""
    of = [person.id for person in in_force(session, messenger)]
    cards = session.exec(
        select(MessengersMessage)
        .where(
            MessengersMessage.kind == CARD,
            col(MessengersMessage.state).in_((SENT, WAITING)),
            col(MessengersMessage.person_id).in_(of),
        )
        .order_by(col(MessengersMessage.created_at))
    ).all()
    zone = messages.zone_of(settings)
    due = [row for row in cards if row.state == SENT or row.next_at <= now]
    return [(row, fate) for row in due if (fate := _fate(session, settings, row, now, zone)) is not None]


def is_over(session: Session, settings: Settings, card: MessengersMessage) -> bool:
    return _fate(session, settings, card, utcnow(), messages.zone_of(settings)) is not None


def _fate(
    session: Session, settings: Settings, card: MessengersMessage, now: dt.datetime, zone: ZoneInfo
) -> str | None:
    if confirming.is_proposal(card.target):
        return confirming.fate_of(session, settings, card.target or "")
    try:
        return fate_of(asked_of(session, card.target or ""), now, zone)
    except NotFound:
        return "it is not on record any more"


def _time(at: dt.datetime, zone: ZoneInfo) -> str:
    return f"{at.astimezone(zone):%b %-d, %H:%M %Z}"

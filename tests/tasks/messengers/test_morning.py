"""The morning message: once, at the person's hour, of what became of the desk since the last."""

from __future__ import annotations

import datetime as dt

import pytest
from sqlmodel import select

from chordesk.models.errors import UsageError
from chordesk.models.messengers.tables import MessengersMessage, MessengersPerson
from chordesk.models.states import RunState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Approval, Order
from chordesk.models.tables.runs import Run
from chordesk.tasks.messengers import morning
from tests.tasks.messengers.conftest import Phone

MONDAY = dt.datetime(2026, 11, 30, 8, 1, tzinfo=dt.UTC)


def told(phone: Phone, now: dt.datetime) -> int:
    """How many messages there are after a look at `now`."""
    with phone.store.session() as session:
        morning.write(session, phone.settings, "telegram", now)
    with phone.store.read() as session:
        return len(session.exec(select(MessengersMessage.id)).all())


def paired(phone: Phone, before: dt.datetime, **given: object) -> None:
    phone.pair(**given)
    with phone.store.session() as session:
        session.exec(select(MessengersPerson)).one().created_at = before


@pytest.mark.parametrize(
    ("hour", "quiet", "looks"),
    [
        ("08:00", None, [(-2, 0), (0, 1), (1, 1), (60, 1), (1440, 2)]),
        ("08:00", "22:00-09:00", [(0, 0), (58, 0), (60, 1), (61, 1)]),
        ("08:00", None, [(600, 1)]),  # the desk was away
        ("08:00", None, [(-1440, 0), (0, 1)]),  # Sunday has no session
        ("08:00 daily", None, [(-1440, 1), (0, 2)]),
        (None, None, [(0, 0)]),
    ],
)
def test_it_comes_once_at_its_hour(phone: Phone, hour: str | None, quiet: str | None, looks: list[list[int]]) -> None:
    paired(phone, MONDAY - dt.timedelta(days=3), morning=hour, quiet=quiet)
    for minutes, count in looks:
        assert told(phone, MONDAY + dt.timedelta(minutes=minutes)) == count, minutes


def test_who_was_paired_after_the_hour_is_told_the_next_time(phone: Phone) -> None:
    paired(phone, MONDAY + dt.timedelta(hours=1), morning="08:00")
    assert told(phone, MONDAY + dt.timedelta(hours=2)) == 0
    assert told(phone, MONDAY + dt.timedelta(days=1)) == 1


def test_it_says_what_needs_the_person_what_expired_and_what_failed(phone: Phone) -> None:
    phone.pair(morning="08:00 daily")
    waits, expired = phone.asks("AAA", "BBB")
    with phone.store.session() as session:
        session.get_one(Approval, phone.approval(expired).id).expires_at = utcnow()
        run = session.get_one(Run, session.get_one(Order, waits).run_id)
        run.state, run.finished_at, run.summary = RunState.FAILED, utcnow(), "it broke"
    with phone.store.session() as session:
        person = session.exec(select(MessengersPerson)).one()
        text = morning.text_of(session, phone.settings, person, utcnow())
    needs, over, failed = (text.index(each) for each in ("needs you:", "expired unanswered:", "failed:"))
    assert text.index("AAA") > needs
    assert needs < over < failed
    assert "BBB" in text[over:failed]
    assert "1,000.00 USD" in text[needs:over]
    assert text.splitlines()[-1].startswith("cost: 0 tokens")


@pytest.mark.parametrize("text", ["8", "24:00", "08:60", "08:00 always", "", "now"])
def test_an_hour_is_an_hour(text: str) -> None:
    with pytest.raises(UsageError, match="is no hour of a day"):
        morning.parsed(text)

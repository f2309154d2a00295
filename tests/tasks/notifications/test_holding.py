"""Quiet hours and the cap of an hour: what is held back, until when, and what comes of it. Halts are never held."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from sqlmodel import col, select

from chordesk.models import event_log
from chordesk.models.database.store import Store
from chordesk.models.events import Envelope
from chordesk.models.notice_channels import NoticeKind, QuietHours
from chordesk.models.tables.runtime import Notification
from chordesk.models.text import NEW_YORK
from chordesk.tasks.notifications import outbox as dispatch
from chordesk.tasks.notifications import outbox as intake
from chordesk.tasks.notifications.channels import Channel
from chordesk.tasks.notifications.outbox import HourLimit, Message
from chordesk.tasks.notifications.wording import Wording
from tests.tasks.notifications.conftest import ended, filled, halted, unknown

WORDING = Wording(NEW_YORK, None)
MINUTE = dt.timedelta(minutes=1)


def at(text: str, fold: int = 0) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=NEW_YORK, fold=fold).astimezone(dt.UTC)


@dataclass
class Clocked:
    """A sender's work on a clock of the test's own: no message is sent, each is taken as sent at once."""

    store: Store
    channel: Channel
    per_hour: int = 30

    def begin(self, now: dt.datetime) -> None:
        with self.store.session() as session:
            intake.begin(session, [self.channel], {self.channel.name: "JSON"}, now)

    def happens(self, now: dt.datetime, *events: Envelope, window: float = 0.0) -> None:
        moved = [one.model_copy(update={"occurred_at": now}) for one in events]
        with self.store.session() as session:
            event_log.append(session, moved)
        with self.store.session() as session:
            intake.take(session, [self.channel], WORDING, window, now)

    def sends(self, now: dt.datetime) -> list[Message]:
        """Return the messages that are due and may be sent now, each recorded as sent."""
        sent: list[Message] = []
        while True:
            with self.store.session() as session:
                limit = HourLimit(self.per_hour, NEW_YORK)
                message = dispatch.next_of(session, self.channel, limit, "one", now)
                if message is None:
                    return sent
                dispatch.ended(session, message, "one", None, now)
                sent.append(message)

    def rows(self) -> Sequence[Notification]:
        with self.store.read() as session:
            return session.exec(select(Notification).order_by(col(Notification.id))).all()


@pytest.fixture
def night(store: Store) -> Clocked:
    quiet = QuietHours.parse("22:00-07:00")
    return Clocked(store, Channel("phone", "json://x", frozenset(NoticeKind), quiet))


@pytest.fixture
def day(store: Store) -> Clocked:
    return Clocked(store, Channel("phone", "json://x", frozenset(NoticeKind), None), per_hour=3)


def titles(messages: Sequence[Message]) -> list[str]:
    return [one.title for one in messages]


@pytest.mark.parametrize(
    ("evening", "morning"),
    [
        ("2026-11-23 23:30", "2026-11-24 07:00"),
        ("2026-03-07 23:30", "2026-03-08 07:00"),  # the clock goes forward in this night
        ("2026-10-31 23:30", "2026-11-01 07:00"),  # and back in this one
    ],
)
def test_a_night_is_one_message_in_the_morning_and_urgent_ones_pass(night: Clocked, evening: str, morning: str) -> None:
    now = at(evening)
    night.begin(now)
    night.happens(now, filled("IBM"), filled("KO"), ended(), halted(), unknown())
    assert set(titles(night.sends(now))) == {"Desk: Trading is halted or limited", "Desk: An order is unknown"}
    night.happens(at(morning) - MINUTE, ended("fedcba9876543210"))
    assert night.sends(at(morning) - MINUTE) == []
    assert {row.held for row in night.rows() if row.state == "waiting"} == {"quiet"}
    (one,) = night.sends(at(morning))
    assert one.title == "Desk: 4 more events"
    first, *lines = one.text.splitlines()
    assert first.startswith("4 more, held back until now: ")
    assert {"2 fill", "2 run finished"} == set(first.partition("now: ")[2].split(", "))
    assert len(lines) == 4
    assert night.sends(at(morning)) == []
    states = sorted(row.state for row in night.rows())
    assert states == ["merged", "merged", "merged", "sent", "sent", "sent"]


def test_one_alone_comes_as_itself(night: Clocked) -> None:
    night.begin(at("2026-11-23 23:00"))
    night.happens(at("2026-11-23 23:00"), ended())
    assert night.sends(at("2026-11-24 06:59")) == []
    assert titles(night.sends(at("2026-11-24 07:00"))) == ["Desk: A run has ended"]


def test_other_settings_free_what_is_held(night: Clocked) -> None:
    now = at("2026-11-23 23:00")
    night.begin(now)
    night.happens(now, ended())
    assert night.sends(now) == []
    night.channel = Channel("phone", "json://x", frozenset(NoticeKind), None)
    night.begin(now + MINUTE)
    assert titles(night.sends(now + MINUTE)) == ["Desk: A run has ended"]


def test_an_hour_that_is_full_holds_the_rest_for_one_message(day: Clocked) -> None:
    now = at("2026-11-23 12:00")
    day.begin(now)
    for number in range(3):
        day.happens(now + number * MINUTE, ended(f"{number:016x}"))
        assert len(day.sends(now + number * MINUTE)) == 1
    later = now + 10 * MINUTE
    day.happens(later, *(ended(f"{number:016x}") for number in range(3, 8)), filled())
    assert day.sends(later) == []
    assert {row.held for row in day.rows() if row.state == "waiting"} == {"cap"}
    assert day.sends(now + 59 * MINUTE) == []
    (one,) = day.sends(now + 60 * MINUTE)
    assert one.title == "Desk: 6 more events"
    assert one.text.splitlines()[0].endswith("5 run finished, 1 fill")
    # The next one has room a minute later, when the second of the first three leaves the hour.
    day.happens(now + 60 * MINUTE, ended("f" * 16))
    assert day.sends(now + 60 * MINUTE) == []
    assert len(day.sends(now + 61 * MINUTE)) == 1


def test_halts_and_unknown_orders_count_toward_no_cap_and_each_halt_is_a_message(day: Clocked) -> None:
    now = at("2026-11-23 12:00")
    day.begin(now)
    day.happens(now, *(halted(f"reason {number}") for number in range(20)), unknown(), unknown("KO"))
    sent = titles(day.sends(now))
    assert sent.count("Desk: Trading is halted or limited") == 20
    assert sent.count("Desk: 2 orders are unknown") == 1
    day.happens(now, *(ended(f"{number:016x}") for number in range(3)))
    assert len(day.sends(now)) == 3, "the halts have taken nobody's place"
    day.happens(now, ended("f" * 16), halted())
    assert titles(day.sends(now)) == ["Desk: Trading is halted or limited"]


def test_a_window_gathers_what_comes_within_it(day: Clocked) -> None:
    now = at("2026-11-23 12:00")
    day.begin(now)
    for second, symbol in enumerate(("IBM", "KO", "GE")):
        day.happens(now + dt.timedelta(seconds=second), filled(symbol), window=60.0)
    assert day.sends(now + dt.timedelta(seconds=59)) == []
    assert titles(day.sends(now + MINUTE)) == ["Desk: 3 fills"]


def test_many_sentences_are_cut_with_their_number(day: Clocked) -> None:
    now = at("2026-11-23 12:00")
    day.begin(now)
    day.happens(now, *(filled(f"S{number}") for number in range(25)))
    (one,) = day.sends(now)
    assert one.title == "Desk: 25 fills"
    assert len(one.text.splitlines()) == 11
    assert one.text.endswith("and 15 more; see: desk notify list")

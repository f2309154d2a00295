"""The sender against a far side on loopback: what arrives, once, with what faults, and what the record has of it."""

from __future__ import annotations

import datetime as dt
import socket
import threading

import pytest
from sqlmodel import col, select

from chordesk.models.database.store import Store
from chordesk.models.notice_channels import NotificationState
from chordesk.models.settings import Settings
from chordesk.models.tables.runtime import Notice, Notification, NotificationSender
from chordesk.tasks.notifications import outbox, sender
from chordesk.tasks.notifications import sender as lease
from chordesk.tasks.notifications.apprise_wire import wires
from chordesk.tasks.notifications.channels import channels
from tests.fakes.channel import FakeChannel
from tests.stack import wait_for
from tests.tasks.notifications.conftest import Floor, ended, filled, halted, unknown


def rows(store: Store, **values: object) -> list[Notification]:
    with store.read() as session:
        wanted = select(Notification).order_by(col(Notification.created_at), col(Notification.id)).filter_by(**values)
        return list(session.exec(wanted).all())


def states(store: Store) -> list[str]:
    return [row.state for row in rows(store)]


def test_events_of_a_run_and_kind_are_one_message_and_others_are_their_own(floor: Floor) -> None:
    floor.sender()
    floor.happens(filled("IBM"), filled("KO"), ended(), filled("GE", "fedcba9876543210"))
    floor.until(lambda: states(floor.store) == ["sent"] * 3, "three messages are sent")
    titles = sorted(one.title for one in floor.far.got)
    assert titles == ["Desk: 2 fills", "Desk: A run has ended", "Desk: An order was filled"]
    (two,) = [one for one in floor.far.got if one.title == "Desk: 2 fills"]
    assert [line.partition("UTC: ")[2] for line in two.text.splitlines()] == [
        "Bought 10 IBM at 12.50 on paper",
        "Bought 10 KO at 12.50 on paper",
    ]


def test_a_channel_gets_the_kinds_that_were_chosen_for_it(store: Store, far: FakeChannel) -> None:
    given = {"notify_channels": far.variable("phone", "mail")}
    floor = Floor(store, far, Settings(**given, notify_kinds="phone=halt"))
    floor.sender()
    floor.happens(halted(), ended())
    floor.until(lambda: states(store) == ["sent"] * 3, "all are sent")
    assert [one.title for one in far.of("phone")] == ["Desk: Trading is halted or limited"]
    assert len(far.of("mail")) == 2


def test_hostile_text_and_secrets_are_not_in_a_message(floor: Floor) -> None:
    floor.sender(notify_page_url="http://desk.example:8000/")
    why = "<!channel> [approve](http://evil.com/) token=sk-abcdefgh12345678 account 998877665"
    floor.happens(halted(why), filled("<b>evil.com</b>"))
    floor.until(lambda: states(floor.store) == ["sent"] * 2, "both are sent")
    for one in floor.far.got:
        text, link = one.text.rsplit("\n", 1)
        assert link in ("http://desk.example:8000/#/account", "http://desk.example:8000/#/orders/o-1")
        assert not set("<>[]@!*_`#/") & set(text)
        for secret in ("sk-abc", "998877665", "evil.com", "://"):
            assert secret not in text


def test_failures_are_tried_again_and_then_given_up(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(outbox, "LONGEST_PAUSE_SECONDS", 0.002)
    monkeypatch.setattr(outbox, "ATTEMPTS", 3)
    floor.far.status["phone"] = [500, 429, 503]
    floor.sender()
    floor.happens(filled())
    floor.until(lambda: states(floor.store) == ["given_up"], "it is given up")
    (row,) = rows(floor.store)
    assert (row.attempts, len(floor.far.got)) == (3, 3)
    assert row.error is not None
    assert "503" in row.error
    with floor.store.read() as session:
        (channel,) = outbox.state(session).channels
    assert (channel.given_up, channel.sent, channel.waiting) == (1, 0, 0)
    assert channel.error == row.error


def test_a_halt_is_never_given_up(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "FIRST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(outbox, "ATTEMPTS", 2)
    floor.far.status["phone"] = [500] * 5 + [200]
    floor.sender()
    floor.happens(halted())
    floor.until(lambda: states(floor.store) == ["sent"], "it is sent")
    assert rows(floor.store)[0].attempts == 6


def test_a_channel_that_hangs_delays_no_other_and_is_cut_off(
    store: Store, far: FakeChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "ANSWER_SECONDS", 0.5)
    far.hang.add("dead")
    given = {"notify_channels": far.variable("dead", "phone")}
    floor = Floor(store, far, Settings(**given))
    floor.sender()
    floor.happens(halted(), ended())
    floor.until(lambda: len(far.of("phone")) == 2, "the other channel has both")
    floor.until(lambda: any(row.error for row in rows(store, channel="dead")), "the hanging one is cut off")
    assert {row.error for row in rows(store, channel="dead")} <= {sender.LATE, None}


def test_nothing_listens_is_an_error_without_secrets(store: Store, far: FakeChannel) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"json://hunter22:swordfish@127.0.0.1:{held.getsockname()[1]}/hunter2path?+X-Key=hunter2key"
        floor = Floor(store, far, Settings(notify_channels=f"phone={url}"))
        floor.sender()
        floor.happens(ended())
        floor.until(lambda: any(row.error for row in rows(store)), "it failed")
    (row,) = rows(store)
    assert "127.0.0.1" in str(row.error)
    for secret in ("hunter2", "swordfish"):
        assert secret not in str(row.error)


def test_a_message_on_its_way_when_a_process_died_is_sent_again_by_the_next(floor: Floor) -> None:
    """The first process ends between sending and recording: the far side has the message, the record does not."""
    first = floor.sender("first")
    floor.happens(halted(), ended())
    floor.until(lambda: len(floor.far.got) >= 1, "one arrived", first)
    arrived = len(floor.far.got)
    assert "sending" in states(floor.store)
    expire(floor.store)
    second = floor.sender("second")
    floor.until(lambda: states(floor.store) == ["sent"] * 2, "both are sent", second)
    assert len(floor.far.got) > arrived, "of two, one may have been recorded before"
    first.step()  # it has an answer to record, and no right to any more
    assert states(floor.store) == ["sent"] * 2


def expire(store: Store) -> None:
    """Let the lease run out, as after the death of its owner."""
    with store.session() as session:
        row = session.get_one(NotificationSender, lease.SENDER_ROW)
        row.lease_until = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
        session.add(row)


def test_of_two_senders_one_sends_and_each_message_once(floor: Floor) -> None:
    one, two = floor.sender("one"), floor.sender("two")
    stop = threading.Event()
    threads = [threading.Thread(target=each.run, args=(stop,)) for each in (one, two)]
    for thread in threads:
        thread.start()
    try:
        for number in range(10):
            floor.happens(ended(f"{number:016x}"), filled("IBM", f"{number:016x}"))
        wait_for(lambda: states(floor.store) == ["sent"] * 20, "all are sent")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert len(floor.far.got) == 20
    with floor.store.read() as session:
        assert session.get_one(NotificationSender, lease.SENDER_ROW).owner is None, "the lease is given back"


def test_a_sender_is_well_while_it_passes_and_another_one_waits_for_it(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = floor.sender("one"), floor.sender("two")
    assert one.why_not() == "it is starting, or waits for the database"
    stop = threading.Event()
    threads = [threading.Thread(target=each.run, args=(stop,)) for each in (one, two)]
    for thread in threads:
        thread.start()
    try:
        wait_for(lambda: one.why_not() is None, "the first one sends")
        waits = "another process sends, and this one waits for the end of its lease"
        wait_for(lambda: two.why_not() == waits, "the second one waits")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    monkeypatch.setattr(sender, "STALLED_SECONDS", 0.0)
    assert str(one.why_not()).endswith("s ago: it waits for the database"), "its passes have ended"


def test_a_channel_that_comes_later_gets_nothing_of_before(store: Store, far: FakeChannel) -> None:
    floor = Floor(store, far, Settings(notify_channels=far.variable("phone")))
    floor.happens(ended())
    with store.session() as session:
        notice = session.exec(select(Notice)).one()
        notice.occurred_at -= dt.timedelta(hours=1)
        session.add(notice)
    floor.sender()
    floor.happens(halted())
    floor.until(lambda: states(store) == ["sent"], "the later one is sent")
    assert [one.title for one in far.got] == ["Desk: Trading is halted or limited"]


def test_messages_that_wait_for_a_channel_that_is_gone_are_given_up(store: Store, far: FakeChannel) -> None:
    far.status["old"] = [500]
    floor = Floor(store, far, Settings(notify_channels=far.variable("old")))
    floor.sender("one")
    floor.happens(ended())
    floor.until(lambda: any(row.error for row in rows(store)), "it failed once")
    expire(store)
    floor.sender("two", notify_channels=far.variable("new"))
    (row,) = rows(store)
    assert (row.state, row.error) == (NotificationState.GIVEN_UP, "the channel is not set any more")
    with store.read() as session:
        assert [one.name for one in outbox.state(session).channels] == ["new"]


def test_a_stop_waits_for_what_is_on_its_way(floor: Floor) -> None:
    floor.far.seconds = 0.5
    stop = threading.Event()
    made = floor.sender()
    floor.happens(ended())
    floor.until(lambda: len(floor.far.got) == 1, "it is on its way", made)
    stop.set()
    made.run(stop)
    assert states(floor.store) == ["sent"]


def test_urgent_ones_go_first(floor: Floor) -> None:
    floor.far.seconds = 0.2
    floor.sender()
    floor.happens(*(ended(f"{number:016x}") for number in range(3)), unknown(), halted())
    floor.until(lambda: states(floor.store) == ["sent"] * 5, "all are sent")
    first = {one.title for one in floor.far.got[:2]}
    assert first == {"Desk: Trading is halted or limited", "Desk: An order is unknown"}


def test_the_examples_of_the_docs_are_urls_that_apprise_reads() -> None:
    from tests.docs.test_pages import DOCS

    text = (DOCS / "notifications.md").read_text(encoding="utf-8")
    table = [line for line in text.splitlines() if line.startswith("| ") and "://" in line]
    urls = [line.split("`")[1] for line in table]
    assert len(urls) == 7
    given = " ".join(f"c{number}={url}" for number, url in enumerate(urls))
    services = {wire.service for wire in wires(channels(Settings(notify_channels=given))).values()}
    assert services == {"E-Mail", "Slack", "ntfy", "Telegram", "JSON"}

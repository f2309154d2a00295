"""What the far side and the network do wrong: nothing acts twice, nothing is lost that can be kept, and the rest is
said."""

from __future__ import annotations

import datetime as dt
import random
import threading
import time

import pytest
from sqlmodel import select

from chordesk.models.events import DESK
from chordesk.models.messengers.tables import MessengersBot, MessengersMessage, MessengersUpdate
from chordesk.models.notices import note
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runtime import Notice
from chordesk.tasks.messengers import telegram, telegram_api
from chordesk.tasks.messengers.people import Scope
from tests.fakes.telegram import ADA, BOB, TOKEN
from tests.stack import wait_for
from tests.tasks.messengers.conftest import Phone
from tests.tasks.messengers.test_pairing import taken


def error_of(phone: Phone) -> str | None:
    with phone.store.read() as session:
        bot = session.get(MessengersBot, "telegram")
    return bot.error if bot is not None else None


def test_polls_that_fail_lose_nothing(phone: Phone, monkeypatch: pytest.MonkeyPatch) -> None:
    """A conflict, a wait, no sense, half an answer, a huge one, a cut connection, a silence: then it goes on."""
    monkeypatch.setattr(telegram, "POLL_SECONDS", 0)
    real = telegram_api.BotApi.call

    async def impatient(self: telegram_api.BotApi, method: str, seconds: float = 1.0, **given: object) -> object:
        return await real(self, method, min(seconds, 1.0), **given)

    monkeypatch.setattr(telegram_api.BotApi, "call", impatient)
    phone.pair()
    far = phone.far
    far.retry_after = 0.05
    far.says(ADA, "/help")
    faults: list[int | str] = [409, 429, 500, 302, "half", "huge", "reset", "lost", "silence"]
    far.faults["getUpdates"] = list(faults)
    with phone.running(polled=False):
        far.until(ADA, "You are ada")
        wait_for(lambda: error_of(phone) is None, "it polls again")
    assert far.given("getUpdates") > len(faults)
    assert len(far.of(ADA)) == 1


def test_a_token_that_was_revoked_ends_the_bot_and_is_named(phone: Phone) -> None:
    phone.pair()
    phone.far.token = "another"
    bot = telegram.build(phone.settings, phone.store)
    bot.run(threading.Event(), lambda session: True)
    assert error_of(phone) == "Telegram does not know the token: Unauthorized"
    assert bot.wires() == []
    assert TOKEN not in str(error_of(phone))


@pytest.mark.parametrize(
    ("fault", "copies"),
    [(429, 1), (500, 1), ("reset", 0), ("lost", 1), ("half", 1), ("huge", 1)],
)
def test_a_reply_is_sent_at_most_once(phone: Phone, fault: int | str, copies: int) -> None:
    """Where nobody knows whether it arrived it is not sent again; what surely did not arrive is."""
    phone.pair()
    phone.far.retry_after = 0.05
    phone.far.faults["sendMessage"] = [fault]
    with phone.running():
        phone.far.says(ADA, "/help")
        wait_for(lambda: _ends(phone), "the reply has an end")
    assert len(phone.far.of(ADA)) == copies


def _ends(phone: Phone) -> bool:
    with phone.store.read() as session:
        states = session.exec(select(MessengersMessage.state)).all()
    return bool(states) and set(states) <= {"sent", "given_up"}


@pytest.mark.parametrize("fault", ["reset", "lost", "half", 503])
def test_a_card_is_sent_until_it_arrives_and_any_copy_acts_once(phone: Phone, fault: int | str) -> None:
    phone.pair()
    phone.far.faults["sendMessage"] = [fault]
    with phone.running():
        (order,) = phone.asks("AAA")
        card = phone.far.until(ADA, "buy 10 AAA", 2 if fault in ("lost", "half") else 1)
        first = phone.far.with_words(ADA, "buy 10 AAA")[0]
        phone.far.presses(ADA, first.buttons["Approve"])
        phone.far.until(ADA, "approved by ada via Telegram; it is sent")
        wait_for(lambda: card.buttons == {}, "the card that is known says it")
    assert phone.state(order) == "approved"


def test_a_person_who_blocks_the_bot_is_left_alone_until_they_write(phone: Phone) -> None:
    phone.pair()
    phone.pair(BOB, "bob", Scope.READ)
    phone.far.faults["sendMessage"] = [403]
    with phone.running() as bot:
        phone.far.says(ADA, "/help")
        wait_for(lambda: phone.people()[0].blocked_at is not None, "it is known")
        assert [wire.channel.name for wire in bot.wires()] == ["telegram:bob"]
        phone.asks("AAA")
        phone.far.says(BOB, "/help")
        phone.far.until(BOB, "You are bob")
        assert phone.far.of(ADA) == []
        phone.far.says(ADA, "/help")
        phone.far.until(ADA, "You are ada")
        phone.far.until(ADA, "buy 10 AAA")


def test_a_notice_is_sent_through_the_persons_wire(phone: Phone) -> None:
    phone.pair()
    phone.pair(BOB, "bob", Scope.READ)
    with phone.running() as bot:
        ada, bob = bot.wires()
        assert ada.send("Desk: A run has ended", "one\ntwo").sent
        assert phone.far.until(ADA, "A run has ended").text == "Desk: A run has ended\none\ntwo"
        phone.far.faults["sendMessage"] = ["lost"]
        failed = bob.send("Desk: a title", "x")
        assert (failed.sent, TOKEN in str(failed.error)) == (False, False)
        assert "order_waiting" in bob.channel.kinds
        assert "order_waiting" not in ada.channel.kinds
        assert "halt" in ada.channel.kinds
    assert bot.wires() == []
    assert not ada.send("late", "x").sent


def test_updates_repeat_go_back_and_come_late(phone: Phone) -> None:
    phone.pair()
    far = phone.far
    with phone.running():
        first = far.says(ADA, "/help")
        far.until(ADA, "You are ada")
        far.repeats = True
        message = {"text": "/help", "from": {"id": ADA}, "chat": {"id": ADA, "type": "private"}, "date": 1}
        for number in (first, first - 500):
            far.gives({"message": message}, number)
        far.until(ADA, "You are ada", 2)
        polls = far.given("getUpdates")
        wait_for(lambda: far.given("getUpdates") > polls + 5, "they come again and again")
        assert taken(phone, first, first - 500) == ["help", "help"]
    assert len(far.of(ADA)) == 2
    far.repeats = False
    with phone.store.session() as session:  # Telegram numbers anew after a quiet week
        session.get_one(MessengersBot, "telegram").polled_at = utcnow() - dt.timedelta(days=8)
    far.calls.clear()
    with phone.running():
        first_poll, second = [given for method, given in far.calls if method == "getUpdates"][:2]
    assert ("offset" in first_poll, first_poll["timeout"]) == (False, 0)
    assert second["timeout"] == telegram.POLL_SECONDS


def test_a_clock_an_hour_off_halts_all_the_same(phone: Phone) -> None:
    phone.pair()
    phone.far.ahead = -3600.0
    with phone.running():
        phone.far.says(ADA, "/halt")
        phone.far.until(ADA, "Trading is halted.")


def test_another_holder_of_the_lease_stops_the_acts_of_this_one(phone: Phone) -> None:
    """What this process had fetched before it lost the lease is left to the one that has it."""
    phone.pair()
    held = [True]
    bot, stop = telegram.build(phone.settings, phone.store), threading.Event()
    thread = threading.Thread(target=bot.run, args=(stop, lambda session: held[0]))
    thread.start()
    try:
        phone.far.says(ADA, "/help")
        phone.far.until(ADA, "You are ada")
        held[0] = False
        number = phone.far.says(ADA, "/halt")
        time.sleep(0.5)
        with phone.store.read() as session:
            assert session.get(MessengersUpdate, ("telegram", number)) is None
        assert not (phone.settings.home / "HALT").exists()
    finally:
        stop.set()
        thread.join(30)
    with phone.running():
        phone.far.until(ADA, "Trading is halted.")


def test_a_hostile_chat_acts_on_nothing(phone: Phone) -> None:
    """Paired readers and strangers write what they like; a seed makes it the same each time."""
    phone.pair(ADA, "ada", Scope.READ)
    (order,) = phone.asks("AAA")
    dice, far = random.Random(7), phone.far
    with phone.running():
        numbers = [_hostile(phone, dice) for _ in range(COUNT)]
        wait_for(lambda: len(_seen(phone)) >= len(set(numbers)), "all are taken")
        far.says(ADA, "/help")
        far.until(ADA, "You are ada")
    assert phone.state(order) == "approval_pending"
    assert not (phone.settings.home / "HALT").exists()
    assert {one.chat for one in far.messages} == {ADA}
    assert {person.name for person in phone.people()} == {"ada"}
    assert not any("http" in one.text or "<" in one.text for one in far.messages)


COUNT = 150


def _seen(phone: Phone) -> set[int]:
    with phone.store.read() as session:
        return set(session.exec(select(MessengersUpdate.number)).all())


def _hostile(phone: Phone, dice: random.Random) -> int:
    user, far = dice.choice([ADA, BOB, 0, -5, 2**61, 999]), phone.far
    text = dice.choice(
        [
            "/halt", "/HALT", "/halt@other_bot", "/approve all", "approve order 1", "/stop ffffffff", "/mute 9999999d",
            "/pair " + "A" * 5_000, "/start 1", "\u202e/halt", "/waiting", "<b>x</b> http://evil.com", "\x00", "/",
            "/" + "h" * 400, "why " + "AAA " * 400, "{{7*7}} {%halt%}", "'; drop table order; --", "\U0001f600" * 900,
        ]
    )  # fmt: skip
    if dice.random() < 0.2:
        return far.presses(user, dice.choice(["", "x" * 64, "x" * 500, "approve", "\x00"]))
    more: dict[str, object] = {"chat": {"id": user, "type": dice.choice(["private", "group"])}}
    if dice.random() < 0.2:
        more["forward_origin"] = {"type": "user"}
    return far.says(user, text, more)


def test_a_notice_of_the_desk_reaches_the_phone(phone: Phone) -> None:
    """Through the process that sends: its outbox, its lease, the person's wire."""
    from tests.parts import of_feature

    phone.pair(ADA, "ada", Scope.READ)
    sender_of = of_feature("chordesk.tasks.notifications.sender:Sender")
    with phone.running() as bot:
        sender = sender_of(phone.store, phone.settings, {}, "one", [bot])
        sender.step()
        with phone.store.session() as session:
            note(session, Notice(key="k", kind="halt", subject="paper", run_id=DESK, facts={}, occurred_at=utcnow()))

        def arrived() -> bool:
            sender.step()
            return bool(phone.far.with_words(ADA, "Trading is halted or limited"))

        wait_for(arrived, "the halt arrives")

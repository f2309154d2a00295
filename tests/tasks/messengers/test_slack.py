"""The Slack bot: the same promises as on Telegram, by a socket that gives things again, late, doubled or never."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from typing import Any

import pytest
from sqlmodel import Session, select

from chordesk.models.errors import SettingError
from chordesk.models.messengers.tables import MessengersBot, MessengersUpdate
from chordesk.models.settings.sources import load
from chordesk.tasks.messengers import inbound, slack
from chordesk.tasks.messengers.people import Scope
from chordesk.tasks.messengers.slack_updates import incoming
from tests.fakes.slack import ADA, BOB, BOT_TOKEN, TEAM, FakeSlack
from tests.stack import wait_for
from tests.tasks.messengers.conftest import Phone


def whats(phone: Phone) -> list[str]:
    with phone.store.read() as session:
        rows = session.exec(select(MessengersUpdate)).all()
    return [row.what for row in sorted(rows, key=lambda row: row.at)]


def test_paired_in_a_direct_message_a_person_approves_asks_and_halts(slack_phone: Phone) -> None:
    phone, far = slack_phone, slack_phone.far
    code = phone.code("ada", Scope.DECIDE, Scope.HALT)
    with phone.running():
        far.says(ADA, f"pair {code}", {"channel": "C0ROOM", "channel_type": "channel"})
        wait_for(lambda: whats(phone) == ["wrong_code"], "a code that a channel saw pairs nobody")
        far.says(ADA, f"pair {phone.code('ada', Scope.DECIDE, Scope.HALT)}")
        told = far.until(ADA, "Paired as ada").text
        assert "You may: decide, halt, read" in told
        assert "\nhalt: stop all trading now" in told, "Slack keeps the sign of commands for itself"
        assert "end a run" not in told, "there a run is ended by a card alone"
        first, second = phone.asks("AAA", "BBB")
        card, other = far.until(ADA, "buy 10 AAA"), far.until(ADA, "buy 10 BBB")
        assert "1,000.00 USD on paper (play money)" in card.text
        assert list(card.buttons) == ["Approve", "Deny"]
        far.presses(ADA, card.buttons["Approve"])
        far.until(ADA, "approved by ada via Slack; it is sent within a minute")
        wait_for(lambda: card.buttons == {}, "the card says it")
        assert phone.state(first) == "approved"
        far.says(ADA, "status")
        far.until(ADA, "paper")
        far.slash(ADA, "/desk", "halt")
        far.until(ADA, "Trading is halted.")
        wait_for(lambda: other.buttons == {}, "the other card is over")
    assert phone.state(second) == "denied"
    assert phone.approval(first).decided_by == "ada via Slack"


@pytest.mark.parametrize(
    "more",
    [
        {"channel": "C0ROOM", "channel_type": "channel"}, {"channel": "G0GROUP", "channel_type": "mpim"},
        {"bot_id": "B1"}, {"subtype": "message_changed"}, {"subtype": "bot_message"}, {"files": [{"id": "F1"}]},
        {"user": BOB}, {"user": None}, {"user_team": "T0OTHER"}, {"text": {"a": "b"}}, {"text": "&gt; halt"},
        {"type": "reaction_added"},
    ],
)  # fmt: skip
def test_what_is_not_the_paired_persons_own_text_halts_nothing(slack_phone: Phone, more: dict[str, Any]) -> None:
    slack_phone.pair(ADA, "ada")
    with slack_phone.running():
        slack_phone.far.says(ADA, "halt", more)
        slack_phone.far.says(ADA, "halt", team_id="T0OTHER")
        slack_phone.far.says(ADA, "help")
        slack_phone.far.until(ADA, "You are ada")
    assert not (slack_phone.settings.home / "HALT").exists()


def test_presses_of_others_old_ones_and_of_another_workspace_decide_nothing(slack_phone: Phone) -> None:
    phone, far = slack_phone, slack_phone.far
    phone.pair(ADA, "ada")
    phone.pair(BOB, "bob", Scope.DECIDE)
    with phone.running():
        (order,) = phone.asks("AAA")
        data = far.until(ADA, "buy 10 AAA").buttons["Approve"]
        far.presses(BOB, data)
        far.presses(ADA, data, "C0ROOM")
        far.presses(ADA, data, payload={"team": {"id": "T0OTHER"}})
        far.presses(ADA, data, payload={"user": {"id": ADA, "team_id": "T0OTHER"}})
        far.presses(ADA, data, at=time.time() - 600)
        far.until(ADA, "nothing was decided")
        assert phone.state(order) == "approval_pending"
        far.presses(ADA, data)
        wait_for(lambda: phone.state(order) == "approved", "a press of now counts")
    assert "button_of_another" in whats(phone)


def test_envelopes_repeat_and_sockets_end_and_each_update_acts_once(slack_phone: Phone) -> None:
    phone, far = slack_phone, slack_phone.far
    phone.pair(ADA, "ada")
    with phone.running():
        for reason in ("refresh_requested", "cut", "warning"):
            before = far.sockets
            far.ends_socket(reason)
            wait_for(lambda before=before: far.sockets > before and far.connected, "it connects again")  # type: ignore[misc]
        event = {
            "type": "message",
            "channel": f"D{ADA}",
            "channel_type": "im",
            "user": ADA,
            "text": "help",
            "ts": "1.0",
        }
        for _ in range(3):
            far.gives("events_api", {"team_id": TEAM, "event_id": "Ev-same", "event": event}, retry_attempt=1)
        wait_for(lambda: len(far.answered) == 3, "each is answered")
        far.says(ADA, "waiting")
        far.until(ADA, "Nothing waits")
    assert len(far.with_words(ADA, "You are ada")) == 1


@pytest.mark.parametrize("ends_at", range(1, 9))
def test_killed_at_any_step_what_slack_gave_once_is_done_once(slack_phone: Phone, ends_at: int) -> None:
    phone, far = slack_phone, slack_phone.far
    phone.pair(ADA, "ada")
    with phone.running():
        (order,) = phone.asks("AAA")
        card = far.until(ADA, "buy 10 AAA")
    looks = [0]

    def lease(session: Session) -> bool:
        looks[0] += 1
        if looks[0] >= ends_at:
            raise Killed
        return True

    far.presses(ADA, card.buttons["Approve"])
    thread = threading.Thread(target=_until_killed, args=(phone, lease))
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    with phone.running():
        wait_for(lambda: card.buttons == {}, "the card says it")
        far.says(ADA, "help")
        far.until(ADA, "You are ada")
    assert phone.state(order) == "approved"
    assert len(far.with_words(ADA, "it is sent within a minute")) <= 1


class Killed(BaseException):
    """What no code handles: the process has ended."""


def _until_killed(phone: Phone, lease: Any) -> None:
    with contextlib.suppress(Killed):
        slack.build(phone.settings, phone.store).run(threading.Event(), lease)


def test_what_was_kept_and_not_acted_on_is_acted_on_by_the_next_process(slack_phone: Phone) -> None:
    phone = slack_phone
    phone.pair(ADA, "ada")
    inbox = inbound.Inbox(phone.store, phone.settings, "slack", "Slack", lambda session: True, toasts=False)
    event = {"type": "message", "channel": f"D{ADA}", "channel_type": "im", "user": ADA, "text": "halt", "ts": "1.0"}
    one = incoming({"type": "events_api", "payload": {"team_id": TEAM, "event_id": "E1", "event": event}}, TEAM)
    assert one is not None
    assert (inbox.receive(one), inbox.receive(one)) == (True, False)
    assert inbox.received() == [one]
    with phone.running():
        phone.far.until(ADA, "Trading is halted.")
    assert inbox.received() == []


@pytest.mark.parametrize(
    ("method", "fault", "copies"),
    [("chat.postMessage", 429, 1), ("chat.postMessage", "reset", 0), ("chat.postMessage", "lost", 1),
     ("chat.postMessage", "internal_error", 0), ("chat.postMessage", 502, 0), ("apps.connections.open", 429, 1),
     ("apps.connections.open", "internal_error", 1), ("auth.test", "ratelimited", 1)],
)  # fmt: skip
def test_a_reply_is_sent_at_most_once(
    slack_phone: Phone, monkeypatch: pytest.MonkeyPatch, method: str, fault: int | str, copies: int
) -> None:
    monkeypatch.setattr("chordesk.tasks.messengers.far_side.WAIT_SECONDS", 0.05)
    slack_phone.pair(ADA, "ada")
    slack_phone.far.faults[method] = [fault]
    with slack_phone.running():
        slack_phone.far.says(ADA, "help")
        wait_for(lambda: whats(slack_phone) == ["help"], "it is taken")
        slack_phone.far.says(ADA, "waiting")
        slack_phone.far.until(ADA, "Nothing waits")
    assert len(slack_phone.far.with_words(ADA, "You are ada")) == copies


@pytest.mark.parametrize("revoked", [0, 1])
def test_a_token_that_was_revoked_ends_the_bot_and_is_named(slack_phone: Phone, revoked: int) -> None:
    slack_phone.pair(ADA, "ada")
    tokens = [*slack_phone.far.tokens]
    tokens[revoked] = "another"
    slack_phone.far.tokens = tuple(tokens)
    bot = slack.build(slack_phone.settings, slack_phone.store)
    bot.run(threading.Event(), lambda session: True)
    with slack_phone.store.read() as session:
        error = str(session.get_one(MessengersBot, "slack").error)
    assert "invalid_auth" in error
    assert BOT_TOKEN not in error
    assert bot.wires() == []


def test_a_person_whose_channel_is_gone_is_left_alone(slack_phone: Phone) -> None:
    slack_phone.pair(ADA, "ada")
    slack_phone.far.faults["chat.postMessage"] = ["channel_not_found"]
    with slack_phone.running() as bot:
        slack_phone.far.says(ADA, "help")
        wait_for(lambda: slack_phone.people()[0].blocked_at is not None, "it is known")
        assert bot.wires() == []


def test_both_tokens_are_needed_and_neither_is_shown(slack_phone: Phone) -> None:
    for given, told in (
        ({"DESK_MESSENGERS_SLACK_BOT_TOKEN": "hunter2"}, "begins with xoxb-"),
        ({"DESK_MESSENGERS_SLACK_APP_TOKEN": "xoxb-1234567890-hunter2"}, "begins with xapp-"),
        ({"DESK_MESSENGERS_SLACK_API": "http://slack.com/api"}, "https://"),
    ):
        with pytest.raises(SettingError) as caught:
            load(given)
        assert told in f"{caught.value}{caught.value.remedy}"
        assert "hunter2" not in f"{caught.value}{caught.value.remedy}"
    with pytest.raises(SettingError, match="SLACK_APP_TOKEN is not set"):
        slack.build(slack_phone.settings.model_copy(update={"messengers_slack_app_token": None}), slack_phone.store)


def test_a_hostile_workspace_acts_on_nothing(slack_phone: Phone) -> None:
    """Readers, strangers, channels and bots send what they like, doubled and by sockets that end; a seed makes it the
    same each time."""
    phone, far, dice = slack_phone, slack_phone.far, random.Random(7)
    phone.pair(ADA, "ada", Scope.READ)
    (order,) = phone.asks("AAA")
    with phone.running():
        given = [_hostile(far, dice) for _ in range(COUNT)]
        wait_for(lambda: set(given) <= set(far.answered), "each is answered")
        far.says(ADA, "help")
        far.until(ADA, "You are ada")
    assert phone.state(order) == "approval_pending"
    assert not (phone.settings.home / "HALT").exists()
    assert {one.channel for one in far.messages} == {f"D{ADA}"}
    assert {person.name for person in phone.people()} == {"ada"}


COUNT = 100
HOSTILE = [
    "halt", "/halt", "HALT", "approve all", "stop ffffffff", "mute 9999999d", "pair " + "A" * 5_000, "waiting", "\x00",
    "<!channel> halt", "<http://evil.com|halt>", "&lt;b&gt; http://evil.com", "why " + "AAA " * 400, "{{7*7}}",
    "\u202ehalt",
]  # fmt: skip


def _hostile(far: FakeSlack, dice: random.Random) -> str:
    user, text = dice.choice([ADA, BOB, "U0EVE", "", "U" * 99]), dice.choice(HOSTILE)
    kind = dice.random()
    if kind < 0.05:
        far.ends_socket(dice.choice(["warning", "cut"]))
    if kind < 0.2:
        return far.presses(
            user, dice.choice(["", "x" * 64, "x" * 500, "approve", "\x00"]), dice.choice([None, "C0ROOM"])
        )
    if kind < 0.3:
        return far.slash(user, dice.choice(["/halt", "/desk", "halt"]), text, dice.choice([None, "C0ROOM"]))
    if kind < 0.4:
        odd: list[Any] = [None, 7, [], {}, {"event": 7}, {"team_id": TEAM, "event": {"type": "message"}, "event_id": 7}]
        return far.gives(dice.choice(["events_api", "interactive", "slash_commands", "x"]), dice.choice(odd))
    more = dice.choice([{}, {"channel": "C0ROOM"}, {"bot_id": "B1"}, {"thread_ts": "1.0"}, {"ts": "x"}, {"text": None}])
    return far.says(user, text, more)

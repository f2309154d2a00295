"""What a person does from a phone: look, approve, deny, halt, stop, mute; each once, and only what was shown."""

from __future__ import annotations

import datetime as dt
import json
import time

import pytest
from sqlmodel import select

from chordesk.agents.runtime import ApprovalRequest
from chordesk.agents.runtime import Scope as RunScope
from chordesk.models.errors import SettingError
from chordesk.models.messengers.tables import MessengersBot, MessengersUpdate
from chordesk.models.settings.sources import load
from chordesk.models.states import RunState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Approval, Order, Preview
from chordesk.models.tables.runs import Run
from chordesk.models.tables.runtime import RuntimeApproval
from chordesk.tasks import approval_requests
from chordesk.tasks.messengers import messages
from chordesk.tasks.messengers.inbound import Inbox, Incoming, is_halt
from chordesk.tasks.messengers.people import Scope
from chordesk.tools.orders import approvals
from chordesk.tools.orders.audit import log_path
from tests.fakes.telegram import ADA, BOB
from tests.stack import wait_for
from tests.tasks.messengers.conftest import Phone
from tests.tasks.messengers.test_pairing import taken


def test_a_card_shows_the_order_and_one_press_approves_it(phone: Phone) -> None:
    phone.pair(ADA)
    phone.pair(BOB, "bob", Scope.READ, Scope.DECIDE)
    phone.pair(4713, "eve", Scope.READ)
    far = phone.far
    with phone.running():
        order, other = phone.asks("AAA", "BBB")
        card = far.until(ADA, "buy 10 AAA")
        for words in (
            "1,000.00 USD on paper (play money)",
            "why: a test",
            "market, day",
            "answer by",
            f"order {order[:8]}",
        ):
            assert words in card.text
        assert list(card.buttons) == ["Approve", "Deny"]
        assert max(len(data) for data in card.buttons.values()) <= 64
        theirs = far.until(BOB, "buy 10 AAA")
        yes, no = card.buttons["Approve"], far.until(ADA, "buy 10 BBB").buttons["Deny"]
        far.presses(ADA, yes), far.presses(ADA, yes), far.presses(ADA, no)
        far.until(ADA, "approved by ada via Telegram; it is sent within a minute")
        wait_for(lambda: "approved by ada via Telegram at" in theirs.text, "the other phone's card says it")
        assert (card.buttons, theirs.buttons) == ({}, {})
        wait_for(lambda: phone.state(other) == "denied", "the other order is denied")
        late = far.presses(BOB, theirs.buttons.get("Approve", "gone"))
        assert taken(phone, late) == ["unknown_button"]
    assert (phone.state(order), phone.approval(order).decided_by) == ("approved", "ada via Telegram")
    assert far.of(4713) == []
    assert len(far.with_words(ADA, "it is sent within a minute")) == 1
    lines = [json.loads(line) for line in log_path(phone.settings).read_text().splitlines()]
    decided = [line["facts"]["by"] for line in lines if line["kind"] == "approval_decided"]
    assert decided == ["ada via Telegram"] * 2


def test_a_button_is_of_one_person_and_of_what_was_shown(phone: Phone) -> None:
    phone.pair(ADA)
    phone.pair(BOB, "bob", Scope.DECIDE)
    far = phone.far
    with phone.running():
        (order,) = phone.asks("AAA")
        card = far.until(ADA, "buy 10 AAA")
        data = card.buttons["Approve"]
        foreign = [far.presses(BOB, data), far.presses(ADA, data, chat=-100), far.presses(999, data)]
        assert taken(phone, *foreign) == ["button_of_another", "stranger", "stranger"]
        with phone.store.session() as session:  # another preview waits by now
            made = session.exec(select(Preview).where(Preview.order_id == order)).one()
            made.payload = made.payload.replace('"quantity":"10"', '"quantity":"11"')
            made.payload_hash = "1" * 64
            session.exec(select(Approval)).one().payload_hash = "1" * 64
        far.presses(ADA, data)
        assert "quantity was 10, is 11" in far.until(ADA, "is not the one that waits").text
    assert phone.state(order) == "approval_pending"


def test_real_money_takes_a_second_press(phone: Phone) -> None:
    phone.pair()
    far = phone.far
    with phone.running(messengers_confirm="always"):
        (order,) = phone.asks("AAA")
        card = far.until(ADA, "buy 10 AAA")
        far.presses(ADA, card.buttons["Approve"])
        wait_for(lambda: "Approve 1,000.00 USD, really" in card.buttons, "the card asks again")
        assert phone.state(order) == "approval_pending"
        far.presses(ADA, card.buttons["Approve 1,000.00 USD, really"])
        wait_for(lambda: phone.state(order) == "approved", "the second press approves")


@pytest.mark.parametrize("away", [dt.timedelta(minutes=14), None])
def test_a_press_while_the_desk_was_away_decides_nothing(phone: Phone, away: dt.timedelta | None) -> None:
    phone.pair()
    (order,) = phone.asks("AAA")
    with phone.running():
        card = phone.far.until(ADA, "buy 10 AAA")
        wait_for(lambda: _polled(phone) is not None, "it has polled")
    phone.far.presses(ADA, card.buttons["Approve"])
    with phone.store.session() as session:
        bot = session.get_one(MessengersBot, "telegram")
        bot.polled_at = None if away is None else utcnow() - away
    with phone.running():
        phone.far.until(ADA, "may have been pressed while the desk was away")
        assert phone.state(order) == "approval_pending"
        phone.far.presses(ADA, card.buttons["Approve"])
        wait_for(lambda: phone.state(order) == "approved", "a press of now counts")


def _polled(phone: Phone) -> dt.datetime | None:
    with phone.store.read() as session:
        bot = session.get(MessengersBot, "telegram")
    return bot.polled_at if bot is not None else None


def test_a_halt_of_any_age_is_carried_out_once_and_nothing_resumes(phone: Phone) -> None:
    phone.pair()
    phone.pair(BOB, "bob", Scope.DECIDE)
    far = phone.far
    (order,) = phone.asks("AAA")
    with phone.running():
        assert taken(phone, far.says(BOB, "/halt")) == ["halt"]
        far.until(BOB, "You may not halt")
        assert phone.state(order) == "approval_pending"
        number = far.says(ADA, "/halt now!", {"date": int(time.time()) - 80_000})
        told = far.until(ADA, "Trading is halted.").text
        assert "account paper halted; waiting orders denied: 1" in told
        assert phone.state(order) == "denied"
        (phone.settings.home / "HALT").unlink()
        far.gives({"message": {"text": "/halt", "from": {"id": ADA}, "chat": {"id": ADA, "type": "private"}}}, number)
        for word in ("/resume", "/flatten", "/arm", "/tokens"):
            far.says(ADA, word)
        far.until(ADA, "Not from here", 4)
    assert not (phone.settings.home / "HALT").exists(), "a repeat of the update halts nothing again"
    assert len(far.with_words(ADA, "Trading is halted.")) == 1


@pytest.mark.parametrize(
    ("text", "halts"),
    [
        ("halt", True), ("HALT", True), ("/stop trading", True), ("/stop Everything!", True), ("stop trading", False),
        ("stop everything", False), ("stop 01a226c83a05", False), ("/stop 01a226c83a05", False), ("stop ED", False),
    ],
)  # fmt: skip
def test_what_a_halt_is_at_once_and_what_is_read_as_words(phone: Phone, text: str, *, halts: bool) -> None:
    one = Incoming(1, str(ADA), str(ADA), private=True, text=text)
    assert is_halt(one) is halts
    phone.pair(ADA)
    Inbox(phone.store, phone.settings, "telegram", "Telegram", lambda session: True).take(one, None)
    assert (phone.settings.home / "HALT").exists() is halts
    with phone.store.read() as session:
        what = session.get_one(MessengersUpdate, ("telegram", 1)).what
    assert what == ("halt" if halts else "refused" if text.startswith("/") else "question")


def test_expired_cards_and_answers_from_elsewhere_are_said(phone: Phone) -> None:
    phone.pair()
    with phone.running():
        first, second = phone.asks("AAA", "BBB")
        one, two = phone.far.until(ADA, "buy 10 AAA"), phone.far.until(ADA, "buy 10 BBB")
        with phone.store.session() as session:
            approvals.decide(session, phone.settings, first, False, "bob", "not today")
        with phone.store.session() as session:
            session.get_one(Approval, phone.approval(second).id).expires_at = utcnow()
        wait_for(lambda: "denied by bob at" in one.text, "the card says who denied it")
        wait_for(lambda: "expired unanswered at" in two.text, "the card says that it expired")
        assert (one.buttons, two.buttons) == ({}, {})


def test_quiet_hours_hold_cards_back_and_wake_lets_them_through(phone: Phone) -> None:
    phone.pair(ADA, quiet="00:00-23:59")
    phone.pair(BOB, "bob", Scope.DECIDE, quiet="00:00-23:59", wake=True)
    with phone.running():
        (order,) = phone.asks("AAA")
        phone.far.until(BOB, "buy 10 AAA")
        with phone.store.session() as session:
            session.get_one(Approval, phone.approval(order).id).expires_at = utcnow()
        wait_for(lambda: "expired unanswered" in phone.far.of(BOB)[0].text, "the card is closed")
        assert phone.far.of(ADA) == []
        with phone.store.session() as session:  # the quiet hours end
            for row in session.exec(
                select(messages.MessengersMessage).where(messages.MessengersMessage.state == "waiting")
            ):
                row.next_at = utcnow()
        told = phone.far.until(ADA, "Over before you could answer:").text
        assert "An order waits for you: buy 10 AAA: expired unanswered at" in told
        assert len(phone.far.of(ADA)) == 1


def test_a_models_request_is_answered_and_its_questions_are_not(phone: Phone) -> None:
    phone.pair()
    (order,) = phone.asks("AAA")
    with phone.store.session() as session:
        run = session.get_one(Order, order).run_id
        for id_, kind, detail in (
            ("request-a", "command", {"command": "ls <b>evil.com</b>", "cwd": "/tmp"}),
            ("request-b", "user_input", {"questions": [{"id": "q", "question": "How many?", "options": []}]}),
        ):
            asked = ApprovalRequest(kind, "thread-1", "turn-1", f"item-{id_}", None, detail)  # type: ignore[arg-type]
            approval_requests.add_request(session, id_, asked, RunScope(run_id=run, role="quick"), 600)
    with phone.running():
        command, question = phone.far.until(ADA, "asks for command"), phone.far.until(ADA, "asks for user input")
        assert "evil. com" in command.text
        assert list(question.buttons) == ["Deny"]
        phone.far.presses(ADA, command.buttons["Approve"])
        phone.far.until(ADA, "approved by ada via Telegram")
    with phone.store.read() as session:
        assert session.get_one(RuntimeApproval, "request-a").decided_by == "ada via Telegram"
        assert session.get_one(RuntimeApproval, "request-b").state == "pending"


def test_a_run_is_stopped_by_who_may(phone: Phone) -> None:
    phone.pair()
    phone.pair(BOB, "bob", Scope.READ)
    (order,) = phone.asks("AAA")
    with phone.store.read() as session:
        run = session.get_one(Order, order).run_id
    with phone.running():
        phone.far.says(BOB, f"/stop {run}")
        phone.far.until(BOB, "You may not stop runs")
        phone.far.says(ADA, "/stop ffffffffffff")
        phone.far.until(ADA, "ffffffffffff")
        phone.far.says(ADA, f"/stop {run[:12]}")
        phone.far.until(ADA, f"run {run[:8]} ")
    with phone.store.read() as session:
        assert session.get_one(Run, run).state != RunState.RUNNING


def test_a_mute_is_a_span_and_holds_cards_back(phone: Phone) -> None:
    phone.pair(wake=True)
    with phone.running():
        for text, told in (
            ("/mute soon", "'soon' is no span"),
            ("/mute 99d", "more than 30 days"),
            ("/mute 2h", "Muted until"),
        ):
            phone.far.says(ADA, text)
            phone.far.until(ADA, told)
        phone.asks("AAA")
        phone.far.says(ADA, "/help")
        phone.far.until(ADA, "You are ada")
        assert phone.far.with_words(ADA, "buy 10 AAA") == []
        phone.far.says(ADA, "/waiting")
        phone.far.until(ADA, "buy 10 AAA")
        phone.far.says(ADA, "/mute off")
        phone.far.until(ADA, "buy 10 AAA", 2)


def test_questions_are_answered_from_rows_and_long_ones_refused(phone: Phone) -> None:
    phone.pair()
    phone.asks("AAA")
    with phone.running():
        phone.far.says(ADA, "/status")
        phone.far.until(ADA, "paper")
        phone.far.says(ADA, "x" * 20_001)
        phone.far.until(ADA, "That is too long: 20,001 characters of at most 20,000.")
        phone.far.says(ADA, "/why")
        phone.far.until(ADA, "Write the symbol, too: /why IBM")
        phone.far.says(ADA, "/nonsense")
        phone.far.until(ADA, "There is no /nonsense.")


def test_texts_are_plain_and_split_where_lines_end() -> None:
    parts = messages.parts("\n".join(f"line {place} {'x' * 100}" for place in range(400)))
    assert len(parts) == 3
    assert all(messages.units(part) <= 4096 for part in parts)
    assert parts[-1].endswith("\nmore on the page")
    assert all(line.startswith(("line ", "more")) for part in parts for line in part.splitlines())
    emoji = messages.parts("\U0001f600" * 5_000)
    assert all(messages.units(part) <= 4096 for part in emoji)
    assert (
        messages.plain("[x](http://evil.com) @all <b>\nsecond 12345678")
        == "x (http: evil. com) all b\nsecond (number left out)"
    )


@pytest.mark.parametrize(
    "given",
    [
        {"messengers_telegram_token": "hunter2"},
        {"messengers_telegram_api": "http://api.telegram.org"},
        {"messengers_telegram_api": "ftp://127.0.0.1"},
        {"messengers_confirm": "maybe"},
    ],
)
def test_wrong_settings_are_refused_without_the_token(given: dict[str, str]) -> None:
    ((name, value),) = given.items()
    with pytest.raises(SettingError) as caught:
        load({f"DESK_{name.upper()}": value})
    assert name.upper() in str(caught.value)
    assert "hunter2" not in f"{caught.value}{caught.value.remedy}"

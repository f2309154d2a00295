"""Proposals on a phone: words become a card, a press confirms it once, under what the person may do."""

from __future__ import annotations

import datetime as dt
import json

import pytest
from sqlmodel import col, select

from chordesk.models.messengers.tables import MessengersButton
from chordesk.models.tables.orders import Approval, Trading
from chordesk.tasks.messengers import confirming
from chordesk.tasks.messengers.people import Scope
from chordesk.tools.orders.audit import log_path
from tests.fakes.telegram import ADA, BOB
from tests.parts import needs, of_feature
from tests.stack import wait_for
from tests.tasks.messengers.conftest import Phone
from tests.tasks.messengers.test_pairing import taken

pytestmark = needs("asking")


def recorded(phone: Phone, kind: str) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in log_path(phone.settings).read_text().splitlines()]
    return [line["facts"] for line in lines if line["kind"] == kind]


def test_words_become_a_card_and_one_press_of_its_own_person_does_it(phone: Phone) -> None:
    phone.pair(ADA)
    phone.pair(BOB, "bob", Scope.DECIDE)
    far = phone.far
    with phone.running():
        (order,) = phone.asks("AAA")
        far.says(ADA, f"approve {order}")
        card = far.until(ADA, "Proposed: approve an order: buy 10 AAA, 1,000.00 USD on paper")
        for words in (
            "play money",
            "the trader's reason: a test",
            "nothing is done until you confirm",
            "asks no model",
        ):
            assert words in card.text
        assert list(card.buttons) == ["Confirm", "Dismiss"]
        yes = card.buttons["Confirm"]
        assert taken(phone, far.presses(BOB, yes), far.presses(999, yes)) == ["button_of_another", "stranger"]
        assert phone.state(order) == "approval_pending"
        pressed = [far.presses(ADA, yes), far.presses(ADA, yes)]
        assert taken(phone, *pressed) == ["yes_to_proposal", "late_press"]
        far.until(ADA, "confirmed by ada via Telegram")
        wait_for(lambda: card.buttons == {}, "the card says it")
    assert (phone.state(order), phone.approval(order).decided_by) == ("approved", "ada via Telegram")
    assert [one["by"] for one in recorded(phone, "proposal_confirmed")] == ["ada via Telegram"]
    assert len(recorded(phone, "approval_decided")) == 1


def test_a_halt_is_proposed_by_words_and_done_by_a_press(phone: Phone) -> None:
    phone.pair(ADA)
    far = phone.far
    with phone.running():
        far.says(ADA, "stop trading")
        card = far.until(ADA, "Proposed: halt trading of every account: paper")
        far.says(ADA, "yes"), far.says(ADA, "confirm")
        far.says(ADA, "/help")
        far.until(ADA, "You are ada")
        with phone.store.read() as session:
            assert session.exec(select(Trading)).all() == []
        far.presses(ADA, card.buttons["Confirm"])
        wait_for(lambda: "trading is halted" in card.text, "the card says it")
    with phone.store.read() as session:
        assert session.get_one(Trading, "paper").by == "ada via Telegram"


def test_a_halt_is_done_by_the_next_process_where_the_first_ends_after_its_record(
    phone: Phone, monkeypatch: pytest.MonkeyPatch
) -> None:
    phone.pair(ADA)
    far = phone.far
    with phone.running(), monkeypatch.context() as patched:
        far.says(ADA, "halt trading")
        card = far.until(ADA, "Proposed: halt trading of every account: paper")
        patched.setattr(confirming, "finish", lambda inbox, target: None)  # it ends there
        assert taken(phone, far.presses(ADA, card.buttons["Confirm"])) == ["yes_to_proposal"]
        with phone.store.read() as session:
            assert session.exec(select(Trading)).all() == []
    with phone.running(polled=False):  # no worker is there
        wait_for(lambda: "trading is halted" in card.text, "the card says it")
    with phone.store.read() as session:
        assert session.get_one(Trading, "paper").by == "ada via Telegram"


def test_what_a_person_may_not_do_has_no_button_and_is_refused(phone: Phone) -> None:
    phone.pair(BOB, "bob", Scope.READ)
    far = phone.far
    with phone.running():
        far.says(BOB, "halt trading")
        card = far.until(BOB, "you may not halt from here: confirm it on the terminal or the page")
        assert list(card.buttons) == ["Dismiss"]
        with phone.store.session() as session:  # a button that was made while they still might
            button = session.exec(select(MessengersButton)).one()
            button.act = "yes"
        far.presses(BOB, card.buttons["Dismiss"])
        far.until(BOB, "bob may not confirm this: it needs halt, and they may only read")
        far.says(BOB, "buy 100 AAA"), far.says(BOB, "resume")
        far.says(BOB, "/help")
        far.until(BOB, "You are bob")
    with phone.store.read() as session:
        assert session.exec(select(Trading)).all() == []
        assert session.exec(select(Approval)).all() == []


def test_a_changed_preview_and_an_expired_card_do_nothing(phone: Phone) -> None:
    phone.pair(ADA)
    far, row = phone.far, of_feature("chordesk.models.asking.proposals:AskingProposal")
    with phone.running():
        first, second = phone.asks("AAA", "BBB")
        far.says(ADA, f"approve {first}")
        changed = far.until(ADA, "buy 10 AAA, 1,000.00 USD on paper")
        far.says(ADA, f"deny {second}")
        late = far.until(ADA, "Proposed: deny an order: buy 10 BBB")
        with phone.store.session() as session:
            approval = session.exec(select(Approval).where(col(Approval.order_id) == first)).one()
            approval.payload_hash = "1" * 64
            expiring = session.exec(select(row).where(row.kind == "deny")).one()
            expiring.expires_at -= dt.timedelta(minutes=10)
        wait_for(lambda: "expired unanswered" in late.text, "the card says it")
        assert late.buttons == {}
        far.presses(ADA, changed.buttons["Confirm"])
        far.until(ADA, "the preview was")
    assert [phone.state(one) for one in (first, second)] == ["approval_pending"] * 2


@pytest.mark.parametrize("words", ["research AAA", "stop run 01a226c83a05", "approve nothing-there"])
def test_what_fits_nothing_is_said_and_proposes_nothing(phone: Phone, words: str) -> None:
    phone.pair(ADA)
    with phone.running():
        phone.far.says(ADA, words)
        phone.far.says(ADA, "/help")
        phone.far.until(ADA, "You are ada")
        wait_for(lambda: len(phone.far.of(ADA)) > 1, "it is answered")
    row = of_feature("chordesk.models.asking.proposals:AskingProposal")
    with phone.store.read() as session:
        assert [one.kind for one in session.exec(select(row)).all()] in ([], ["start"])

"""Who may write to the desk: a private chat that a code from a terminal was sent from, and nobody else."""

from __future__ import annotations

import datetime as dt

import pytest
from sqlmodel import select

from chordesk.models.errors import NotFound, UsageError
from chordesk.models.messengers.tables import MessengersCode, MessengersUpdate
from chordesk.models.tables.columns import utcnow
from chordesk.tasks.messengers import people
from chordesk.tasks.messengers.people import Scope
from chordesk.tasks.messengers.telegram_updates import incoming
from tests.fakes.telegram import ADA, BOB
from tests.stack import wait_for
from tests.tasks.messengers.conftest import Phone


def taken(phone: Phone, *numbers: int) -> list[str]:
    """Wait until these updates were acted on, and return what each was."""

    def found() -> dict[int, str]:
        with phone.store.read() as session:
            return {row.number: row.what for row in session.exec(select(MessengersUpdate)).all()}

    wait_for(lambda: set(numbers) <= found().keys(), "the updates are taken")
    return [found()[number] for number in numbers]


def test_a_code_pairs_one_private_chat_once(phone: Phone) -> None:
    code, far = phone.code("ada", Scope.DECIDE), phone.far
    with phone.running():
        far.says(ADA, "/status")  # a person whom nobody paired
        far.says(ADA, f"/pair {code.lower()}")
        assert "You may: decide, read" in far.until(ADA, "Paired as ada").text
        again = far.says(BOB, f"/pair {code}")
        other = far.says(ADA, f"/pair {phone.code('eve', Scope.HALT)}")
        assert taken(phone, again, other) == [people.WRONG, "paired_before"]
        far.until(ADA, "paired already, as ada")
    assert far.of(BOB) == []
    assert len(far.of(ADA)) == 2
    (ada,) = phone.people()
    assert (ada.name, ada.user, ada.chat, ada.scopes) == ("ada", str(ADA), str(ADA), ["decide", "read"])


def test_a_code_that_a_group_saw_pairs_nobody(phone: Phone) -> None:
    code, far = phone.code(), phone.far
    with phone.running():
        seen = far.says(ADA, f"/pair {code}", {"chat": {"id": -100, "type": "group"}})
        after = far.says(ADA, f"/pair {code}")
        assert taken(phone, seen, after) == [people.WRONG] * 2
    assert phone.people() == []
    assert far.messages == []


def test_a_code_ends_after_ten_minutes_and_wrong_ones_are_counted(phone: Phone) -> None:
    late = phone.code("late")
    with phone.store.session() as session:
        row = session.exec(select(MessengersCode)).one()
        row.expires_at = utcnow() - dt.timedelta(seconds=1)
    right, far = phone.code("ada"), phone.far
    with phone.running():
        wrong = [far.says(ADA, f"/pair {code}") for code in (late, "", *["ABCD-EFGH-JKLM"] * 3)]
        after = far.says(ADA, f"/pair {right}")
        assert taken(phone, *wrong, after) == [people.WRONG] * 5 + ["too_many_codes"]
        other = far.says(BOB, f"/pair {right}")
        assert taken(phone, other) == ["paired"]
    assert far.of(ADA) == []


NOT_HERS: list[dict[str, object]] = [
    {"from": {"id": BOB, "is_bot": False}},
    {"from": {"id": ADA, "is_bot": True}},
    {"chat": {"id": -100, "type": "supergroup"}},
    {"chat": {"id": ADA, "type": "channel"}},
    {"chat": {"id": ADA, "type": "group"}},
    {"forward_origin": {"type": "user"}},
    {"sender_chat": {"id": -100}},
    {"from": None},
    {"chat": []},
    {"text": {"a": "b"}},
]


def test_what_is_not_the_paired_persons_own_text_is_ignored(phone: Phone) -> None:
    phone.pair()
    with phone.running():
        numbers = [phone.far.says(ADA, "/halt", more=more) for more in NOT_HERS]
        assert set(taken(phone, *numbers)) == {"stranger", "ignored"}
    assert phone.far.messages == []
    assert not (phone.settings.home / "HALT").exists()


def test_updates_of_any_form_are_passed_over(phone: Phone) -> None:
    phone.pair()
    far = phone.far
    with phone.running():
        for odd in ({"edited_message": {"text": "/halt"}}, {"message": 7}, {"callback_query": []}, {"poll": None}):
            far.gives(odd)
        far.says(ADA, "/help \x00 \ud800")
        far.until(ADA, "You are ada")
    assert len(far.messages) == 1
    odd_ones = [None, {}, 7, [7, None, {}, {"update_id": "7"}, {"update_id": True}, {"update_id": 2**70}]]
    assert [list(incoming(result)) for result in odd_ones] == [[]] * 4


def test_a_revoked_person_is_a_stranger_and_names_are_checked(phone: Phone) -> None:
    phone.pair()
    with pytest.raises(UsageError, match="ada is paired already"):
        phone.code("ada")
    for name in ("", "a/b", " ada", "x" * 81, "a\u202eb"):
        with pytest.raises(UsageError, match="is no name"):
            phone.code(name)
    with pytest.raises(UsageError, match="are no hours"):
        phone.code("bob", quiet="late")
    with phone.store.session() as session:
        assert people.revoke(session, phone.settings, "ada", "me@here") == 1
        with pytest.raises(NotFound, match="nobody of the name 'ada' is paired"):
            people.revoke(session, phone.settings, "ada", "me@here")
    with phone.running():
        assert taken(phone, phone.far.says(ADA, "/halt")) == ["stranger"]
    assert phone.far.messages == []

"""Questions on a phone that no row answers: asked of a model once, told to their own person once."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from sqlmodel import col, select

from chordesk.models.answers import Grounding, Unsupported
from chordesk.models.tables.columns import utcnow
from chordesk.tasks.messengers.people import Scope
from tests.fakes.telegram import ADA, BOB
from tests.parts import needs, of_feature
from tests.stack import wait_for
from tests.tasks.messengers.conftest import Phone

pytestmark = needs("asking")
ASKED = "is there anything odd about the desk"
LOOKS = "A model looks it up; the answer comes here."
MODEL: dict[str, Any] = {"provider": "codex", "role_models": ""}


def entries(phone: Phone) -> list[Any]:
    row = of_feature("chordesk.models.asking.tables:AskingEntry")
    with phone.store.read() as session:
        return list(session.exec(select(row).order_by(col(row.id))).all())


def answers(phone: Phone, id_: str, text: str, **values: Any) -> None:
    """What the clerk's step writes."""
    with phone.store.session() as session:
        entry = session.get_one(of_feature("chordesk.models.asking.tables:AskingEntry"), id_)
        entry.sqlmodel_update({"state": "answered", "text": text, "ended_at": utcnow(), **values})
        session.add(entry)


def test_the_answer_of_a_model_comes_once_to_its_own_person(phone: Phone) -> None:
    phone.pair(ADA)
    phone.pair(BOB, "bob", Scope.START)
    far = phone.far
    with phone.running(**MODEL):
        far.says(ADA, ASKED)
        far.until(ADA, LOOKS)
        (entry,) = entries(phone)
        assert (entry.person, entry.origin, entry.question, entry.state) == ("ada", "telegram", ASKED, "asked")
    grounding = Grounding(
        figures=2,
        supported=1,
        share=0.5,
        citations=[],
        unsupported=[Unsupported(figure="77", text="answer", start=23, end=25)],
    )
    answers(phone, entry.id, "The desk has 0 orders, 77 others.", grounding=grounding.model_dump(mode="json"),
            missing=["the reason of one"])  # fmt: skip
    with phone.running(**MODEL):
        far.until(ADA, "1 of 2 figures found")
        far.says(ADA, "/help")
        far.until(ADA, "You are ada")
    with phone.running(**MODEL):
        far.says(BOB, "/help")
        far.until(BOB, "You are bob")
    (message,) = far.with_words(ADA, "1 of 2 figures found")
    assert "0 orders, 77 (not found) others." in message.text
    assert "missing: the reason of one" in message.text
    assert not far.with_words(BOB, "figures found")


def told(phone: Phone, times: int) -> bool:
    return len(phone.far.with_words(ADA, LOOKS)) == times


def test_a_conversation_goes_on_until_another_begins(phone: Phone) -> None:
    phone.pair(ADA)
    far = phone.far
    with phone.running(**MODEL):
        for number, text in enumerate((ASKED, f"{ASKED} now", f"{ASKED} again"), 1):
            if number == 3:
                far.says(ADA, "/new")
                far.until(ADA, "A new conversation begins.")
            far.says(ADA, text)
            wait_for(partial(told, phone, number), "it is asked")
    first, second, third = entries(phone)
    assert second.dialogue == first.dialogue == first.id
    assert third.dialogue == third.id


@pytest.mark.parametrize(
    ("scopes", "values", "why"),
    [
        ((Scope.READ,), MODEL, "A model would be asked, for which you need start: you may read."),
        (
            (Scope.START,),
            {**MODEL, "asking_hourly": 0},
            "bob has asked a model 0 questions within an hour, of at most 0",
        ),
        ((Scope.START,), {"provider": "rulebook"}, "I have no answer to that from the desk's rows"),
    ],
)
def test_who_may_not_ask_a_model_is_told_why(
    phone: Phone, scopes: tuple[Scope, ...], values: dict[str, Any], why: str
) -> None:
    phone.pair(BOB, "bob", *scopes)
    with phone.running(**values):
        phone.far.says(BOB, ASKED)
        phone.far.until(BOB, why)
    assert entries(phone) == []

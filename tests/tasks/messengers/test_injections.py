"""Texts that would have the desk act, from wherever texts come: none of them does, and none leaves its place on a card.

`injections.jsonl` has them, with where each would come from: headlines, theses, questions, names of files and lists,
chat messages; in several languages, with marks that are not seen, in base64, as cards, tool answers and callback data.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from sqlmodel import select

from chordesk.models.errors import DeskError, MarketError, NotConfigured
from chordesk.models.text import inert
from chordesk.tasks.approval_requests import WaitingOrder, waiting
from chordesk.tasks.messengers import cards, messages, slack
from chordesk.tasks.messengers.inbound import Inbox, Incoming
from chordesk.tasks.messengers.people import Scope
from chordesk.tasks.messengers.slack_updates import plain
from chordesk.tasks.notifications.wording import quoted
from chordesk.tasks.proposals import Office
from chordesk.tools.market.protocol import MarketData
from tests.fakes.telegram import ADA
from tests.parts import of_feature
from tests.tasks.messengers.conftest import Phone

TEXTS = [json.loads(line)["text"] for line in (Path(__file__).parent / "injections.jsonl").read_text().splitlines()]
# What only an act changes; not what was asked and is told.
OURS = ("messengers_update", "messengers_message", "messengers_bot", "alembic_version", "asking_proposal")


def acts(phone: Phone) -> dict[str, object]:
    """All that the database has but messages, and whether trading is halted."""
    with sqlite3.connect(phone.settings.database.removeprefix("sqlite:///")) as connection:
        names = [name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")]
        kept = [name for name in names if not name.startswith(OURS)]
        rows = {name: connection.execute(f'select * from "{name}"').fetchall() for name in kept}
    return {**rows, "halted": (phone.settings.home / "HALT").exists()}


@pytest.fixture
def waits(phone: Phone) -> Iterator[Phone]:
    """A desk on which an order waits, whose person may do all."""
    phone.pair(ADA, "ada", *Scope)
    phone.asks("AAA")
    before = acts(phone)
    yield phone
    assert acts(phone) == before


def test_there_are_at_least_two_hundred() -> None:
    assert len(set(TEXTS)) >= 200


def test_none_acts_as_a_message_or_a_press_of_one_who_may_do_all(waits: Phone) -> None:
    inbox = Inbox(waits.store, waits.settings, "telegram", "Telegram", lambda session: True)
    for number, text in enumerate(TEXTS):
        given = text.replace("\x00", " ").encode("utf-8", "replace").decode()
        for at, one in enumerate(dict.fromkeys((given, plain(given), f"> {given}"))):
            inbox.take(Incoming(10 * number + at, str(ADA), str(ADA), private=True, text=one), None)
        inbox.take(Incoming(10 * number + 7, str(ADA), str(ADA), private=True, press=given, press_id="p"), None)


def test_none_acts_as_a_question_and_none_costs_a_token(waits: Phone) -> None:
    answer = of_feature("chordesk.tasks.asking.lookup:answer")

    def away() -> MarketData:
        raise MarketError("the market is away")

    for text in TEXTS:
        try:
            found = answer(waits.settings, waits.store, away, text)
        except DeskError:
            continue
        assert found.tokens == 0
        assert "provider_key" not in found.text or "not set" in found.text


def test_none_does_or_confirms_what_it_proposes(waits: Phone) -> None:
    """Words may propose an act: it waits for a person's confirmation, which no text is, and its card is plain."""
    proposing = of_feature("chordesk.tasks.asking.proposing")
    office = Office(waits.settings, waits.store, _no_desk)
    for text in TEXTS:
        with contextlib.suppress(DeskError):
            proposing.from_text(office, text, proposing.Asker("ada", "terminal"))
    with waits.store.read() as session:
        rows = session.exec(select(proposing.AskingProposal)).all()
    assert rows, "some of them ask for an act that there is"
    assert {row.state for row in rows} <= {"open", "replaced"}
    assert all(line.isprintable() for row in rows for line in (row.title, *row.lines))


def _no_desk() -> NoReturn:
    raise NotConfigured("no market is asked")


def test_none_leaves_its_place() -> None:
    """In one line, without a sign that is markup, a link, a mention or not seen at all."""
    for text in TEXTS:
        for shown in (quoted(text), messages.plain(text), slack.content(messages.plain(text), [])["text"]):
            assert not set("<>[]{}|*_~`@#&\\/") & set(shown), text
            assert not any(unicodedata.category(one) in ("Cc", "Cf", "Cs", "Co") for one in shown.replace("\n", "")), (
                text
            )
        assert "\n" not in quoted(text), text
        assert "\x1b" not in inert(text), text


def test_none_changes_a_card_but_for_its_own_line(waits: Phone) -> None:
    with waits.store.read() as session:
        (row,) = waiting(session)
        assert isinstance(row, WaitingOrder)
        clean = cards.text_of(session, waits.settings, row.model_copy(update={"why": "a reason"})).splitlines()
        for text in TEXTS:
            lines = cards.text_of(session, waits.settings, row.model_copy(update={"why": text})).splitlines()
            changed = [place for place, (one, other) in enumerate(zip(clean, lines, strict=True)) if one != other]
            assert changed in ([], [3])
            assert lines[3].startswith("why: ")
    assert [one.label for one in cards.buttons_of(row)] == ["Approve", "Deny"]

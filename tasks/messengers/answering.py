"""Answers to questions of people: by features that answer from rows, else in the few words that the core has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlalchemy import func
from sqlmodel import Session, col, select

from chordesk.models import features
from chordesk.models.errors import DeskError
from chordesk.models.messengers.tables import MessengersMessage, MessengersPerson
from chordesk.models.states import ApprovalState, TradingState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Approval
from chordesk.models.text import utc_seconds
from chordesk.tasks.messengers import by_model, confirming, messages
from chordesk.tasks.messengers.inbound import Inbox, NotHeld
from chordesk.tasks.reading.changes import changes, last_close, summary
from chordesk.tools.orders.accounts import account_market
from chordesk.tools.orders.halting import trading_state

if TYPE_CHECKING:
    from chordesk.tasks.proposals import Proposed

_NO_FEATURE = "No feature of this desk answers questions: it says status and changes, and the word halt stops trading."


def answer_next(inbox: Inbox) -> bool:
    """Answer the oldest question that waits, by rows or by asking a model; False without one. Raises NotHeld."""
    with inbox.store.read() as session:
        rows = messages.questions(session, inbox.messenger, 1) if inbox.holds(session) else ()
    if not rows:
        return False
    made: Sequence[Proposed] | None = None
    known = True
    try:
        made = confirming.propose(inbox, rows[0])
        text, known = answer(inbox, rows[0].text) if made is None else ("", True)
    except DeskError as error:
        text = by_model.said(error)
    with inbox.store.session() as session:
        if not inbox.holds(session):
            raise NotHeld
        row = _locked(session, rows[0].id)
        if row.state == messages.WAITING and row.kind == messages.QUESTION:
            row.state, row.ended_at = messages.CLOSED, utcnow()
            person = session.get_one(MessengersPerson, row.person_id)
            told = by_model.asked(session, inbox.settings, person, row, text) if not known else text
            session.add(row)
            _write(session, person, told if made is None else "", made or ())
    return True


def tell_next(inbox: Inbox) -> bool:
    """Tell a person what a model has answered; False where none has. Raises NotHeld."""
    with inbox.store.read() as session:
        rows = messages.questions(session, inbox.messenger, 1_000, messages.ASKED) if inbox.holds(session) else ()
        found = next((one for one in rows if by_model.has_ended(session, inbox.settings, one)), None)
    if found is None:
        return False
    with inbox.store.session() as session:
        if not inbox.holds(session):
            raise NotHeld
        row = _locked(session, found.id)
        if row.state == messages.ASKED:
            row.state, row.ended_at = messages.CLOSED, utcnow()
            session.add(row)
            text, made = by_model.answered(session, inbox.settings, row)
            _write(session, session.get_one(MessengersPerson, row.person_id), text, made)
    return True


def _locked(session: Session, id_: str) -> MessengersMessage:
    return session.get_one(MessengersMessage, id_, with_for_update=True, populate_existing=True)


def _write(session: Session, person: MessengersPerson, text: str, made: Sequence[Proposed]) -> None:
    if text:
        messages.reply(session, person, messages.plain(text))
    for one in made:
        confirming.add_card(session, person, one)


def answer(inbox: Inbox, question: str) -> tuple[str, bool]:
    """Return the answer of the first feature that has one, and whether there is one. Raises DeskError."""
    settings, store = inbox.settings, inbox.store
    last = _NO_FEATURE
    for feature, functions in features.parts("answers"):
        for function in functions:
            found = features.call(feature, function, settings, store, lambda: account_market(store, settings), question)
            last = found.text or last
            if found.intent:
                missing = [f"missing: {one}" for one in found.missing]
                return "\n".join((found.text, *missing)), True
    with store.read() as session:
        if question == "status":
            return _status(session, inbox), True
        if question == "what changed":
            return _changes(session, inbox), True
    return last, False


def _status(session: Session, inbox: Inbox) -> str:
    settings = inbox.settings
    state, why = trading_state(session, settings, settings.account)
    trading = "trades" if state is TradingState.ACTIVE else f"is {state}: {why}"
    count = select(func.count()).select_from(Approval).where(col(Approval.state) == ApprovalState.PENDING.value)
    waits = session.exec(count).one()
    return f"account {settings.account} {trading}\n{waits} orders wait for a person\n{_changes(session, inbox)}"


def _changes(session: Session, inbox: Inbox) -> str:
    since = last_close(inbox.settings, utcnow())
    return summary(changes(session, inbox.settings, inbox.settings.account, since), utc_seconds(since))

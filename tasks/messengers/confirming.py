"""Proposals on a phone: what a person's words ask for comes back as a card, and a press of its button confirms it.

The features that propose are asked; the button is bound to the person and to the hash of what the card shows, as those
of orders are. A person confirms what their pairing lets them do; what needs more is confirmed on the terminal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Protocol

import structlog
from sqlmodel import Session

from chordesk.models import features
from chordesk.models.database.store import Store
from chordesk.models.errors import DeskError
from chordesk.models.messengers.tables import MessengersButton, MessengersMessage, MessengersPerson
from chordesk.models.settings import Settings
from chordesk.models.tables.columns import utcnow
from chordesk.tasks.messengers import messages
from chordesk.tasks.messengers.messages import Button

if TYPE_CHECKING:
    from chordesk.tasks.proposals import Confirms, Office, ProposalScope, Proposed

log = structlog.get_logger(__name__)
YES, NO = "yes", "no"  # acts of buttons
_TARGET = "proposal:"


class Side(Protocol):
    """The side of a messenger that acts. shown: its name for people."""

    @property
    def store(self) -> Store: ...

    @property
    def settings(self) -> Settings: ...

    @property
    def shown(self) -> str: ...


def is_proposal(target: str | None) -> bool:
    return (target or "").startswith(_TARGET)


def propose(inbox: Side, question: MessengersMessage) -> Sequence[Proposed] | None:
    """Return what a person's words ask for as proposals; None where they ask for no act. Raises DeskError."""
    with inbox.store.read() as session:
        person = session.get_one(MessengersPerson, question.person_id)
    for feature, one in _confirms():
        with _office(inbox) as office:
            made = features.call(feature, one.propose, office, question.text, person.name, inbox.shown)
        if made is not None:
            return made
    return None


def add_card(session: Session, person: MessengersPerson, one: Proposed) -> None:
    """Write the card of a proposal to the person who asked for it."""
    target = f"{_TARGET}{one.id}"
    buttons = [Button("Dismiss", NO, target, one.shown)]
    if one.scope in _scopes(person):
        buttons = [Button("Confirm", YES, target, one.shown), *buttons]
        then = "nothing is done until you confirm"
    else:
        then = f"you may not {one.scope} from here: confirm it on the terminal or the page"
    text = f"{one.text}\nfor ten minutes; {then}\nproposal {one.id[:12]}"
    messages.card(session, person, messages.plain(text), buttons, target, utcnow())


def fate_of(session: Session, settings: Settings, target: str) -> str | None:
    """Return what became of a proposal; None while it waits, or is being done."""
    found = _found(session, settings, target)
    if found is None:
        return "it is not on record any more"
    return None if found[1].state in ("open", "confirmed") else messages.plain(found[1].fate)


def answer(session: Session, inbox: Side, person: MessengersPerson, button: MessengersButton) -> str:
    """Confirm or dismiss in the update's transaction; return what became of it. Raises DeskError."""
    found = _found(session, inbox.settings, button.target)
    if found is None:
        return "it is not on record any more"
    one, id_ = found[0], found[1].id
    with _office(inbox) as office:
        if button.act == NO:
            return one.dismiss(session, office, id_, person.name, inbox.shown).fate
        done = one.confirm(session, office, id_, button.shown, person.name, inbox.shown, _scopes(person))
    return done.fate


def finish(inbox: Side, target: str) -> None:
    """Do what a confirmation left to be done, as far as this process can; a worker does the rest."""
    with inbox.store.read() as session:
        found = _found(session, inbox.settings, target)
    if found is not None:
        with _office(inbox) as office:
            found[0].finish(office, found[1].id)


def finish_left(inbox: Side) -> None:
    """Do what an earlier process recorded as confirmed and had no time to do, as far as this one can: a halt waits for
    no worker. What cannot be done is left to them."""
    for feature, one in _confirms():
        with inbox.store.read() as session:
            ids = features.call(feature, one.left, session)
        for id_ in ids:
            try:
                with _office(inbox) as office:
                    features.call(feature, one.finish, office, id_)
            except DeskError as error:
                log.warning("messengers.not_finished", proposal=id_, error=str(error))


def _confirms() -> Iterator[tuple[features.Feature, Confirms]]:
    for feature, classes in features.parts("confirms"):
        for each in classes:
            yield feature, each()


def _found(session: Session, settings: Settings, target: str) -> tuple[Confirms, Proposed] | None:
    for feature, one in _confirms():
        proposal = features.call(feature, one.find, session, settings, target.removeprefix(_TARGET))
        if proposal is not None:
            return one, proposal
    return None


def _scopes(person: MessengersPerson) -> set[ProposalScope]:
    from chordesk.tasks.proposals import ProposalScope

    return {one for one in ProposalScope if one.value in person.scopes}


@contextmanager
def _office(inbox: Side) -> Iterator[Office]:
    """What acts are worded and done with. The desk is made where one needs the market: this process has no use for it
    else."""
    from chordesk.tasks.bootstrap import Desk
    from chordesk.tasks.proposals import Office

    with ExitStack() as made:

        @cache
        def desk() -> Desk:
            return made.enter_context(closing(Desk(inbox.settings, "messengers", records=False)))

        yield Office(inbox.settings, inbox.store, desk)

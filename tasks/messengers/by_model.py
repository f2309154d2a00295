"""Questions that the rows do not answer: asked of a model by the features that have one, for a person who may start
runs. The answer comes to that person alone, in the transaction in which the question is noted as told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sqlmodel import Session

from chordesk.models import features
from chordesk.models.errors import DeskError
from chordesk.models.messengers.tables import MessengersMessage, MessengersPerson
from chordesk.models.settings import Settings
from chordesk.tasks.messengers import messages, people
from chordesk.tasks.messengers.people import Scope

if TYPE_CHECKING:
    from chordesk.tasks.proposals import Proposed
    from chordesk.tasks.questions import Asks

_GONE = "the question is not on record any more"


def asked(
    session: Session, settings: Settings, person: MessengersPerson, row: MessengersMessage, otherwise: str
) -> str:
    """Ask a model in the caller's transaction, note it in the question, and return what the person is told. otherwise:
    what they are told where this desk has no model."""
    from chordesk.tasks.questions import AskedQuestion

    for feature, one in _asks():
        try:
            if not features.call(feature, one.by_model, settings):
                continue
            if Scope.START not in person.scopes:
                may = ", ".join(person.scopes)
                return f"{otherwise}\nA model would be asked, for which you need {Scope.START}: you may {may}."
            given = AskedQuestion(row.text, person.name, person.messenger, people.began_anew(session, person))
            id_ = features.call(feature, one.ask, session, settings, given)
        except DeskError as error:
            return said(error)
        row.state, row.ended_at, row.target = messages.ASKED, None, f"{feature.name}:{id_}"
        return "A model looks it up; the answer comes here."
    return otherwise


def has_ended(session: Session, settings: Settings, row: MessengersMessage) -> bool:
    found = _found(row)
    try:
        return found is None or features.call(found[0], found[1].ended, session, settings, found[2])
    except DeskError:  # `answered` says why
        return True


def answered(session: Session, settings: Settings, row: MessengersMessage) -> tuple[str, Sequence[Proposed]]:
    """Return the answer to a question that has ended, and the proposals that it ended in."""
    found = _found(row)
    if found is None:
        return _GONE, ()
    try:
        answer = features.call(found[0], found[1].answered, session, settings, found[2])
    except DeskError as error:
        return said(error), ()
    return answer.text, answer.proposals


def said(error: DeskError) -> str:
    return f"{error.args[0]}. {error.remedy}" if error.remedy else str(error.args[0])


def _asks() -> Iterator[tuple[features.Feature, Asks]]:
    for feature, classes in features.parts("asks"):
        for each in classes:
            yield feature, each()


def _found(row: MessengersMessage) -> tuple[features.Feature, Asks, str] | None:
    """Return who was asked, and the question's id; None where that feature is switched off."""
    name, _, id_ = (row.target or "").partition(":")
    return next(((feature, one, id_) for feature, one in _asks() if feature.name == name), None)

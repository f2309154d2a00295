"""The stakes of a run: each aggregate probability against what its venue sells now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlmodel import Session, col, select

from chordesk.models.board.questions import VENUES
from chordesk.models.database.store import Store
from chordesk.models.errors import DeskError
from chordesk.models.settings import Settings
from chordesk.models.tables.questions import EventPosition, Question
from chordesk.tools.event_positions.ledger import open_event_position
from chordesk.tools.event_positions.sizing import NoStake
from chordesk.tools.venues.markets import EventBook, EventVenue, VenueMarket


@dataclass(frozen=True, slots=True)
class Staked:
    """What was staked on a question. reason: why nothing was, empty where there is a position."""

    question_id: str
    position: EventPosition | None
    reason: str = ""


def stake_run(
    store: Store, settings: Settings, run_id: str, beliefs: Mapping[str, float], venues: Mapping[str, EventVenue]
) -> list[Staked]:
    """Open the positions of a run and return one result for each question of a venue, in the order of `beliefs`.

    beliefs: probability of YES by question id; questions of no venue have no prices and are left out. Venues are asked
    outside of any transaction. Repeating the call opens nothing twice, and asks nothing again for what is open.
    """
    with store.read() as session:
        questions = _questions(session, beliefs)
        done = _positions(session, run_id)
    found = []
    for question in (questions[one] for one in beliefs if one in questions):
        if question.id in done:
            found.append(Staked(question.id, done[question.id]))
            continue
        try:
            market, book = _offered(question, venues)
        except DeskError as error:
            found.append(Staked(question.id, None, str(error)))
            continue
        with store.session() as session:
            result = open_event_position(
                session,
                settings,
                run_id=run_id,
                question=session.get_one(Question, question.id),
                probability=beliefs[question.id],
                market=market,
                book=book,
            )
        found.append(
            Staked(question.id, None, result.reason) if isinstance(result, NoStake) else Staked(question.id, result)
        )
    return found


def _questions(session: Session, beliefs: Mapping[str, float]) -> dict[str, Question]:
    asked = select(Question).where(col(Question.id).in_(list(beliefs)), col(Question.source).in_(VENUES))
    return {row.id: row for row in session.exec(asked)}


def _positions(session: Session, run_id: str) -> dict[str, EventPosition]:
    mine = select(EventPosition).where(EventPosition.run_id == run_id)
    return {row.question_id: row for row in session.exec(mine)}


def _offered(question: Question, venues: Mapping[str, EventVenue]) -> tuple[VenueMarket, EventBook | None]:
    """Return a question's market and book. Raises DeskError as its venue does."""
    venue = venues.get(question.source)
    if venue is None:
        raise DeskError(f"{question.source} is not read: DESK_VENUES does not name it")
    market = venue.market(question.external_id)
    return market, venue.book(market) if market.state == "open" else None

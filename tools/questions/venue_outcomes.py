"""Questions of event venues against what their venues have now: prices, outcomes, and outcomes that they took back."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlmodel import Session, col, select

from chordesk.models.board.questions import QuestionState
from chordesk.models.errors import DeskError
from chordesk.models.tables.questions import Question
from chordesk.tools.questions.importing import refresh
from chordesk.tools.questions.medians import Pending, Resolution, Resolved
from chordesk.tools.venues.markets import EventVenue, VenueLookups, VenueMarket

WATCHED_DAYS = 14  # for which an outcome is compared with what the venue has
MOST_WATCHED = 100  # markets of one pass, besides those past their deadline; each is a request


class VenueAnswers(NamedTuple):
    """Markets by the id of their question, and why one could not be read."""

    markets: dict[str, VenueMarket]
    failed: dict[str, str]


def watched(session: Session, venues: Iterable[str], now: dt.datetime) -> list[Question]:
    """Return the questions of venues that are worth a request: open ones, and those that ended days ago at most. Past
    their deadline first, then what closes soonest; at most so many besides. now: real time."""
    of_venues = select(Question).where(col(Question.source).in_(list(venues)))
    is_open = of_venues.where(Question.state == QuestionState.OPEN)
    late = session.exec(is_open.where(col(Question.closes_at) <= now).order_by(col(Question.id))).all()
    ahead = session.exec(
        is_open.where(col(Question.closes_at) > now).order_by(col(Question.closes_at)).limit(MOST_WATCHED)
    ).all()
    since = col(Question.resolved_at) >= now - dt.timedelta(days=WATCHED_DAYS)
    ended = session.exec(of_venues.where(since).order_by(col(Question.resolved_at).desc()).limit(MOST_WATCHED)).all()
    return [*late, *[*ahead, *ended][:MOST_WATCHED]]


def ask_venues(questions: Sequence[Question], venues: Mapping[str, EventVenue]) -> VenueAnswers:
    """Return the markets of these questions as their venues have them now; each venue is asked once."""
    ids: dict[str, list[str]] = defaultdict(list)
    for question in questions:
        ids[question.source].append(question.external_id)
    answers = {name: _lookups(venues.get(name), name, wanted) for name, wanted in ids.items()}
    markets, failed = {}, {}
    for question in questions:
        answer, id_ = answers[question.source], question.external_id
        if id_ in answer.found:
            markets[question.id] = answer.found[id_]
        else:
            failed[question.id] = answer.failed.get(id_, f"{question.source} did not answer for its market {id_}")
    return VenueAnswers(markets, failed)


def venue_resolutions(questions: Iterable[Question], answers: VenueAnswers, now: dt.datetime) -> dict[str, Resolution]:
    """Return the outcome of each open question that its venue has resolved, be it before its deadline, and why it has
    none of each past its deadline; by id. now: real time."""
    found: dict[str, Resolution] = {}
    for question in questions:
        if question.state != QuestionState.OPEN:
            continue
        market = answers.markets.get(question.id)
        outcome = Pending(answers.failed[question.id]) if market is None else resolution_of(market)
        if isinstance(outcome, Resolved) or question.closes_at <= now:
            found[question.id] = outcome
    return found


def resolution_of(market: VenueMarket) -> Resolution:
    """Return the outcome of a venue's market, or that it has none yet."""
    if market.state != "resolved" or market.outcome is None:
        return Pending(f"{market.venue} has its market {market.id} {market.state} at {market.as_of:%Y-%m-%d %H:%M} UTC")
    return Resolved(None if market.outcome == "void" else float(market.outcome), venue_evidence(market))


def venue_evidence(market: VenueMarket) -> dict[str, Any]:
    """Return what a venue stated, as evidence of an outcome."""
    return {
        "source": market.venue,
        "market": market.id,
        "url": market.url,
        "as_of": market.as_of.isoformat(),
        "outcome": market.outcome,
        "rules": market.rules,
    }


def refresh_stored(session: Session, markets: Mapping[str, VenueMarket]) -> list[Question]:
    """Bring stored questions to what their venues have now, by their ids; return those with an outcome that its venue
    contradicts, as of now or before."""
    changed = []
    rows = select(Question).where(col(Question.id).in_(list(markets))).order_by(col(Question.id)).with_for_update()
    for question in session.exec(rows):
        if refresh(question, markets[question.id]) == "changed":
            changed.append(question)
        session.add(question)
    session.flush()
    return changed


def _lookups(venue: EventVenue | None, name: str, ids: list[str]) -> VenueLookups:
    if venue is None:
        return VenueLookups(failed=dict.fromkeys(ids, f"{name} is not read: DESK_VENUES does not name it"))
    try:
        return venue.resolutions(ids)
    except DeskError as error:
        return VenueLookups(failed=dict.fromkeys(ids, str(error)))

"""Questions of event venues: imported once, their prices refreshed, their outcomes against what the venues have now."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from sqlmodel import Session, col, select

from chordesk.models.answers import Frozen
from chordesk.models.database.store import Store
from chordesk.models.errors import DeskError, NotConfigured, UsageError
from chordesk.models.questions import QUESTION_FINAL, ByVenue, QuestionState
from chordesk.models.tables.board import Question
from chordesk.models.text import one_line, utc
from chordesk.tools.board.venues.markets import EventVenue, Outcome, VenueMarket, changed_resolution
from chordesk.tools.questions.asking import MOST_TEXT, detail, question_row, store_questions, stored_questions
from chordesk.tools.questions.medians import Pending, Resolution, Resolved

# new: it is a question now; refreshed: it was one, and has the venue's present price; same: it had that already;
# changed: the venue contradicts the outcome it gave; ended: it has its outcome, of which the venue says the same.
Came = Literal["new", "refreshed", "same", "changed", "ended"]


class ImportedLine(Frozen):
    """A venue's market as a question; without a baseline, where the venue has no price, it is not forecast."""

    came: Came
    question: Question


class ImportReport(Frozen):
    """left_out: how many markets were not imported, by reason. whole: whether the venue had no more."""

    venue: str
    questions: tuple[ImportedLine, ...]
    left_out: dict[str, int]
    whole: bool = True

    @property
    def unpriced(self) -> int:
        return sum(one.question.baseline is None for one in self.questions)


def import_term(store: Store, venue: EventVenue, term: str, limit: int, by: str) -> ImportReport:
    found = venue.search(term, limit)
    left_out = Counter({"with other than two outcomes": found.left_out} if found.left_out else {})
    good = []
    for market in found.markets:
        if (why := unfit(market)) is None:
            good.append(market)
        else:
            left_out[why] += 1
    exclusive = _exclusive(venue, good)
    with store.session() as session:
        lines = import_markets(session, good, by, exclusive)
    return ImportReport(venue=venue.name, questions=tuple(lines), left_out=dict(left_out), whole=found.whole)


def import_one(store: Store, venue: EventVenue, market_id: str, by: str) -> ImportReport:
    """Raises UsageError for a market that is closed and no question yet, MarketError for an unknown one."""
    market = venue.market(market_id)
    exclusive = _exclusive(venue, [market])
    with store.session() as session:
        if (why := unfit(market)) is not None and _stored(session, market) is None:
            reason = f"{market.venue} has its market {market.id} {why}: no forecast of it could be scored"
            raise UsageError(reason, remedy="choose one that is open")
        lines = import_markets(session, [market], by, exclusive)
    return ImportReport(venue=venue.name, questions=tuple(lines), left_out={})


def _exclusive(venue: EventVenue, markets: Iterable[VenueMarket]) -> set[str]:
    events = {one.event for one in markets if one.event is not None}
    return {event for event in sorted(events) if venue.exclusive(event)}


def import_markets(
    session: Session, markets: Iterable[VenueMarket], by: str, exclusive: Collection[str] = ()
) -> list[ImportedLine]:
    """Write the markets as questions, each once; those that are questions already get the venue's present price and
    closing, or a note that it contradicts the outcome it gave. exclusive: events of which at most one market can come
    true."""
    lines, given = list[ImportedLine](), list(markets)
    for venue in dict.fromkeys(market.venue for market in given):
        of_venue = {market.id: market for market in given if market.venue == venue}
        stored = stored_questions(session, [venue], "", list(of_venue))
        absent = [one for key, one in of_venue.items() if key not in stored]
        rows = [_row(one, by, one.event if one.event in exclusive else None) for one in absent]
        asked = stored | store_questions(session, rows)
        for key, market in of_venue.items():
            came: Came = refresh(stored[key], market) if key in stored else "new"
            if came == "refreshed" and not session.is_modified(asked[key]):
                came = "same"
            lines.append(ImportedLine(came=came, question=asked[key]))
    session.flush()
    return lines


def refresh(question: Question, market: VenueMarket) -> Came:
    """Bring a question to what its venue has now, and return what came of it. An outcome stays as it is: a venue's
    contradiction is added to the evidence and to the note."""
    if question.state in QUESTION_FINAL:
        if not _is_later(question, market):
            return "ended"
        stored: Outcome = "void" if question.outcome is None else question.outcome
        contradiction = changed_resolution(market, stored)
        if contradiction is None:
            return "ended"
        _record(question, contradiction, market)
        return "changed"
    if market.state == "resolved":
        question.note = f"{market.venue} has resolved it: desk questions resolve {question.id}"
        return "refreshed"
    question.baseline, question.baseline_source = market.probability, _source(market)
    question.criteria = detail(market.rules)
    if market.closes_at is not None and market.closes_at > question.opens_at:
        question.closes_at = market.closes_at
    return "refreshed"


def _is_later(question: Question, market: VenueMarket) -> bool:
    """Return whether the venue stated this after it resolved the question; a question that a person declared void has
    no outcome of its venue."""
    of_venue = (question.evidence or {}).get("source") == market.venue
    return of_venue and question.resolved_at is not None and market.as_of >= question.resolved_at


def _record(question: Question, contradiction: str, market: VenueMarket) -> None:
    """Note a contradiction, once however often the venue repeats it. Nothing is booked again."""
    if question.note == contradiction:
        return
    evidence: dict[str, Any] = dict(question.evidence or {})
    change = {"at": market.as_of.isoformat(), "state": market.state, "outcome": market.outcome}
    evidence["changes"] = [*evidence.get("changes", ()), change]
    question.evidence, question.note = evidence, contradiction


def unfit(market: VenueMarket) -> str | None:
    if market.state != "open":
        return market.state
    if market.closes_at is None:
        return "without a closing time"
    return "past its closing time" if market.closes_at <= market.as_of else None


def _row(market: VenueMarket, by: str, event: str | None) -> Question:
    assert market.closes_at is not None, "one without a closing is left out"
    rule = ByVenue.model_validate({"venue": market.venue, "id": market.id})
    return question_row(
        source=market.venue,
        market="",
        external_id=market.id,
        text=one_line(market.question, MOST_TEXT),
        criteria=detail(market.rules),
        rule=rule.model_dump(mode="json"),
        subjects=[],
        opens_at=market.as_of,
        closes_at=market.closes_at,
        baseline=market.probability,
        baseline_source=_source(market),
        url=market.url,
        event=event,
        author=by,
    )


def _source(market: VenueMarket) -> str:
    return f"{market.venue}: {market.basis}" if market.probability is not None else f"no price: {market.basis}"


def _stored(session: Session, market: VenueMarket) -> Question | None:
    key = (Question.source == market.venue, Question.market == "", Question.external_id == market.id)
    return session.exec(select(Question).where(*key)).first()


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
    """Return the markets of these questions as their venues have them now; one that cannot be read ends no other."""
    answers = VenueAnswers({}, {})
    for question in questions:
        try:
            if question.source not in venues:
                raise NotConfigured(f"{question.source} is not read: DESK_VENUES does not name it")
            answers.markets[question.id] = venues[question.source].market(question.external_id)
        except DeskError as error:
            answers.failed[question.id] = str(error)
    return answers


def venue_resolutions(questions: Iterable[Question], answers: VenueAnswers, now: dt.datetime) -> dict[str, Resolution]:
    """Return the outcome of each open question that its venue has resolved, even before its deadline, and the reason
    why a question past its deadline has none; by id. now: real time."""
    found: dict[str, Resolution] = {}
    for question in questions:
        if question.state != QuestionState.OPEN:
            continue
        market = answers.markets.get(question.id)
        outcome = Pending(answers.failed[question.id]) if market is None else resolution_of(market)
        if isinstance(outcome, Resolved) or question.closes_at <= now:
            found[question.id] = outcome
    return found


class VenueResolver:
    """Resolves the questions of these venues by what the venues have, and refreshes their prices."""

    def __init__(self, venues: Mapping[str, EventVenue]) -> None:
        self._venues = venues
        self._markets: dict[str, VenueMarket] = {}

    def watched(self, session: Session, now: dt.datetime) -> list[Question]:
        return watched(session, self._venues, now) if self._venues else []

    def ask(self, questions: Sequence[Question], now: dt.datetime) -> dict[str, Resolution]:
        answers = ask_venues(questions, self._venues)
        self._markets = answers.markets
        return venue_resolutions(questions, answers, now)

    def refresh(self, session: Session, left: Collection[str]) -> list[Question]:
        fresh = {one: market for one, market in self._markets.items() if one in left}
        return refresh_stored(session, fresh) if fresh else []


def resolution_of(market: VenueMarket) -> Resolution:
    if market.state != "resolved" or market.outcome is None:
        return Pending(f"{market.venue} has its market {market.id} {market.state} at {utc(market.as_of)}")
    return Resolved(None if market.outcome == "void" else float(market.outcome), venue_evidence(market))


def venue_evidence(market: VenueMarket) -> dict[str, Any]:
    return {
        "source": market.venue,
        "market": market.id,
        "url": market.url,
        "as_of": market.as_of.isoformat(),
        "outcome": market.outcome,
        "rules": market.rules,
    }


def refresh_stored(session: Session, markets: Mapping[str, VenueMarket]) -> list[Question]:
    """Bring stored questions up to date; return those whose outcome the venue contradicts."""
    changed = []
    rows = select(Question).where(col(Question.id).in_(list(markets))).order_by(col(Question.id)).with_for_update()
    for question in session.exec(rows):
        if refresh(question, markets[question.id]) == "changed":
            changed.append(question)
        session.add(question)
    session.flush()
    return changed

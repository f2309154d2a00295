"""What a resolved question books for an account: the skill of its voices, disagreement that was right, play money."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import structlog
from sqlalchemy.dialects import postgresql, sqlite
from sqlmodel import Session, col, select

from chordesk.agents.board.karma import Booking, resolved
from chordesk.models.board.forecasts import VoiceForecast, VoicePosition
from chordesk.models.board.karma import KarmaReason
from chordesk.models.errors import NotConfigured
from chordesk.models.tables.board import Forecast, KarmaEntry, Signal, SignalCitation
from chordesk.models.tables.columns import new_id, utcnow
from chordesk.models.tables.composing import composed_once
from chordesk.models.tables.questions import Question
from chordesk.tasks.bootstrap import Desk
from chordesk.tools.event_positions.ledger import settle_event_positions
from chordesk.tools.event_positions.staking import stake_run
from chordesk.tools.questions.reading import known_at
from chordesk.tools.questions.resolving import resolve_due
from chordesk.tools.questions.settling import OnResolved, is_under_way
from chordesk.tools.registry import ToolContext
from chordesk.tools.venues.factory import build_venues
from chordesk.tools.venues.markets import EventVenue

log = structlog.get_logger(__name__)


def book_skill(session: Session, question: Question, account: str) -> None:
    """Book for each voice of an account what its forecasts of a resolved question earned, once a question: the mean
    over its runs of the last forecast's alpha, and a disagreement of its last run. While a board of the account with
    the question is under way nothing is booked: that is for a later pass, which finds it."""
    if question.outcome is None or is_under_way(session, question.id, account):
        return
    by_voice: dict[str, dict[str, Forecast]] = defaultdict(dict)
    mine = (Forecast.question_id == question.id, Forecast.account == account)
    order = (col(Forecast.market_at), col(Forecast.round), col(Forecast.id))
    for row in session.exec(select(Forecast).where(*mine).order_by(*order)).all():
        by_voice[row.voice][row.run_id] = row
    for runs in _lasts(by_voice):
        earned = _earned(session, question, runs)
        known = known_at(question)
        book(session, [entry_of(account, runs[-1].run_id, one, known, question.id) for one in earned])


ON_RESOLVED: tuple[OnResolved, ...] = (book_skill, settle_event_positions)


def resolve(desk: Desk, context: ToolContext) -> dict[str, Any]:
    """Resolve what is due on a run's market and book it for the run's account; return how many came to an end and how
    many wait."""
    venues = venues_of(context)
    found = resolve_due(desk.store, context.market, context.account, on_resolved=ON_RESOLVED, venues=venues)
    return {"resolved": len(found.resolved), "waiting": len(found.waiting)}


def venues_of(context: ToolContext) -> dict[str, EventVenue]:
    """Return the wires of the venues that a run may ask: none in a replay, where nothing of them is known, and none
    without the extra that they need."""
    if context.clock.day is not None:
        return {}
    try:
        return build_venues(context.settings)
    except NotConfigured as error:
        log.warning("venues.away", error=str(error))
        return {}


def stake(desk: Desk, context: ToolContext, run_id: str, beliefs: Mapping[str, float]) -> list[str]:
    """Open play-money positions on a run's questions of event markets, and return a note for each that was not.

    beliefs: probability of YES by the question's id. Each is opened once a run, however often this is called.
    """
    venues = venues_of(context)
    if not venues or not beliefs:
        return []
    found = stake_run(desk.store, context.settings, run_id, beliefs, venues)
    return [f"no play money on question {one.question_id}: {one.reason}" for one in found if one.reason]


def _lasts(by_voice: dict[str, dict[str, Forecast]]) -> Iterable[list[Forecast]]:
    """Yield the last forecast of each run, of one voice after the other."""
    return (list(by_voice[voice].values()) for voice in sorted(by_voice))


def _earned(session: Session, question: Question, runs: Sequence[Forecast]) -> list[Booking]:
    assert question.outcome is not None, "a void question books nothing"
    key = f"question:{question.id}"
    each = [resolved(_position(row), question.outcome, row.baseline, _disagreed(session, row), key=key) for row in runs]
    gains = [one.amount for bookings in each for one in bookings if one.reason is KarmaReason.ALPHA]
    (skill,) = [one for one in each[-1] if one.reason is KarmaReason.ALPHA]
    mean = math.fsum(gains) / len(gains)
    others = [one for one in each[-1] if one.reason is not KarmaReason.ALPHA]
    return [Booking(skill.voice, skill.ledger, skill.reason, mean, skill.key, skill.note, skill.question), *others]


def _position(row: Forecast) -> VoicePosition:
    forecast = VoiceForecast(
        question=row.question_id, probability=row.probability, stake=row.stake, because=row.because, citations=[],
        chain=row.chain,
    )  # fmt: skip
    return VoicePosition(voice=row.voice, round=row.round, forecast=forecast, forecast_id=row.id)


def _disagreed(session: Session, row: Forecast) -> dict[str, float | None]:
    """Return what the signals imply with which a forecast disagrees by citations that count, by label."""
    found = session.exec(
        select(Signal.label, Signal.implied)
        .join(SignalCitation, col(SignalCitation.signal_id) == col(Signal.id))
        .where(SignalCitation.forecast_id == row.id, SignalCitation.counts, SignalCitation.stance == "disagree")
    ).all()
    return dict(found)


def entry_of(account: str, run_id: str, one: Booking, market_at: Any, question_id: str | None = None) -> KarmaEntry:
    """Return the row of a booking. market_at: market time."""
    return KarmaEntry(
        id=new_id(),
        created_at=utcnow(),
        account=account,
        voice=one.voice,
        ledger=one.ledger.value,
        reason=one.reason.value,
        amount=one.amount,
        key=one.key,
        run_id=run_id,
        question_id=question_id,
        market_at=market_at,
        note=one.note,
    )


def book(session: Session, entries: Sequence[KarmaEntry]) -> None:
    """Write entries; one with a key that its account and voice have already is left out: nothing is booked twice."""
    if entries:
        rows = [row.model_dump() for row in entries]
        session.connection().execute(_insert(session.get_bind().dialect.name), rows)


@composed_once
def _insert(dialect: str) -> Any:
    table = KarmaEntry.__table__  # type: ignore[attr-defined]
    made = (sqlite if dialect == "sqlite" else postgresql).insert(table)
    return made.on_conflict_do_nothing(index_elements=["account", "voice", "key"])

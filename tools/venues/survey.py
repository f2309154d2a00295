"""Stored pairs compared at the prices of now: which differ, and which confirmed one has an edge."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from chordesk.models.errors import DeskError, NotConfigured
from chordesk.models.tables.questions import Question
from chordesk.tools.venues.arbitrage import Comparison, PairState, compare
from chordesk.tools.venues.markets import EventBook, EventVenue, VenueMarket
from chordesk.tools.venues.pairs import CONFIRMED, REJECTED, SUGGESTED, PairedQuestions


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """A pair with its markets as they are now."""

    paired: PairedQuestions
    markets: tuple[VenueMarket, VenueMarket]
    comparison: Comparison


@dataclass(frozen=True, slots=True)
class PairSurvey:
    """Pairs that were compared, arbitrages first, then by the size of their gap; and why others were not, by pair."""

    compared: list[ComparedPair] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


def survey_pairs(
    pairs: Sequence[PairedQuestions], venues: Mapping[str, EventVenue], rate: float, now: dt.datetime | None = None
) -> PairSurvey:
    """Return how each pair differs now. Books are read of confirmed pairs alone: no other can have an edge. A venue
    that does not answer ends nothing but its own pairs.

    rate: interest a year; now: real time.
    """
    survey = PairSurvey()
    for paired in pairs:
        try:
            survey.compared.append(_compared(paired, venues, rate, now or dt.datetime.now(dt.UTC)))
        except DeskError as error:
            survey.failed[paired.pair.id] = str(error)
    survey.compared.sort(key=lambda one: (one.comparison.kind != "arbitrage", -abs(one.comparison.gap or 0.0)))
    return survey


def _compared(paired: PairedQuestions, venues: Mapping[str, EventVenue], rate: float, now: dt.datetime) -> ComparedPair:
    first, second = (_market(question, venues) for question in (paired.first, paired.second))
    books: tuple[EventBook | None, EventBook | None] = (None, None)
    if paired.pair.state == CONFIRMED:
        books = (venues[first.venue].book(first), venues[second.venue].book(second))
    found = compare((first, second), books, _state(paired.pair.state), inverse=paired.pair.inverse, rate=rate, now=now)
    return ComparedPair(paired, (first, second), found)


def _market(question: Question, venues: Mapping[str, EventVenue]) -> VenueMarket:
    venue = venues.get(question.source)
    if venue is None:
        raise NotConfigured(f"not available: configure DESK_VENUES with {question.source}")
    return venue.market(question.external_id)


def _state(text: str) -> PairState:
    return next((state for state in (CONFIRMED, SUGGESTED, REJECTED) if state == text), "none")

"""The board's own probability of each question, its dissent, and how far the voices agree beyond chance."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from chordesk.agents.board.board import Board
from chordesk.agents.board.karma import last_positions
from chordesk.models.board.forecasts import VoicePosition
from chordesk.tools.scoring.consensus import Agreement, agreements, consensus, diversity, effective_voices
from chordesk.tools.scoring.points import LEAST, MOST
from chordesk.tools.scoring.revision import BLIND

MOST_DISSENT = 2
LEAST_DISTANCE = 0.05  # of a probability from the aggregate, below which a voice does not dissent


@dataclass(frozen=True, slots=True)
class Dissent:
    """A voice far from the aggregate, with its reason. distance: its probability less the aggregate."""

    voice: str
    probability: float
    distance: float
    because: str


@dataclass(frozen=True, slots=True)
class QuestionAggregate:
    """What the voices of a round make of a question together. diversity: V = mean (p - mean p)^2; effective: voices of
    independent errors that they are worth, None without a record; agreement: above or below the baseline."""

    question: str
    round: int
    probability: float
    baseline: float | None
    voices: int
    diversity: float
    effective: float | None
    agreement: Agreement | None
    by_faction: Mapping[str, Agreement | None] = field(default_factory=dict)
    dissent: tuple[Dissent, ...] = ()


@dataclass(frozen=True, slots=True)
class BoardConsensus:
    """(C - E) / (1 - E) over all questions, of all voices and within each faction; None where it cannot be known."""

    overall: float | None
    by_faction: Mapping[str, float | None]


def aggregate(
    positions: Iterable[VoicePosition],
    board: Board,
    number: int,
    shares: Mapping[str, float],
    factions: Mapping[str, str],
    correlation: float | None = None,
) -> list[QuestionAggregate]:
    """Return the aggregate of each forecast question, in the board's order.

    number: of the round. Round 1 has its own positions; round 2 has each voice's last, so that one that sat it out
    still counts. shares: of compute, which are the weights; a voice without one weighs as the mean of the others.
    correlation: of the voices' errors over resolved questions.
    """
    by_question: dict[str, dict[str, VoicePosition]] = defaultdict(dict)
    for one in in_round(positions, number):
        by_question[one.forecast.question][one.voice] = one
    return [
        _one(by_question[question.label], question.label, question.baseline, number, shares, factions, correlation)
        for question in board.questions
        if question.label in by_question
    ]


def in_round(positions: Iterable[VoicePosition], number: int) -> list[VoicePosition]:
    """Return the positions that stand in a round."""
    if number == BLIND:
        return [one for one in positions if one.round == BLIND]
    return last_positions(one for one in positions if one.round <= number)


def pooled(probabilities: Mapping[str, float], shares: Mapping[str, float]) -> float:
    """Return the probability of the mean log odds, weighted by share (logarithmic pooling; Genest and Zidek, 1986).

    Stakes are no weights: they are a voice's own estimate of itself, shares are its record.
    """
    known = [max(0.0, shares[voice]) for voice in probabilities if voice in shares]
    usual = math.fsum(known) / len(known) if known else 1.0
    weights = {voice: max(0.0, shares.get(voice, usual)) for voice in probabilities}
    total = math.fsum(weights.values())
    if total <= 0:
        weights, total = dict.fromkeys(weights, 1.0), float(len(weights))
    mean = math.fsum(weights[voice] * log_odds(given) for voice, given in probabilities.items()) / total
    return 1 / (1 + math.exp(-mean))


def log_odds(probability: float) -> float:
    """Return ln(p / (1 - p)) with p clipped to .01-.99."""
    clipped = min(max(probability, LEAST), MOST)
    return math.log(clipped / (1 - clipped))


def board_consensus(aggregates: Iterable[QuestionAggregate]) -> BoardConsensus:
    """Return the consensus above chance over all questions, and within each faction."""
    found = list(aggregates)
    names = sorted({name for one in found for name in one.by_faction})
    return BoardConsensus(
        consensus(one.agreement for one in found),
        {name: consensus(one.by_faction.get(name) for one in found) for name in names},
    )


def _one(
    held: Mapping[str, VoicePosition], label: str, baseline: float | None, number: int, shares: Mapping[str, float],
    factions: Mapping[str, str], correlation: float | None,
) -> QuestionAggregate:  # fmt: skip
    given = {voice: one.forecast.probability for voice, one in sorted(held.items())}
    whole = pooled(given, shares)
    known = {voice: factions.get(voice, "") for voice in given}
    overall, within = agreements(given, known, baseline) if baseline is not None else (None, {})
    return QuestionAggregate(
        question=label, round=number, probability=whole, baseline=baseline, voices=len(given),
        diversity=diversity(list(given.values())),
        effective=None if correlation is None else effective_voices(len(given), correlation),
        agreement=overall, by_faction=within, dissent=_dissent(held, whole),
    )  # fmt: skip


def _dissent(held: Mapping[str, VoicePosition], whole: float) -> tuple[Dissent, ...]:
    """Return the voices farthest from the aggregate in log odds, the farthest first."""
    centre = log_odds(whole)
    ordered = sorted(held.values(), key=lambda one: (-abs(log_odds(one.forecast.probability) - centre), one.voice))
    found = [
        Dissent(one.voice, one.forecast.probability, one.forecast.probability - whole, one.forecast.because)
        for one in ordered
        if abs(one.forecast.probability - whole) >= LEAST_DISTANCE
    ]
    return tuple(found[:MOST_DISSENT])

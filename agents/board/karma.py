"""What code makes of a board's forecasts: karma, the board's own probability and dissent, copies and herding."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, pstdev

from chordesk.agents.board.board import Board
from chordesk.agents.board.citations import NOTE, QUOTE, JudgedCitation, compare
from chordesk.models.board import CONDUCT, SKILL_OF_ALPHA, KarmaReason, KarmaSum, VoicePosition
from chordesk.models.tables.board import Booking
from chordesk.tools.scoring.statistics import LEAST, MOST, alpha, brier
from chordesk.tools.scoring.voices import BLIND, INFORMED, Agreement, agreements, consensus, diversity, effective_voices

MOVED = 0.02  # least distance from the baseline of a forecast that a chain carries
# Copies that cost: four undo what an episode can earn, so a voice that copies all of it ends at most that far below.
MOST_COPIES = 4
_EPSILON = 1e-9


def conduct(
    voice: str,
    own_tool: str,
    positions: Iterable[VoicePosition],
    judged: Iterable[JudgedCitation],
    board: Board,
    *,
    answered: bool | None = None,
) -> list[Booking]:
    """Return a voice's conduct of one episode over all its rounds.

    positions, judged: of all voices. answered: whether a turn of the voice ended with an answer; by default, whether it
    has a position. Without an answer nothing is booked.
    """
    held = [one for one in positions if one.voice == voice]
    cited = [one for one in judged if one.voice == voice]
    if not (bool(held) if answered is None else answered):
        return []
    made = [_use(voice, own_tool, cited, board), *_copies(voice, cited, board), _chain(voice, held, cited, board)]
    return [one for one in made if one is not None]


def resolved(
    position: VoicePosition, outcome: float, baseline: float, disagreed: Mapping[str, float | None], *, key: str
) -> list[Booking]:
    """Return what a voice's last forecast of a question earns at its resolution.

    disagreed: the probabilities that the signals imply which its counting citations disagree with, by label; one that
    implies none is left out. The disagreement is booked once, when the forecast's Brier score is below that of each of
    them: one between two signals that disagree with each other would else always beat one. key: names run and
    question, so that two rounds, or two workers, cannot both book.
    """
    forecast = position.forecast
    gain = alpha(forecast.probability, baseline, outcome)
    made = [
        Booking(
            voice=position.voice,
            ledger=KarmaSum.SKILL,
            reason=KarmaReason.ALPHA,
            amount=SKILL_OF_ALPHA * gain,
            key=f"{key}:{KarmaReason.ALPHA}",
            note=f"forecast {forecast.probability:.3f}, baseline {baseline:.3f}, outcome {outcome:g}",
        )
    ]
    implied = {label: given for label, given in sorted(disagreed.items()) if given is not None}
    own = brier(forecast.probability, outcome)
    if implied and all(own < brier(given, outcome) - _EPSILON for given in implied.values()):
        note = ", ".join(f"{label} implied {given:.3f}" for label, given in implied.items())
        made.append(_booking(position.voice, KarmaReason.DISAGREED, key, note))
    return made


def last_positions(positions: Iterable[VoicePosition]) -> list[VoicePosition]:
    """Return the last position of each voice on each question: the one that earns skill. Both rounds are scored."""
    last: dict[tuple[str, str], VoicePosition] = {}
    for one in sorted(positions, key=lambda one: one.round):
        last[one.voice, one.forecast.question] = one
    return list(last.values())


def disagreements(position: VoicePosition, judged: Iterable[JudgedCitation]) -> list[str]:
    """Return the labels of the signals with which a position disagrees by citations that count."""
    return sorted(
        one.cited.signal for one in judged if one.counts and one.cited.stance == "disagree" and _of(one, position)
    )


def valid_chain(position: VoicePosition, judged: Iterable[JudgedCitation]) -> list[str]:
    """Return the labels of a position's chain whose citations in it count, if they are of two tools or more; else
    none."""
    counting = {one.cited.signal: one for one in judged if one.counts and _of(one, position)}
    chain = [label for label in dict.fromkeys(position.forecast.chain) if label in counting]
    return chain if len({counting[label].tool for label in chain}) >= 2 else []


def _use(voice: str, own_tool: str, cited: Sequence[JudgedCitation], board: Board) -> Booking | None:
    tools = sorted({one.tool for one in cited if one.counts and one.tool})
    note = f"tools: {', '.join(tools)}" if tools else "no tool"
    if not tools:
        return _booking(voice, KarmaReason.ISOLATED, board.key, note) if board.foreign_live(own_tool) else None
    if len(tools) >= 3:
        return _booking(voice, KarmaReason.DEEP_SYNTHESIS, board.key, note)
    if len(tools) == 2:
        return _booking(voice, KarmaReason.SYNTHESIS, board.key, note)
    # The table has no line for one tool of another voice: like the own one alone, it earns nothing.
    return _booking(voice, KarmaReason.OWN_TOOL, board.key, note) if tools == [own_tool] else None


def _copies(voice: str, cited: Sequence[JudgedCitation], board: Board) -> list[Booking]:
    """Return an entry for each signal that was copied, whatever the number of citations, up to MOST_COPIES."""
    labels = sorted({one.signal.label for one in cited if one.quoted and one.signal})
    return [
        _booking(voice, KarmaReason.COPIED, board.key, f"the text of {label}", f":{label}")
        for label in labels[:MOST_COPIES]
    ]


def _chain(voice: str, held: Sequence[VoicePosition], cited: Sequence[JudgedCitation], board: Board) -> Booking | None:
    for position in sorted(held, key=lambda one: (one.round, one.forecast.question)):
        question = board.question(position.forecast.question)
        if question is None or question.baseline is None:
            continue
        chain = valid_chain(position, cited)
        if chain and abs(position.forecast.probability - question.baseline) >= MOVED - _EPSILON:
            return _booking(voice, KarmaReason.CHAIN, board.key, f"{question.label}: {' + '.join(chain)}")
    return None


def _booking(voice: str, reason: KarmaReason, key: str, note: str, more: str = "") -> Booking:
    key = f"{key}:{reason}{more}"
    return Booking(voice=voice, ledger=KarmaSum.CONDUCT, reason=reason, amount=CONDUCT[reason], key=key, note=note)


def _of(one: JudgedCitation, position: VoicePosition) -> bool:
    return (one.voice, one.round, one.question) == (position.voice, position.round, position.forecast.question)


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


RESOLVED = 50  # questions over which the second round has to show a gain
HALVED = 0.5


@dataclass(frozen=True, slots=True)
class Convergence:
    """A reason of round 2 in another voice's text of round 1. copied: from QUOTE on; else it is near it."""

    voice: str
    source: str
    question: str
    score: float
    copied: bool


@dataclass(frozen=True, slots=True)
class Herding:
    """Spread of log odds over voices, as a mean over questions, by round; None without a question that two voices
    forecast in both. gain: mean fall of the Brier score from round 1 to 2 over the last resolved questions, so many.
    alarm: None where the spread fell by half and fewer than RESOLVED questions show whether it helped."""

    blind: float | None
    informed: float | None
    gain: float | None
    resolved: int
    alarm: bool | None

    @property
    def left(self) -> float | None:
        return self.informed / self.blind if self.blind and self.informed is not None else None


def convergence(positions: Iterable[VoicePosition]) -> list[Convergence]:
    """Return the reasons of round 2 that resemble another voice's reason of round 1, by the copy score.

    A reason is compared with all of round 1, on whatever question. It is left out if its author's own blind reason
    resembled that text already.
    """
    blind, informed = _by_voice(positions, BLIND), _by_voice(positions, INFORMED)
    found = []
    for voice, texts in sorted(informed.items()):
        for question, text in sorted(texts.items()):
            own = blind.get(voice, {}).get(question, "")
            best = _nearest(voice, question, text, own, blind)
            if best is not None:
                found.append(best)
    return found


def herding(positions: Iterable[VoicePosition], gains: Sequence[float]) -> Herding:
    """Return the spread of both rounds. gains: fall of the Brier score from round 1 to 2 of resolved questions, oldest
    first."""
    recent = list(gains)[-RESOLVED:]
    gain = fmean(recent) if recent else None
    blind, informed = _spreads(list(positions))
    halved = blind is not None and informed is not None and blind > 0 and informed <= HALVED * blind
    known = len(recent) >= RESOLVED
    alarm = False if not halved else (gain is not None and gain <= 0) if known else None
    return Herding(blind, informed, gain, len(recent), alarm)


def _nearest(voice: str, question: str, text: str, own: str, blind: dict[str, dict[str, str]]) -> Convergence | None:
    best: Convergence | None = None
    for source, texts in sorted(blind.items()):
        for other in (texts[at] for at in sorted(texts)) if source != voice else ():
            now = compare(text, other)
            if not (now.quoted or now.near) or compare(own, other).score >= (QUOTE if now.quoted else NOTE):
                continue
            if best is None or now.score > best.score:
                best = Convergence(voice, source, question, now.score, now.quoted)
    return best


def _by_voice(positions: Iterable[VoicePosition], number: int) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for one in positions:
        if one.round == number:
            found[one.voice][one.forecast.question] = one.forecast.because
    return dict(found)


def _spreads(positions: Sequence[VoicePosition]) -> tuple[float | None, float | None]:
    odds: dict[str, dict[int, dict[str, float]]] = defaultdict(lambda: {BLIND: {}, INFORMED: {}})
    for one in positions:
        if one.round in (BLIND, INFORMED):
            odds[one.forecast.question][one.round][one.voice] = log_odds(one.forecast.probability)
    blind, informed = [], []
    for rounds in odds.values():
        both = rounds[BLIND].keys() & rounds[INFORMED].keys()
        if len(both) >= 2:
            blind.append(pstdev([rounds[BLIND][voice] for voice in both]))
            informed.append(pstdev([rounds[INFORMED][voice] for voice in both]))
    if not blind:
        return None, None
    return math.fsum(blind) / len(blind), math.fsum(informed) / len(informed)

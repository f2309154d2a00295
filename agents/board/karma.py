"""What code makes of a board's forecasts: conduct, skill, the board's probability and dissent, copies and herding."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import pstdev

from chordesk.agents.board.board_text import Board
from chordesk.agents.board.citations import NOTE, QUOTE, JudgedCitation, compare
from chordesk.models.board.forecasts import SKILL_OF_ALPHA, Conduct, coherent
from chordesk.models.questions import VoicePosition, log_odds
from chordesk.models.tables.board import Forecast
from chordesk.tools.scoring.inference import Estimate, told_apart
from chordesk.tools.scoring.statistics import alpha
from chordesk.tools.scoring.voice_scores import (
    BLIND,
    INFORMED,
    Agreement,
    agreements,
    consensus,
    diversity,
    effective_voices,
    pooled,
)

MOVED = 0.02  # least distance from the baseline of a forecast that a chain carries
_EPSILON = 1e-9


@dataclass(frozen=True, slots=True)
class ConductNote:
    """One thing that a voice did with the board in an episode."""

    voice: str
    conduct: Conduct
    note: str


def conduct(
    voice: str,
    own_tool: str,
    positions: Iterable[VoicePosition],
    judged: Iterable[JudgedCitation],
    board: Board,
    *,
    answered: bool | None = None,
) -> list[ConductNote]:
    """Return a voice's conduct of one episode over all its rounds. positions, judged: of all voices. answered: whether
    a turn of the voice ended with an answer; by default, whether it has a position. Without an answer there is no
    conduct."""
    held = [one for one in positions if one.voice == voice]
    cited = [one for one in judged if one.voice == voice]
    if not (bool(held) if answered is None else answered):
        return []
    made = [_use(voice, own_tool, cited, board), *_copies(voice, cited), _chain(voice, held, cited, board)]
    return [one for one in made if one is not None]


def skill(forecast: Forecast, outcome: float) -> float:
    """Return what a forecast earns at its resolution: its Brier gain over the question's baseline, which is a proper
    score, so that without information nothing is expected to earn more than the baseline's 0."""
    return SKILL_OF_ALPHA * alpha(forecast.probability, forecast.baseline, outcome)


def last_positions(positions: Iterable[VoicePosition]) -> list[VoicePosition]:
    """Return the last position of each voice on each question: the one that earns skill. Both rounds are scored."""
    last: dict[tuple[str, str], VoicePosition] = {}
    for one in sorted(positions, key=lambda one: one.round):
        last[one.voice, one.forecast.question] = one
    return list(last.values())


def disagreements(position: VoicePosition, judged: Iterable[JudgedCitation]) -> list[str]:
    """Labels of the signals with which a position disagrees by citations that count."""
    return sorted(
        one.cited.signal for one in judged if one.counts and one.cited.stance == "disagree" and _of(one, position)
    )


def valid_chain(position: VoicePosition, judged: Iterable[JudgedCitation]) -> list[str]:
    """Labels of the chain whose citations count, if they are of two tools or more; else none."""
    counting = {one.cited.signal: one for one in judged if one.counts and _of(one, position)}
    chain = [label for label in dict.fromkeys(position.forecast.chain) if label in counting]
    return chain if len({counting[label].tool for label in chain}) >= 2 else []


def _use(voice: str, own_tool: str, cited: Sequence[JudgedCitation], board: Board) -> ConductNote | None:
    tools = sorted({one.tool for one in cited if one.counts and one.tool})
    note = f"tools: {', '.join(tools)}" if tools else "no tool"
    if not tools:
        return ConductNote(voice, Conduct.ISOLATED, note) if board.foreign_live(own_tool) else None
    if len(tools) >= 2:
        return ConductNote(voice, Conduct.SYNTHESIS if len(tools) == 2 else Conduct.DEEP_SYNTHESIS, note)
    return ConductNote(voice, Conduct.OWN_TOOL, note) if tools == [own_tool] else None


def _copies(voice: str, cited: Sequence[JudgedCitation]) -> list[ConductNote]:
    labels = sorted({one.signal.label for one in cited if one.quoted and one.signal})
    return [ConductNote(voice, Conduct.COPIED, f"the text of {label}") for label in labels]


def _chain(
    voice: str, held: Sequence[VoicePosition], cited: Sequence[JudgedCitation], board: Board
) -> ConductNote | None:
    for position in sorted(held, key=lambda one: (one.round, one.forecast.question)):
        question = board.question(position.forecast.question)
        if question is None or question.baseline is None:
            continue
        chain = valid_chain(position, cited)
        if chain and abs(position.forecast.probability - question.baseline) >= MOVED - _EPSILON:
            return ConductNote(voice, Conduct.CHAIN, f"{question.label}: {' + '.join(chain)}")
    return None


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
    """What the voices of a round make of a question together."""

    question: str
    round: int
    probability: float
    baseline: float | None
    voices: int
    diversity: float  # V = mean (p - mean p)^2
    effective: float | None  # voices of independent errors that they are worth, None without a record
    agreement: Agreement | None  # above or below the baseline
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

    number: of the round. Round 1 has its own positions; round 2 has each voice's last, so a voice without a position in
    it still counts. shares: of compute, the weights; a voice without one weighs as the mean of the others. correlation:
    of the voices' errors over resolved questions. Pools of exclusive questions are made coherent.
    """
    by_question: dict[str, dict[str, VoicePosition]] = defaultdict(dict)
    for one in in_round(positions, number):
        by_question[one.forecast.question][one.voice] = one
    pools = {label: pooled(_given(held), shares) for label, held in by_question.items()}
    wholes = coherent(pools, board.questions)
    return [
        _one(
            *(by_question[question.label], question.label, question.baseline, wholes[question.label]),
            *(number, factions, correlation),
        )
        for question in board.questions
        if question.label in by_question
    ]


def _given(held: Mapping[str, VoicePosition]) -> dict[str, float]:
    return {voice: one.forecast.probability for voice, one in sorted(held.items())}


def in_round(positions: Iterable[VoicePosition], number: int) -> list[VoicePosition]:
    if number == BLIND:
        return [one for one in positions if one.round == BLIND]
    return last_positions(one for one in positions if one.round <= number)


def board_consensus(aggregates: Iterable[QuestionAggregate]) -> BoardConsensus:
    found = list(aggregates)
    names = sorted({name for one in found for name in one.by_faction})
    return BoardConsensus(
        consensus(one.agreement for one in found),
        {name: consensus(one.by_faction.get(name) for one in found) for name in names},
    )


def _one(
    held: Mapping[str, VoicePosition], label: str, baseline: float | None, whole: float, number: int,
    factions: Mapping[str, str], correlation: float | None,
) -> QuestionAggregate:  # fmt: skip
    given = _given(held)
    known = {voice: factions.get(voice, "") for voice in given}
    overall, within = agreements(given, known, baseline) if baseline is not None else (None, {})
    return QuestionAggregate(
        question=label, round=number, probability=whole, baseline=baseline, voices=len(given),
        diversity=diversity(list(given.values())),
        effective=None if correlation is None else effective_voices(len(given), correlation),
        agreement=overall, by_faction=within, dissent=_dissent(held, whole),
    )  # fmt: skip


def _dissent(held: Mapping[str, VoicePosition], whole: float) -> tuple[Dissent, ...]:
    centre = log_odds(whole)
    ordered = sorted(held.values(), key=lambda one: (-abs(log_odds(one.forecast.probability) - centre), one.voice))
    found = [
        Dissent(one.voice, one.forecast.probability, one.forecast.probability - whole, one.forecast.because)
        for one in ordered
        if abs(one.forecast.probability - whole) >= LEAST_DISTANCE
    ]
    return tuple(found[:MOST_DISSENT])


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
    forecast in both."""

    blind: float | None
    informed: float | None
    # fall of the pool's Brier score from round 1 to 2 over resolved questions, None before the first
    gain: Estimate | None
    # whether the spread fell by half and round 2 is worse; None where it fell and the gain cannot be told from 0
    alarm: bool | None

    @property
    def left(self) -> float | None:
        return self.informed / self.blind if self.blind and self.informed is not None else None


def convergence(positions: Iterable[VoicePosition]) -> list[Convergence]:
    """Reasons of round 2 that resemble another voice's reason of round 1, unless the author's blind reason did
    already."""
    blind, informed = _by_voice(positions, BLIND), _by_voice(positions, INFORMED)
    found = []
    for voice, texts in sorted(informed.items()):
        for question, text in sorted(texts.items()):
            own = blind.get(voice, {}).get(question, "")
            best = _nearest(voice, question, text, own, blind)
            if best is not None:
                found.append(best)
    return found


def herding(positions: Iterable[VoicePosition], gain: Estimate | None) -> Herding:
    blind, informed = _spreads(list(positions))
    halved = blind is not None and informed is not None and blind > 0 and informed <= HALVED * blind
    told = told_apart({"gain": gain}).get("gain")
    return Herding(blind, informed, gain, False if not halved else told[1] < 0 if told else None)


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

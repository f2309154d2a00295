"""Bookings of karma: conduct once an episode, skill and productive disagreement once a resolved question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from chordesk.agents.board.board import Board
from chordesk.agents.board.citations import JudgedCitation
from chordesk.models.board.forecasts import VoicePosition
from chordesk.models.board.karma import CONDUCT, SKILL_OF_ALPHA, KarmaReason, KarmaSum
from chordesk.tools.scoring.points import alpha, brier

MOVED = 0.02  # least distance from the baseline of a forecast that a chain carries
# Copies that cost: four undo what an episode can earn, so a voice that copies all of it ends at most that far below.
MOST_COPIES = 4
_EPSILON = 1e-9


@dataclass(frozen=True, slots=True)
class Booking:
    """One entry of a voice's karma to be made. key: an account and voice have it once; question: its label, None for an
    episode's conduct."""

    voice: str
    ledger: KarmaSum
    reason: KarmaReason
    amount: float
    key: str
    note: str = ""
    question: str | None = None


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

    positions, judged: those of other voices are left out. answered: whether a turn of the voice ended with an answer;
    by default, whether it has a position. One that did not answer is booked nothing.
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
            position.voice,
            KarmaSum.SKILL,
            KarmaReason.ALPHA,
            SKILL_OF_ALPHA * gain,
            f"{key}:{KarmaReason.ALPHA}",
            f"forecast {forecast.probability:.3f}, baseline {baseline:.3f}, outcome {outcome:g}",
            forecast.question,
        )
    ]
    implied = {label: given for label, given in sorted(disagreed.items()) if given is not None}
    own = brier(forecast.probability, outcome)
    if implied and all(own < brier(given, outcome) - _EPSILON for given in implied.values()):
        note = ", ".join(f"{label} implied {given:.3f}" for label, given in implied.items())
        booked = _booking(position.voice, KarmaReason.DISAGREED, key, note)
        made.append(replace(booked, question=forecast.question))
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
    return Booking(voice, KarmaSum.CONDUCT, reason, CONDUCT[reason], f"{key}:{reason}{more}", note)


def _of(one: JudgedCitation, position: VoicePosition) -> bool:
    return (one.voice, one.round, one.question) == (position.voice, position.round, position.forecast.question)

"""The summary of an episode as JSON, from what code decided of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from chordesk.agents.board.aggregate import BoardConsensus, QuestionAggregate, board_consensus
from chordesk.agents.board.board import Board
from chordesk.agents.board.citations import JudgedCitation
from chordesk.agents.board.content.quotes import best_quotes
from chordesk.agents.board.karma import Booking, disagreements, valid_chain
from chordesk.agents.board.lint import Convergence, Herding
from chordesk.agents.board.texts import one_line
from chordesk.models.board.forecasts import ROUNDS, VoicePosition
from chordesk.models.board.signals import SignalState, implied
from chordesk.tools.scoring.errors import DatedMean

TEXT_CHARS = 400


@dataclass(frozen=True, slots=True)
class VoiceStanding:
    """A voice that took part, with its sums of karma after this episode and its record. resolved: n of its alpha."""

    voice: str
    faction: str = ""
    conduct: float = 0.0
    skill: float = 0.0
    alpha: DatedMean | None = None

    @property
    def resolved(self) -> int:
        return self.alpha.n if self.alpha else 0


@dataclass(frozen=True)
class EpisodeTally:
    """What an episode came to. used_round: of which round the aggregates are; None without a round. notes: of answers,
    by voice."""

    board: Board
    standings: tuple[VoiceStanding, ...]
    positions: tuple[VoicePosition, ...] = ()
    judged: tuple[JudgedCitation, ...] = ()
    bookings: tuple[Booking, ...] = ()
    aggregates: tuple[QuestionAggregate, ...] = ()
    used_round: int | None = None
    convergence: tuple[Convergence, ...] = ()
    herding: Herding | None = None
    notes: Mapping[str, Sequence[str]] = field(default_factory=dict)


def content(tally: EpisodeTally) -> dict[str, Any]:
    """Return the summary of an episode, ready for JSON; the same tally gives the same."""
    return {
        "episode": tally.board.number,
        "day": tally.board.day.isoformat(),
        "used_round": tally.used_round,
        "signals": _signals(tally),
        "quotes": best_quotes(tally.positions, tally.judged, tally.board),
        "questions": [_question(one.label, tally) for one in tally.board.questions],
        "positions": [_positions(one.voice, tally) for one in tally.standings],
        "leaderboard": _leaderboard(tally),
        "chains": _chains(tally),
        "disagreements": _disagreements(tally),
        "citations": _citations(tally.judged),
        "lint": _lint(tally),
        "consensus": _consensus(board_consensus(tally.aggregates)),
        "notes": {voice: list(lines) for voice, lines in sorted(tally.notes.items()) if lines},
    }


def _signals(tally: EpisodeTally) -> dict[str, Any]:
    counts = Counter(one.state for one in tally.board.signals)
    used = {one.tool for one in tally.judged if one.counts}
    return {
        "states": {state.value: counts[state] for state in SignalState},
        "offline": sorted({one.tool for one in tally.board.signals if one.state is SignalState.OFFLINE}),
        "unused": sorted({one.tool for one in tally.board.live} - used),
    }


def _question(label: str, tally: EpisodeTally) -> dict[str, Any]:
    question = tally.board.questions_by_label[label]
    made: dict[str, Any] = {
        "question": label,
        "id": question.id,
        "text": one_line(question.text, TEXT_CHARS),
        "baseline": question.baseline,
        "closes_at": question.closes_at.isoformat(),
        "aggregate": None,
    }
    for one in tally.aggregates:
        if one.question == label:
            made["aggregate"] = _aggregate(one)
    return made


def _aggregate(one: QuestionAggregate) -> dict[str, Any]:
    agreement = one.agreement
    return {
        "round": one.round,
        "probability": one.probability,
        "voices": one.voices,
        "diversity": one.diversity,
        "effective_voices": one.effective,
        "consensus": agreement.corrected if agreement else None,
        "by_faction": {name: each.corrected if each else None for name, each in sorted(one.by_faction.items())},
        "dissent": [{**asdict(each), "because": one_line(each.because, TEXT_CHARS)} for each in one.dissent],
    }


def _positions(voice: str, tally: EpisodeTally) -> dict[str, Any]:
    rounds: dict[str, dict[str, float]] = {}
    for one in tally.positions:
        if one.voice == voice:
            rounds.setdefault(one.forecast.question, {})[str(one.round)] = one.forecast.probability
    return {"voice": voice, "forecasts": rounds}


def _leaderboard(tally: EpisodeTally) -> list[dict[str, Any]]:
    """Return the voices by skill, then conduct, then name, with what this episode booked of conduct."""
    booked: Counter[str] = Counter()
    for one in tally.bookings:
        booked[one.voice] += one.amount  # type: ignore[assignment]
    ordered = sorted(tally.standings, key=lambda one: (-one.skill, -one.conduct, one.voice))
    return [
        {
            "voice": one.voice,
            "faction": one.faction,
            "skill": one.skill,
            "conduct": one.conduct,
            "episode": float(booked[one.voice]),
            "reasons": [
                {"reason": each.reason.value, "amount": each.amount, "note": each.note}
                for each in tally.bookings
                if each.voice == one.voice
            ],
            "resolved": one.resolved,
            "alpha": one.alpha.mean if one.alpha else None,
            "alpha_error": one.alpha.error if one.alpha else None,
        }
        for one in ordered
    ]


def _chains(tally: EpisodeTally) -> list[dict[str, Any]]:
    found = []
    for one in _ordered(tally.positions):
        chain = valid_chain(one, tally.judged)
        if chain:
            found.append({"voice": one.voice, "question": one.forecast.question, "round": one.round, "signals": chain})
    return found


def _disagreements(tally: EpisodeTally) -> list[dict[str, Any]]:
    found = []
    for one in _ordered(tally.positions):
        for label in disagreements(one, tally.judged):
            signal = tally.board.signals_by_label[label]
            found.append(
                {
                    "voice": one.voice,
                    "question": one.forecast.question,
                    "round": one.round,
                    "signal": label,
                    "implied": implied(signal),
                    "probability": one.forecast.probability,
                    "claim": _claim_of(one, label, tally.judged),
                }
            )
    return found


def _claim_of(position: VoicePosition, label: str, judged: Iterable[JudgedCitation]) -> str:
    key = position.voice, position.round, position.forecast.question, label
    claims = (c.cited.claim for c in judged if c.counts and (c.voice, c.round, c.question, c.cited.signal) == key)
    return one_line(next(claims, ""), TEXT_CHARS)


def _citations(judged: Sequence[JudgedCitation]) -> dict[str, int]:
    return {
        "given": len(judged),
        "counting": sum(one.counts for one in judged),
        "copied": sum(one.quoted for one in judged),
    }


def _lint(tally: EpisodeTally) -> dict[str, Any]:
    made: dict[str, Any] = {"convergence": [asdict(one) for one in tally.convergence], "herding": None}
    if tally.herding is not None:
        made["herding"] = {**asdict(tally.herding), "left": tally.herding.left}
    return made


def _consensus(found: BoardConsensus) -> dict[str, Any]:
    return {"overall": found.overall, "by_faction": dict(found.by_faction)}


def _ordered(positions: Iterable[VoicePosition]) -> list[VoicePosition]:
    known = {number: at for at, number in enumerate(ROUNDS)}
    return sorted(positions, key=lambda one: (known.get(one.round, one.round), one.voice, one.forecast.question))

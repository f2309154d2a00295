"""The summary of an episode as JSON, from what code decided of it, with the best quotes by a rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from chordesk.agents.board.board import Board, one_line
from chordesk.agents.board.citations import NOTE, JudgedCitation, compare
from chordesk.agents.board.karma import (
    BoardConsensus,
    ConductNote,
    Convergence,
    Herding,
    QuestionAggregate,
    board_consensus,
    disagreements,
    last_positions,
    valid_chain,
)
from chordesk.models.board import ROUNDS, SignalState, VoicePosition, implied, log_odds
from chordesk.tools.scoring.inference import Estimate

MOST_QUOTES = 3
QUOTE_CHARS = 280
MOST_TOOLS = 3  # that add to the merit


def best_quotes(
    positions: Iterable[VoicePosition], judged: Sequence[JudgedCitation], board: Board
) -> list[dict[str, Any]]:
    """Return the reasons of highest merit, one a voice. Of last positions with a citation that counts, and whose reason
    is not near a headline: the most tools cited (up to three), then a chain, then a disagreement, then the distance
    from the baseline in log odds; then by voice and question."""
    ranked = sorted(
        (
            (_merit(one, judged, board), one)
            for one in last_positions(positions)
            if one.forecast.because.strip() and _tools(one, judged) and not _near_a_headline(one, board)
        ),
        key=lambda pair: (pair[0], pair[1].voice, pair[1].forecast.question),
    )
    taken: dict[str, dict[str, Any]] = {}
    for _merits, one in ranked:
        taken.setdefault(one.voice, _quote(one, judged))
    return list(taken.values())[:MOST_QUOTES]


def _merit(one: VoicePosition, judged: Sequence[JudgedCitation], board: Board) -> tuple[float, ...]:
    question = board.question(one.forecast.question)
    baseline = question.baseline if question else None
    moved = 0.0 if baseline is None else abs(log_odds(one.forecast.probability) - log_odds(baseline))
    return (
        -float(min(len(_tools(one, judged)), MOST_TOOLS)),
        -float(bool(valid_chain(one, judged))),
        -float(bool(disagreements(one, judged))),
        -moved,
    )


def _tools(one: VoicePosition, judged: Iterable[JudgedCitation]) -> list[str]:
    key = one.voice, one.round, one.forecast.question
    return sorted({c.tool for c in judged if c.counts and c.tool and (c.voice, c.round, c.question) == key})


def _near_a_headline(one: VoicePosition, board: Board) -> bool:
    return any(compare(one.forecast.because, signal.headline).score >= NOTE for signal in board.live)


def _quote(one: VoicePosition, judged: Sequence[JudgedCitation]) -> dict[str, Any]:
    return {
        "voice": one.voice,
        "question": one.forecast.question,
        "round": one.round,
        "probability": one.forecast.probability,
        "text": one_line(one.forecast.because, QUOTE_CHARS),
        "tools": _tools(one, judged),
    }


TEXT_CHARS = 400


@dataclass(frozen=True, slots=True)
class VoiceStanding:
    """A voice that took part, with its karma after this episode and its record. resolved: n of its alpha."""

    voice: str
    faction: str = ""
    skill: float = 0.0
    alpha: Estimate | None = None

    @property
    def resolved(self) -> int:
        return self.alpha.n if self.alpha else 0


@dataclass(frozen=True)
class EpisodeTally:
    """What an episode came to."""

    board: Board
    standings: tuple[VoiceStanding, ...]
    positions: tuple[VoicePosition, ...] = ()
    judged: tuple[JudgedCitation, ...] = ()
    conduct: tuple[ConductNote, ...] = ()
    rounds: Mapping[int, Sequence[QuestionAggregate]] = field(default_factory=dict)  # the aggregates of each
    used_round: int | None = None  # the one whose are published, None without a round
    convergence: tuple[Convergence, ...] = ()
    herding: Herding | None = None
    notes: Mapping[str, Sequence[str]] = field(default_factory=dict)  # of answers, by voice

    @property
    def aggregates(self) -> Sequence[QuestionAggregate]:
        return () if self.used_round is None else self.rounds[self.used_round]


def content(tally: EpisodeTally) -> dict[str, Any]:
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
        "citations": {
            "given": len(tally.judged),
            "counting": sum(one.counts for one in tally.judged),
            "copied": sum(one.quoted for one in tally.judged),
        },
        "lint": _lint(tally),
        "consensus": _consensus(board_consensus(tally.aggregates)),
        "notes": {voice: list(lines) for voice, lines in sorted(tally.notes.items()) if lines},
    }


def _signals(tally: EpisodeTally) -> dict[str, Any]:
    counts = Counter(str(one.state) for one in tally.board.signals)
    used = {one.tool for one in tally.judged if one.counts}
    return {
        "states": {state.value: counts[state] for state in SignalState},
        "offline": sorted({one.tool for one in tally.board.signals if one.state == SignalState.OFFLINE}),
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
    return [
        {
            "voice": one.voice,
            "faction": one.faction,
            "skill": one.skill,
            "conduct": [
                {"conduct": str(each.conduct), "note": each.note} for each in tally.conduct if each.voice == one.voice
            ],
            "resolved": one.resolved,
            "alpha": one.alpha.mean if one.alpha else None,
            "alpha_low": one.alpha.low if one.alpha else None,
            "alpha_high": one.alpha.high if one.alpha else None,
        }
        for one in sorted(tally.standings, key=lambda one: (-one.skill, one.voice))
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
            baseline = tally.board.questions_by_label[one.forecast.question].baseline
            found.append(
                {
                    "voice": one.voice,
                    "question": one.forecast.question,
                    "round": one.round,
                    "signal": label,
                    "implied": None if baseline is None else implied(signal, baseline),
                    "probability": one.forecast.probability,
                    "claim": _claim_of(one, label, tally.judged),
                }
            )
    return found


def _claim_of(position: VoicePosition, label: str, judged: Iterable[JudgedCitation]) -> str:
    key = position.voice, position.round, position.forecast.question, label
    claims = (c.cited.claim for c in judged if c.counts and (c.voice, c.round, c.question, c.cited.signal) == key)
    return one_line(next(claims, ""), TEXT_CHARS)


def _lint(tally: EpisodeTally) -> dict[str, Any]:
    made: dict[str, Any] = {"convergence": [asdict(one) for one in tally.convergence], "herding": None}
    if tally.herding is not None:
        held, gain = tally.herding, tally.herding.gain
        made["herding"] = {
            "blind": held.blind,
            "informed": held.informed,
            "left": held.left,
            "alarm": held.alarm,
            "resolved": gain.n if gain else 0,
            "gain": gain.mean if gain else None,
            "gain_low": gain.low if gain else None,
            "gain_high": gain.high if gain else None,
        }
    return made


def _consensus(found: BoardConsensus) -> dict[str, Any]:
    return {"overall": found.overall, "by_faction": dict(found.by_faction)}


def _ordered(positions: Iterable[VoicePosition]) -> list[VoicePosition]:
    known = {number: at for at, number in enumerate(ROUNDS)}
    return sorted(positions, key=lambda one: (known.get(one.round, one.round), one.voice, one.forecast.question))

"""The best quotes of an episode, by a rule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from chordesk.agents.board.aggregate import log_odds
from chordesk.agents.board.board import Board
from chordesk.agents.board.citations import JudgedCitation
from chordesk.agents.board.citing.copying import NOTE, compare
from chordesk.agents.board.karma import disagreements, last_positions, valid_chain
from chordesk.agents.board.texts import one_line
from chordesk.models.board.forecasts import VoicePosition

MOST_QUOTES = 3
QUOTE_CHARS = 280
MOST_TOOLS = 3  # that add to the merit, as in the table of conduct


def best_quotes(
    positions: Iterable[VoicePosition], judged: Sequence[JudgedCitation], board: Board
) -> list[dict[str, Any]]:
    """Return the reasons of highest merit, one a voice.

    Of last positions with a citation that counts, and whose reason is not near a headline: the most tools cited (up to
    three), then a chain, then a disagreement, then the distance from the baseline in log odds; then by voice and
    question.
    """
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

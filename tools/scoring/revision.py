"""Two rounds of one voice or of all: the gain of the second, and the crowd of each."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from chordesk.tools.scoring.errors import DatedMean
from chordesk.tools.scoring.points import brier
from chordesk.tools.scoring.summary import Score, ScoredForecast, mean_of, score

BLIND, INFORMED = 1, 2


@dataclass(frozen=True, slots=True)
class Crowd:
    """The mean forecast of all voices on the same questions, blind and with all positions in view. gain: the fall of
    its Brier score from one to the other."""

    blind: Score
    informed: Score
    gain: DatedMean

    @property
    def better_round(self) -> int:
        """Return the round with the lower Brier score; on a draw the blind one, whose voices are independent."""
        return INFORMED if self.gain.mean > 0 else BLIND


def last_positions(forecasts: Iterable[ScoredForecast]) -> list[ScoredForecast]:
    """Return each voice's last forecast of a question in a run."""
    last: dict[tuple[str, str, str], ScoredForecast] = {}
    for one in sorted(forecasts, key=lambda one: one.round):
        last[one.source, one.run, one.question] = one
    return list(last.values())


def revision_gain(forecasts: Iterable[ScoredForecast]) -> DatedMean | None:
    """Return the mean fall of the Brier score from round 1 to round 2 of one voice, above 0 for a better second one;
    None where it revised nothing."""
    both: dict[tuple[str, str, str], dict[int, ScoredForecast]] = defaultdict(dict)
    for one in forecasts:
        both[one.source, one.run, one.question][one.round] = one
    first = {key: rounds[BLIND] for key, rounds in both.items() if rounds.keys() >= {BLIND, INFORMED}}
    return mean_of(
        (both[key][INFORMED] for key in first),
        lambda one: _points(first[one.source, one.run, one.question]) - _points(one),
    )


def crowd(forecasts: Sequence[ScoredForecast]) -> Crowd | None:
    """Return the record of the mean forecast by round; None before a run with two rounds has a resolved question.

    A voice that sat round 2 out keeps its position of round 1 in it.
    """
    revised = {one.run for one in forecasts if one.round == INFORMED}
    held = [one for one in forecasts if one.run in revised]
    blind = _pooled([one for one in held if one.round == BLIND], BLIND)
    both = {(one.run, one.question) for one in blind}
    informed = [one for one in _pooled(last_positions(held), INFORMED) if (one.run, one.question) in both]
    gain = revision_gain([*blind, *informed])
    scores = score(blind), score(informed)
    if gain is None or scores[0] is None or scores[1] is None:
        return None
    return Crowd(scores[0], scores[1], gain)


def _pooled(forecasts: Iterable[ScoredForecast], round_: int) -> list[ScoredForecast]:
    grouped: dict[tuple[str, str], list[ScoredForecast]] = defaultdict(list)
    for one in forecasts:
        grouped[one.run, one.question].append(one)
    return [
        replace(
            group[0],
            source="crowd",
            round=round_,
            probability=min(1.0, math.fsum(one.probability for one in group) / len(group)),
        )
        for group in grouped.values()
    ]


def _points(one: ScoredForecast) -> float:
    return brier(one.probability, one.outcome)

"""Voices by their forecasts: their share of compute, their agreement against chance, and what a second round gains."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from chordesk.models.errors import UsageError
from chordesk.models.questions import ROUNDS, log_odds
from chordesk.tools.market.protocol import Floats
from chordesk.tools.scoring.inference import Estimate, told_apart
from chordesk.tools.scoring.statistics import Score, ScoredForecast, brier, mean_of, score

# Half a share never hangs on skill: with few outcomes it is mostly luck.
EQUAL = 0.5
# A mean alpha of .018 shows with 80 % power from here on (arXiv 2605.00420).
LEAST_RESOLVED = 350
LEAST_VOICES = 3


@dataclass(frozen=True, slots=True)
class VoiceRecord:
    """A voice with its alpha over resolved questions; None before the first."""

    voice: str
    alpha: Estimate | None = None


def compute_shares(records: Iterable[VoiceRecord]) -> dict[str, float]:
    """Return each voice's share of compute, 1 together: half in equal parts, half by the lower bound of alpha. A voice
    has a bound above 0 where its alpha is told from 0 among all voices. While none has, the second half is equal
    too."""
    known = list(records)
    if not known:
        return {}
    told = told_apart({record.voice: record.alpha for record in known})
    proven = {record.voice: max(0.0, told[record.voice][0]) if record.voice in told else 0.0 for record in known}
    total = sum(proven.values())
    return {
        voice: EQUAL / len(known) + (1 - EQUAL) * (lower / total if total > 0 else 1 / len(known))
        for voice, lower in proven.items()
    }


def extinct(records: Iterable[VoiceRecord], alive: Iterable[str]) -> set[str]:
    """Return the voices that end now: n of 350 or more, and an alpha told from 0 among all voices, below it. Worst
    upper bound first, and as many as leave three alive."""
    living, alphas = set(alive), {record.voice: record.alpha for record in records}
    lost = [
        (upper, voice)
        for voice, (_, upper) in told_apart(alphas).items()
        if upper < 0 and (alpha := alphas[voice]) is not None and alpha.n >= LEAST_RESOLVED
    ]
    ending = [voice for _, voice in sorted(lost) if voice in living]
    return set(ending[: max(0, len(living) - LEAST_VOICES)])


def plan_turns(shares: Mapping[str, float], voices: Sequence[str], rounds: int) -> dict[str, int]:
    """Return each voice's turns, voices x rounds together and one at least. One after another goes to the voice that
    lacks most of its share, on a draw to the earlier one. A voice without a share gets the one turn."""
    if rounds < 1:
        raise UsageError(f"{rounds} rounds", remedy="give 1 or more")
    turns = dict.fromkeys(voices, 1)
    weights = {voice: max(0.0, shares.get(voice, 0.0)) for voice in turns}
    sum_of_weights = sum(weights.values())
    total = len(turns) * rounds
    for _ in range(total - len(turns)):
        due = {voice: (weights[voice] / sum_of_weights if sum_of_weights else 1 / len(turns)) for voice in turns}
        # Rounded, so that equal shares draw although their sums differ in the last bit.
        turns[max(turns, key=lambda voice: round(due[voice] * total - turns[voice], 9))] += 1
    return turns


@dataclass(frozen=True, slots=True)
class Agreement:
    """Voices on one side of a baseline."""

    n: int  # those that take a side
    share: float  # of the larger side
    by_chance: float  # that share's mean over coin flips of n

    @property
    def corrected(self) -> float | None:
        """Return (C - E) / (1 - E): 0 by chance, 1 unanimous, below 0 for more division; None for a single voice."""
        return (self.share - self.by_chance) / (1 - self.by_chance) if self.by_chance < 1 else None


def majority_by_chance(n: int) -> float:
    """Return the mean share of the larger side of n coin flips; 1 for one."""
    if n < 1:
        raise UsageError(f"{n} voices have no majority", remedy="give 1 or more")
    return float(sum(max(k, n - k) * math.comb(n, k) for k in range(n + 1)) / (n * 2**n))


def agreement(forecasts: Iterable[float], baseline: float) -> Agreement | None:
    """Return the agreement of forecasts above or below a baseline; one on it takes no side. None without a side."""
    sides = [forecast > baseline for forecast in forecasts if forecast != baseline]
    if not sides:
        return None
    return Agreement(len(sides), max(sum(sides), len(sides) - sum(sides)) / len(sides), majority_by_chance(len(sides)))


def agreements(
    forecasts: Mapping[str, float], factions: Mapping[str, str], baseline: float
) -> tuple[Agreement | None, dict[str, Agreement | None]]:
    """Return the agreement of all voices on a question and that within each faction; both are by voice."""
    names = sorted({factions[voice] for voice in forecasts})
    within = {name: [p for voice, p in forecasts.items() if factions[voice] == name] for name in names}
    return (
        agreement(forecasts.values(), baseline),
        {name: agreement(members, baseline) for name, members in within.items()},
    )


def consensus(found: Iterable[Agreement | None]) -> float | None:
    """Return (C - E) / (1 - E) over several questions, C and E as means over them; None where all are single voices."""
    known = [one for one in found if one is not None]
    room = sum(1 - one.by_chance for one in known)
    return sum(one.share - one.by_chance for one in known) / room if room > 0 else None


def diversity(forecasts: Sequence[float]) -> float:
    """Return V = mean (p_i - mean p)^2, in squared probability."""
    mean = math.fsum(forecasts) / len(forecasts)
    return math.fsum((forecast - mean) ** 2 for forecast in forecasts) / len(forecasts)


def effective_voices(n: int, correlation: float) -> float | None:
    """Return n / (1 + (n - 1) r), r the mean correlation of errors; None for an r that no n voices can have."""
    spread = 1 + (n - 1) * correlation
    return n / spread if spread > 0 else None


def error_correlation(errors: Floats) -> float | None:
    """Return the mean correlation between voices from errors p - o, voices x questions, all known. A voice that never
    changes its error has no correlation and is left out; None with fewer than two others or three questions."""
    if errors.ndim != 2 or errors.shape[1] < 3:
        return None
    moving = errors[errors.std(axis=1) > 1e-12]
    n = len(moving)
    if n < 2:
        return None
    import numpy as np  # what reads scores has no use for it

    matrix = np.corrcoef(moving)
    return float((matrix.sum() - n) / (n * (n - 1)))


BLIND, INFORMED = ROUNDS


@dataclass(frozen=True, slots=True)
class Crowd:
    """The aggregate of all voices on the same questions, blind and with all positions in view. gain: the fall of its
    Brier score from one to the other."""

    blind: Score
    informed: Score
    gain: Estimate

    @property
    def better_round(self) -> int:
        """Return the informed round where its gain is told from 0; else the blind one, whose voices are independent."""
        return INFORMED if self.gain.low is not None and self.gain.low > 0 else BLIND


def last_positions(forecasts: Iterable[ScoredForecast]) -> list[ScoredForecast]:
    last: dict[tuple[str, str, str], ScoredForecast] = {}
    for one in sorted(forecasts, key=lambda one: one.round):
        last[one.source, one.run, one.question] = one
    return list(last.values())


def revision_gain(forecasts: Iterable[ScoredForecast]) -> Estimate | None:
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


def pooled(probabilities: Mapping[str, float], shares: Mapping[str, float]) -> float:
    """Return the probability of the mean log odds, weighted by share (logarithmic pooling; Genest and Zidek, 1986).
    Stakes are not weights: they are a voice's own estimate of itself, shares are its record."""
    known = [max(0.0, shares[voice]) for voice in probabilities if voice in shares]
    usual = math.fsum(known) / len(known) if known else 1.0
    weights = {voice: max(0.0, shares.get(voice, usual)) for voice in probabilities}
    total = math.fsum(weights.values())
    if total <= 0:
        weights, total = dict.fromkeys(weights, 1.0), float(len(weights))
    mean = math.fsum(weights[voice] * log_odds(given) for voice, given in probabilities.items()) / total
    return 1 / (1 + math.exp(-mean))


def crowd(aggregates: Sequence[ScoredForecast]) -> Crowd | None:
    """Return the record of the aggregates by round, over the questions that have both; None without one."""
    by_round = {number: {(one.run, one.question) for one in aggregates if one.round == number} for number in ROUNDS}
    both = [one for one in aggregates if (one.run, one.question) in by_round[BLIND] & by_round[INFORMED]]
    blind, informed = (score([one for one in both if one.round == number]) for number in ROUNDS)
    gain = revision_gain(both)
    return Crowd(blind, informed, gain) if blind and informed and gain else None


def _points(one: ScoredForecast) -> float:
    return brier(one.probability, one.outcome)

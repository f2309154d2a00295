"""Compute by skill: each voice's share, its turns, and the voices that end. Pure; the same records give the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from chordesk.models.errors import UsageError
from chordesk.tools.scoring.errors import DatedMean

# Half a share never hangs on skill: with few outcomes it is mostly luck.
EQUAL = 0.5
# A mean alpha of .018 shows with 80 % power from here on (arXiv 2605.00420).
LEAST_RESOLVED = 350
LEAST_VOICES = 3


@dataclass(frozen=True, slots=True)
class VoiceRecord:
    """A voice with its alpha over resolved questions, by date; None before the first."""

    voice: str
    alpha: DatedMean | None = None

    @property
    def proven(self) -> float:
        """Return the lower bound of alpha where it is above 0, else 0."""
        lower = self.alpha.lower if self.alpha else None
        return max(0.0, lower) if lower is not None else 0.0


def compute_shares(records: Iterable[VoiceRecord]) -> dict[str, float]:
    """Return each voice's share of compute, 1 together: half in equal parts, half by the lower bound of alpha.

    While no lower bound is above 0, the second half is equal too.
    """
    known = list(records)
    if not known:
        return {}
    total = sum(record.proven for record in known)
    return {
        record.voice: EQUAL / len(known) + (1 - EQUAL) * (record.proven / total if total > 0 else 1 / len(known))
        for record in known
    }


def extinct(records: Iterable[VoiceRecord], alive: Iterable[str]) -> set[str]:
    """Return the voices that end now: n of 350 or more and an upper bound of alpha below 0.

    Worst upper bound first, and as many as leave three alive.
    """
    living = set(alive)
    lost: list[tuple[float, str]] = []
    for record in records:
        upper = record.alpha.upper if record.alpha else None
        if record.alpha and upper is not None and upper < 0 and record.alpha.n >= LEAST_RESOLVED:
            lost.append((upper, record.voice))
    ending = [voice for _, voice in sorted(lost) if voice in living]
    return set(ending[: max(0, len(living) - LEAST_VOICES)])


def plan_turns(shares: Mapping[str, float], voices: Sequence[str], rounds: int) -> dict[str, int]:
    """Return each voice's turns, voices x rounds together and one at least.

    One after another goes to the voice that lacks most of its share, on a draw to the earlier one. A voice without a
    share gets the one turn.
    """
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

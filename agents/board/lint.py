"""Checks of a second round: texts that became another voice's, and herding."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

from chordesk.agents.board.aggregate import log_odds
from chordesk.agents.board.citing.copying import NOTE, QUOTE, compare
from chordesk.models.board.forecasts import VoicePosition
from chordesk.tools.scoring.revision import BLIND, INFORMED

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
        """Return the share of the spread that is left in round 2."""
        return self.informed / self.blind if self.blind and self.informed is not None else None


def convergence(positions: Iterable[VoicePosition]) -> list[Convergence]:
    """Return the reasons of round 2 that resemble one that another voice gave in round 1, by the copy score.

    A reason is compared with all of round 1, on whatever question. One that resembled that text before its author saw
    it is left out: what two voices write blind is no copy.
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
    """Return the mean spread of both rounds over the questions and voices that both have."""
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

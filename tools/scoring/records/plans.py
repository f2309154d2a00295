"""What each voice may spend in the next episode, by its record: rounds, depth and model."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from sqlmodel import Session

from chordesk.models.analysis import Depth
from chordesk.models.settings import Settings
from chordesk.tools.scoring.compute import VoiceRecord, compute_shares, extinct, plan_turns
from chordesk.tools.scoring.records.voices import voice_forecasts, voice_records

_DEPTHS: tuple[Depth, ...] = get_args(Depth)


@dataclass(frozen=True, slots=True)
class VoicePlan:
    """What a voice may spend. share: of all compute, 0 to 1; turns: what the share is worth; rounds: from the first on;
    depth: of its turns; tier: place of its model in DESK_VOICE_MODELS, from 0, None where there are none."""

    share: float
    turns: int
    rounds: int
    depth: Depth
    tier: int | None = None


def voice_plans(
    session: Session,
    settings: Settings,
    account: str,
    voices: Sequence[str],
    *,
    rounds: int = 2,
    until: dt.datetime | None = None,
) -> dict[str, VoicePlan]:
    """Return the plan of each voice that takes part, in their order; an extinct one has none.

    until: market time of the episode; what closed later is unknown to it.
    """
    needed = settings.voice_compute == "skill" or settings.voice_extinction
    forecasts = voice_forecasts(session, account, until) if needed else []
    return plan_voices(voice_records(forecasts, dict.fromkeys(voices)), settings, rounds)


def plan_voices(records: Sequence[VoiceRecord], settings: Settings, rounds: int) -> dict[str, VoicePlan]:
    """Return the plans by voices' records, in their order."""
    voices = [record.voice for record in records]
    ending = extinct(records, voices) if settings.voice_extinction else set()
    living = [record for record in records if record.voice not in ending]
    known = living if settings.voice_compute == "skill" else [VoiceRecord(record.voice) for record in living]
    shares = compute_shares(known)
    turns = plan_turns(shares, list(shares), rounds)
    tiers = tiers_of(shares, sum(bool(part.strip()) for part in settings.voice_models.split(";")))
    return {
        voice: VoicePlan(
            share, turns[voice], min(rounds, turns[voice]), depth_of(turns[voice], rounds, settings), tiers[voice]
        )
        for voice, share in shares.items()
    }


def depth_of(turns: int, rounds: int, settings: Settings) -> Depth:
    """Return the settings' depth, or the next deeper one for a voice with more turns than rounds: it spends them so."""
    at = _DEPTHS.index(settings.depth) + (turns > rounds)
    return _DEPTHS[min(at, len(_DEPTHS) - 1)]


def tiers_of(shares: Mapping[str, float], tiers: int) -> dict[str, int | None]:
    """Return each voice's tier, the first for the largest shares, in parts as equal as they can be.

    Equal shares lie in one tier, that of the middle of their ranks, so without records all are in the middle one.
    """
    if tiers == 0:
        return dict.fromkeys(shares)
    ahead = {voice: sum(other > share + 1e-9 for other in shares.values()) for voice, share in shares.items()}
    level = {voice: sum(abs(other - share) <= 1e-9 for other in shares.values()) for voice, share in shares.items()}
    return {voice: (2 * ahead[voice] + level[voice] - 1) * tiers // (2 * len(shares)) for voice in shares}

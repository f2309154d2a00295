"""What the steps of an episode carry from one to the next: small, the board itself is in its tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from chordesk.models.analysis import Depth


@dataclass(frozen=True, slots=True)
class PlannedVoice:
    """What one voice may spend. rounds: from the first on; depth: of its turns; tier: place of its model in
    DESK_VOICE_MODELS, None where it has its role's; share: of all compute, its weight in the aggregates."""

    rounds: int
    depth: Depth
    tier: int | None
    share: float


@dataclass(frozen=True, slots=True)
class EpisodePlan:
    """The plan of an episode. rounds: how many are held at most; voices: those that take part; extinct: voices left out
    for their record; unused: tools of the last episode without a citation."""

    rounds: int
    voices: Mapping[str, PlannedVoice]
    extinct: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()

    def payload(self) -> dict[str, Any]:
        """Return the plan as the payload of a step."""
        found = asdict(self)
        return {**found, "extinct": list(self.extinct), "unused": list(self.unused)}

    def in_round(self, number: int) -> list[str]:
        """Return the voices that take part in a round."""
        return [voice for voice, plan in self.voices.items() if plan.rounds >= number]

    def of_voice(self, voice: str) -> dict[str, Any]:
        """Return the payload of one voice's step."""
        plan = self.voices[voice]
        return {"unused": list(self.unused), "depth": plan.depth, "tier": plan.tier}


def plan_in(payload: Mapping[str, Any]) -> EpisodePlan:
    """Return the plan in a step's payload."""
    voices = {voice: PlannedVoice(**one) for voice, one in payload["voices"].items()}
    return EpisodePlan(int(payload["rounds"]), voices, tuple(payload["extinct"]), tuple(payload["unused"]))

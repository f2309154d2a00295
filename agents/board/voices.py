"""The voices of the board, an entry each.

To add a voice: its prompt in `agents/prompts/voices` and its entry here. The rulebook plays it by the rule of its
archetype.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from chordesk.models.errors import SettingError
from chordesk.models.settings import Settings

Archetype = Literal["synthesizer", "witness", "challenger", "fixer", "idealist", "pragmatist"]
ROLE_PREFIX = "voice_"
DESK = "desk"  # owner of the tools that no voice owns


@dataclass(frozen=True, slots=True)
class Voice:
    """One voice. tool: the one of the harvest that it owns; faction: voices that look at the world alike, by which
    consensus is measured; temperament: how it deals with the board, in a line for people."""

    key: str
    archetype: Archetype
    faction: Literal["pattern", "ledger"]
    tool: str
    temperament: str

    @property
    def role(self) -> str:
        """The key of its role."""
        return f"{ROLE_PREFIX}{self.key}"

    @property
    def prompt(self) -> str:
        return f"voices/{self.key}.md"


VOICES: Mapping[str, Voice] = {
    voice.key: voice
    for voice in (
        Voice("weaver", "synthesizer", "pattern", "temporal", "connects what others see apart, and names the pattern"),
        Voice("witness", "witness", "ledger", "divergence", "reports prices that disagree, and adds little to them"),
        Voice("challenger", "challenger", "pattern", "events", "takes the strongest signal and asks what it misses"),
        Voice(
            "sizer", "fixer", "ledger", "portfolio", "asks what a forecast is worth in money, and cuts what is large"
        ),
        Voice("mediator", "idealist", "pattern", "funding", "looks for what most of the evidence has in common"),
        Voice("auditor", "pragmatist", "ledger", "factors", "counts how often the same bet was made, and fades crowds"),
    )
}


def owner_of(tool: str) -> str:
    """Return the key of the voice that owns a tool of the harvest; `desk` for one that none owns."""
    return next((voice.key for voice in VOICES.values() if voice.tool == tool), DESK)


def voice_of(role: str) -> str:
    """Return the key of the voice of a role."""
    return role.removeprefix(ROLE_PREFIX)


def voices_of(settings: Settings) -> tuple[Voice, ...]:
    """Return the voices that take part. Raises SettingError for a name that is none."""
    return chosen(settings.voices) if settings.voices is not None else tuple(VOICES.values())


def chosen(keys: Iterable[str]) -> tuple[Voice, ...]:
    """Return the voices of these keys, in the order of the table. Raises SettingError for a key that is none."""
    wanted = tuple(keys)
    for key in wanted:
        if key not in VOICES:
            raise SettingError(f"voices (DESK_VOICES) has {key!r}", remedy=f"choose among {', '.join(VOICES)}")
    return tuple(voice for key, voice in VOICES.items() if key in wanted)

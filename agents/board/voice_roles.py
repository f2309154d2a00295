"""The roles of the board's voices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chordesk.agents.board.voices import VOICES
from chordesk.agents.role import Role
from chordesk.agents.subjects import VoiceSubject
from chordesk.agents.turn_answers import RecordedCall
from chordesk.models.board.forecasts import VoiceOutput
from chordesk.models.questions import SignalState


def has_live_signal(brief: Mapping[str, Any], calls: Sequence[RecordedCall]) -> bool:
    return any(row["state"] == SignalState.LIVE for row in brief["signals"])


ROLES = tuple(
    Role(
        *(voice.role, "research", voice.prompt, "ask_voice.md", VoiceSubject, (), VoiceOutput),
        keeps_thread=False, optional=True, reports=False, evidence=has_live_signal,
    )
    for voice in VOICES.values()
)  # fmt: skip

"""What a voice's forecast rests on: the board, and no tool of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chordesk.agents.answers import RecordedCall
from chordesk.models.board.signals import SignalState


def has_live_signal(brief: Mapping[str, Any], calls: Sequence[RecordedCall]) -> bool:
    """Return whether the board of a voice's brief has a live signal."""
    return any(row["state"] == SignalState.LIVE for row in brief["signals"])

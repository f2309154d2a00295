"""The far side of the venues' wires, as their own tests have it."""

from __future__ import annotations

from tests.tools.board.venues.conftest import far, venue_settings

__all__ = ["far", "venue_settings"]

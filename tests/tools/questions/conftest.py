"""The loopback venues, and settings that lead there."""

from __future__ import annotations

from tests.tools.board.venues.conftest import far, venue_settings

__all__ = ["far", "venue_settings"]

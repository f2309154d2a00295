"""The settings of the desk: what each one is, the sources it is read from, and those a running `desk up` publishes."""

from __future__ import annotations

from chordesk.models.settings.schema import ALIASES, BROKERS, LENSES, MARKETS, REAL_MONEY, REPLAYING, Settings
from chordesk.models.settings.types import Effort

__all__ = ["ALIASES", "BROKERS", "LENSES", "MARKETS", "REAL_MONEY", "REPLAYING", "Effort", "Settings"]

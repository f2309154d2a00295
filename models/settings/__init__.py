"""The settings of the desk: what each one is, the sources it is read from, and those a running `desk up` publishes."""

from __future__ import annotations

from chordesk.models.settings.schema import (
    ALIASES,
    BROKERS,
    KNOWN_LENSES,
    LEAVING,
    LENSES,
    MARKETS,
    REAL_MONEY,
    REPLAYING,
    UNIFIED,
    Settings,
)
from chordesk.models.settings.types import Effort

__all__ = [
    "ALIASES",
    "BROKERS",
    "KNOWN_LENSES",
    "LEAVING",
    "LENSES",
    "MARKETS",
    "REAL_MONEY",
    "REPLAYING",
    "UNIFIED",
    "Effort",
    "Settings",
]

"""Settings and a Redis for each test of retention."""

from __future__ import annotations

from tests.tasks.events.conftest import redis_own, settings

__all__ = ["redis_own", "settings"]

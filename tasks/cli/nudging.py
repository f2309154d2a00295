"""Telling the trade queue that there is something to do, from a command that works without Redis too."""

from __future__ import annotations

from models.errors import RedisDown
from models.settings import Settings
from tasks.app import create_app
from tasks.bootstrap import redis_url
from tasks.services.redis import wait_ready
from tasks.trading import nudge

REDIS_SECONDS = 1.0


def tell_trade_queue(settings: Settings) -> bool:
    """Whether the trade queue was told. Without Redis it looks by itself once that is back."""
    try:
        wait_ready(redis_url(settings), REDIS_SECONDS)
    except RedisDown:
        return False
    return nudge(create_app(settings, "cli"))

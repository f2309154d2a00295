"""The times at which a desk at work applies its policy of retention: hourly for events and pictures, daily for threads
and runs."""

from __future__ import annotations

import redis
import structlog

from chordesk.models.tables.columns import utcnow
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.events.sources import AWAY
from chordesk.tasks.retention import events, pictures, runs, threads
from chordesk.tasks.retention.amounts import total
from chordesk.tasks.retention.policy import policy_of

log = structlog.get_logger(__name__)

RUNS_KEY, DAY_SECONDS = "desk:runs-gc", 86_400


def collect_if_due(desk: Desk, *, with_redis: bool) -> None:
    """Delete what is due, if it is time; a failure is logged and retried with the next time. with_redis: Redis answers,
    which keeps the times of all processes together."""
    if with_redis:
        threads.collect_daily(desk)
        events.trim_hourly(desk.redis_client, desk.store, desk.settings, utcnow())
        _collect_runs_daily(desk)
    pictures.prune_hourly(desk.store, desk.settings, utcnow())


def _collect_runs_daily(desk: Desk) -> None:
    """Collect once a day, in the process that comes first, until it is to end: the next one goes on."""
    try:
        if desk.redis_client.set(RUNS_KEY, desk.owner, nx=True, ex=DAY_SECONDS):
            policy = policy_of(desk.settings, utcnow())
            done = runs.collect(desk.store, policy, lambda: desk.drain.requested)
            gone = total(done.values())
            log.info("runs.gc", rows=gone.rows, bytes=gone.bytes, **{name: one.rows for name, one in done.items()})
            if desk.drain.requested:
                desk.redis_client.delete(RUNS_KEY)
    except (redis.RedisError, *AWAY) as error:
        log.warning("runs.gc_failed", error=str(error).splitlines()[0])

"""Collection of what the policy of retention lets go: one pass that counts or deletes, and its times on a desk at
work."""

from __future__ import annotations

from dataclasses import dataclass, field

import redis
import structlog

from chordesk.models.database.store import AWAY
from chordesk.models.errors import DeskError
from chordesk.models.tables.columns import utcnow
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.retention import event_trimming, old_files, run_deletion
from chordesk.tasks.retention.retention_policy import Amount, Amounts, Policy, added, policy_of, total

PICTURES, ROLLOUT_FILES = "picture (file)", "rollout (file)"
THREADS, ROLLOUTS, BLOBS = "thread", "rollout", "blob"


@dataclass(frozen=True, slots=True)
class Pass:
    amounts: Amounts  # what went, or would go, by table; events are counted one by one, `run` is the runs deleted
    skipped: list[str] = field(default_factory=list)  # what was not looked at, and why


def due(desk: Desk, policy: Policy) -> Pass:
    rows = added(
        run_deletion.due_rows(desk.store, policy),
        run_deletion.due(desk.store, policy, event_trimming.emptied(desk.store, policy)),
    )
    rollouts = total(Amount(1, size) for _, size in old_files.old_rollouts(desk.settings, policy))
    pictures = old_files.due_pictures(desk.store, desk.settings.home, policy)
    kept = added(rows, event_trimming.due(desk.store, policy), {PICTURES: pictures, ROLLOUT_FILES: rollouts})
    return _with_threads(desk, policy, kept, counting=True)


def collect(desk: Desk, policy: Policy) -> Pass:
    """Delete what is due. Safe beside a desk at work and beside itself, and again after an end at any moment."""
    trimmed, aged = event_trimming.trim(desk.store, policy), run_deletion.collect_rows(desk.store, policy)
    rows = added(aged, run_deletion.collect(desk.store, policy))
    pictures = old_files.prune_pictures(desk.store, desk.settings.home, policy)
    done = added(rows, trimmed, {PICTURES: pictures, ROLLOUT_FILES: old_files.prune_rollouts(desk.settings, policy)})
    return _with_threads(desk, policy, done, counting=False)


def _with_threads(desk: Desk, policy: Policy, done: Amounts, *, counting: bool) -> Pass:
    try:
        found = old_files.due_threads(desk, policy) if counting else old_files.collect_threads(desk, policy)
    except (DeskError, redis.RedisError) as error:
        return Pass(done, [f"rollouts: {error.args[0] if error.args else error}"])
    parts = {
        THREADS: Amount(found.threads), ROLLOUTS: Amount(found.rollouts), BLOBS: Amount(found.blobs, found.bytes),
    }  # fmt: skip
    busy = [f"{found.busy} threads are in use: they are looked at next time"] if found.busy else []
    return Pass(added(done, parts), busy)


# The times at which a desk at work applies its policy of retention: hourly for events and pictures, daily for threads
# and runs.

log = structlog.get_logger(__name__)

RUNS_KEY, DAY_SECONDS = "desk:runs-gc", 86_400


def collect_if_due(desk: Desk, *, with_redis: bool) -> None:
    """Delete what is due, if it is time; a failure is logged and retried with the next time. with_redis: Redis answers,
    which keeps the times of all processes together."""
    if with_redis:
        old_files.collect_threads_daily(desk)
        event_trimming.trim_hourly(desk.redis_client, desk.store, desk.settings, utcnow())
        _collect_runs_daily(desk)
    old_files.prune_hourly(desk.store, desk.settings, utcnow())


def _collect_runs_daily(desk: Desk) -> None:
    """Collect once a day, in the process that comes first, until it is to end: the next one goes on."""
    try:
        if desk.redis_client.set(RUNS_KEY, desk.owner, nx=True, ex=DAY_SECONDS):
            policy = policy_of(desk.settings, utcnow())
            aged = run_deletion.collect_rows(desk.store, policy, lambda: desk.drain.requested)
            done = added(aged, run_deletion.collect(desk.store, policy, lambda: desk.drain.requested))
            gone = total(done.values())
            log.info("runs.gc", rows=gone.rows, bytes=gone.bytes, **{name: one.rows for name, one in done.items()})
            if desk.drain.requested:
                desk.redis_client.delete(RUNS_KEY)
    except (redis.RedisError, *AWAY) as error:
        log.warning("runs.gc_failed", error=str(error).splitlines()[0])

"""One pass over everything that the policy of retention covers: counted, or deleted."""

from __future__ import annotations

from dataclasses import dataclass, field

import redis

from chordesk.models.errors import DeskError
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.retention import events, pictures, runs, threads
from chordesk.tasks.retention.amounts import Amount, Amounts, added
from chordesk.tasks.retention.policy import Policy

EVENTS, PICTURES, THREADS, ROLLOUTS, BLOBS = "event", "picture (file)", "thread", "rollout", "blob"


@dataclass(frozen=True, slots=True)
class Pass:
    """amounts: what went, or would go, by table; events are counted one by one, `run` is the runs deleted. skipped:
    what was not looked at, and why."""

    amounts: Amounts
    skipped: list[str] = field(default_factory=list)


def due(desk: Desk, policy: Policy) -> Pass:
    """Return what `collect` would delete now. It changes nothing."""
    rows = runs.due(desk.store, policy, events.emptied(desk.store, policy))
    kept = added(rows, {EVENTS: events.due(desk.store, policy)}, events.beside_due(desk.store, policy))
    kept = added(kept, {PICTURES: pictures.due(desk.store, desk.settings.home, policy)})
    return _with_threads(desk, policy, kept, counting=True)


def collect(desk: Desk, policy: Policy) -> Pass:
    """Delete what is due. Safe beside a desk at work and beside itself, and again after an end at any moment."""
    trimmed = events.trim(desk.store, policy)
    went = {EVENTS: Amount(trimmed.events, trimmed.bytes)}
    done = added(runs.collect(desk.store, policy), went, trimmed.beside)
    done = added(done, {PICTURES: pictures.prune(desk.store, desk.settings.home, policy)})
    return _with_threads(desk, policy, done, counting=False)


def _with_threads(desk: Desk, policy: Policy, done: Amounts, *, counting: bool) -> Pass:
    try:
        found = threads.due(desk, policy) if counting else threads.collect(desk, policy)
    except (DeskError, redis.RedisError) as error:
        return Pass(done, [f"rollouts: {error.args[0] if error.args else error}"])
    parts = {
        THREADS: Amount(found.threads), ROLLOUTS: Amount(found.rollouts), BLOBS: Amount(found.blobs, found.bytes),
    }  # fmt: skip
    busy = [f"{found.busy} threads are in use: they are looked at next time"] if found.busy else []
    return Pass(added(done, parts), busy)

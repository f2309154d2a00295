"""The desk's stack with everything wired: migrations before the workers, and workers that answer."""

from __future__ import annotations

from celery import Celery

from models import store
from tasks.app import create_app, node_name
from tasks.bootstrap import redis_url
from tasks.services import nodes, preflight, redis
from tasks.services.plan import Plan
from tasks.services.stack import Stack

REDIS_SECONDS = 5.0


def desk_stack(plan: Plan) -> Stack:
    """The stack of a whole plan. Enter it to start; its exit stops all. Raises DeskError when no worker could work."""
    preflight.require_able(plan.settings)
    made: list[Celery] = []

    def check(names: frozenset[str]) -> None:
        if not made:
            made.append(create_app(plan.settings, "up"))
        nodes.check(made[0], frozenset(node_name(name) for name in names))

    def prepare() -> None:
        # Ours answers already; one that the user named may be down, and workers would wait for it for ever.
        redis.wait_ready(redis_url(plan.settings), REDIS_SECONDS)
        store.upgrade(plan.settings.database)

    return Stack(plan, before_desk=prepare, check_nodes=check)

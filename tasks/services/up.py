"""The desk's stack with everything wired: migrations before the workers, and workers that answer."""

from __future__ import annotations

from celery import Celery

from models import store
from tasks.app import create_app, node_name
from tasks.services import nodes
from tasks.services.plan import Plan
from tasks.services.stack import Stack


def desk_stack(plan: Plan) -> Stack:
    """The stack of a whole plan. Enter it to start; its exit stops all."""
    made: list[Celery] = []

    def check(names: frozenset[str]) -> None:
        if not made:
            made.append(create_app(plan.settings, "up"))
        nodes.check(made[0], frozenset(node_name(name) for name in names))

    return Stack(plan, before_desk=lambda: store.upgrade(plan.settings.database), check_nodes=check)

"""Routes of the desk itself: its standing, and all of it at a glance."""

from __future__ import annotations

import redis
from fastapi import APIRouter

from chordesk.models.errors import DeskError
from chordesk.models.settings.running_desk import snapshot, standing_of
from chordesk.models.tables.columns import utcnow
from chordesk.tasks.views.overview.glance import Glance, glance
from chordesk.tasks.views.status import RedisState, redis_state
from chordesk.tasks.web.context import Context
from chordesk.tasks.web.fleet import FleetPart, KeptWorkers
from chordesk.tasks.web.schemas import ServiceStatus
from chordesk.tasks.web.security import JsonRoute

router = APIRouter(tags=["desk"], route_class=JsonRoute)


class DeskGlance(Glance):
    """The desk now. running: a `desk up` runs on its home, and the standing is its own. queues: None where Redis does
    not answer, then `redis_trouble` is why. fleet: the workers as they were last asked, seconds ago."""

    running: bool
    queues: RedisState | None
    redis_trouble: str | None
    fleet: KeptWorkers


@router.get("/")
def desk(context: Context) -> ServiceStatus:
    """Show the running desk: live or preview, broker, account, model, market and day, and its settings; without a
    `desk up`, those of this service."""
    theirs = context.running_desk()
    settings = theirs or context.settings
    return ServiceStatus(
        home=str(context.settings.home),
        running=theirs is not None,
        standing=standing_of(settings),
        settings=snapshot(settings),
        differs=context.differing(theirs),
    )


@router.get("/desk")
def at_a_glance(context: Context, fleet: FleetPart) -> DeskGlance:
    """Show the desk at a glance: running runs with their progress, what waits for a person, trading state, equity,
    queues, parked models, the oldest step, and the next scheduled runs. Only the workers are not asked anew each time:
    their answers have an age."""
    theirs = context.running_desk()
    workers = fleet.workers()
    queues, trouble = _queues(context)
    with context.store.read() as session:
        found = glance(session, theirs or context.settings, utcnow())
    return DeskGlance(
        **dict(found), running=theirs is not None, queues=queues, redis_trouble=trouble, fleet=workers
    )  # fmt: skip


def _queues(context: Context) -> tuple[RedisState | None, str | None]:
    try:
        return redis_state(context.settings), None
    except (DeskError, redis.RedisError) as error:
        return None, str(error.args[0]) if isinstance(error, DeskError) else type(error).__name__

"""The route of the desk itself: whether it is live, with which broker, model, market and day."""

from __future__ import annotations

from fastapi import APIRouter

from models.settings.snapshots import snapshot
from models.settings.standing import standing_of
from tasks.web.context import Context
from tasks.web.schemas import ServiceStatus
from tasks.web.security import JsonRoute

router = APIRouter(tags=["desk"], route_class=JsonRoute)


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

"""The board's line of `desk doctor`: the event markets that are named."""

from __future__ import annotations

from chordesk.models.errors import NotConfigured
from chordesk.models.features import require_source
from chordesk.tasks.doctor.check import Check, CheckContext, CheckEntry, ok, warn


def venues(context: CheckContext) -> Check:
    """Check that the event markets that are named can be read; no request is made."""
    settings = context.settings
    named = settings.venues
    if not named:
        return ok("no event market is named (DESK_VENUES): none is read")
    try:
        require_source("events")
    except NotConfigured as error:
        return warn(f"{', '.join(named)}: httpx is missing", str(error))
    replay = "" if context.desk.market.clock.day is None else "; no episode asks them in a replay"
    return ok(f"{', '.join(named)}{replay}")


VENUES_CHECK = CheckEntry("venues", venues, 10)

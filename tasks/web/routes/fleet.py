"""Routes of the fleet and its settings: workers, app-servers and turns, masked settings, and the doctor's table."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from chordesk.models.answers import Frozen
from chordesk.models.settings.sources import load
from chordesk.tasks.views.overview.settings_view import describe
from chordesk.tasks.web.fleet import FleetPart, KeptChecks, KeptStatus
from chordesk.tasks.web.security import JsonRoute

router = APIRouter(tags=["desk"], route_class=JsonRoute)

Whole = Annotated[bool, Query(description="also the checks that run a turn or read all prices; a model's turn costs")]
STATUS_SECONDS = 4.0  # for a first answer; a part that is away takes about two


class SettingRow(Frozen):
    """One setting. value: masked where it is a secret or holds a login; belongs_to: what has to agree on it; source:
    the variable, file or running desk that it came from, or `default`."""

    name: str
    variable: str
    value: Any
    belongs_to: str
    source: str
    help: str


@router.get("/status")
def status(fleet: FleetPart) -> KeptStatus:
    """Show workers, app-servers, queues, turns in flight, parked models, the oldest step and the last sweep, as they
    were read at most some seconds ago; while they are read for the first time, the answer waits for it."""
    kept = fleet.status.look(STATUS_SECONDS)
    return KeptStatus(age=kept.age, refreshing=kept.refreshing, status=kept.value)


@router.get("/settings")
def settings() -> list[SettingRow]:
    """List every setting as a command of the desk would now have it in this service's place: value, owner, and where it
    came from. Secrets are masked."""
    return [SettingRow.model_validate(row) for row in describe(load(agree=False))]


@router.get("/doctor")
def doctor(fleet: FleetPart, whole: Whole = False) -> KeptChecks:
    """Show the checks of a desk with their remedies, as they ended at most a minute ago. Those that run a turn, start
    an app-server or read all prices are made with `whole`, and are at most an hour old; while they are made, the answer
    has the others."""
    return fleet.checks(whole=whole)

"""The workers and the checks of a desk, as they were last asked: to ask all of them takes more than a second."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import Depends, Request
from pydantic import Field

from chordesk.models.answers import Frozen
from chordesk.tasks.doctor.check import Check, CheckContext, run_checks
from chordesk.tasks.doctor.checklist import ALL
from chordesk.tasks.views.status import DeskStatus, WorkerRow, status
from chordesk.tasks.web.context import ServiceContext
from chordesk.tasks.web.watches import KeptValue, Watch

STATUS_FRESH_SECONDS = 5.0
DOCTOR_FRESH_SECONDS = 60.0
DOCTOR_SECONDS = 10.0  # for each check; all run at once
DEAR_FRESH_SECONDS = 3600.0
# They start an app-server, load a library, ask a model, or read all prices: made when they are asked for, and then kept
# for an hour.
DEAR = ("data", "tools", "server", "model", "litellm")

Age = Annotated[float | None, Field(ge=0, description="seconds since it was read; null before the first time")]


class KeptStatus(Frozen):
    """The state by part. refreshing: it is being read again; status: None before it was read for the first time."""

    age: Age
    refreshing: bool
    status: DeskStatus | None


class KeptWorkers(Frozen):
    """The workers that answered when they were last asked; None before that. trouble: queues that none of them serves,
    and why they could not be asked."""

    age: Age
    refreshing: bool
    workers: list[WorkerRow] | None
    turns_in_flight: int | None
    trouble: dict[str, str]


class KeptChecks(Frozen):
    """The checks as they last ended, in the order of `desk doctor`; None before that. left_out: those of which nothing
    is known yet, as they are made only on request."""

    age: Age
    refreshing: bool
    checks: list[Check] | None
    left_out: list[str]


@dataclass(frozen=True, slots=True)
class Fleet:
    """What one service knows of its desk's processes and of its surroundings."""

    status: Watch[DeskStatus]
    doctor: Watch[list[Check]]
    dear: Watch[list[Check]]

    def checks(self, *, whole: bool) -> KeptChecks:
        """Return the checks; with `whole` the dear ones are made as well where they are not known."""
        quick = self.doctor.look(DOCTOR_SECONDS)
        dear = self.dear.look(DOCTOR_SECONDS) if whole else self.dear.known()
        found = {one.name: one for one in (*(quick.value or ()), *(dear.value or ()))}
        return KeptChecks(
            age=quick.age,
            refreshing=quick.refreshing or dear.refreshing,
            checks=[found[one.name] for one in ALL if one.name in found] if quick.value is not None else None,
            left_out=[name for name in DEAR if name not in found],
        )

    def workers(self) -> KeptWorkers:
        """Return the workers, without waiting for them."""
        kept: KeptValue[DeskStatus] = self.status.look()
        found = kept.value
        parts = found.trouble.items() if found is not None else ()
        return KeptWorkers(
            age=kept.age,
            refreshing=kept.refreshing,
            workers=found.workers if found is not None else None,
            turns_in_flight=found.turns_in_flight if found is not None else None,
            trouble={part: why for part, why in parts if part not in ("redis", "database")},
        )


def fleet_of(context: ServiceContext) -> Fleet:
    """Return the fleet of a service. Making one asks no worker and makes no check."""
    return Fleet(
        Watch("status", STATUS_FRESH_SECONDS, lambda: _status(context)),
        Watch("doctor", DOCTOR_FRESH_SECONDS, lambda: _checks(context)),
        Watch("dear", DEAR_FRESH_SECONDS, lambda: _dear(context)),
    )


def _status(context: ServiceContext) -> DeskStatus:
    theirs = context.running_desk()
    settings = theirs or context.settings
    return status(settings, running=theirs is not None, app=context.notifier.app, store=context.store)


def _checks(context: ServiceContext) -> list[Check]:
    made = [replace(one, seconds=min(one.seconds, DOCTOR_SECONDS)) for one in ALL if one.name not in DEAR]
    return run_checks(CheckContext(context.settings, context.desk), made)


def _dear(context: ServiceContext) -> list[Check]:
    return run_checks(CheckContext(context.settings, context.desk), [one for one in ALL if one.name in DEAR])


def _fleet(request: Request) -> Fleet:
    found: Fleet = request.app.state.fleet
    return found


FleetPart = Annotated[Fleet, Depends(_fleet)]

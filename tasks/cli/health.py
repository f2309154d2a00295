"""The desk's health: `desk status` shows what runs now, `desk doctor` checks everything before a start."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from chordesk.models.settings.running_desk import is_up, standing_of
from chordesk.models.settings.sources import load
from chordesk.models.text import inert
from chordesk.tasks.cli.output import emit, state, table, warn
from chordesk.tasks.cli.shell import Json, checked, desk_line

if TYPE_CHECKING:
    from chordesk.tasks.doctor.check import Check

NO_ANSWER = 1

commands = typer.Typer()


@commands.command("status")
def show(as_json: Json = False) -> None:
    """Show workers, queues, running turns and what is stuck.

    Also app-servers, parked models, the oldest step and the last sweep. Exit code 1 when a part of the desk does
    not answer.
    """
    from chordesk.tasks.cli.show.desk_status import status_report
    from chordesk.tasks.reading.desk_status import status

    loaded = load()  # the roles do not matter here
    found = status(loaded.settings, running=loaded.running)
    emit(found, status_report, as_json=as_json)
    if found.trouble:
        raise typer.Exit(NO_ANSWER)


FAILED = 1


@commands.command()
def doctor(as_json: Json = False) -> None:
    """Check everything the desk needs before it starts.

    Exit code 1 when a check fails.
    """
    from chordesk.tasks.doctor.check import CheckStatus, run_checks
    from chordesk.tasks.doctor.checklist import ALL, admitted
    from chordesk.tasks.services import signals

    loaded = checked()
    warn(loaded.warnings)
    with signals.raised(), admitted(loaded, os.environ, Path.cwd()) as context:
        checks = run_checks(context, ALL)
    settings, running = loaded.settings, loaded.running
    standing = standing_of(settings)
    plain = {"model": standing.model, "running": running, "standing": standing, "checks": checks}
    line = desk_line(standing, settings.home, running=running, held=is_up(settings.home))
    emit(plain, lambda _: Group(line, _report(checks, standing.model)), as_json=as_json)
    if any(each.status is CheckStatus.FAIL for each in checks):
        raise typer.Exit(FAILED)


def _report(checks: Sequence[Check], model: str) -> RenderableType:
    from chordesk.tasks.doctor.check import CheckStatus

    rows = [(each.name, state(each.status.value), _found(each)) for each in checks]
    counts = ", ".join(f"{sum(each.status is status for each in checks)} {status}" for status in CheckStatus)
    return Group(table(("Check", "Status", "Found"), rows), Text(f"{counts}; the model is {model}"))


def _found(each: Check) -> Text:
    remedy = f"\nremedy: {inert(each.remedy)}" if each.remedy else ""
    return Text.assemble(inert(each.detail), (remedy, "bold"))

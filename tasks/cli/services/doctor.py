"""`desk doctor`: the checks before a start, as a table of ok, warn and fail with a remedy for each."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from chordesk.models.settings.running_desk import is_up, standing_of
from chordesk.tasks.cli.output import emit, inert, table, warn
from chordesk.tasks.cli.render.standing import desk_line
from chordesk.tasks.cli.shell import Json, checked
from chordesk.tasks.doctor.check import Check, CheckStatus, run_checks
from chordesk.tasks.doctor.checklist import ALL, admitted
from chordesk.tasks.services import signals

COLOURS = {CheckStatus.OK: "green", CheckStatus.WARN: "yellow", CheckStatus.FAIL: "bold red"}
FAILED = 1

commands = typer.Typer()


@commands.command()
def doctor(as_json: Json = False) -> None:
    """Check everything the desk needs before it starts; exit code 1 when a check fails."""
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
    made = table(("Check", "Status", "Found"), [])
    for each in checks:
        found = Text(inert(each.detail))
        if each.remedy:
            found.append(f"\nremedy: {inert(each.remedy)}", style="bold")
        made.add_row(each.name, Text(each.status.value, style=COLOURS[each.status]), found)
    counts = ", ".join(f"{sum(each.status is status for each in checks)} {status}" for status in CheckStatus)
    return Group(made, Text(f"{counts}; the model is {model}"))

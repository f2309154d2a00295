"""`desk doctor`: the pre-flight, as a table of ok, warn and fail with the remedy for each."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from models.setting_sources import load
from tasks.cli.output import console, inert, print_json, table, warn
from tasks.doctor.check import Check, Status, examine
from tasks.doctor.examinations import ALL, admitted
from tasks.services import signals

COLOURS = {Status.OK: "green", Status.WARN: "yellow", Status.FAIL: "bold red"}
FAILED = 1


def register(app: typer.Typer) -> None:
    app.command("doctor")(doctor)


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Check all the desk needs before it runs; exit code 1 when a check fails."""
    loaded = load()
    warn(loaded.warnings)
    with signals.raised(), admitted(loaded, os.environ, Path.cwd()) as patient:
        checks = examine(patient, ALL)
        spoken_by = patient.settings.spoken_by
    if as_json:
        print_json({"model": spoken_by, "checks": [asdict(each) for each in checks]})
    else:
        _show(console(), checks, spoken_by)
    if any(each.status is Status.FAIL for each in checks):
        raise typer.Exit(FAILED)


def _show(out: Console, checks: Sequence[Check], spoken_by: str) -> None:
    made = table(("Check", "Status", "Found"), [])
    for each in checks:
        found = Text(inert(each.detail))
        if each.remedy:
            found.append(f"\nremedy: {inert(each.remedy)}", style="bold")
        made.add_row(each.name, Text(each.status.value, style=COLOURS[each.status]), found)
    out.print(made)
    counts = ", ".join(f"{sum(each.status is status for each in checks)} {status}" for status in Status)
    out.print(f"{counts}; the model is {spoken_by}", highlight=False, markup=False)

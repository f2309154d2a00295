"""The desk's health: `desk status` shows what runs now, `desk doctor` checks everything before a start, `desk config`
shows every setting."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from chordesk.models.errors import UsageError
from chordesk.models.model_prices import AS_OF, LISTED, NO_PRICE, Price, is_listed, price_by_name, prices
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import is_up, standing_of
from chordesk.models.settings.sources import Loaded, load
from chordesk.models.settings.variables import RUNNING
from chordesk.models.text import inert
from chordesk.tasks.cli.output import emit, state, table, warn
from chordesk.tasks.cli.shell import Json, checked, desk_line, looks

if TYPE_CHECKING:
    from chordesk.tasks.doctor.check import Check

commands = typer.Typer()


NO_ANSWER = 1


@commands.command("status")
@looks("nothing runs yet", as_json="null")
def show(as_json: Json = False) -> None:
    """Show workers, queues, running turns and what is stuck.

    Also app-servers, parked models, the oldest step and the last sweep. Exit code 1 when a part of the desk does
    not answer.
    """
    from chordesk.tasks.cli.show.status_display import status_report
    from chordesk.tasks.reading.desk_status import status

    loaded = load()  # the roles do not matter here
    found = status(loaded.settings, running=loaded.running)
    emit(found, status_report, as_json=as_json)
    if found.trouble:
        raise typer.Exit(NO_ANSWER)


FAILED = 1


@commands.command()
def doctor(
    fix: Annotated[bool, typer.Option("--fix", help="First take from others what they may read of the desk.")] = False,
    as_json: Json = False,
) -> None:
    """Check everything the desk needs before it starts.

    Exit code 1 when a check fails.
    """
    from chordesk.tasks.doctor.check import CheckStatus, run_checks
    from chordesk.tasks.doctor.checklist import ALL, admitted
    from chordesk.tasks.services import stop_signals

    loaded = checked()
    if fix:
        from chordesk.models import file_modes

        file_modes.close(loaded.settings)
    warn(loaded.warnings)
    with stop_signals.raised(), admitted(loaded, os.environ, Path.cwd()) as context:
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


@commands.command()
@looks("no process yet")
def config(
    running: Annotated[
        bool, typer.Option("--running", help="Those of the running desk, or of each process of a fleet.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show every setting: its value, its owner, its source."""
    from chordesk.tasks.reading.setting_values import describe, describe_keys

    loaded = checked()
    warn(loaded.warnings)
    rows = describe(loaded)
    if not running:
        rows += describe_keys(loaded.settings, os.environ)
    else:
        rows = published(loaded, rows) if loaded.running else of_processes(loaded.settings, rows)
    home = loaded.settings.home
    last = desk_line(standing_of(loaded.settings), home, running=loaded.running, held=is_up(home))
    emit(rows, lambda rows: Group(_listed(rows), "", _prices(loaded.settings), last), as_json=as_json)


def _listed(rows: list[dict[str, Any]]) -> Table:
    cells = [(row["name"], _cell(row["value"]), row["belongs_to"], row["source"], row["help"]) for row in rows]
    return table(("Setting", "Value", "Owner", "From", "Meaning"), cells)


def published(loaded: Loaded, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    from chordesk.tasks.reading.setting_values import shown

    theirs = loaded.published
    source = f"services.json ({RUNNING})"
    return [
        {**row, "value": shown(row["name"], theirs[row["name"]], loaded.settings), "source": source}
        for row in rows
        if row["name"] in theirs
    ]


def of_processes(settings: Settings, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    from chordesk.models.database.store import open_current
    from chordesk.tasks import running_processes

    processes = []
    if settings.database_url is not None or (settings.home / "desk.db").exists():
        with closing(open_current(settings.database)) as store:
            processes = running_processes.here(store)
    if not processes:
        reason = f"no `desk up` runs on {settings.home}, and no process of a fleet on its database"
        raise UsageError(reason, remedy="start it with `desk up`, or set DESK_HOME or DESK_DATABASE_URL to a desk's")
    found = []
    for row in rows:
        holders: dict[str, list[str]] = {}
        values = {one.name: one.settings.get(row["name"]) for one in processes}
        for name, value in values.items():
            holders.setdefault(json.dumps(value), []).append(name)
        found += [{**row, "value": json.loads(text), "source": ", ".join(names)} for text, names in holders.items()]
    return found


def _prices(settings: Settings) -> Table:
    """Return the prices of models in use and of one's own, which estimates rest on; one without a price has none."""
    from chordesk.agents.role_models import LOCAL, RULES_MODEL, models_in_use

    known = prices(settings.prices)
    used = [one for one in models_in_use(settings) if one.provider(settings) != RULES_MODEL]
    local = dict.fromkeys(one.label(settings) for one in used if one.runtime == LOCAL)
    own = (model for model, price in known.items() if LISTED.get(model) != price)
    models = dict.fromkeys([*(model for one in used if one.runtime != LOCAL for model in one.models), *own])
    columns = ("Model", "USD a million tokens", "From")
    rows = [(name, "0", NO_PRICE) for name in local]
    return table(
        columns,
        [*rows, *((name, *_priced(name, known)) for name in models)],
        f"Prices; {len(LISTED)} models are listed, as of {AS_OF}",
    )


def _priced(model: str, known: Mapping[str, Price]) -> tuple[str, str]:
    if (price := price_by_name(model, known)) is None:
        return "unknown", "set DESK_PRICES"
    return str(price), f"listed {AS_OF}" if is_listed(model, price) else "DESK_PRICES"


def _cell(value: Any) -> str:
    if value is None:
        return "not set"
    return str(value).lower() if isinstance(value, bool) else str(value)

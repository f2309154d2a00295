"""`desk config`: every setting, its value, its owner, where it came from; secrets masked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.table import Table

from chordesk.models.errors import UsageError
from chordesk.models.model_prices import AS_OF, LISTED, NO_PRICE, Price, prices
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import is_up, standing_of
from chordesk.models.settings.sources import Loaded
from chordesk.models.settings.variables import RUNNING
from chordesk.tasks.cli.output import emit, table, warn
from chordesk.tasks.cli.shell import Json, checked, desk_line

commands = typer.Typer()


@commands.command()
def config(
    running: Annotated[bool, typer.Option("--running", help="Only the settings of the running desk.")] = False,
    as_json: Json = False,
) -> None:
    """Show every setting: its value, its owner, its source."""
    from chordesk.tasks.reading.setting_values import describe

    loaded = checked()
    warn(loaded.warnings)
    rows = describe(loaded)
    if running:
        rows = published(loaded, rows)
    home = loaded.settings.home
    last = desk_line(standing_of(loaded.settings), home, running=loaded.running, held=is_up(home))
    emit(rows, lambda rows: Group(_listed(rows), "", _prices(loaded.settings), last), as_json=as_json)


def _listed(rows: list[dict[str, Any]]) -> Table:
    cells = [(row["name"], _cell(row["value"]), row["belongs_to"], row["source"], row["help"]) for row in rows]
    return table(("Setting", "Value", "Owner", "From", "Meaning"), cells)


def published(loaded: Loaded, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of what the running desk has published, with its values. Raises UsageError when none runs."""
    from chordesk.tasks.reading.setting_values import shown

    theirs = loaded.published
    if not loaded.running:
        reason = f"no `desk up` runs on {loaded.settings.home}: there is no running desk to show"
        raise UsageError(reason, remedy="start it with `desk up`, or set DESK_HOME to its home")
    source = f"services.json ({RUNNING})"
    return [
        {**row, "value": shown(row["name"], theirs[row["name"]], loaded.settings), "source": source}
        for row in rows
        if row["name"] in theirs
    ]


def _prices(settings: Settings) -> Table:
    """Return the prices that estimates rest on, those of models in use first; one without a price has none."""
    from chordesk.agents.role_models import LOCAL, models_in_use
    from chordesk.tasks.engine.budgets import RULES

    known = prices(settings.prices)
    used = [one for one in models_in_use(settings) if one.provider(settings) != RULES]
    local = dict.fromkeys(one.label(settings) for one in used if one.runtime == LOCAL)
    models = dict.fromkeys([*(model for one in used if one.runtime != LOCAL for model in one.models), *known])
    columns = ("Model", "USD a million tokens", "From")
    rows = [(name, "0", NO_PRICE) for name in local]
    return table(columns, [*rows, *((name, *_priced(name, known)) for name in models)], "Prices")


def _priced(model: str, known: Mapping[str, Price]) -> tuple[str, str]:
    if (price := known.get(model)) is None:
        return "unknown", "set DESK_PRICES"
    return str(price), f"listed {AS_OF}" if price == LISTED.get(model) else "DESK_PRICES"


def _cell(value: Any) -> str:
    if value is None:
        return "not set"
    return str(value).lower() if isinstance(value, bool) else str(value)

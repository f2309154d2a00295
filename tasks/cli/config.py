"""`desk config`: every setting, its value, where it came from; secrets masked."""

from __future__ import annotations

from typing import Any

import typer
from pydantic import SecretStr
from rich.table import Table

from models.settings import Settings
from models.settings.sources import PREFIX, Loaded, load
from models.urls import HIDDEN, masked
from tasks.cli.output import emit, table, warn
from tasks.cli.shell import Json

commands = typer.Typer()


@commands.command()
def config(as_json: Json = False) -> None:
    """Show every setting, its value and where it came from."""
    loaded = load()
    warn(loaded.warnings)
    emit(describe(loaded), _listed, as_json=as_json)


def _listed(rows: list[dict[str, Any]]) -> Table:
    cells = [(row["name"], _cell(row["value"]), row["source"], row["help"]) for row in rows]
    return table(("Setting", "Value", "From", "Meaning"), cells)


def describe(loaded: Loaded) -> list[dict[str, Any]]:
    """Return one row a setting: name, variable, value (masked), source, help."""
    rows = []
    for name, info in Settings.model_fields.items():
        origin = loaded.origins.get(name)
        source = f"{origin.key} ({origin.source})" if origin and origin.source != "default" else "default"
        variable = Settings.LIVE_SWITCH if name == "trader_live" else PREFIX + name.upper()
        rows.append(
            {
                "name": name,
                "variable": variable,
                "value": shown(name, getattr(loaded.settings, name), loaded.settings),
                "source": source,
                "help": info.description or "",
            }
        )
    return rows


def shown(name: str, value: Any, settings: Settings) -> Any:
    """Return the value as people may see it: no secret, and no login inside a URL."""
    if name == "database_url" and value is None:
        return settings.database
    if isinstance(value, SecretStr):
        text = value.get_secret_value()
        return masked(text) if name.endswith("_url") else HIDDEN
    if isinstance(value, str) and "://" in value:
        return masked(value)
    if isinstance(value, (bool, int, float)) or value is None:
        return value
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _cell(value: Any) -> str:
    if value is None:
        return "not set"
    return str(value).lower() if isinstance(value, bool) else str(value)

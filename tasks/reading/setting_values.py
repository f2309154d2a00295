"""Every setting with its value, its owner and where it came from; secrets masked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import SecretStr

from chordesk.models import features
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import owner_of
from chordesk.models.settings.schema import GROUPS, Owner
from chordesk.models.settings.sources import Loaded
from chordesk.models.settings.variables import PREFIX, SUFFIX
from chordesk.models.urls import HIDDEN, masked


def grouped() -> dict[str, str]:
    found, group = {}, ""
    for name in Settings.model_fields:
        found[name] = group = GROUPS.get(name, group)
    return found


def describe(loaded: Loaded) -> list[dict[str, Any]]:
    """Return a row of each setting; those of a feature that is off are left out."""
    rows, groups, absent = [], grouped(), features.settings_off()
    for name, info in Settings.model_fields.items():
        if name in absent:
            continue
        origin = loaded.origins.get(name)
        source = f"{origin.key} ({origin.source})" if origin and origin.source != "default" else "default"
        variable = Settings.LIVE_SWITCH if name == "trader_live" else PREFIX + name.upper()
        rows.append(
            {
                "name": name,
                "group": groups[name],
                "variable": variable,
                "value": shown(name, getattr(loaded.settings, name), loaded.settings),
                "belongs_to": str(owner_of(name)),
                "source": source,
                "help": info.description or "",
            }
        )
    return rows


def describe_keys(settings: Settings, environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """Rows as of `describe` for the keys of the account's broker, which no setting holds."""
    rows = []
    for name in settings.sends_to.credentials:
        given = next((each for each in (name, name + SUFFIX) if environ.get(each)), None)
        facts = {"value": HIDDEN if given else None, "source": f"{given} (environment)" if given else "not set"}
        meaning = f"key of the broker {settings.broker}, for the process that sends orders alone"
        row = {"name": name, "group": GROUPS["broker"], "variable": name, **facts}
        rows.append({**row, "belongs_to": str(Owner.PROCESS), "help": meaning})
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
    return ",".join(value) if isinstance(value, tuple | list) else str(value)

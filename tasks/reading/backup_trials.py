"""What the weekly trial of a backup found, as the data folder has it."""

from __future__ import annotations

import datetime as dt
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from chordesk.models.answers import Frozen
from chordesk.models.settings import Settings
from chordesk.models.text import utc_seconds

FILE = "backup-trial.json"
EVERY = dt.timedelta(days=7)
LATE = dt.timedelta(days=9)  # since the last trial: then nothing makes them


class Trial(Frozen):
    """The last trial. ok: None where none could be made, which tells nothing of backups."""

    at: dt.datetime
    place: str
    ok: bool | None
    told: str

    def __str__(self) -> str:
        how = {True: "can be restored", False: "CANNOT BE RESTORED", None: "was not tried"}[self.ok]
        return f"{self.place} {how} ({utc_seconds(self.at)}): {self.told}"


def last(settings: Settings) -> Trial | None:
    """Return the last trial of this data folder; None before the first."""
    found = table_of(settings.home / FILE)
    with suppress(ValueError, TypeError):
        return Trial.model_validate(found) if found else None
    return None


def table_of(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}

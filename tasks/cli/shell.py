"""Parts that commands share: the option --json, the settings with the open database, the person's name."""

from __future__ import annotations

import getpass
import os
import socket
from typing import Annotated

import typer

from chordesk.models.database.store import Store, require_current
from chordesk.models.settings import Settings
from chordesk.models.settings.sources import Loaded, load, load_settings

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def checked(*, own_switch: bool = False) -> Loaded:
    """Return this process's settings and where each came from. Raises SettingError, also for those that name roles."""
    # Loaded here: most commands have no use for the roles.
    from chordesk.tasks.bootstrap import require_roles

    loaded = load(own_switch=own_switch)
    require_roles(loaded.settings)
    return loaded


def opened() -> tuple[Settings, Store]:
    """Return this shell's settings and their database. Raises DatabaseDown unless its schema is this version's."""
    settings = load_settings()
    return settings, database(settings)


def database(settings: Settings) -> Store:
    """Return the database of the settings. Raises DatabaseDown unless its schema is this version's."""
    require_current(settings.database)
    return Store(settings.database)


def whoami() -> str:
    """Return user@host, as the system knows them. A record, not a proof: a mandate's signature is one."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        user = f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname()}"

"""What a running `desk up` tells the other processes of its home: a lock that it holds, and a file of its addresses and
of what its workers speak to. The file counts only while the lock is held: a crash leaves one behind."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from models.errors import SettingError
from models.files import replacing
from models.settings import Settings
from models.urls import without_login

ADDRESSES = frozenset({"redis_url", "rulebook_url", "flower_url"})
SPEAKER = ("provider", "model", "provider_url", "market", "replay_date", "broker")


def lock_path(home: Path) -> Path:
    return home / "run" / "up.lock"


def services_path(home: Path) -> Path:
    return home / "run" / "services.json"


def is_up(home: Path) -> bool:
    """Whether a `desk up` holds this home. Raises OSError when its lock cannot be read."""
    try:
        with lock_path(home).open("rb") as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except BlockingIOError:
        return True
    return False


def speaker(settings: Settings) -> dict[str, str]:
    """What the desk's processes must agree on, by setting name: the provider, the model, the market and the broker,
    with the provider's URL and the replay's day where these count."""
    names = ("provider", "model", "market", "broker")
    found: dict[str, str] = {name: getattr(settings, name) for name in names}
    if settings.provider == "endpoint" and settings.provider_url is not None:
        found["provider_url"] = settings.provider_url
    if settings.market == "replay":
        found["replay_date"] = settings.replay_date.isoformat()
    return found


def public(spoken: Mapping[str, str]) -> dict[str, str]:
    """The same without the login in its URL."""
    return {name: without_login(value) if name == "provider_url" else value for name, value in spoken.items()}


def write(home: Path, table: Mapping[str, str]) -> None:
    """Leave the file, readable by this user alone."""
    with replacing(services_path(home)) as file:
        file.write((json.dumps(dict(table), indent=2) + "\n").encode())


def read(home: Path) -> dict[str, Any]:
    """What the `desk up` of this home wrote; nothing when none runs. Raises SettingError when it cannot be read."""
    path = services_path(home)
    try:
        if not is_up(home):
            return {}
        table = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise _unreadable(path, str(error)) from None
    if not isinstance(table, dict):
        raise _unreadable(path, "holds no JSON object")
    return {name: value for name, value in table.items() if name in ADDRESSES or name in SPEAKER}


def _unreadable(path: Path, why: str) -> SettingError:
    return SettingError(f"{path}: {why}", remedy="stop `desk up`, which wrote it, and start it again")

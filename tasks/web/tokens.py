"""The API token: the user's own, else one that is generated once and kept in the home, readable by its user alone."""

from __future__ import annotations

import os
import re
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from chordesk.models.errors import SettingError
from chordesk.models.settings import Settings

BYTES = 32
_KEPT = re.compile(r"[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True, repr=False)
class Token:
    """The token and its place. value is never shown; where: the variable or file in which the user finds it."""

    value: str
    where: str


def token_path(home: Path) -> Path:
    return home / "run" / "api-token"


def token_of(settings: Settings) -> Token:
    """Return the token in force; the folder of its file exists. Raises SettingError when the file cannot be used."""
    if settings.api_token is not None:
        return Token(settings.api_token.get_secret_value(), "DESK_API_TOKEN")
    path = token_path(settings.home)
    try:
        found = _kept(path) or _made(path)
    except OSError as error:
        raise SettingError(
            f"the token's file {path} cannot be used: {error.strerror}", remedy="remove it, or set DESK_API_TOKEN"
        ) from None
    return Token(found, str(path))


def _kept(path: Path) -> str | None:
    """Return the token of an earlier start; delete one that others could have read or written."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(handle, encoding="ascii", errors="replace") as file:
        found, text = os.fstat(handle), file.read(1000).strip()
    private = stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
    if private and _KEPT.fullmatch(text):
        return text
    path.unlink()
    return None


def _made(path: Path) -> str:
    """Create a token and return it. If two processes start at once, the first one's stays and both use it."""
    aside = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(BYTES) + "\n")
        with suppress(FileExistsError):
            os.link(aside, path)
    finally:
        aside.unlink()
    return path.read_text(encoding="ascii").strip()

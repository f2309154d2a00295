"""What was chosen, and the variables of `.env` that say it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args
from urllib.parse import urlsplit

from chordesk.models.settings import Settings

PROVIDERS: tuple[str, ...] = get_args(Settings.model_fields["provider"].annotation)
SERVED: tuple[str, ...] = ("endpoint", "local")  # providers with a URL, and perhaps a key
PROVIDER, URL, MODEL, MARKET = "DESK_PROVIDER", "DESK_PROVIDER_URL", "DESK_MODEL", "DESK_MARKET"
KEY, KEY_FILE = "DESK_PROVIDER_KEY", "DESK_PROVIDER_KEY_FILE"
OURS = (PROVIDER, URL, KEY, KEY_FILE, MODEL, MARKET)
SECRETS = frozenset({KEY})
KEYS = "keys"  # folder of the home


@dataclass(frozen=True, slots=True)
class Key:
    """A key, or none. text: None without one. path: the file that has it. kept: that is the desk's own, and is written.
    known: `.env` names it already, and that stays as it is."""

    text: str | None = field(default=None, repr=False)
    path: Path | None = None
    kept: bool = False
    known: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """A provider with all that it needs. market: None leaves it as it is."""

    provider: str
    url: str | None = None
    model: str | None = None
    key: Key = Key()
    market: str | None = None

    @property
    def label(self) -> str:
        """The choice as people read it."""
        at = f" at {self.url}" if self.url else ""
        return "the rulebook" if self.provider == "rulebook" else f"{self.model}{at}"

    def variables(self) -> dict[str, str | None]:
        """Return the variables that the choice sets; None takes one out."""
        found: dict[str, str | None] = {PROVIDER: self.provider}
        if self.url is not None:
            found[URL] = self.url
        if self.model is not None:
            found[MODEL] = self.model
        if self.provider in SERVED and not self.key.known:
            found |= {KEY: None, KEY_FILE: str(self.key.path) if self.key.path is not None else None}
        if self.market is not None:
            found[MARKET] = self.market
        return found

    def trial(self, dotenv: Mapping[str, str | None]) -> dict[str, str | None]:
        """Return the variables of a `.env` with this choice in it, before its key has its file."""
        found = {**dotenv, **self.variables()}
        if self.key.text is not None and not self.key.known:
            found |= {KEY: self.key.text, KEY_FILE: None}
        return found


def key_path(home: Path, url: str) -> Path:
    """Return the file of a server's key in the home: each has its own, so that none gets another's."""
    parts = urlsplit(url)
    name = f"{parts.hostname}{f'-{parts.port}' if parts.port else ''}"
    return home / KEYS / f"{''.join(sign if sign.isalnum() or sign in '.-' else '_' for sign in name)}.key"

"""What the command line says, and texts as people type or copy them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from chordesk.models import urls
from chordesk.models.errors import UsageError
from chordesk.models.masking import without_secrets
from chordesk.tasks.cli.setup.choice import PROVIDERS, SERVED

OPENAI = "https://api.openai.com/v1"
_PATHS = ("/chat/completions", "/responses", "/models")  # of requests, which people copy with the URL


@dataclass(frozen=True, slots=True)
class Flags:
    """None where the command line says nothing. look: servers are asked what they have."""

    provider: str | None = None
    url: str | None = None
    model: str | None = None
    key_env: str | None = None
    key_file: Path | None = None
    no_key: bool = False
    market: str | None = None
    look: bool = True

    def check(self) -> None:
        """Raise UsageError for flags that cannot be, or do not go together."""
        if self.provider is not None and self.provider not in PROVIDERS:
            raise UsageError(f"--provider {self.provider!r} is none", remedy=f"one of: {', '.join(PROVIDERS)}")
        keys = {"--key-env": self.key_env, "--key-file": self.key_file, "--no-key": self.no_key or None}
        given = [name for name, value in keys.items() if value is not None]
        if len(given) > 1:
            raise UsageError(f"{' and '.join(given)} are given at once", remedy="give one of them")
        if self.provider is not None and self.provider not in SERVED:
            for name in [*(["--url"] if self.url is not None else []), *given]:
                reason = f"{name} is given, and the provider {self.provider} has no use for it"
                raise UsageError(reason, remedy=f"leave it out, or give --provider {' or '.join(SERVED)}")
        if self.provider == "rulebook" and self.model is not None:
            raise UsageError("--model is given, and the rulebook is no model", remedy="leave it out")


def base_url(text: str) -> str:
    """Return the base URL in what was typed or copied. Raises UsageError."""
    url = text.strip().rstrip("/")
    for path in _PATHS:
        url = url.removesuffix(path)
    try:
        return urls.require_http(url)
    except ValueError as error:
        shown = urls.masked(without_secrets(text))
        raise UsageError(f"{shown!r} is no base URL: it {error}", remedy=f"such as {OPENAI}") from None


def model_name(text: str) -> str:
    """Return a model's name. Raises UsageError."""
    if len(text.split()) != 1 or not text.isprintable():
        raise UsageError(f"{text!r} is no model's name", remedy="give the name by which its server knows it")
    return text.strip()

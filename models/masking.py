"""Removal of secrets from text and JSON that people and files receive."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from chordesk.models.urls import HIDDEN

_LOGIN = re.compile(r"(?<=://)([^/?#@]*):([^/?#]*)@")
# Its name is checked separately: one expression for both would take minutes on a long text that nearly matches.
_PARAMETER = re.compile(r"(?<=[?&])([^=&?\s]*)=[^&#\s]*")
_PARAMETER_NAME = re.compile(r"(?i)password|token|key|secret")
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}")
# Keys as providers issue and quote them; text without a digit is not a key.
_KEY = re.compile(r"\b[sprx]k-(?=[\w-]{,200}\d)[\w-]{8,}")
_NAMED_KEY = re.compile(
    r"(?i)\b((?:api|secret|access)[ _-]?key|password)"
    r"([\"']?(?: provided)?\s{,9}[:=]\s{,9}[\"']?)(?=[^\s\"',;]{,200}\d)[^\s\"',;]{6,}"
)
_SECRET_NAME = re.compile(
    r"(?i)(?:^|[_-])(?:password|passwd|secret|token|authorization|credentials?|cookie)(?:$|[_-])|(?:api|private|provider)[_-]?key"
)
SHORTEST_SECRET = 6  # a shorter one would also hide ordinary text


def redacted(value: Any, secrets: Iterable[str] = ()) -> Any:
    """Return JSON data with passwords of URLs, values under names of secrets, and all of `secrets` replaced."""
    return _redacted(value, sorted({text for text in secrets if len(text) >= SHORTEST_SECRET}, key=len, reverse=True))


def _redacted(value: Any, secrets: list[str]) -> Any:
    if isinstance(value, Mapping):
        return {
            key: HIDDEN if item is not None and _SECRET_NAME.search(str(key)) else _redacted(item, secrets)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_redacted(item, secrets) for item in value]
    if not isinstance(value, str):
        return value
    for secret in secrets:
        value = value.replace(secret, HIDDEN)
    return without_secrets(value)


def environment_secrets(environ: Mapping[str, str]) -> list[str]:
    """Return the values of variables with names of secrets, such as the keys of models' providers."""
    return [value for name, value in environ.items() if _SECRET_NAME.search(name) and len(value) >= SHORTEST_SECRET]


def without_secrets(text: str) -> str:
    """Passwords and keys in URLs, bearer tokens, and API keys."""
    return without_keys(_BEARER.sub(rf"\1 {HIDDEN}", text))


def without_keys(text: str) -> str:
    """All but bearer tokens, which a sentence may look like: "basic materials"."""
    return _NAMED_KEY.sub(rf"\1\2{HIDDEN}", _KEY.sub(HIDDEN, _without_passwords(text)))


def _without_passwords(text: str) -> str:
    """Return prose with the passwords of its URLs replaced; text that is not a URL stays, even with an @ in it."""
    return _PARAMETER.sub(_parameter, _LOGIN.sub(rf"\1:{HIDDEN}@", text))


def _parameter(found: re.Match[str]) -> str:
    return f"{found[1]}={HIDDEN}" if _PARAMETER_NAME.search(found[1]) else found[0]

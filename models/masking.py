"""Secrets taken out of what people and files get to see."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from models.urls import HIDDEN

_LOGIN = re.compile(r"(?<=://)([^/?#@]*):([^/?#]*)@")
_PARAMETER = re.compile(r"(?i)(?<=[?&])([^=&]*(?:password|token|key|secret)[^=&]*)=[^&#]*")
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}")
_SECRET_NAME = re.compile(
    r"(?i)(?:^|[_-])(?:password|passwd|secret|token|authorization|credentials?|cookie)(?:$|[_-])|(?:api|private|provider)[_-]?key"
)
_SHORTEST_SECRET = 6  # a shorter one would also black out plain words


def redacted(value: Any, secrets: Iterable[str] = ()) -> Any:
    """JSON data with passwords of URLs, values under names of secrets, and all of `secrets` replaced."""
    return _redacted(value, sorted({text for text in secrets if len(text) >= _SHORTEST_SECRET}, key=len, reverse=True))


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
    return _BEARER.sub(rf"\1 {HIDDEN}", _without_passwords(value))


def _without_passwords(text: str) -> str:
    """Prose with the passwords of the URLs in it replaced; what is no URL stays, an @ in it or not."""
    return _PARAMETER.sub(rf"\1={HIDDEN}", _LOGIN.sub(rf"\1:{HIDDEN}@", text))

"""Makes a recorded stream the same each time: ids, times, ports and folders get plain names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

SECOND = 1_700_000_000
MILLISECONDS = 7  # what everything took
GONE = "01a00000-0000-7000-8000-000000000000"  # an id that a scene makes up itself

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_PORT = re.compile(r"127\.0\.0\.1:\d+")
_ROLLOUT = re.compile(r"\d{4}/\d{2}/\d{2}/rollout-\d{4}-\d{2}-\d{2}T\d{2}-\d{2}-\d{2}")
_NUMBERED = re.compile(r"\b(call|msg|resp|fc)_(\d+)\b")
_SESSION = re.compile(r"(session-id|session ID) \d+")

_SECONDS = frozenset({"startedAt", "completedAt", "createdAt", "updatedAt", "recencyAt", "create_time"})
# Of the machine that recorded, not of the protocol.
_MACHINE = {"userAgent": "codex", "processId": "1", "platformOs": "linux", "platformFamily": "unix"}


class Plain:
    """Names one stream: the first id met is the first in number, and so on."""

    def __init__(self, folder: str, called: str) -> None:
        self._folder, self._called = folder, called
        self._names: dict[str, str] = {GONE: GONE}
        self._millis = SECOND * 1000

    def stream(self, messages: Iterable[Any]) -> list[Any]:
        return [self._value(message) for message in messages]

    def _value(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: self._value(inner, name) for name, inner in value.items()}
        if isinstance(value, list):
            return [self._value(inner, key) for inner in value]
        if value is None or isinstance(value, bool):
            return value
        if key in _MACHINE:
            return _MACHINE[key]
        if isinstance(value, str):
            return self._text(value)
        return self._number(value, key)

    def _number(self, value: float, key: str) -> float:
        if key in _SECONDS:
            return SECOND
        if key == "durationMs":
            return MILLISECONDS
        if key.endswith("AtMs"):
            self._millis += 1
            return self._millis
        return value

    def _text(self, text: str) -> str:
        text = text.replace(self._folder, self._called)
        text = _UUID.sub(lambda found: self._name(found[0], "id"), text)
        text = _NUMBERED.sub(lambda found: self._name(found[0], found[1]), text)
        text = _ROLLOUT.sub("2026/01/02/rollout-2026-01-02T03-04-05", text)
        text = _SESSION.sub(r"\1 1", text)
        return _PORT.sub("127.0.0.1:1", text)

    def _name(self, id_: str, kind: str) -> str:
        if id_ not in self._names:
            taken = sum(1 for name in self._names.values() if name.startswith(f"{kind}-"))
            self._names[id_] = f"{kind}-{taken + 1}"
        return self._names[id_]

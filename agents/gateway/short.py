"""Answers that do not end: how they are noticed, and the schema that makes one end.

A weak model that is held to a schema can say nothing but what fits, and so says the same item of a list, or the same
words of a sentence, until its context is full. Where the server keeps to the schema, one with bounds ends the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SHORT_CHARS = 280
CALL_CHARS = 24  # of a text among the arguments of a call
SHORT_ITEMS = 4
REPEATED_CHARS = 600  # at the least; half a page
REPEATED_TIMES = 10
_KEPT_CHARS = 2_000
_LOOK_CHARS = 150  # between two looks: some forty tokens
_MARK = 24


class Repeats:
    """Notices a text that goes on saying the same. found: what it says, None while it does not."""

    def __init__(self) -> None:
        self.found: str | None = None
        self._tail, self._new = "", 0

    def add(self, text: str) -> None:
        self._tail = (self._tail + text)[-_KEPT_CHARS:]
        self._new += len(text)
        if self._new >= _LOOK_CHARS:
            self._new, self.found = 0, repeated(self._tail)


def repeated(text: str) -> str | None:
    """Return what the end of a text says again and again, None where it does not."""
    before = text.rfind(text[-_MARK:], 0, -1)
    period = len(text) - _MARK - before
    size = max(REPEATED_CHARS, REPEATED_TIMES * period)
    if before < 0 or size > len(text):
        return None
    end = text[-size:]
    return end[-period:] if end[period:] == end[:-period] else None


def shortened(schema: Any, chars: int = SHORT_CHARS) -> Any:
    """Return a schema whose every text and list has an end. chars: of a text."""
    if isinstance(schema, list):
        return [shortened(one, chars) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    inner: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", "$defs"):  # their names are no keywords
            inner[key] = {name: shortened(one, chars) for name, one in value.items()}
        elif key not in ("enum", "const"):
            inner[key] = shortened(value, chars)
    return {**schema, **inner, **_bounds(schema, chars)}


def _bounds(schema: Mapping[str, Any], chars: int) -> dict[str, int]:
    if schema.get("type") == "array":
        return {"maxItems": max(schema.get("minItems", 0), min(schema.get("maxItems", SHORT_ITEMS), SHORT_ITEMS))}
    if schema.get("type") == "string" and not {"enum", "const", "pattern", "format"} & schema.keys():
        return {"maxLength": max(schema.get("minLength", 0), min(schema.get("maxLength", chars), chars))}
    return {}

"""The concepts that a text names, and those of a field's name with the class of its unit."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from chordesk.agents.grounding.vocabulary import CONCEPTS, Class

_KINDS = (
    ("percent", re.compile(r"percent|pct")),
    ("days", re.compile(r"^(?:dte|days\w*|age\w*days)$|days$")),
    ("fraction", re.compile(r"(?:margin|growth|yield|share|ratio|fraction|return|probability|weekly|annual)s?$")),
    ("count", re.compile(r"(?:count|touches|sessions|bars|volume|interest|number|shares|quantity)$")),
    ("price", re.compile(r"price|cost|cash|equity|notional|capital|value|revenue|income|debt$")),
)
_FIELDS = [(concept, re.compile(concept.fields)) for concept in CONCEPTS]
_TERMS = [(concept.name, re.compile(rf"\b(?:{concept.terms})(?:\d*|s)\b", re.IGNORECASE)) for concept in CONCEPTS]
_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_LAST_DIGITS = re.compile(r"\d+$")
_TOKEN = re.compile(r"[A-Za-z]{3,}")
_SHORTEST = 4


class Field(NamedTuple):
    """The meaning of a field's name: its concepts with parts of its name, the class of its unit, and the number of
    sessions that its name promises."""

    concepts: frozenset[str]
    kind: Class
    length: float | None
    signed: bool
    falling: bool


@lru_cache(maxsize=4096)
def field_of(key: str) -> Field:
    """Return the meaning of a field's name."""
    digits = _LAST_DIGITS.search(key)
    name = _LAST_DIGITS.sub("", key).lower().replace("_", "")
    fitting = [concept for concept, pattern in _FIELDS if pattern.fullmatch(name)]
    parts = {stem(part) for part in _PARTS.findall(key) if len(part) >= _SHORTEST}
    kind: Class = fitting[0].kind if fitting else next((k for k, p in _KINDS if p.search(name)), "any")  # type: ignore[misc]
    return Field(
        frozenset({concept.name for concept in fitting} | parts),
        kind,
        float(digits[0]) if digits and len(name) > 1 else None,
        any(concept.signed for concept in fitting),
        any(concept.falling for concept in fitting),
    )


@lru_cache(maxsize=4096)
def concepts_in(text: str) -> frozenset[str]:
    """Return the concepts that a text names, and the stems of its longer tokens."""
    named = {name for name, pattern in _TERMS if pattern.search(text)}
    return frozenset(named | {stem(token) for token in _TOKEN.findall(text) if len(token) >= _SHORTEST})


def stem(token: str) -> str:
    """Return a token in lower case without the ending of a plural or a participle, marked as no concept's name."""
    lower = token.lower()
    for ending in ("ing", "ies", "es", "ed", "s", "y"):
        if lower.endswith(ending) and len(lower) - len(ending) >= _SHORTEST - 1:
            lower = lower[: -len(ending)]
            break
    return f"={lower}"

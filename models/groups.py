"""Values by their key."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def by_key(pairs: Iterable[tuple[K, V]]) -> defaultdict[K, list[V]]:
    """Return the values of each key, keys and values in the order of the pairs."""
    found = defaultdict[K, list[V]](list)
    for key, value in pairs:
        found[key].append(value)
    return found

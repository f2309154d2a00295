"""Statements that are composed once: composing SQL costs more than running it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache, wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def composed_once(compose: Callable[P, T]) -> Callable[P, T]:
    """Return a function that composes a statement with its first call and returns the same object ever after.

    `functools.cache` alone does not: threads that call it first at the same time each get an object of their own.
    SQLAlchemy then compiles one of them, and has to match the columns of each result of the other anew.
    """
    kept, lock = cache(compose), threading.Lock()

    @wraps(compose)
    def statement(*args: P.args, **kwargs: P.kwargs) -> T:
        with lock:
            return kept(*args, **kwargs)  # type: ignore[arg-type]

    return statement

"""Pickles of plain data: containers, numbers, texts, days and times. Anything else is refused before it is made."""

from __future__ import annotations

import io
import pickle
from typing import Any

from chordesk.models.errors import UsageError

_ALLOWED = frozenset({("datetime", "datetime"), ("datetime", "date")})


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which is no plain data")
        return super().find_class(module, name)


def plain_pickle(content: bytes, name: str) -> Any:
    """Return what a pickle holds. Raises UsageError when it holds anything but plain data; nothing of it has run."""
    try:
        return _PlainUnpickler(io.BytesIO(content)).load()
    except Exception as error:  # a broken pickle raises almost anything
        raise UsageError(f"{name} is not read: {error}", remedy="fetch it again; nothing of it was run") from None

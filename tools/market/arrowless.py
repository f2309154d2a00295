"""Imports of libraries that load pandas, without the pyarrow that pandas loads wherever it is installed.

It is there for Parquet files alone and takes 34 MB of each process (2026-11-23: pandas with it 75 MB, without it 41).
Code that asks for pyarrow later gets it, and pandas can then read Parquet by it. Goes when pandas loads it on demand.
"""

from __future__ import annotations

import importlib
import sys
import threading
from types import ModuleType

_ARROW = "pyarrow"
_lock = threading.Lock()


def import_arrowless(name: str) -> ModuleType:
    """Return a module by name. If pandas is first imported by it, pyarrow is left out."""
    with _lock:
        if _ARROW in sys.modules or "pandas" in sys.modules:
            return importlib.import_module(name)
        sys.modules[_ARROW] = None  # type: ignore[assignment]
        try:
            return importlib.import_module(name)
        finally:
            del sys.modules[_ARROW]
